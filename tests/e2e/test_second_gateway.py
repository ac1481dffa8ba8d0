"""Two gateways on Postgres: one works, the other waits, and takes over with everything when the first is gone."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mikan_api.identity import OfficeAddress, OfficeKey, Platform
from mikan_cluster.commands import eventually
from mikan_cluster.outside import OutsideTelegram, outside_postgres, outside_telegram
from mikan_cluster.release import Release, port_forward
from servers.telegram.server import TOKEN

TELEGRAM_PORT, POSTGRES_PORT = 4021, 5433
ANN = 42_000_043
TAKEN_OVER = 30
"""Seconds: a Lease of 15, a second between two tries, a start, a probe every 2, and a slow machine."""


class Pair:
    """The two gateways of a release."""

    def __init__(self, release: Release) -> None:
        self._release = release

    def pods(self) -> list[dict[str, Any]]:
        """Both, but for those that end."""
        selector = "app.kubernetes.io/component=gateway"
        found = self._release.kubectl.get("pods", "-n", self._release.namespace, "-l", selector)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def ready(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods() if _status(pod)["ready"]]

    def waiting(self) -> list[str]:
        """Running, and not ready."""
        statuses = {pod["metadata"]["name"]: _status(pod) for pod in self.pods()}
        return [name for name, status in statuses.items() if not status["ready"] and "running" in status["state"]]

    def restarts(self) -> int:
        return sum(int(_status(pod)["restartCount"]) for pod in self.pods())

    def served_by(self) -> list[str]:
        """The pods behind the Service."""
        name = f"{self._release.name}-gateway"
        slices = self._release.kubectl.get(
            "endpointslices", "-n", self._release.namespace, "-l", f"kubernetes.io/service-name={name}"
        )
        endpoints = [endpoint for one in slices for endpoint in one.get("endpoints") or []]
        return [endpoint["targetRef"]["name"] for endpoint in endpoints if endpoint["conditions"]["ready"]]

    def taken_over_from(self, gone: str) -> str:
        """Wait until another gateway is active: the one that waited, or the one that came in place of the lost one."""

        def found() -> str:
            (active,) = self.ready()
            assert active != gone
            return active

        return eventually("another has taken over", _tolerant(found), seconds=TAKEN_OVER)

    def settled(self) -> tuple[str, str]:
        """Wait until one is active and the other waits: which."""

        def found() -> tuple[str, str]:
            (active,), (waiting,) = self.ready(), self.waiting()
            assert self.served_by() == [active]
            return active, waiting

        return eventually("one gateway is active and one waits", _tolerant(found), seconds=90)

    def readiness(self, pod: str) -> tuple[int, dict[str, Any]]:
        """What a gateway says of itself."""
        with port_forward(self._release.kubectl, self._release.namespace, f"pod/{pod}", 8080) as port:
            answer = httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False)
        return answer.status_code, answer.json()

    def kill(self, pod: str) -> None:
        """Take a gateway away as a lost node does: without a word."""
        self._release.kubectl("delete", "pod", pod, "-n", self._release.namespace, "--grace-period=0", "--force")


def _status(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["status"].get("containerStatuses", [{"ready": False, "state": {}, "restartCount": 0}])[
        0
    ]
    return found


def _tolerant(probe: Any) -> Any:
    def tried() -> Any:
        try:
            return probe()
        except ValueError as error:  # more or fewer than one
            raise LookupError(str(error)) from None

    return tried


@pytest.fixture
def telegram(tmp_path: Path) -> Iterator[OutsideTelegram]:
    with outside_telegram(tmp_path / "control", TELEGRAM_PORT) as people:
        yield people


@pytest.fixture
def bot(own: Release, telegram: OutsideTelegram) -> Iterator[Release]:
    """A release with two gateways on one database, and a bot for one person."""
    with outside_postgres(POSTGRES_PORT) as url:
        own.kubectl("create", "namespace", own.namespace)
        for name, content in {"telegram": f"token={TOKEN}", "database": f"url={url}"}.items():
            own.kubectl("create", "secret", "generic", name, "-n", own.namespace, f"--from-literal={content}")
        own.install(
            "--set", "gateway.replicas=2", "--set", "database.existingSecret=database",
            "--set", "telegram.enabled=true", "--set", "telegram.existingSecret=telegram",
            "--set", f"telegram.baseUrl={telegram.url}/bot", "--set", f"telegram.baseFileUrl={telegram.url}/file/bot",
            "--set-json", f"settings.admission.telegram={json.dumps({'users': [str(ANN)]})}",
        )  # fmt: skip
        yield own
        # While the database is there still, so that the gateways end as they should.
        own.uninstall()


def key() -> OfficeKey:
    return OfficeAddress(Platform.TELEGRAM, str(ANN)).key


def test_one_gateway_works_and_the_other_takes_over_with_everything(bot: Release, telegram: OutsideTelegram) -> None:
    pair = Pair(bot)
    active, waiting = pair.settled()
    assert pair.readiness(active)[1]["ok"] is True
    status, told = pair.readiness(waiting)
    assert (status, told["started"], told["parts"]["lease"]["ok"]) == (503, False, False)
    assert "another gateway is active" in told["parts"]["lease"]["reason"]
    telegram.say(ANN, "run: echo before")
    telegram.answered(ANN, "echo before printed", seconds=120)

    # The active one is lost in the middle of a turn, and of another that waits behind it.
    telegram.say(ANN, "run: sleep 12; echo through-it-all")
    telegram.answered(ANN, "sleep 12")
    telegram.say(ANN, "run: echo queued-before")
    lost = time.monotonic()
    pair.kill(active)
    telegram.say(ANN, "run: echo said-meanwhile")

    pair.taken_over_from(active)
    print(f"taken over in {time.monotonic() - lost:.1f} s")
    for text in ("through-it-all printed", "queued-before printed", "said-meanwhile printed"):
        telegram.answered(ANN, text, seconds=120)
    seen = telegram.sees(ANN)
    assert [sum(word in text for text in seen) for word in ("through-it-all", "queued-before", "said-meanwhile")] == [
        1,
        1,
        1,
    ]
    assert len(seen) == 4

    # One that ends as it should hands over at once, and nobody ever polls beside another.
    active, _ = pair.settled()
    assert pair.restarts() == 0
    ending = time.monotonic()
    bot.kubectl("delete", "pod", active, "-n", bot.namespace, "--wait=false")
    telegram.say(ANN, "run: echo handed-over")
    pair.taken_over_from(active)
    print(f"handed over in {time.monotonic() - ending:.1f} s")
    telegram.answered(ANN, "handed-over printed", seconds=60)
    assert len(telegram.sees(ANN)) == 5
    assert telegram.conflicts() == 0
    assert pair.restarts() == 0
    assert bot.kubectl.names("offices", "-n", bot.offices) == [key()]

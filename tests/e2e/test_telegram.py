"""A bot on a server that stands outside the cluster: a message to it is answered by an agent in its own pod."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mikan_api.identity import OfficeAddress, OfficeKey, Platform
from mikan_cluster.commands import eventually
from mikan_cluster.release import Release
from mikan_dev.paths import CLUSTER_SCRIPTS
from servers.telegram.server import TOKEN

OUTSIDE, PORT = "203.0.113.10", 4020
SUPPORT = Path(__file__).parents[1] / "support"
ANN, EVE = 42_000_042, 66_000_066


class Telegram:
    """People on that server."""

    def __init__(self, control: Path) -> None:
        self._client = httpx.Client(transport=httpx.HTTPTransport(uds=str(control)), base_url="http://telegram")

    def say(self, person: int, text: str) -> None:
        self._client.post(f"/people/{person}/say", json={"text": text}).raise_for_status()

    def sees(self, person: int) -> list[str]:
        """What stands of the bot's in somebody's private chat."""
        return [message["text"] for message in self._client.get(f"/people/{person}/sees").raise_for_status().json()]

    def calls(self) -> dict[str, int]:
        found: dict[str, int] = self._client.get("/calls").raise_for_status().json()
        return found

    def close(self) -> None:
        self._client.close()

    def answered(self, person: int, text: str, seconds: float = 60) -> None:
        """Wait until a text is seen."""

        def seen() -> bool:
            texts = self.sees(person)
            assert any(text in shown for shown in texts), texts
            return True

        eventually(f"{person} sees {text!r}", seen, seconds=seconds)


@pytest.fixture
def telegram(tmp_path: Path) -> Iterator[Telegram]:
    """The Bot API server, in the namespace that plays the Internet."""
    control = tmp_path / "control"
    argv = [
        str(CLUSTER_SCRIPTS / "ctl.sh"), "outside", "env", f"PYTHONPATH={SUPPORT}", sys.executable,
        "-m", "servers.telegram", "--host", OUTSIDE, "--port", str(PORT), "--control", str(control),
    ]  # fmt: skip
    server = subprocess.Popen(argv, start_new_session=True)
    people = Telegram(control)
    try:
        eventually("the server listens", lambda: control.exists() and people.calls() == {})
        yield people
    finally:
        people.close()
        # The script and what it started in there.
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=10)


@pytest.fixture
def bot(own: Release, telegram: Telegram) -> Release:
    """A release with that bot, for one person."""
    own.kubectl("create", "namespace", own.namespace)
    own.kubectl("create", "secret", "generic", "telegram", "-n", own.namespace, f"--from-literal=token={TOKEN}")
    address = f"http://{OUTSIDE}:{PORT}"
    own.install(
        "--set", "telegram.enabled=true", "--set", "telegram.existingSecret=telegram",
        "--set", f"telegram.baseUrl={address}/bot", "--set", f"telegram.baseFileUrl={address}/file/bot",
        "--set-json", f"settings.admission.telegram={json.dumps({'users': [str(ANN)]})}",
    )  # fmt: skip
    return own


def key_of(person: int) -> OfficeKey:
    return OfficeAddress(Platform.TELEGRAM, str(person)).key


def test_a_telegram_message_is_answered_by_a_real_office_and_a_stranger_gets_none(
    bot: Release, telegram: Telegram
) -> None:
    telegram.say(EVE, "let me in")
    telegram.say(ANN, 'run: echo "six times seven is $((6 * 7))"')

    telegram.answered(ANN, "six times seven is 42", seconds=120)
    telegram.answered(EVE, "I'm not allowed to talk with you here")
    assert bot.kubectl.names("offices", "-n", bot.offices) == [key_of(ANN)]
    spec = bot.office(key_of(ANN))["spec"]
    assert (spec["platform"], spec["conversationId"], spec["trustModel"]) == ("telegram", str(ANN), "membership")

    # What arrives while the gateway is away is answered by the next one, in the same office.
    bot.kubectl("scale", "deployment", f"{bot.name}-gateway", "-n", bot.namespace, "--replicas=0")
    gone = ["wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=gateway", "-n", bot.namespace]
    bot.kubectl(*gone, "--timeout=90s")
    telegram.say(ANN, "run: echo while-you-were-away")
    bot.kubectl("scale", "deployment", f"{bot.name}-gateway", "-n", bot.namespace, "--replicas=1")

    telegram.answered(ANN, "while-you-were-away", seconds=120)
    assert len(telegram.sees(ANN)) == 2

    # The token is in its Secret, and nowhere else.
    written = bot.logs("gateway") + bot.kubectl("get", "pods,events,configmaps", "-n", bot.namespace, "-o", "yaml")
    assert TOKEN.partition(":")[2] not in written

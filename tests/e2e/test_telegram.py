"""A bot on a server that stands outside the cluster: a message to it is answered by an agent in its own pod."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mikan_api.identity import OfficeAddress, OfficeKey, Platform
from mikan_cluster.outside import OutsideTelegram, outside_telegram
from mikan_cluster.release import Release
from servers.telegram.server import TOKEN

PORT = 4020
ANN, EVE = 42_000_042, 66_000_066


@pytest.fixture
def telegram(tmp_path: Path) -> Iterator[OutsideTelegram]:
    with outside_telegram(tmp_path / "control", PORT) as people:
        yield people


@pytest.fixture
def bot(own: Release, telegram: OutsideTelegram) -> Release:
    """A release with that bot, for one person."""
    own.kubectl("create", "namespace", own.namespace)
    own.kubectl("create", "secret", "generic", "telegram", "-n", own.namespace, f"--from-literal=token={TOKEN}")
    own.install(
        "--set", "telegram.enabled=true", "--set", "telegram.existingSecret=telegram",
        "--set", f"telegram.baseUrl={telegram.url}/bot", "--set", f"telegram.baseFileUrl={telegram.url}/file/bot",
        "--set-json", f"settings.admission.telegram={json.dumps({'users': [str(ANN)]})}",
    )  # fmt: skip
    return own


def key_of(person: int) -> OfficeKey:
    return OfficeAddress(Platform.TELEGRAM, str(person)).key


def test_a_telegram_message_is_answered_by_a_real_office_and_a_stranger_gets_none(
    bot: Release, telegram: OutsideTelegram
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

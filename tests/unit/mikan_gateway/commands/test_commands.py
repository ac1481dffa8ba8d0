from typing import Any

import pytest

from gateway_doubles import FakeOffices, inbound, key_of
from gateway_edges import FakeEditor, FakeQueue
from mikan_api.commands import parse_command
from mikan_api.identity import Platform
from mikan_api.messaging import Author, ConversationKind, TrustModel
from mikan_api.resources import OfficeDoorPolicy, OfficeSpec, OfficeStatus
from mikan_api.settings import DoorPolicy, Layout, Llm, Settings, ThinkingLevel, Trust
from mikan_gateway.commands.context import CommandContext
from mikan_gateway.commands.dispatch import run_command
from mikan_gateway.commands.model import parse_model
from mikan_gateway.exceptions import ClusterError, CommandRefused
from mikan_gateway.offices.view import OfficeRecord

ADMINS = Settings(admins={Platform.CONSOLE: ("ADMIN",)})


class Desk:
    """A place to say commands at."""

    def __init__(self, *, shared: bool = False, admin: bool = False, spec: dict[str, Any] | None = None) -> None:
        self.queue = FakeQueue()
        self.event = inbound().event
        author = Author(id="ADMIN" if admin else "U1")
        kind = ConversationKind.SHARED if shared else ConversationKind.DIRECT
        native = self.event.message.model_copy(update={"author": author})
        self.event = self.event.model_copy(update={"conversation_kind": kind, "message": native})
        identity = {"platform": "console", "conversation_id": "C1", "trust_model": TrustModel.MEMBERSHIP}
        self.spec = OfficeSpec.model_validate(identity | (spec or {}))
        record = OfficeRecord(key_of(), "uid", "1", 0, False, self.spec, OfficeStatus())
        self.editor = FakeEditor(record)
        self.offices = FakeOffices()
        self.view = self.offices.add(self.event.address)

    async def say(self, text: str) -> str:
        invocation = parse_command(text)
        assert invocation is not None
        context = CommandContext(
            invocation.arguments, self.event, inbound().info, self.view, ADMINS, self.queue, self.editor
        )
        return await run_command(invocation, context)


async def test_model_shows_what_holds() -> None:
    answer = await Desk().say("/model")

    assert answer.splitlines()[0] == "Model: `scripted/demo`, thinking off."


async def test_model_switches_by_the_office_and_keeps_the_thinking_level() -> None:
    desk = Desk()

    assert await desk.say("/pi-model openai/gpt-9") == "Model: `openai/gpt-9`, thinking off, from the next message on."
    assert desk.editor.changes == [{"llm": {"model": "openai/gpt-9", "thinkingLevel": "off"}}]


@pytest.mark.parametrize(
    ("argument", "model", "thinking"),
    [
        ("openai/x", "openai/x", "low"),
        ("openai/x:high", "openai/x", "high"),
        ("ollama/qwen:7b", "ollama/qwen:7b", "low"),
        ("ollama/qwen:7b:off", "ollama/qwen:7b", "off"),
    ],
)
def test_a_last_part_that_is_no_thinking_level_belongs_to_the_name(argument: str, model: str, thinking: str) -> None:
    found = parse_model(argument, ThinkingLevel.LOW)

    assert found == Llm(model=model, thinking_level=ThinkingLevel(thinking))


@pytest.mark.parametrize("argument", ["gpt", "a b/c", "/x", "openai/" + "x" * 300])
def test_something_that_is_no_model_is_refused(argument: str) -> None:
    with pytest.raises(CommandRefused):
        parse_model(argument, ThinkingLevel.OFF)


@pytest.mark.parametrize("text", ["/model openai/x", "/sandbox door isolated"])
async def test_a_change_is_refused_while_busy(text: str) -> None:
    desk = Desk(admin=True)
    desk.queue.busy_sessions = 1

    assert "while I'm working" in await desk.say(text)
    assert desk.editor.changes == []


async def test_a_change_that_the_cluster_refuses_is_told_without_its_reason() -> None:
    desk = Desk()
    desk.editor.failure = ClusterError("changing office x: 422 secret detail")

    answer = await desk.say("/model openai/x")
    assert answer.startswith("That could not be saved")
    assert "secret" not in answer


async def test_new_resets_the_session_of_the_message() -> None:
    desk = Desk()
    await desk.say("/new")

    assert desk.queue.resets == [(key_of(), desk.event.session_key)]


async def test_new_in_a_shared_place_takes_an_admin() -> None:
    stranger, admin = Desk(shared=True), Desk(shared=True, admin=True)
    await stranger.say("/new")
    await admin.say("/new")

    assert (stranger.queue.resets, len(admin.queue.resets)) == ([], 1)


async def test_sandbox_shows_mode_door_and_limits() -> None:
    assert (await Desk().say("/sandbox")).splitlines()[:3] == [
        "Sandbox: `image:mikan-sandbox`",
        "Door: isolated, layout conversation (default)",
        "Limits: 1 CPU, 512Mi memory, 2Gi disk",
    ]


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("default", None),
        ("isolated", {"trust": "isolated", "layout": "conversation"}),
        ("shared", {"trust": "trusted", "layout": "shared-support"}),
        ("full", {"trust": "trusted", "layout": "full"}),
    ],
)
async def test_an_admin_sets_any_door(name: str, spec: dict[str, str] | None) -> None:
    desk = Desk(admin=True)
    await desk.say(f"/sandbox door {name}")

    assert desk.editor.changes == [{"doorPolicy": spec}]


@pytest.mark.parametrize("name", ["shared", "full"])
async def test_only_an_admin_opens_the_door_further(name: str) -> None:
    desk = Desk()

    assert await desk.say(f"/sandbox door {name}") == "Only an admin may open the door further."
    assert desk.editor.changes == []


async def test_anybody_may_close_the_door() -> None:
    desk = Desk(spec={"door_policy": OfficeDoorPolicy(trust="trusted", layout="full")})
    desk.offices.change(desk.view.key, door_policy=DoorPolicy(trust=Trust.TRUSTED, layout=Layout.FULL))
    desk.view = desk.offices.views[desk.view.key]
    await desk.say("/sandbox door isolated")

    assert desk.editor.changes == [{"doorPolicy": {"trust": "isolated", "layout": "conversation"}}]


async def test_an_open_trigger_office_never_gets_the_full_layout() -> None:
    desk = Desk(admin=True, spec={"trust_model": TrustModel.OPEN_TRIGGER})
    await desk.say("/sandbox door full")

    assert desk.editor.changes == []


@pytest.mark.parametrize("text", ["/sandbox door", "/sandbox door wide", "/sandbox what", "/sandbox boost"])
async def test_what_sandbox_does_not_know_changes_nothing(text: str) -> None:
    desk = Desk(admin=True)
    await desk.say(text)

    assert desk.editor.changes == []


@pytest.mark.parametrize(("word", "value"), [("on", "Enabled"), ("OFF", "Disabled")])
async def test_auto_reply_is_switched_in_the_office(word: str, value: str) -> None:
    desk = Desk(shared=True)
    await desk.say(f"/auto-reply {word}")

    assert desk.editor.changes == [{"autoReply": value}]


async def test_auto_reply_is_for_shared_places() -> None:
    assert "shared conversations" in await Desk().say("/auto-reply on")


@pytest.mark.parametrize("text", ["/login", "session", "/session", "/pi-admin"])
async def test_a_private_command_in_a_shared_place_shows_no_link(text: str) -> None:
    answer = await Desk(shared=True, admin=True).say(text)

    assert "direct message" in answer
    assert "http" not in answer


@pytest.mark.parametrize("text", ["/login", "session"])
async def test_a_command_without_its_feature_says_so(text: str) -> None:
    assert "not available" in await Desk().say(text)


async def test_admin_is_for_admins() -> None:
    assert await Desk().say("/admin") == "`/admin` is for admins of this installation."

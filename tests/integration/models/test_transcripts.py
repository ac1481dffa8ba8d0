"""One conversation with an agent, by models of two wire forms: what the session says afterwards is the same."""

import json
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agent_peers.gateway import GatewayPeer
from agent_peers.helper import build_helper
from agent_peers.office import ADDRESS, run_request, serving, workspace_in
from mikan_agent.executor import LocalHelper
from mikan_agent.messages import AssistantMessage, ToolResultMessage, UserMessage, parse_message
from mikan_api.responder import Respond, RunOutcome
from models_service import UID, KnownOffices, ModelsFixture, three_ways, token

MODELS = ("through/gpt-4o", "translated/gpt-4o", "anthropic/claude-sonnet-4-5")


@pytest.fixture(scope="session")
def helper_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sandbox helper."""
    return build_helper(tmp_path_factory.mktemp("helper"))


async def transcript(model: str, aimock_url: str, helper_binary: Path, directory: Path) -> list[Any]:
    """A talk of three messages with an agent that works with tools, as its session has it."""
    models = ModelsFixture(directory, KnownOffices({ADDRESS.key: (UID, 0)}))
    three_ways(models, f"{aimock_url}/v1", aimock_url)
    with TemporaryDirectory(prefix="mx") as name:
        root = Path(name)
        workspace = workspace_in(root)
        async with (
            models.served() as running,
            GatewayPeer(ADDRESS.key) as gateway,
            LocalHelper(helper_binary, root, Path(workspace.root)) as helper,
            serving(root, gateway.url, str(running.client.base_url).rstrip("/"), helper.executor),
        ):
            (root / "tokens" / "models").write_text(token(office=ADDRESS.key))
            await gateway.until(lambda: gateway.connected)
            (Path(workspace.office(ADDRESS).directory) / "notes.txt").write_text("a note\n")
            for number, text in enumerate(("plain", "call tools", "plain")):
                await gateway.deliver(run_request(text, f"r{number}", model=model))
                assert (await gateway.finished(f"r{number}")).outcome is RunOutcome.COMPLETED
            answers = [o.text for n in range(3) for o in gateway.operations(f"r{n}") if isinstance(o, Respond)]
        return [answers, *recorded(workspace.office(ADDRESS).sessions)]


def recorded(sessions: PurePosixPath) -> list[Any]:
    """The messages of the session, without what must differ: names of models, ids, times and what calls cost."""
    (file,) = Path(sessions).glob("*.jsonl")
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    told: list[Any] = []
    for entry in entries:
        match parse_message(entry.get("message", {})):
            case AssistantMessage() as said:
                calls = [(call.name, call.arguments) for call in said.tool_calls]
                told.append(("assistant", said.text, calls, said.stop_reason))
            case ToolResultMessage() as result:
                told.append((result.tool_name, result.text, result.is_error))
            case UserMessage() as asked:
                told.append(asked.text)
    return told


@pytest.mark.timeout(120)
async def test_models_of_every_form_leave_equal_transcripts(
    aimock_url: str, helper_binary: Path, tmp_path: Path
) -> None:
    found = {}
    for model in MODELS:
        directory = tmp_path / model.replace("/", "-")
        directory.mkdir()
        found[model] = await transcript(model, aimock_url, helper_binary, directory)
    plain: Any = ("assistant", "Hello from an independent server.", [], "stop")
    command = {"command": "echo one two three four five six seven"}
    expected = [
        ["Hello from an independent server.", "Both tools have run.", "Hello from an independent server."],
        "plain",
        plain,
        "call tools",
        ("assistant", "", [("bash", command), ("read", {"path": "notes.txt"})], "toolUse"),
        ("bash", "one two three four five six seven", False),
        ("read", "a note", False),
        ("assistant", "Both tools have run.", [], "stop"),
        "plain",
        plain,
    ]
    assert found == dict.fromkeys(MODELS, expected)

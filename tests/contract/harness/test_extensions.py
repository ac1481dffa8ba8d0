"""Extensions in real runs: what they change, what they add, and that nothing of them breaks a run."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_peers.models import Answer, Call, Text, say
from agent_peers.office import entry, run_request
from mikan_agent.extensions.office import OfficeExtensions, Places
from mikan_agent.extensions.packages import Located, at
from mikan_agent.messages import AssistantMessage, ToolResultMessage, UserMessage
from mikan_api.layout import Office, Workspace
from mikan_api.responder import Diagnostic, ReplaceResponse, Respond, RunFinished, RunOutcome, RunStarted, ToolStatus
from mikan_api.session_keys import parse_session_key
from mikan_api.wire import Reset, Stop

from .conftest import OpenStage, Stage

if TYPE_CHECKING:
    from mikan_agent.app import MakeExtensions


class Packages:
    """Extensions of a test, each a file."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, name: str, code: str) -> None:
        directory = self._root / "packages" / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "extension.py").write_text(textwrap.dedent(code))

    @property
    def make(self) -> "MakeExtensions":
        """What an agent loads them with."""

        def find() -> Located:
            found = sorted((self._root / "packages").iterdir())
            return Located(tuple(at(directory, directory.name)[0] for directory in found))

        def make(office: Office, workspace: Workspace, tools: Sequence[str]) -> OfficeExtensions:
            places = Places(shared_data=self._root / "shared", secrets=self._root / "secrets")
            return OfficeExtensions(find, office, workspace, tools, places=places)

        return make


@pytest.fixture
def packages(tmp_path: Path) -> Packages:
    return Packages(tmp_path)


async def run(s: Stage, text: str, run_id: str = "r1", **more: object) -> list[object]:
    await s.gateway.deliver(run_request(text, run_id, **more))  # type: ignore[arg-type]
    await s.gateway.finished(run_id)
    return list(s.gateway.operations(run_id))


async def test_prompts_are_rewritten_for_the_model_and_the_record(stage: OpenStage, packages: Packages) -> None:
    packages.write(
        "tone",
        """
        from dataclasses import replace

        def activate(api):
            api.on("before_agent_start", lambda start: replace(
                start, prompt=start.prompt.upper(), system_prompt=start.system_prompt + "\\nEnd with an orange."))
        """,
    )
    async with stage(say("fine"), make_extensions=packages.make) as s:
        await run(s, "hello")
        system, user = s.models.requests[0]["messages"]
        assert system["content"].endswith("\nEnd with an orange.")
        assert user == {"role": "user", "content": "HELLO"}
        recorded = (await s.session())[0]
        assert isinstance(recorded, UserMessage)
        assert recorded.text == "HELLO"


async def test_a_blocked_run_asks_no_model_and_leaves_nothing_in_the_session(
    stage: OpenStage, packages: Packages
) -> None:
    packages.write(
        "policy",
        """
        from mikan_agent.extensions.api import Blocked

        def activate(api):
            def start(event):
                return Blocked("Not before nine.") if "secret" in event.prompt else None
            api.on("before_agent_start", start)
        """,
    )
    async with stage(say("fine"), make_extensions=packages.make) as s:
        assert await run(s, "tell me the secret") == [
            Diagnostic(level="warning", text="Not before nine."),
            RunFinished(outcome=RunOutcome.COMPLETED, detail="blocked by an extension"),
        ]
        assert s.models.requests == []
        await run(s, "hello", "r2")
        assert [message["content"] for message in s.models.requests[0]["messages"][1:]] == ["hello"]
        assert [message.role for message in await s.session()] == ["user", "assistant"]


async def test_a_blocked_call_does_not_run_and_a_rewritten_result_is_all_that_is_seen(
    stage: OpenStage, packages: Packages
) -> None:
    packages.write(
        "policy",
        """
        from dataclasses import replace
        from mikan_agent.extensions.api import Blocked, map_text

        def activate(api):
            api.on("tool_call", lambda e: Blocked("No deletions.") if "rm " in e.call.arguments["command"] else None)
            api.on("tool_result", lambda e: replace(
                e.result, content=map_text(e.result.content, lambda text: text.replace("hunter2", "***"))))
        """,
    )
    calls = [Call("bash", {"command": "rm -rf ."}, "a", 0), Call("bash", {"command": "echo hunter2"}, "b", 1)]
    async with stage(Answer(calls), say("done"), make_extensions=packages.make) as s:
        (s.directory / "kept").write_text("x")
        await run(s, "go")
        results = [m["content"] for m in s.models.requests[1]["messages"] if m["role"] == "tool"]
        assert results == ["No deletions.", "***"]
        assert (s.directory / "kept").exists()
        recorded = [m for m in await s.session() if isinstance(m, ToolResultMessage)]
        assert [(m.text, m.is_error) for m in recorded] == [("No deletions.", True), ("***", False)]


BOARD = """
    from mikan_agent.extensions.api import Field, ToolArguments, ToolError

    class Add(ToolArguments):
        title: str = Field(description="What to follow up")

    def activate(api):
        notes = api.paths.data_dir / "board"

        async def add(arguments):
            if not arguments.title:
                raise ToolError("It needs a title.")
            with notes.open("a") as file:
                file.write(arguments.title + "\\n")
            return "added"

        async def show(call):
            await call.respond(f"The board, {call.origin.user_name}:")
            return notes.read_text() if notes.exists() else "empty"

        api.register_tool("board_add", "Adds a follow-up.", Add, add)
        api.register_command("board", "Shows the board", show)
"""


async def test_a_tool_is_offered_run_and_shown_like_any_other(stage: OpenStage, packages: Packages) -> None:
    packages.write("board", BOARD)
    calls = [Call("board_add", {"title": ""}, "a", 0), Call("board_add", {"title": "Ask Bo"}, "b", 1)]
    async with stage(Answer(calls), say("done"), make_extensions=packages.make) as s:
        operations = await run(s, "note it")
        offered = [tool["function"]["name"] for tool in s.models.requests[0]["tools"]]
        assert offered[-1] == "board_add"
        assert [o for o in operations if isinstance(o, ToolStatus)] == [
            ToolStatus(call_id="a", label="board_add", state="running"),
            ToolStatus(call_id="a", label="board_add", state="failed"),
            ToolStatus(call_id="b", label="board_add", state="running"),
            ToolStatus(call_id="b", label="board_add", state="done"),
        ]
        assert [m["content"] for m in s.models.requests[1]["messages"] if m["role"] == "tool"] == [
            "It needs a title.",
            "added",
        ]


async def test_a_command_is_answered_without_a_model_and_is_not_in_the_session(
    stage: OpenStage, packages: Packages
) -> None:
    packages.write("board", BOARD)
    async with stage(say("fine"), make_extensions=packages.make) as s:
        await s.gateway.add_to_log(entry("/Board now", 1))
        assert await run(s, "/Board now", log_number=1) == [
            Respond(text="The board, ada:"),
            ReplaceResponse(text="The board, ada:\n\nempty"),
            RunFinished(outcome=RunOutcome.COMPLETED, detail="a command of an extension"),
        ]
        assert s.models.requests == []
        await s.gateway.add_to_log(entry("hello", 2))
        await run(s, "hello", "r2", log_number=2)
        assert [message["content"] for message in s.models.requests[0]["messages"][1:]] == ["hello"]


async def test_other_slashes_are_for_the_model_and_a_scheduled_text_is_no_command(
    stage: OpenStage, packages: Packages
) -> None:
    packages.write("board", BOARD)
    async with stage(say("one"), say("two"), make_extensions=packages.make) as s:
        await run(s, "/boards")
        await run(s, "/board", "r2", scheduled=True)
        assert len(s.models.requests) == 2


async def test_an_extension_that_breaks_everywhere_breaks_no_run(stage: OpenStage, packages: Packages) -> None:
    packages.write("bad", "raise RuntimeError('import')")
    packages.write(
        "worse",
        """
        def activate(api):
            def boom(event): raise RuntimeError("boom")
            for hook in ("before_agent_start", "tool_call", "tool_result", "message_end", "turn_end"):
                api.on(hook, boom)
        """,
    )
    async with stage(Answer([Call("bash", {"command": "echo hi"})]), say("done"), make_extensions=packages.make) as s:
        operations = await run(s, "go")
        assert operations[0] == RunStarted()
        assert Respond(text="done") in operations
        assert isinstance((await s.session())[-1], AssistantMessage)


TOOL_THAT_CANCELS_ITSELF = """
    import asyncio
    from mikan_agent.extensions.api import ToolArguments

    async def run(arguments):
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    def activate(api):
        api.register_tool("look", "Looks.", ToolArguments, run)
"""


async def test_a_tool_that_cancels_itself_is_a_tool_that_broke(stage: OpenStage, packages: Packages) -> None:
    packages.write("bad", TOOL_THAT_CANCELS_ITSELF)
    async with stage(Answer([Call("look", {})]), say("done"), make_extensions=packages.make) as s:
        operations = await run(s, "go")
        assert Respond(text="done") in operations
        (result,) = [message for message in await s.session() if isinstance(message, ToolResultMessage)]
        assert result.is_error
        assert "The tool broke: an error of the extension bad." in str(result.content)


TOOL_THAT_WILL_NOT_END = """
    import asyncio
    from mikan_agent.extensions.api import ToolArguments

    async def run(arguments):
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if DISPOSED:
                    raise

    DISPOSED = []

    def activate(api):
        api.register_tool("look", "Looks.", ToolArguments, run)
        api.on_dispose(lambda: DISPOSED.append(1))
"""


async def test_a_tool_that_will_not_end_keeps_no_run_from_being_stopped(stage: OpenStage, packages: Packages) -> None:
    packages.write("bad", TOOL_THAT_WILL_NOT_END)
    async with stage(Answer([Call("look", {})]), make_extensions=packages.make) as s:
        await s.gateway.deliver(run_request("go", "r1"))
        await s.gateway.until(lambda: any(isinstance(one, ToolStatus) for one in s.gateway.operations("r1")))
        await s.gateway.send(Stop(run_id="r1"))
        finished = await s.gateway.finished("r1")
        assert finished.outcome is RunOutcome.STOPPED


async def test_a_new_session_has_fresh_code_and_the_old_is_disposed_of(stage: OpenStage, packages: Packages) -> None:
    code = """
        def activate(api):
            api.register_command("which", "d", lambda call: {0!r})
            api.on_dispose(lambda: (api.paths.data_dir / {0!r}).write_text("disposed"))
    """
    packages.write("which", code.format("one"))
    async with stage(make_extensions=packages.make) as s:
        assert Respond(text="one") in await run(s, "/which")
        packages.write("which", code.format("two"))
        assert Respond(text="one") in await run(s, "/which", "r2")
        await s.gateway.send(Reset(id="q1", session_key=parse_session_key("room")))
        await s.gateway.until(lambda: bool(s.gateway.seen.answers))
        assert Respond(text="two") in await run(s, "/which", "r3")
        data = Path(s.office.extension_data) / "which"
        assert [path.name for path in data.iterdir()] == ["one"]


async def test_what_an_extension_knows_of_its_run(stage: OpenStage, packages: Packages) -> None:
    packages.write(
        "about",
        """
        def activate(api):
            def about(call):
                context = api.context
                return f"{context.model} {context.thinking_level} {context.conversation_id} {call.origin.message_id}"
            api.register_command("about", "d", about)
        """,
    )
    async with stage(make_extensions=packages.make) as s:
        assert Respond(text="test/model off room m1") in await run(s, "/about", model="test/model")
        assert Respond(text="other/model off room m1") in await run(s, "/about", "r2", model="other/model")


async def test_a_subagent_is_run_for_the_run_under_way(stage: OpenStage, packages: Packages) -> None:
    packages.write(
        "sorter",
        """
        from pydantic import BaseModel

        class Sorted(BaseModel):
            stuck: bool

        def activate(api):
            async def sort(call):
                result = await api.subagent.run("Is it stuck?", input={"text": call.arguments}, output=Sorted)
                return f"{result.status}: {Sorted.model_validate(result.output).stuck} {result.cost_usd}"
            api.register_command("sort", "d", sort)
        """,
    )
    async with stage(Answer([Text('{"stuck": true}')]), make_extensions=packages.make) as s:
        operations = await run(s, "/sort no ETA yet")
        assert operations[0] == Respond(text="completed: True 0.001")
        assert '"text": "no ETA yet"' in s.models.requests[0]["messages"][1]["content"]


@pytest.mark.parametrize("cap", ["max_turns=0", "max_cost_usd=-1.0", "max_duration=timedelta(0)"])
async def test_a_subagent_that_may_do_nothing_is_refused_as_a_result(
    stage: OpenStage, packages: Packages, cap: str
) -> None:
    packages.write(
        "sorter",
        f"""
        from datetime import timedelta

        def activate(api):
            async def sort(call):
                result = await api.subagent.run("Is it stuck?", {cap})
                return f"{{result.status}}: {{result.error}}"
            api.register_command("sort", "d", sort)
        """,
    )
    async with stage(make_extensions=packages.make) as s:
        operations = await run(s, "/sort")
        assert operations[0] == Respond(text="failed: a cap is more than zero")

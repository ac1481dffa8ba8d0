"""What an extension may ask of its host, and what it hears where it may not."""

import logging
from pathlib import Path, PurePosixPath

import pytest

from agent_peers.executor import ROOT, MemoryExecutor
from extension_world import ADDRESS, ORIGIN, SHORT, ExtensionWorld
from mikan_agent.exceptions import ToolError
from mikan_agent.executor.exceptions import ExecutorError
from mikan_agent.extensions.loader import LoadedExtensions
from mikan_agent.messages import text_of
from mikan_agent.subagents.request import SubagentRequest
from mikan_agent.tools.tool import HostTool, ToolContext, parse_arguments, schema
from mikan_api.events import OneShotEvent, PeriodicEvent
from mikan_api.identity import Platform

BOARD = """
    from mikan_agent.extensions.api import ExtensionApi, Field, ToolArguments, ToolError, ToolOutput

    class Add(ToolArguments):
        title: str = Field(description="What to follow up")

    def activate(api: ExtensionApi) -> None:
        async def add(arguments: Add) -> str:
            if not arguments.title:
                raise ToolError("A follow-up needs a title.")
            if arguments.title == "broken":
                raise RuntimeError("token " + api.secrets.get("TOKEN"))
            if arguments.title == "wrong":
                return 7
            if arguments.title == "wrong content":
                return ToolOutput("a text")
            if arguments.title == "wrong details":
                return ToolOutput([], details=object())
            return f"added {arguments.title}"

        api.register_tool("board_add", "Adds a follow-up.", Add, add)
        api.register_command("Board", "Shows the follow-ups", lambda call: f"board: {call.arguments}")
"""


async def board(world: ExtensionWorld) -> LoadedExtensions:
    world.secret("board", TOKEN="hunter2")
    world.write("board/extension.py", BOARD)
    return await world.load("board")


class NoUploads:
    async def upload(self, name: str, title: str, media_type: str, content: object) -> None:
        raise AssertionError("nothing is sent here")


def context() -> ToolContext:
    return ToolContext(executor=MemoryExecutor(), directory=PurePosixPath("/workspace"), uploads=NoUploads())


async def test_a_tool_is_offered_in_the_form_of_the_built_in_ones(world: ExtensionWorld) -> None:
    (tool,) = (await board(world)).tools

    offered = schema(tool)["function"]
    assert (offered["name"], offered["description"]) == ("board_add", "Adds a follow-up.")
    assert offered["parameters"]["required"] == ["title"]
    assert offered["parameters"]["properties"]["title"] == {"description": "What to follow up", "type": "string"}
    assert tool.parallel is False
    assert isinstance(tool, HostTool)


async def test_a_tools_result_and_its_errors_are_like_those_of_built_in_ones(
    world: ExtensionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    (tool,) = (await board(world)).tools

    async def run(**arguments: str) -> str:
        output = await tool.run(parse_arguments(tool, dict(arguments)), context())
        return text_of(output.content)

    assert await run(title="a") == "added a"
    with pytest.raises(ToolError, match="title: Field required"):
        await run()
    with pytest.raises(ToolError, match=r"A follow-up needs a title\."):
        await run(title="")
    for title in ("broken", "wrong", "wrong content", "wrong details"):
        with pytest.raises(ToolError, match="an error of the extension board"):
            await run(title=title)
    assert "hunter2" not in caplog.text
    assert tool.label(parse_arguments(tool, {"title": "x"})) == "board_add"
    assert tool.label(parse_arguments(tool, {"title": "x", "label": "note it"})) == "note it"


async def test_a_tool_may_use_the_sandbox(world: ExtensionWorld) -> None:
    world.write(
        "a/extension.py",
        """
        from mikan_agent.extensions.api import Field, ToolArguments

        class Count(ToolArguments):
            path: str = Field(description="File")

        async def count(arguments, context):
            content = await context.executor.read_file(context.resolve(arguments.path))
            return f"{len(content)} bytes"

        def activate(api):
            api.register_sandbox_tool("count", "Counts bytes.", Count, count, parallel=True)
        """,
    )
    (tool,) = (await world.load("a")).tools
    executor = MemoryExecutor({"notes": b"hello"})
    context = ToolContext(executor=executor, directory=ROOT, uploads=NoUploads())

    assert not isinstance(tool, HostTool)
    assert tool.parallel is True
    output = await tool.run(parse_arguments(tool, {"path": "notes"}), context)
    assert text_of(output.content) == "5 bytes"
    with pytest.raises(ExecutorError):
        await tool.run(parse_arguments(tool, {"path": "gone"}), context)


TOOL = """
    from mikan_agent.extensions.api import ToolArguments

    async def run(arguments): return "{0}"

    def activate(api):
        api.register_tool({1!r}, "d", ToolArguments, run)
"""


async def test_no_tool_takes_the_name_of_another(world: ExtensionWorld) -> None:
    world.write("a/extension.py", TOOL.format("a", "bash"))
    world.write("b/extension.py", TOOL.format("b", "look"))
    world.write("c/extension.py", TOOL.format("c", "look"))
    extensions = await world.load("a", "b", "c")

    assert [(tool.name, tool.extension.slug) for tool in extensions.tools] == [("look", "b")]
    assert [str(d) for d in extensions.diagnostics] == [
        "a: the tool bash is built in; the extension's is left out",
        "c: b has a tool look already; this one is left out",
    ]
    assert extensions.slugs == ("a", "b", "c")


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("api.register_tool('a b', 'd', ToolArguments, run)", "'a b' is no name for a tool"),
        ("api.register_tool('a', 'd', dict, run)", "no subclass of ToolArguments"),
        ("api.register_tool('a', 'd', ToolArguments, lambda a: 'x')", "no coroutine function"),
        ("api.register_tool('a', 'd', ToolArguments, None)", "no coroutine function"),
        ("api.register_tool('a', None, ToolArguments, run)", "the description of the tool a is no text"),
        ("api.register_tool('a', 'd', Odd, run)", "the arguments of the tool a have no JSON Schema: Cannot generate"),
        ("api.register_command('/board', 'd', print)", "'/board' is no name for a command"),
        ("api.register_command('board', 'd', None)", "no function"),
        ("api.on('tool_cal', print)", "there is no hook 'tool_cal'"),
        ("api.on('tool_call', None)", "no function"),
        ("api.on_dispose(None)", "no function"),
        ("return 7", "no function"),
    ],
)
async def test_what_cannot_be_registered_is_told_and_nothing_of_the_extension_stays(
    world: ExtensionWorld, call: str, fault: str
) -> None:
    world.write(
        "a/extension.py",
        f"""
        from collections.abc import Callable
        from mikan_agent.extensions.api import ToolArguments

        class Odd(ToolArguments):
            function: Callable

        async def run(arguments): return ""

        def activate(api):
            api.register_tool("fine", "d", ToolArguments, run)
            api.register_command("fine", "d", print)
            {call}
        """,
    )
    extensions = await world.load("a")

    (diagnostic,) = extensions.diagnostics
    assert diagnostic.subject == "a"
    assert fault in diagnostic.message
    assert (extensions.tools, extensions.commands.all, extensions.slugs) == ((), (), ())


class Answers:
    def __init__(self) -> None:
        self.texts: list[str] = []

    async def __call__(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/board", "board: "),
        ("/BOARD  list all ", "board: list all"),
        ("/board\nline one\nline two", "board: line one\nline two"),
    ],
)
async def test_a_command_is_answered_by_its_code_in_any_case(world: ExtensionWorld, text: str, answer: str) -> None:
    extensions, answers = await board(world), Answers()

    assert await extensions.commands.dispatch(text, ORIGIN, answers) is True
    assert answers.texts == [answer]


@pytest.mark.parametrize("text", ["board", "/boards", "/ board", "see /board", "/", ""])
async def test_other_text_is_for_the_model(world: ExtensionWorld, text: str) -> None:
    extensions, answers = await board(world), Answers()

    assert await extensions.commands.dispatch(text, ORIGIN, answers) is False
    assert answers.texts == []


async def test_built_in_commands_win_and_then_the_first_of_a_name(world: ExtensionWorld) -> None:
    code = "def activate(api): api.register_command({!r}, 'd', lambda call: {!r})"
    for package, name in (("a", "New"), ("b", "pi-model"), ("c", "stop"), ("d", "poll"), ("e", "Poll")):
        world.write(f"{package}/extension.py", code.format(name, package))
    extensions, answers = await world.load("a", "b", "c", "d", "e"), Answers()

    await extensions.commands.dispatch("/poll", ORIGIN, answers)
    assert answers.texts == ["d"]
    assert [(c.name, c.description) for c in extensions.commands.all] == [("poll", "d")]
    assert [str(d) for d in extensions.diagnostics] == [
        "a: the command /new is built in; the extension's is left out",
        "b: the command /pi-model is built in; the extension's is left out",
        "c: the command /stop is built in; the extension's is left out",
        "e: d has a command /poll already; this one is left out",
    ]


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        ("await call.respond('one'); return 'two'", ["one", "two"]),
        ("await call.respond(call.origin.user_name)", ["ada"]),
        ("raise ToolError('Say which one.')", ["Say which one."]),
        ("raise KeyError('oops')", ["/x failed: the extension a has an error. Its details are in the agent's log."]),
        ("return 7", ["/x failed: the extension a has an error. Its details are in the agent's log."]),
        ("await asyncio.sleep(60)", ["/x was given up: the extension a did not end within 0.05 s."]),
    ],
)
async def test_what_a_command_does_is_told_in_the_chat(world: ExtensionWorld, body: str, answers: list[str]) -> None:
    world.write(
        "a/extension.py",
        f"""
        import asyncio
        from mikan_agent.extensions.api import ToolError

        async def run(call):
            {body}

        def activate(api): api.register_command("x", "d", run)
        """,
    )
    extensions, told = await world.load("a", limits=SHORT), Answers()

    assert await extensions.commands.dispatch("/x", ORIGIN, told) is True
    assert told.texts == answers


CAPABLE = """
    from pydantic import BaseModel

    class Answer(BaseModel):
        stuck: bool

    async def activate(api):
        api.register_command("x", "d", run)
        global host
        host = api

    async def run(call):
        api = host
        return str(await eval(call.arguments))
"""


async def capable(world: ExtensionWorld, **without: None) -> "Asks":
    world.write("tool-kit/extension.py", CAPABLE)
    return Asks(await world.load("tool-kit", **without))


class Asks:
    """Evaluates an expression over ``api`` inside the extension."""

    def __init__(self, extensions: LoadedExtensions) -> None:
        self._extensions = extensions

    async def __call__(self, expression: str) -> str:
        answers = Answers()
        await self._extensions.commands.dispatch(f"/x {expression}", ORIGIN, answers)
        return answers.texts[0]


async def test_it_speaks_in_its_own_conversation(world: ExtensionWorld, tmp_path: Path) -> None:
    ask = await capable(world)
    (tmp_path / "report.txt").write_text("fine")

    await ask("api.notify('hello')")
    await ask("api.react('m1', 'eyes')")
    await ask(f"api.upload_file('{tmp_path}/report.txt')")
    assert (world.did.said, world.did.reactions, world.did.uploads) == (
        ["hello"],
        [("m1", "eyes")],
        [("report.txt", b"fine")],
    )


async def test_it_sets_up_runs_of_its_own_conversation(world: ExtensionWorld) -> None:
    ask = await capable(world)

    await ask("api.schedules.upsert('daily', text='Check.', schedule='0 9 * * 1-5', timezone='Asia/Taipei')")
    await ask("api.schedules.upsert('once', text='Now.', at='2026-03-01T09:00:00Z')")
    await ask("api.trigger_run('Look at the deploy.')")

    assert world.did.schedules == {
        ("tool-kit", "daily"): PeriodicEvent(
            platform=Platform.CONSOLE,
            conversation_id="room",
            text="Check.",
            schedule="0 9 * * 1-5",
            timezone="Asia/Taipei",
        ),
        ("tool-kit", "once"): OneShotEvent(
            platform=Platform.CONSOLE, conversation_id="room", text="Now.", at="2026-03-01T09:00:00Z"
        ),
    }
    assert world.did.triggered == [("tool-kit", "Look at the deploy.")]
    assert await ask("api.schedules.list()") == str(await world.did.list("tool-kit"))
    assert await ask("api.schedules.remove('once')") == "True"
    assert await ask("api.schedules.remove('once')") == "False"


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("api.schedules.upsert('Daily', text='x', at='2026-03-01T09:00:00Z')", "'Daily' is no name for a schedule"),
        ("api.schedules.upsert('daily', text='x')", "either schedule or at"),
        ("api.schedules.upsert('daily', text='x', schedule='* * * * *', at='2026-03-01T09:00:00Z')", "either schedule"),
        ("api.schedules.upsert('daily', text='x', schedule='61 * * * *')", "'61' is outside 0-59"),
        ("api.schedules.upsert('daily', text='x', schedule='* * * * *', timezone='Mars')", "not an IANA time zone"),
        ("api.schedules.upsert('daily', text='x', at='2026-02-30T09:00:00Z')", "not an ISO 8601 date"),
        ("api.schedules.upsert('daily', text='use hunter2-token', at='2026-03-01T09:00:00Z')", "holds a secret"),
        ("api.trigger_run('use hunter2-token')", "holds a secret"),
        ("api.trigger_run('')", "at least 1 character"),
    ],
)
async def test_what_is_wrong_with_a_schedule_is_told_to_the_extension(
    world: ExtensionWorld, expression: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.secret("tool-kit", TOKEN="hunter2-token")
    ask = await capable(world)
    caplog.clear()

    await ask(expression)
    assert fault in caplog.text
    assert world.did.schedules == {}
    assert world.did.triggered == []


async def test_subagents_get_what_they_are_given_and_no_tools_by_default(world: ExtensionWorld) -> None:
    ask = await capable(world)

    assert "text='done'" in await ask("api.subagent.run('Classify.', input={'n': 1}, output=Answer, max_turns=2)")
    assert world.did.tasks == [
        SubagentRequest(
            profile="analysis-only",
            task="Classify.",
            input={"n": 1},
            tools=(),
            output_schema={
                "properties": {"stuck": {"title": "Stuck", "type": "boolean"}},
                "required": ["stuck"],
                "title": "Answer",
                "type": "object",
            },
            max_turns=2,
        )
    ]


@pytest.mark.parametrize(
    ("expression", "missing", "fault"),
    [
        ("api.notify('x')", "conversation", "this host posts no messages outside of runs"),
        ("api.react('m', 'eyes')", "conversation", "this host has no reactions"),
        ("api.upload_file('/x')", "conversation", "this host takes no files"),
        ("api.schedules.list()", "schedules", "this host starts no runs by itself"),
        ("api.trigger_run('x')", "schedules", "this host starts no runs by itself"),
        ("api.subagent.run('x')", "subagents", "this host runs no subagents"),
    ],
)
async def test_a_missing_capability_is_named(
    world: ExtensionWorld, expression: str, missing: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    ask = await capable(world, **{missing: None})

    await ask(expression)
    assert f"CapabilityUnavailable: {fault}" in caplog.text


async def test_context_and_paths_are_those_of_the_office(world: ExtensionWorld) -> None:
    world.write(
        "kit/extensions/one.py",
        """
        def activate(api):
            context = api.context
            line = f"{api.slug} {context.conversation_id} {context.office_key} {context.model} {context.thinking_level}"
            (api.paths.data_dir / "notes").write_text(line)
            (api.paths.shared_data_dir / "all").write_text("x")
        """,
    )
    world.model = "openai/gpt-5"
    await world.load("kit")

    assert world.notes("one") == [f"one room {ADDRESS.key} openai/gpt-5 low"]
    assert (world.root / "shared" / "kit" / "one" / "all").exists()


async def test_a_log_entry_has_the_extensions_name(world: ExtensionWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world.write("a/extension.py", "def activate(api): api.log('ready', 'warning')")
    await world.load("a")

    (record,) = [r for r in caplog.records if r.getMessage() == "ready"]
    assert (record.levelno, record.name, getattr(record, "extension", "")) == (
        logging.WARNING,
        "mikan_agent.extensions",
        "a",
    )

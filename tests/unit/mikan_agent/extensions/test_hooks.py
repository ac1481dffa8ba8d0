"""The rules of hooks: order, chaining, blocks, and what becomes of an error."""

import logging

import pytest

from extension_world import ORIGIN, SHORT, ExtensionWorld
from mikan_agent.extensions.loader import LoadedExtensions
from mikan_agent.harness.hooks import Blocked, Start, ToolResult
from mikan_agent.messages import AssistantMessage, ImageContent, TextContent, ToolCall, ToolResultMessage
from mikan_api.responder import Usage

START = Start("system", "prompt", ORIGIN)
CALL = ToolCall(id="c1", name="bash", arguments={"command": "ls"})
RESULT = ToolResult(
    CALL, [TextContent(text="the key is hunter2"), ImageContent(data="AA==", mime_type="image/png")], False
)

ADDS = """
    from dataclasses import replace

    def activate(api):
        api.on("before_agent_start", lambda start: replace(start, prompt=start.prompt + " {0}", system_prompt="by {0}"))
"""
BLOCKS = """
    from mikan_agent.extensions.api import Blocked

    def activate(api):
        api.on("before_agent_start", lambda start: Blocked("{0}"))
        api.on("tool_call", lambda event: Blocked("{0}"))
"""


async def loaded(world: ExtensionWorld, **code: str) -> LoadedExtensions:
    for name, text in code.items():
        world.write(f"{name}/extension.py", text)
    return await world.load(*code)


async def test_rewrites_of_a_start_chain_in_the_order_of_registration(world: ExtensionWorld) -> None:
    extensions = await loaded(world, a=ADDS.format("one"), b=ADDS.format("two"))

    assert await extensions.hooks.before_agent_start(START) == Start("by two", "prompt one two", ORIGIN)


async def test_a_rewrite_cannot_change_where_a_run_comes_from(world: ExtensionWorld) -> None:
    extensions = await loaded(
        world,
        a="""
        from mikan_agent.extensions.api import Origin, Start

        def activate(api):
            api.on("before_agent_start", lambda start: Start("s", "p", Origin("event", "console")))
        """,
    )

    assert await extensions.hooks.before_agent_start(START) == Start("s", "p", ORIGIN)


@pytest.mark.parametrize("order", [("blocks", "adds"), ("adds", "blocks")])
async def test_a_block_at_the_start_wins_whatever_the_order(world: ExtensionWorld, order: tuple[str, str]) -> None:
    code = {"blocks": BLOCKS.format("closed today"), "adds": ADDS.format("one")}
    extensions = await loaded(world, **{name: code[name] for name in order})

    assert await extensions.hooks.before_agent_start(START) == Blocked("closed today")


async def test_of_two_blocks_the_first_one_gives_the_reason_and_all_handlers_are_asked(world: ExtensionWorld) -> None:
    watches = """
        def activate(api):
            api.on("before_agent_start", lambda start: (api.paths.data_dir / "notes").write_text(start.prompt) and None)
    """
    extensions = await loaded(world, a=BLOCKS.format("first"), b=BLOCKS.format("second"), c=watches)

    assert await extensions.hooks.before_agent_start(START) == Blocked("first")
    assert world.notes("c") == ["prompt"]


async def test_the_first_answer_about_a_tool_call_decides(world: ExtensionWorld) -> None:
    passes = "def activate(api): api.on('tool_call', lambda event: None)"
    extensions = await loaded(world, a=passes, b=BLOCKS.format("no"), c=BLOCKS.format("never"))

    assert await extensions.hooks.tool_call(CALL, ORIGIN) == Blocked("no")


async def test_without_a_block_a_call_goes_on_and_cannot_be_changed(world: ExtensionWorld) -> None:
    extensions = await loaded(
        world, a="def activate(api): api.on('tool_call', lambda event: event.call.arguments.clear())"
    )

    assert await extensions.hooks.tool_call(CALL, ORIGIN) is None
    assert CALL.arguments == {"command": "ls"}


async def test_rewrites_of_a_result_chain(world: ExtensionWorld) -> None:
    replaces = """
        from dataclasses import replace
        from mikan_agent.extensions.api import map_text

        def activate(api):
            async def handler(event):
                content = map_text(event.result.content, lambda text: text.replace({0!r}, {1!r}))
                return replace(event.result, content=content, is_error=True, details={{"by": api.slug}})
            api.on("tool_result", handler)
    """
    extensions = await loaded(world, a=replaces.format("hunter2", "***"), b=replaces.format("***", "[gone]"))

    seen = await extensions.hooks.tool_result(RESULT, ORIGIN)

    assert seen == ToolResult(
        CALL,
        [TextContent(text="the key is [gone]"), ImageContent(data="AA==", mime_type="image/png")],
        True,
        {"by": "b"},
    )
    assert RESULT.content[0] == TextContent(text="the key is hunter2")


async def test_a_result_nobody_rewrites_is_what_it_was(world: ExtensionWorld) -> None:
    extensions = await loaded(world, a="def activate(api): api.on('tool_result', lambda event: None)")

    assert await extensions.hooks.tool_result(RESULT, ORIGIN) == RESULT


BROKEN = {
    "raises": "raise RuntimeError('oops')",
    "returns a text": "return 'no'",
    "returns true": "return True",
    "exits": "raise SystemExit(1)",
    "raises what can't be told": "raise type('Odd', (Exception,), {'__str__': lambda error: 1 / 0})",
}
WRONG_FIELDS = """
    from mikan_agent.extensions.api import Blocked, Start, ToolResult

    def activate(api):
        api.on("before_agent_start", lambda start: Start(1, None, None))
        api.on("before_agent_start", lambda start: Blocked(7))
        api.on("tool_call", lambda event: Blocked(None))
        api.on("tool_result", lambda event: ToolResult(event.result.call, "text", False))
        api.on("tool_result", lambda event: ToolResult(event.result.call, None, False))
        api.on("tool_result", lambda event: ToolResult(event.result.call, [], "no"))
        api.on("tool_result", lambda event: ToolResult(event.result.call, [], False, object()))
        api.on("tool_result", lambda event: ToolResult(event.result.call, [], False, {"mean": float("nan")}))
"""


@pytest.mark.parametrize("what", BROKEN)
async def test_a_broken_handler_is_logged_and_skipped(
    world: ExtensionWorld, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken = f"""
        def activate(api):
            def handler(event): {BROKEN[what]}
            for hook in ("before_agent_start", "tool_call", "tool_result"):
                api.on(hook, handler)
    """
    extensions = await loaded(world, a=broken, b=ADDS.format("one"))
    caplog.clear()

    assert await extensions.hooks.before_agent_start(START) == Start("by one", "prompt one", ORIGIN)
    assert await extensions.hooks.tool_call(CALL, ORIGIN) is None
    assert await extensions.hooks.tool_result(RESULT, ORIGIN) == RESULT
    assert [(r.levelno, getattr(r, "extension", "")) for r in caplog.records] == [(logging.ERROR, "a")] * 3


async def test_values_of_a_right_type_with_wrong_fields_are_skipped_too(
    world: ExtensionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    extensions = await loaded(world, a=WRONG_FIELDS)
    caplog.clear()

    assert await extensions.hooks.before_agent_start(START) == START
    assert await extensions.hooks.tool_call(CALL, ORIGIN) is None
    assert await extensions.hooks.tool_result(RESULT, ORIGIN) == RESULT
    assert len(caplog.records) == 8


@pytest.mark.parametrize(
    "handler", ["async def handler(event): await asyncio.Event().wait()", "def handler(event): time.sleep(0.5)"]
)
async def test_a_handler_that_hangs_is_given_up_and_the_next_one_is_asked(world: ExtensionWorld, handler: str) -> None:
    world.write(
        "a/extension.py",
        f"""
        import asyncio, time
        {handler}
        def activate(api): api.on("tool_call", handler)
        """,
    )
    world.write(
        "b/extension.py",
        """
        from mikan_agent.extensions.api import Blocked

        async def activate(api):
            async def no(event): return Blocked("no")
            api.on("tool_call", no)
        """,
    )
    extensions = await world.load("a", "b", limits=SHORT)

    assert await extensions.hooks.tool_call(CALL, ORIGIN) == Blocked("no")
    await extensions.dispose()


async def test_every_hook_that_only_watches_is_told(world: ExtensionWorld) -> None:
    watches = """
        def activate(api):
            def note(line):
                with (api.paths.data_dir / "notes").open("a") as file:
                    file.write(line + "\\n")
                return "ignored"
            api.on("message_end", lambda e: note(f"message {e.message.role} {e.origin.user_name}"))
            api.on("turn_end", lambda e: note(f"turn {e.message.text} {len(e.results)}"))
            api.on("session_compact", lambda e: note(f"compact {e.reason} {e.tokens_before}"))
            api.on("agent_error", lambda e: note(f"error {e.error}"))
            api.on("budget_exceeded", lambda e: note(f"budget {e.detail} {e.usage.model_calls}"))
    """
    hooks = (await loaded(world, a=watches)).hooks
    answer = AssistantMessage(content=[TextContent(text="hello")])
    result = ToolResultMessage(tool_call_id="c1", tool_name="bash", content=[])

    await hooks.message_end(answer, ORIGIN)
    await hooks.message_end(result, ORIGIN)
    await hooks.turn_end(answer, [result], ORIGIN)
    await hooks.session_compact("overflow", 12)
    await hooks.agent_error("no model", ORIGIN)
    await hooks.budget_exceeded("cost", Usage(model_calls=3), ORIGIN)

    assert world.notes("a") == [
        "message assistant ada",
        "message toolResult ada",
        "turn hello 1",
        "compact overflow 12",
        "error no model",
        "budget cost 3",
    ]


async def test_an_error_in_the_log_holds_no_secret(world: ExtensionWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.secret("a", TOKEN="hunter2-hunter2\n")
    extensions = await loaded(
        world,
        a="""
        def activate(api):
            async def handler(event):
                api.log("with " + api.secrets.get("TOKEN"))
                raise RuntimeError("bad token " + api.secrets.get("TOKEN"))
            api.on("tool_call", handler)
        """,
    )
    caplog.set_level(logging.INFO)
    await extensions.hooks.tool_call(CALL, ORIGIN)

    written = [record.getMessage() + getattr(record, "trace", "") for record in caplog.records]
    assert written[0].strip() == "with ***"
    assert "bad token ***" in written[1]
    assert "hunter2" not in "".join(written)

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gateway_doubles import ManualClock, inbound, key_of
from gateway_edges import DirectorySpool, FakePlatform, MemoryIntents, PostedLog, ProcessKilled, turns
from mikan_api.identity import Platform
from mikan_api.responder import (
    DeleteResponse,
    Diagnostic,
    ReplaceResponse,
    Respond,
    ResponderOperation,
    RunFinished,
    RunOutcome,
    RunStarted,
    ToolStatus,
    Upload,
    Working,
)
from mikan_api.session_keys import SessionKey
from mikan_gateway.exceptions import PlatformRefused, PlatformUnavailable
from mikan_gateway.ports import RunRecord
from mikan_gateway.rendering.outbox import Outbox
from mikan_gateway.rendering.renderer import CUT_OFF, Renderer, safe_name


class Stage:
    """A renderer on a fake platform, in time that a test moves; `restart` is a new process on what is stored."""

    def __init__(self, tmp_path: Path, kind: str = "message") -> None:
        message = inbound()
        self.run = RunRecord(
            "run-1",
            key_of(),
            SessionKey("C1"),
            message.event,
            message.info,
            kind="scheduled" if kind != "message" else "message",
        )
        self.platform, self.intents, self.log = FakePlatform(), MemoryIntents(), PostedLog()
        self.spool, self.clock = DirectorySpool(tmp_path), ManualClock()
        self.number = 0
        self.restart()

    def restart(self) -> None:
        outbox = Outbox(self.intents, self.log, self.clock)
        self.renderer = Renderer({Platform.CONSOLE: self.platform}, outbox, self.spool, self.clock)

    async def apply(self, *operations: ResponderOperation) -> None:
        for operation in operations:
            self.number += 1
            await self.renderer.apply(self.run, self.number, operation)
        await turns()

    async def stream(self, text: str) -> None:
        self.renderer.delta(self.run, 0, text)
        await turns()

    async def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await turns()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


DONE = RunFinished(outcome=RunOutcome.COMPLETED)


async def test_a_quick_answer_is_one_post(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.stream("It is")
    await stage.apply(Respond(text="It is 4."), DONE)
    await stage.wait(10)

    assert stage.platform.calls == [
        ("working", True),
        ("post", "m1", "It is 4."),
        ("working", False),
    ]
    assert stage.log.lines == [("m1", "It is 4.")]


async def test_what_waits_stands_below_what_comes_before_it(stage: Stage) -> None:
    later = replace(stage.run, run_id="run-2")
    stage.renderer.expect(stage.run)
    await stage.renderer.waiting(later, "waiting for 1 earlier message")
    await stage.wait(3)
    assert stage.platform.shown() == []

    await stage.apply(RunStarted(), Respond(text="first"), DONE)
    await stage.wait(0.4)

    assert stage.platform.shown() == ["first", "⏳ waiting for 1 earlier message"]


async def test_a_text_that_streams_before_its_run_may_be_shown_waits_for_that(stage: Stage) -> None:
    await stage.stream("It is")
    await stage.wait(3)
    assert stage.platform.shown() == []

    await stage.apply(RunStarted())
    await stage.wait(0.03)

    assert stage.platform.shown() == ["It is"]


async def test_what_an_earlier_process_began_goes_on_in_its_message(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.stream("It")
    await stage.wait(1)
    stage.restart()
    stage.run = replace(stage.run, started=True)
    await stage.stream("It is")
    await stage.wait(1)

    assert stage.platform.shown() == ["It is"]


async def test_nothing_is_shown_for_400_ms_then_a_placeholder(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.wait(0.39)
    assert stage.platform.shown() == []

    await stage.wait(0.02)
    assert stage.platform.shown() == ["_Working…_"]


async def test_the_placeholder_becomes_the_answer(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.wait(0.5)
    await stage.apply(ToolStatus(call_id="1", label="bash: ls"))
    await stage.wait(1)
    await stage.apply(ToolStatus(call_id="1", label="bash: ls", state="done"))
    await stage.wait(1)
    await stage.apply(Respond(text="Done."), DONE)

    assert stage.platform.without_working() == [
        ("post", "m1", "_Working…_"),
        ("draft", "m1", "⚙ `bash: ls`"),
        ("draft", "m1", "✓ `bash: ls`"),
        ("edit", "m1", "Done."),
    ]
    assert stage.log.lines == [("m1", "Done.")]


async def test_streamed_text_is_shown_soon_and_then_at_the_platforms_pace(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.stream("One")
    await stage.wait(0.03)
    assert stage.platform.without_working() == [("post", "m1", "One")]

    await stage.stream("One two")
    await stage.stream("One two three")
    await stage.wait(0.5)
    assert stage.platform.without_working() == [("post", "m1", "One")]

    await stage.wait(0.5)
    assert stage.platform.without_working() == [("post", "m1", "One"), ("draft", "m1", "One two three")]


async def test_a_delta_whose_predecessor_was_lost_is_not_shown(stage: Stage) -> None:
    await stage.apply(RunStarted())
    stage.renderer.delta(stage.run, 0, "abc")
    stage.renderer.delta(stage.run, 9, "xyz")
    await turns()
    await stage.wait(0.03)

    assert stage.platform.shown() == ["abc"]


async def test_a_passing_state_is_shown_and_cleared(stage: Stage) -> None:
    await stage.apply(RunStarted(), Working(label="the sandbox is starting"))
    await stage.wait(0.4)
    assert stage.platform.shown() == ["⏳ the sandbox is starting"]

    await stage.apply(Working())
    await stage.wait(1)
    assert stage.platform.shown() == ["_Working…_"]


async def test_a_tool_label_can_neither_format_nor_mention(stage: Stage) -> None:
    await stage.apply(RunStarted(), ToolStatus(call_id="1", label="echo `<@ann>`\n# big"))
    await stage.wait(0.4)

    assert stage.platform.shown() == ["⚙ `echo '<@ann>' # big`"]


async def test_a_long_answer_is_split_and_every_part_is_logged(stage: Stage) -> None:
    text = "\n\n".join(["a" * 60, "b" * 60, "c" * 60])
    await stage.apply(RunStarted(), Respond(text=text), DONE)

    assert stage.platform.shown() == ["a" * 60, "b" * 60, "c" * 60]
    assert stage.log.lines == [("m1", "a" * 60), ("m2", "b" * 60), ("m3", "c" * 60)]
    assert {message.session_key for message in stage.log.messages} == {stage.run.session_key}


async def test_parts_that_an_answer_does_not_need_are_deleted(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.stream("\n\n".join(["a" * 60, "b" * 60]))
    await stage.wait(0.03)
    await stage.apply(Respond(text="short"), DONE)

    assert stage.platform.shown() == ["short"]


async def test_a_replacement_edits_the_answer(stage: Stage) -> None:
    await stage.apply(RunStarted(), Respond(text="first"), ReplaceResponse(text="second"), DONE)

    assert stage.platform.without_working() == [("post", "m1", "first"), ("edit", "m1", "second")]


async def test_a_message_that_somebody_deleted_is_posted_anew(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.wait(0.5)
    del stage.platform.messages["m1"]
    await stage.apply(Respond(text="answer"), DONE)

    assert stage.platform.shown() == ["answer"]


async def test_a_crash_between_post_and_mark_posts_nothing_twice(stage: Stage) -> None:
    await stage.apply(RunStarted())
    stage.intents.crash_before_mark = True
    with pytest.raises(ProcessKilled):
        await stage.apply(Respond(text="answer"))
    stage.restart()

    await stage.apply(Respond(text="answer"), DONE)

    assert stage.platform.shown() == ["answer"]
    assert stage.log.lines == [("m1", "answer")]


async def test_an_answer_shown_before_a_crash_outlives_the_end_of_its_run(stage: Stage) -> None:
    await stage.apply(RunStarted(), Respond(text="answer"))
    stage.restart()

    await stage.apply(DONE)

    assert stage.platform.shown() == ["answer"]


async def test_a_placeholder_of_before_a_crash_becomes_the_answer(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.wait(0.5)
    stage.restart()

    await stage.apply(Respond(text="answer"), DONE)

    assert stage.platform.shown() == ["answer"]
    assert [call[0] for call in stage.platform.without_working()] == ["post", "edit"]


async def test_a_run_without_an_answer_leaves_nothing(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.wait(0.5)
    await stage.apply(DONE)

    assert stage.platform.shown() == []
    assert stage.log.lines == []


async def test_delete_response_removes_what_was_shown(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.stream("hm")
    await stage.wait(0.5)
    await stage.apply(DeleteResponse(), DONE)

    assert stage.platform.shown() == []


async def test_silent_as_the_whole_answer_of_an_event_posts_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "scheduled")
    await stage.apply(RunStarted())
    await stage.stream("[SIL")
    await stage.wait(0.1)
    await stage.apply(Respond(text=" [SILENT]\n"), DONE)

    assert stage.platform.without_working() == []


async def test_silent_in_answer_to_a_person_is_text(stage: Stage) -> None:
    await stage.apply(RunStarted(), Respond(text="[SILENT]"), DONE)

    assert stage.platform.shown() == ["[SILENT]"]


async def test_a_stopped_run_keeps_its_text_and_says_so(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.stream("Half of")
    await stage.apply(RunFinished(outcome=RunOutcome.STOPPED))

    assert stage.platform.shown() == ["Half of\n\n_(Stopped.)_"]


async def test_a_failed_run_says_why(stage: Stage) -> None:
    await stage.apply(RunStarted(), RunFinished(outcome=RunOutcome.FAILED, detail="the model can't be reached"))

    assert stage.platform.shown() == ["❌ the model can't be reached"]


@pytest.mark.parametrize("outcome", [RunOutcome.FAILED, RunOutcome.BUDGET_EXCEEDED])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_fault_that_was_told_is_not_told_again_at_the_end(
    stage: Stage, outcome: RunOutcome, restarted: bool
) -> None:
    await stage.apply(RunStarted())
    await stage.wait(0.5)
    await stage.apply(Diagnostic(text="The model could not be reached."))
    if restarted:
        stage.restart()
    await stage.apply(RunFinished(outcome=outcome, detail="The model could not be reached."))

    assert stage.platform.shown() == ["❌ The model could not be reached."]


async def test_a_warning_does_not_stand_for_the_reason_of_a_failure(stage: Stage) -> None:
    await stage.apply(RunStarted(), Diagnostic(level="warning", text="no sandbox"))
    await stage.apply(RunFinished(outcome=RunOutcome.FAILED, detail="no model"))

    assert stage.platform.shown() == ["⚠️ no sandbox", "❌ no model"]


async def test_a_diagnostic_is_a_message_of_its_own_once(stage: Stage) -> None:
    await stage.apply(RunStarted(), Respond(text="answer"))
    warning = Diagnostic(level="warning", text="memory is full")
    await stage.renderer.apply(stage.run, 7, warning)
    await stage.renderer.apply(stage.run, 7, warning)

    assert stage.platform.shown() == ["answer", "⚠️ memory is full"]
    assert stage.log.lines == [("m1", "answer"), ("m2", "⚠️ memory is full")]


async def test_a_run_that_was_cut_off_says_so_once_and_keeps_its_text(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.stream("Half of")
    await stage.renderer.cut_off(stage.run)
    stage.restart()
    await stage.renderer.cut_off(stage.run)

    assert stage.platform.shown() == ["Half of", CUT_OFF]


async def test_a_placeholder_of_a_run_that_was_cut_off_becomes_the_notice(stage: Stage) -> None:
    await stage.apply(RunStarted())
    await stage.wait(0.5)
    stage.restart()
    await stage.renderer.cut_off(stage.run)
    await stage.renderer.cut_off(stage.run)

    assert stage.platform.shown() == [CUT_OFF]


async def test_why_a_run_waits_is_shown_until_it_begins(stage: Stage) -> None:
    await stage.renderer.waiting(stage.run, "the vault's Secret is missing (SecretMissing)")
    await turns()
    await stage.wait(0.4)
    assert stage.platform.shown() == ["⏳ the vault's Secret is missing (SecretMissing)"]

    await stage.apply(RunStarted(), Respond(text="answer"), DONE)
    assert stage.platform.shown() == ["answer"]


async def test_the_final_text_lands_though_the_platform_is_busy(stage: Stage) -> None:
    await stage.apply(RunStarted())
    stage.platform.failures = [PlatformUnavailable("slow down", retry_after=7), PlatformUnavailable("down")]
    apply = asyncio.ensure_future(stage.apply(Respond(text="answer"), DONE))
    await turns()
    await stage.wait(6.9)
    assert stage.platform.shown() == []
    await stage.wait(0.1)
    await stage.wait(1)
    await apply

    assert stage.platform.shown() == ["answer"]


async def test_an_answer_that_the_platform_refuses_does_not_block_what_follows(stage: Stage) -> None:
    stage.platform.failures = [PlatformRefused("not a member")]
    await stage.apply(RunStarted(), Respond(text="answer"), DONE)

    assert stage.platform.shown() == []
    assert stage.log.lines == []


async def test_a_draft_that_fails_is_followed_by_the_answer(stage: Stage) -> None:
    await stage.apply(RunStarted())
    stage.platform.failures = [PlatformUnavailable("down")]
    await stage.wait(0.5)
    await stage.apply(Respond(text="answer"), DONE)

    assert stage.platform.shown() == ["answer"]


async def test_an_upload_is_sent_once_and_logged(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "b-x1").write_text("content")
    upload = Upload(blob_id="x1", name="../../etc/re\u202eport.txt", title="Report")
    await stage.apply(upload)
    (tmp_path / "b-x1").unlink()
    stage.restart()
    await stage.apply(upload)

    assert stage.platform.calls == [("upload", "report.txt", "Report", "content")]
    assert [m.attachments[0].name for m in stage.log.messages] == ["report.txt"]


async def test_an_upload_whose_bytes_are_gone_is_named(stage: Stage) -> None:
    await stage.apply(Upload(blob_id="x1", name="a.txt"))

    assert stage.platform.shown() == ["❌ The file `a.txt` was lost on its way here."]


@pytest.mark.parametrize(
    ("name", "safe"),
    [("a.txt", "a.txt"), ("../a", "a"), ("C:\\x\\b.doc", "b.doc"), ("\x00\x1b", "file"), ("..", "file"), ("", "file")],
)
def test_a_file_name_names_nothing_outside(name: str, safe: str) -> None:
    assert safe_name(name) == safe


async def test_a_first_text_that_was_posted_but_could_not_be_noted_is_replaced_by_the_answer(stage: Stage) -> None:
    await stage.apply(RunStarted())
    stage.intents.unwritable = True
    await stage.stream("It")
    await stage.wait(0.03)
    assert stage.platform.shown() == ["It"]
    await stage.stream("It is 4.")
    await stage.wait(1)

    stage.intents.unwritable = False
    await stage.stream("It is 4.")
    await stage.wait(1)
    await stage.apply(Respond(text="It is 4."), DONE)

    assert stage.platform.shown() == ["It is 4."]

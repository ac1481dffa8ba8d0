"""A conversation that grows longer than its model can read."""

import json

from agent_peers.models import Answer, Refuse, Text, say
from agent_peers.office import run_request
from mikan_agent.harness.compactor import INSTRUCTIONS
from mikan_agent.messages import CompactionSummaryMessage
from mikan_api.responder import Diagnostic, Respond, RunFinished, RunOutcome, RunStarted, Usage, Working

from .conftest import OpenStage, Stage, recorded_entries

TOO_LONG = Refuse(400, {"message": "too many tokens", "code": "context_length_exceeded"})
SUMMARISING = Working(label="the conversation is long; summarising its older part")


def long(text: str, tokens: int) -> Answer:
    """An answer to a call that took so many tokens."""
    usage = {"prompt_tokens": tokens - 5, "completion_tokens": 5, "total_tokens": tokens, "cost_usd": 0.001}
    return Answer([Text(text)], usage=usage)


async def talk(stage: Stage, *texts: str) -> list[RunFinished]:
    """Say one thing after another."""
    ends = []
    for number, text in enumerate(texts, 1):
        await stage.gateway.deliver(run_request(text, f"r{number}"))
        ends.append(await stage.gateway.finished(f"r{number}"))
    return ends


def asked(stage: Stage, number: int) -> list[tuple[str, str]]:
    """Role and text of a request's messages, but for the system prompt."""
    return [(m["role"], m["content"]) for m in stage.models.requests[number]["messages"] if m["role"] != "system"]


async def test_a_long_session_is_summarised_before_the_next_call_and_goes_on(stage: OpenStage) -> None:
    async with stage(say("one"), long("two", 90_000), say("## Goal\nto count"), say("three")) as s:
        s.models.windows["test/model"] = 100_000
        *_, last = await talk(s, "first", "second", "third")

        assert last == RunFinished(
            outcome=RunOutcome.COMPLETED,
            usage=Usage(input_tokens=20, output_tokens=10, cost_usd=0.002, model_calls=2),
        )
        assert s.gateway.operations("r3") == [
            RunStarted(),
            SUMMARISING,
            Working(),
            Respond(text="three"),
            last,
        ]
        ((role, prompt),) = asked(s, 2)
        assert role == "user"
        assert prompt.startswith(INSTRUCTIONS)
        assert "[person] first\n\n[assistant] one\n\n[person] second" in prompt
        assert "third" not in prompt
        assert "tools" not in s.models.requests[2]
        assert asked(s, 3) == [
            ("user", "Summary of the conversation so far:\n## Goal\nto count"),
            ("user", "third"),
        ]


async def test_the_session_file_keeps_what_was_summarised(stage: OpenStage) -> None:
    async with stage(long("one", 90_000), say("in short"), say("two")) as s:
        s.models.windows["test/model"] = 100_000
        await talk(s, "first", "second")
        entries = await recorded_entries(s.office)
        assert [entry.type for entry in entries] == ["message"] * 3 + ["compaction", "message"]
        raw = entries[3].raw
        assert (raw["summary"], raw["firstKeptEntryId"], raw["tokensBefore"]) == ("in short", entries[2].id, 90_002)


async def test_an_overflow_compacts_once_and_asks_again(stage: OpenStage) -> None:
    async with stage(say("one"), TOO_LONG, say("in short"), say("two")) as s:
        _, last = await talk(s, "first", "second")
        assert last.outcome is RunOutcome.COMPLETED
        assert asked(s, 3) == [("user", "Summary of the conversation so far:\nin short"), ("user", "second")]


async def test_a_second_overflow_ends_the_run_with_the_next_step(stage: OpenStage) -> None:
    async with stage(say("one"), TOO_LONG, say("in short"), TOO_LONG) as s:
        _, last = await talk(s, "first", "second")
        assert last.outcome is RunOutcome.FAILED
        assert len(s.models.requests) == 4
        (told,) = [o for o in s.gateway.operations("r2") if isinstance(o, Diagnostic)]
        assert told.text == (
            "This conversation has become too long for test/model: too many tokens. Start a fresh session with /new."
        )


async def test_an_empty_summary_is_an_error_and_nothing_is_lost(stage: OpenStage) -> None:
    async with stage(long("one", 90_000), say(" ")) as s:
        s.models.windows["test/model"] = 100_000
        _, last = await talk(s, "first", "second")
        assert last.outcome is RunOutcome.FAILED
        assert not any(isinstance(m, CompactionSummaryMessage) for m in await s.session())


async def test_a_summary_carries_an_earlier_one_on(stage: OpenStage) -> None:
    script = (long("one", 90_000), say("first summary"), long("two", 90_000), say("second summary"), say("three"))
    async with stage(*script) as s:
        s.models.windows["test/model"] = 100_000
        await talk(s, "first", "second", "third")
        ((_, prompt),) = asked(s, 3)
        assert "<summary-so-far>\nfirst summary\n</summary-so-far>" in prompt
        assert "[person] first" not in prompt
        assert asked(s, 4)[0] == ("user", "Summary of the conversation so far:\nsecond summary")


async def test_a_summary_counts_against_the_budget(stage: OpenStage) -> None:
    async with stage(long("one", 90_000), long("in short", 100), say("two")) as s:
        s.models.windows["test/model"] = 100_000
        _, last = await talk(s, "first", "second")
        assert last.usage.model_calls == 2


async def test_a_short_session_never_asks_for_the_window(stage: OpenStage) -> None:
    async with stage(say("one")) as s:
        await talk(s, "first")
        assert [json.dumps(request["model"]) for request in s.models.requests] == ['"test/model"']

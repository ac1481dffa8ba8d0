"""A turn as a stream."""

from typing import Any

import pytest
from pydantic_core import from_json

from mikan_gateway.models.chat import ChatRequest, Chunk
from mikan_gateway.models.exceptions import UpstreamCut
from mikan_gateway.models.scripted.provider import MAX_TEXT_CHUNKS, ScriptedProvider, pieces
from mikan_gateway.models.scripted.script import Script
from models_service import tools


class Slept(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def provider(*steps: dict[str, Any], slept: Slept | None = None) -> ScriptedProvider:
    script = Script.model_validate({"rules": [{"match": "", "steps": list(steps)}]})
    return ScriptedProvider({"s": script}, clock=lambda: 7.9, sleep=Slept() if slept is None else slept)


ASK = ChatRequest("scripted", "s", [{"role": "user", "content": "x"}], options={"tools": tools("bash", "read")})


async def deltas(played: ScriptedProvider) -> list[dict[str, Any]]:
    return [from_json(chunk.data)["choices"][0]["delta"] async for chunk in played.stream(ASK)]


async def test_arguments_of_parallel_calls_come_in_pieces() -> None:
    command = {"command": "echo a long command line"}
    step = {"calls": [{"tool": "bash", "arguments": command}, {"tool": "read", "arguments": {"path": "p"}}]}

    said = await deltas(provider(step))

    assert said[0] == {"role": "assistant", "content": ""}
    pieces = [delta["tool_calls"][0] for delta in said[1:-1]]
    assert [piece["function"]["arguments"] for piece in pieces] == [
        "",
        '{"command":"echo a long ',
        'command line"}',
        "",
        '{"path":"p"}',
    ]
    assert [piece["index"] for piece in pieces] == [0, 0, 0, 1, 1]
    assert pieces[0]["id"] == pieces[3]["id"].removesuffix("1") + "0"
    assert said[-1] == {}


async def test_the_envelope_is_that_of_openai() -> None:
    first = await anext(provider({"say": "x"}).stream(ASK))

    said = from_json(first.data)
    assert said.pop("id").startswith("chatcmpl-scripted-")
    assert said == {
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "s",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
    }


async def test_each_chunk_waits_its_delay() -> None:
    slept = Slept()
    await deltas(provider({"say": "one two", "delayMs": 250}, slept=slept))

    assert slept == [0.25, 0.25, 0.25]


async def test_tokens_come_one_in_a_chunk() -> None:
    said = await deltas(provider({"tokens": 3}))

    assert [delta.get("content") for delta in said] == ["", "1 ", "2 ", "3 ", None]


async def test_a_cut_comes_after_what_was_said() -> None:
    got: list[Chunk] = []

    async def play() -> None:
        async for chunk in provider({"say": "so far", "cut": True}).stream(ASK):
            got.append(chunk)

    with pytest.raises(UpstreamCut):
        await play()

    assert len(got) == 3
    assert not any(chunk.finished for chunk in got)


@pytest.mark.parametrize("text", ["", " ", "one", "  two  words \n", "word " * 5000])
def test_pieces_are_the_text_and_never_too_many(text: str) -> None:
    cut = list(pieces(text))

    assert "".join(cut) == text
    assert len(cut) <= MAX_TEXT_CHUNKS

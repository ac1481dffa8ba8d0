import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mikan_agent.exceptions import ModelUnreachable
from mikan_agent.harness import sse
from mikan_agent.harness.sse import data_events

STREAM = ": hello\n\nevent: x\ndata: one\n\ndata:two\r\ndata: lines\r\n\r\nid: 3\n\ndata: ü€😀\n\ndata: torn".encode()


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def events(*chunks: bytes) -> list[str]:
    return [event async for event in data_events(pieces(*chunks))]


async def test_only_whole_events_with_data_are_told() -> None:
    assert await events(STREAM) == ["one", "two\nlines", "ü€😀"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
async def test_it_does_not_matter_where_the_pieces_end(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    assert await events(*chunks) == ["one", "two\nlines", "ü€😀"]


async def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 100)
    with pytest.raises(ModelUnreachable, match="beyond any measure"):
        await events(b"data: ", b"x" * 60, b"x" * 60)


async def test_what_is_no_utf_8_is_refused() -> None:
    with pytest.raises(ModelUnreachable, match="not UTF-8"):
        await events(b"data: \xff\n\n")

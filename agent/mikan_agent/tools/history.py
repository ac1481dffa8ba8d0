"""``history``: what was said and done in this conversation, however long ago and in whichever session."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from pydantic import Field

from mikan_agent.exceptions import ToolError
from mikan_agent.records.exceptions import StorageError
from mikan_agent.records.lines import iso
from mikan_agent.sessions.search import OWN_TOOL, Hit, Hits, Search, Source
from mikan_agent.tools.tool import HostTool, ToolArguments, ToolOutput, one_line, text_output

MAX_SHOWN = 400
"""Characters of one hit."""
_BEFORE_HIT = 120


class Searcher(Protocol):
    """Looks through an office's records."""

    def find(self, search: Search, stopped: threading.Event) -> Hits:
        """Search; blocks.

        Raises:
            StorageError: the records cannot be read.
        """


class HistoryArguments(ToolArguments):
    """Arguments of ``history``."""

    query: str = Field(
        default="", max_length=200, description="Words that must all occur, in any case; empty: whatever came last"
    )
    source: Source = Field(
        default="all", description="chat: messages of the conversation; sessions: your own work, with tool calls"
    )
    session: str = Field(
        default="", max_length=200, description="Look only into this session file, as a result names it"
    )
    before: datetime | None = Field(default=None, description="Only what is older than this time (ISO 8601)")
    limit: int = Field(default=20, ge=1, le=50, description="How many results")


class HistoryTool(HostTool):
    """Searches."""

    name = OWN_TOOL
    description = (
        "Search what was said and done in this conversation: all its messages, and every session of yours with its "
        "tool calls, earlier ones and threads included. Results are excerpts, the newest first."
    )
    arguments = HistoryArguments
    parallel = True

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def label(self, arguments: HistoryArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or f"history {arguments.query}".strip())

    async def answer(self, arguments: HistoryArguments) -> ToolOutput:
        """Search."""
        before = arguments.before
        words = tuple(arguments.query.casefold().split())
        search = Search(
            words=words,
            source=arguments.source,
            session=arguments.session,
            before=before.replace(tzinfo=UTC) if before is not None and before.tzinfo is None else before,
            limit=arguments.limit,
        )
        return text_output(_told(await self._find(search), search))

    async def _find(self, search: Search) -> Hits:
        stopped = threading.Event()
        try:
            return await asyncio.to_thread(self._searcher.find, search, stopped)
        except StorageError as error:
            raise ToolError(f"The history cannot be read: {error}.") from None
        finally:
            stopped.set()


def _told(found: Hits, search: Search) -> str:
    lines = [_line(hit, search.words) for hit in found.hits]
    if not lines:
        lines.append("Nothing was found.")
    if len(found.hits) == search.limit:
        lines.append(f"[There may be older ones: before={iso(found.hits[-1].time)}]")
    if not found.complete:
        lines.append("[The search took too long and did not look at everything. Name a session, or a time before.]")
    return "\n".join(lines)


def _line(hit: Hit, words: Sequence[str]) -> str:
    return f"{iso(hit.time)} {hit.where}, {one_line(hit.who, 80)}: {_excerpt(hit.text, words)}"


def _excerpt(text: str, words: Sequence[str]) -> str:
    """The part of a text where the first of the words is."""
    text = " ".join(text.split())
    folded = text.casefold()
    first = min((place for word in words if (place := folded.find(word)) >= 0), default=0)
    start = max(0, first - _BEFORE_HIT)
    end = start + MAX_SHOWN
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"

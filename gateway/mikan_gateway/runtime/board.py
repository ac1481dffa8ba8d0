"""What is unfinished, office by office: queues of sessions and the agent at hand. Pure memory, no I/O."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from mikan_api.base import OpenModel
from mikan_api.identity import OfficeKey
from mikan_api.messaging import LogEntry
from mikan_api.session_keys import SessionKey
from mikan_api.tokens import OfficeClaims
from mikan_gateway.ports import RunRecord
from mikan_gateway.storage.incarnations import Incarnation
from mikan_gateway.storage.runs import StoredRun

RECENT_ENTRIES = 64


class AgentLink(Protocol):
    """A connection to an office's agent."""

    @property
    def claims(self) -> OfficeClaims: ...

    @property
    def incarnation(self) -> str: ...

    def wake(self) -> None:
        """There may be something to deliver."""
        ...

    def send(self, frame: OpenModel) -> None:
        """Send a frame in turn; never blocks."""
        ...

    def close(self, code: int, reason: str) -> None: ...


@dataclass(eq=False, slots=True)
class Item:
    """A run, or the reset of a session, that is not over."""

    run: StoredRun
    since: float
    """When it came to wait, by the monotonic clock."""
    delivered_to: str | None = None
    """Incarnation that has been given it."""
    refused_by: str | None = None
    """Incarnation that handed it back."""
    told: str = ""
    """What people have been told about its waiting."""
    ending: bool = False
    """Its end is being stored: it is given to nobody any more."""

    @property
    def record(self) -> RunRecord:
        return self.run.record

    @property
    def is_run(self) -> bool:
        return self.run.kind in {"run", "scheduled"}

    @property
    def under_way(self) -> bool:
        """An agent has it, or had it when we last knew."""
        return self.delivered_to is not None or self.run.started_by is not None

    def start(self, incarnation: str) -> None:
        self.run = replace(self.run, started_by=incarnation)

    def stop(self) -> None:
        self.run = replace(self.run, stop_requested=True)


@dataclass(eq=False, slots=True)
class OfficeWork:
    """One office's sessions, each a queue whose head alone may be under way."""

    key: OfficeKey
    sessions: dict[SessionKey, deque[Item]] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)
    link: AgentLink | None = None
    agent: Incarnation | None = None
    lost_since: float = 0.0
    """When the link went, by the monotonic clock."""
    operation_number: int = 0
    last_number: int = 0
    written: int = 0
    """The last log entry that the connected agent is known to have on disk."""
    recent: deque[LogEntry] = field(default_factory=lambda: deque(maxlen=RECENT_ENTRIES))
    trouble: str = ""
    """Why the Office cannot be had just now."""

    def add(self, item: Item) -> int:
        """Queue behind the session's others; how many runs come first."""
        queue = self.sessions.setdefault(item.run.session_key, deque())
        ahead = sum(1 for other in queue if other.is_run)
        queue.append(item)
        self.items[item.run.run_id] = item
        return ahead

    def remove(self, run_id: str) -> Item | None:
        item = self.items.pop(run_id, None)
        if item is not None:
            queue = self.sessions[item.run.session_key]
            queue.remove(item)
            if not queue:
                del self.sessions[item.run.session_key]
        return item

    def heads(self) -> Iterator[Item]:
        """The first of each session, oldest first."""
        return iter(sorted((queue[0] for queue in self.sessions.values()), key=lambda item: item.run.position))

    def head(self, session_key: SessionKey) -> Item | None:
        """The first run of a session."""
        return next((item for item in self.sessions.get(session_key, ()) if item.is_run), None)

    def queued(self) -> Iterator[tuple[Item, int]]:
        """The runs that wait behind others of their session, each with how many."""
        for queue in self.sessions.values():
            behind = [item for item in queue if item.is_run]
            yield from ((item, ahead) for ahead, item in enumerate(behind) if ahead)

    def running(self) -> list[Item]:
        """The first run of each session, oldest first."""
        found = (self.head(session_key) for session_key in self.sessions)
        return sorted((item for item in found if item is not None), key=lambda item: item.run.position)

    def unbegun(self) -> list[Item]:
        """The runs at the head of a session that no agent has in its session yet, oldest first."""
        return [item for item in self.running() if item.run.started_by is None]

    @property
    def busy(self) -> int:
        """Sessions with a run under way or queued."""
        return len(self.running())

    def log(self, entry: LogEntry) -> None:
        self.last_number = max(self.last_number, entry.number)
        self.recent.append(entry)

    def recent_after(self, number: int) -> tuple[LogEntry, ...] | None:
        """Entries that follow ``number``, if all of them are at hand."""
        if number >= self.last_number:
            return ()
        found = tuple(entry for entry in self.recent if entry.number > number)
        complete = [entry.number for entry in found] == list(range(number + 1, self.last_number + 1))
        return found if complete else None

    def wake(self) -> None:
        if self.link is not None:
            self.link.wake()


class WorkBoard:
    """Every office with something unfinished, or an agent connected."""

    def __init__(self) -> None:
        self._offices: dict[OfficeKey, OfficeWork] = {}
        self.changed = asyncio.Event()
        """Set whenever something ended or began."""

    def __iter__(self) -> Iterator[OfficeWork]:
        return iter(list(self._offices.values()))

    def __len__(self) -> int:
        return len(self._offices)

    def office(self, key: OfficeKey) -> OfficeWork:
        """The work of an office, begun if there is none."""
        work = self._offices.get(key)
        if work is None:
            work = self._offices[key] = OfficeWork(key)
        return work

    def find(self, key: OfficeKey) -> OfficeWork | None:
        return self._offices.get(key)

    def load(self, runs: Iterable[StoredRun], agents: Iterable[Incarnation], now: float) -> None:
        """Fill an empty board from the database."""
        for run in runs:
            self.office(run.office).add(Item(run, now))
        for agent in agents:
            work = self.find(agent.office)
            if work is not None:
                work.agent, work.lost_since = agent, now

    def tidy(self, work: OfficeWork) -> None:
        """Tell of a change, and forget an office that has nothing more."""
        self.changed.set()
        if not work.items and work.link is None:
            self._offices.pop(work.key, None)

    def under_way(self) -> int:
        """Runs that an agent has."""
        return sum(1 for work in self for item in work.items.values() if item.is_run and item.under_way)

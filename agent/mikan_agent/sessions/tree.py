"""A session's entries and how they hang together.

Values in memory only; `mikan_agent.sessions.journal` has the file. An entry stays the parsed JSON object it was read
as: a file of 100,000 entries opens without building 100,000 models, and nothing unknown is lost.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NewType

from mikan_agent.messages import Message, parse_message
from mikan_agent.records.lines import Damaged
from mikan_agent.sessions.exceptions import InvalidHeader, UnknownEntry

EntryId = NewType("EntryId", str)
VERSION = 3


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a session file."""

    id: str
    timestamp: str
    cwd: str
    version: int = VERSION
    parent_session: str | None = None
    """Path of the session file that this one came from."""

    @classmethod
    def parse(cls, raw: Mapping[str, object]) -> "Header":
        """Read a header.

        Raises:
            InvalidHeader: it is none, lacks an id, or is of a newer version.
        """
        if raw.get("type") != "session":
            raise InvalidHeader("the first line is not a session header")
        identity, version = raw.get("id"), raw.get("version", 1)
        if not isinstance(identity, str) or not identity:
            raise InvalidHeader("the session header has no id")
        if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= VERSION:
            raise InvalidHeader(f"session version {version!r} cannot be read; known: 1 to {VERSION}")
        parent = text_field(raw, "parentSession")
        return cls(identity, text_field(raw, "timestamp"), text_field(raw, "cwd"), version, parent or None)

    def to_json(self) -> dict[str, object]:
        """The form on disk."""
        line: dict[str, object] = {
            "type": "session",
            "version": self.version,
            "id": self.id,
            "timestamp": self.timestamp,
            "cwd": self.cwd,
        }
        return line | ({"parentSession": self.parent_session} if self.parent_session else {})


class Entry:
    """One node of the tree. ``raw`` is the whole object on disk and is never changed."""

    __slots__ = ("_message", "id", "parent", "raw")

    def __init__(self, raw: Mapping[str, object], parent: "Entry | None", message: Message | None = None) -> None:
        self.id = EntryId(text_field(raw, "id"))
        self.raw = raw
        self.parent = parent
        self._message = message

    @property
    def type(self) -> str:
        """``message``, ``compaction``, ...; types of newer writers included."""
        return text_field(self.raw, "type")

    @property
    def timestamp(self) -> str:
        """ISO 8601, as written."""
        return text_field(self.raw, "timestamp")

    @property
    def message(self) -> Message | None:
        """The typed message of an entry of type ``message``; built when first asked for."""
        if self._message is None and self.type == "message":
            raw = self.raw.get("message")
            self._message = parse_message(raw) if isinstance(raw, Mapping) else None
        return self._message

    def path(self) -> "list[Entry]":
        """From the root to this entry."""
        entries = list(self._ancestry())
        entries.reverse()
        return entries

    def _ancestry(self) -> "Iterator[Entry]":
        entry: Entry | None = self
        while entry is not None:
            yield entry
            entry = entry.parent


class SessionTree:
    """All entries in file order, and the leaf: where the next one will hang.

    Parents are looked up among earlier entries only, so there is no cycle whatever a file says.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self.leaf: Entry | None = None

    @property
    def entries(self) -> Sequence[Entry]:
        """Every entry in file order."""
        return self._entries

    def get(self, entry_id: str) -> Entry:
        """The entry with this id.

        Raises:
            UnknownEntry: there is none.
        """
        try:
            return self._by_id[entry_id]
        except KeyError:
            raise UnknownEntry(f"no entry {entry_id[:80]!r} in this session") from None

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._by_id

    def children(self, entry_id: str | None) -> list[Entry]:
        """Entries that hang directly on this one; ``None``: the roots."""
        parent = None if entry_id is None else self.get(entry_id)
        return [entry for entry in self._entries if entry.parent is parent]

    def add(self, raw: Mapping[str, object], message: Message | None = None) -> bool:
        """Take in the next entry of the file and make it the leaf.

        Returns:
            Whether its parent was found. An orphan, whose parent was on a damaged line, hangs on the entry before it,
            so that damage in the middle doesn't cut off the conversation before it.

        Raises:
            Damaged: it has no type or no id, or its id is taken.
        """
        identity, parent_id = raw.get("id"), raw.get("parentId")
        if not isinstance(raw.get("type"), str):
            raise Damaged("an entry without a type")
        if not isinstance(identity, str) or not identity:
            raise Damaged("an entry without an id")
        if identity in self._by_id:
            raise Damaged(f"a second entry with id {identity[:80]!r}")
        found = self._by_id.get(parent_id) if isinstance(parent_id, str) else None
        orphan = parent_id is not None and found is None
        entry = Entry(raw, self._entries[-1] if orphan and self._entries else found, message)
        self._entries.append(entry)
        self._by_id[identity] = self.leaf = entry
        return not orphan


def text_field(raw: Mapping[str, object], name: str, default: str = "") -> str:
    """A field that should be text; ``default`` where a writer left it out or wrote something else."""
    value = raw.get(name)
    return value if isinstance(value, str) else default


def milliseconds(timestamp: str) -> int:
    """Unix milliseconds of a time in a session file; 0 where it cannot be read."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0

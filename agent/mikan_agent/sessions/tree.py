"""A session's entries and how they hang together.

Of each entry only its place is held: where its line is in the file, what it hangs on, what type it is. That is some 200
bytes an entry, whatever the entry says; the line itself is read again when somebody looks. So 100,000 entries open in a
fraction of the time and the memory that parsing them would take, and nothing unknown is lost.
`mikan_agent.sessions.journal` has the file.
"""

import logging
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import NewType, TypeAlias

from mikan_agent.messages import Message, parse_message
from mikan_agent.records.lines import Damaged, decode
from mikan_agent.sessions.exceptions import UnknownEntry
from mikan_agent.sessions.form import Mark, Stub, mark_of, text_field

EntryId = NewType("EntryId", str)
ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Reads a part of a session's file: offset, length."""
_NOWHERE = -1
_RECENT = 8
_RECENT_LENGTH = 64 * 1024
"""Bytes of the lines of messages that are kept."""

logger = logging.getLogger(__name__)


class Entry:
    """One node of the tree: a handle that is made when asked for. Two are equal if they are of the same place."""

    __slots__ = ("_raw", "_tree", "position")

    def __init__(self, tree: "SessionTree", position: int) -> None:
        self._tree = tree
        self.position = position
        """Its number in the file, from 0."""
        self._raw: Mapping[str, object] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self._tree is other._tree and self.position == other.position

    def __hash__(self) -> int:
        return hash(self.position)

    def __repr__(self) -> str:
        return f"<Entry {self.type} {self.id}>"

    @property
    def id(self) -> EntryId:
        """Unique in the file."""
        return EntryId(self._tree.id_at(self.position))

    @property
    def type(self) -> str:
        """``message``, ``compaction``, ...; types of newer writers included."""
        return self._tree.type_at(self.position)

    @property
    def parent(self) -> "Entry | None":
        """What it hangs on; ``None``: it is a root."""
        return self._tree.parent_at(self.position)

    @property
    def raw(self) -> Mapping[str, object]:
        """The whole object on disk, never changed; read when first asked for."""
        if self._raw is None:
            try:
                self._raw = decode(self._tree.line_at(self.position))
            except Damaged as damage:  # legal JSON beyond what this process can hold, such as a number of 5,000 digits
                logger.warning("session entry cannot be read", extra={"entry": self.id, "reason": str(damage)})
                self._raw = {"type": self.type, "id": self.id}
        return self._raw

    @property
    def timestamp(self) -> str:
        """ISO 8601, as written."""
        return text_field(self.raw, "timestamp")

    @property
    def mark(self) -> Mark | None:
        """What we noted on it."""
        return mark_of(self.raw)

    @property
    def message(self) -> Message | None:
        """The typed message of an entry of type ``message``."""
        if self.type != "message":
            return None
        if (recent := self._tree.recent_at(self.position)) is not None:
            return recent
        raw = self.raw.get("message")
        return parse_message(raw) if isinstance(raw, Mapping) else None

    def ancestry(self) -> Iterator["Entry"]:
        """This entry, then what it hangs on, to the root."""
        entry: Entry | None = self
        while entry is not None:
            yield entry
            entry = entry.parent

    def path(self) -> list["Entry"]:
        """From the root to this entry."""
        return list(self.ancestry())[::-1]

    def since(self, entry_id: str) -> list["Entry"]:
        """From the entry with this id to this one, both included; empty if this one does not hang on it."""
        first, found = self._tree.position_of(entry_id), list[Entry]()
        for entry in self.ancestry():
            if first is None or entry.position < first:  # what an entry hangs on is always before it
                break
            found.append(entry)
            if entry.position == first:
                return found[::-1]
        return []

    @property
    def last_compaction(self) -> "Entry | None":
        """The compaction that counts here: this entry, or the nearest that it hangs on."""
        return self._tree.compaction_at(self.position)

    @property
    def last_thinking_level(self) -> "Entry | None":
        """The choice of a thinking level that counts here."""
        return self._tree.thinking_level_at(self.position)

    @property
    def last_mark(self) -> Mark | None:
        """The mark that counts here: of this entry, or of the nearest that it hangs on."""
        return self._tree.mark_at(self.position)


class SessionTree:
    """All entries in file order, and the leaf: where the next one will hang.

    Parents are looked up among earlier entries only, so there is no cycle whatever a file says.
    """

    def __init__(self, read: ReadAt) -> None:
        self._read = read
        self._positions: dict[str, int] = {}
        self._ids: list[str] = []
        self._types: list[str] = []
        self._type_codes: dict[str, int] = {}
        # One number for each entry: offset and length of its line, code of its type, position of its parent, and of the
        # nearest entries above it, or itself, that every look at the session asks for.
        self._offsets, self._lengths = array("Q"), array("Q")
        self._codes = array("I")
        self._parents, self._compactions, self._levels, self._marks = (array("i") for _ in range(4))
        self._leaf = _NOWHERE
        self._recent: dict[int, Message] = {}
        """What was written last, by position: it is asked for at once, and need not be read again for that."""

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._positions

    @property
    def entries(self) -> list[Entry]:
        """Every entry in file order."""
        return [Entry(self, position) for position in range(len(self))]

    @property
    def leaf(self) -> Entry | None:
        """Where the next entry will hang; ``None``: it will be a root."""
        return self._entry(self._leaf)

    def branch(self, entry_id: str | None) -> None:
        """Make another entry the leaf.

        Raises:
            UnknownEntry: there is no such entry.
        """
        self._leaf = _NOWHERE if entry_id is None else self.get(entry_id).position

    def get(self, entry_id: str) -> Entry:
        """The entry with this id.

        Raises:
            UnknownEntry: there is none.
        """
        position = self.position_of(entry_id)
        if position is None:
            raise UnknownEntry(f"no entry {entry_id[:80]!r} in this session")
        return Entry(self, position)

    def children(self, entry_id: str | None) -> list[Entry]:
        """Entries that hang directly on this one; ``None``: the roots."""
        parent = _NOWHERE if entry_id is None else self.get(entry_id).position
        return [Entry(self, position) for position, above in enumerate(self._parents) if above == parent]

    def first_of_type(self, kind: str) -> Entry | None:
        """The first entry of a type in file order."""
        code = self._type_codes.get(kind)
        return None if code is None else Entry(self, self._codes.index(code))

    def of_type(self, kind: str) -> list[Entry]:
        """Entries of a type, in file order."""
        code = self._type_codes.get(kind)
        positions = () if code is None else (p for p, other in enumerate(self._codes) if other == code)
        return [Entry(self, position) for position in positions]

    def add(self, stub: Stub, offset: int, length: int, message: Message | None = None) -> bool:
        """Take in the next entry of the file, and where its line is; it becomes the leaf.

        Args:
            stub: what places it.
            offset: where its line begins.
            length: of its line.
            message: what it says, if that is known.

        Returns:
            Whether its parent was found. An orphan, whose parent was on a damaged line, hangs on the entry before it,
            so that damage in the middle doesn't cut off the conversation before it.

        Raises:
            Damaged: its id is taken.
        """
        position = len(self._ids)
        if self._positions.setdefault(stub.id, position) != position:
            raise Damaged(f"a second entry with id {stub.id[:80]!r}")
        parent = _NOWHERE if stub.parent_id is None else self._positions.get(stub.parent_id, position)
        orphan = parent == position
        parent = position - 1 if orphan else parent
        self._ids.append(stub.id)
        self._offsets.append(offset)
        self._lengths.append(length)
        self._codes.append(self._code(stub.type))
        self._parents.append(parent)
        for nearest, here in (
            (self._compactions, stub.type == "compaction"),
            (self._levels, stub.type == "thinking_level_change"),
            (self._marks, stub.mark is not None),
        ):
            nearest.append(position if here else _NOWHERE if parent == _NOWHERE else nearest[parent])
        self._leaf = position
        self._recent.pop(position - _RECENT, None)
        if message is not None and length <= _RECENT_LENGTH:
            self._recent[position] = message
        return not orphan

    def position_of(self, entry_id: str) -> int | None:
        """Where the entry with this id is; ``None``: there is none."""
        return self._positions.get(entry_id)

    def id_at(self, position: int) -> str:
        """Id of the entry at a position."""
        return self._ids[position]

    def type_at(self, position: int) -> str:
        """Type of the entry at a position."""
        return self._types[self._codes[position]]

    def line_at(self, position: int) -> bytes:
        """The line of the entry at a position, as it is in the file."""
        return self._read(self._offsets[position], self._lengths[position])

    def parent_at(self, position: int) -> Entry | None:
        """What the entry at a position hangs on."""
        return self._entry(self._parents[position])

    def compaction_at(self, position: int) -> Entry | None:
        """The compaction that counts at a position."""
        return self._entry(self._compactions[position])

    def thinking_level_at(self, position: int) -> Entry | None:
        """The choice of a thinking level that counts at a position."""
        return self._entry(self._levels[position])

    def mark_at(self, position: int) -> Mark | None:
        """The mark that counts at a position."""
        marked = self._entry(self._marks[position])
        return None if marked is None else marked.mark

    def recent_at(self, position: int) -> Message | None:
        """The message at a position, if it is still at hand."""
        return self._recent.get(position)

    def _entry(self, position: int) -> Entry | None:
        return None if position == _NOWHERE else Entry(self, position)

    def _code(self, kind: str) -> int:
        code = self._type_codes.get(kind)
        if code is None:
            code = self._type_codes[kind] = len(self._types)
            self._types.append(kind)
        return code

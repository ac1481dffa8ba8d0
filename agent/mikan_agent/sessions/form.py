"""What the lines of a session file hold, as far as anything but a reader of messages needs it.

The form: ``packages/coding-agent/docs/session.md`` of badlogic/pi-mono, sections "SessionHeader" and "Entry Base".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from mikan_agent.records.lines import Damaged, decode
from mikan_agent.sessions.exceptions import InvalidHeader

VERSION = 3


class Mark(msgspec.Struct, frozen=True, gc=False):
    """What we note on entries of ours, beside what the form asks for: one line holds both, so a crash parts them never.

    On disk ``"mikan": {"run": ..., "log": ...}``; other writers of the form keep it.
    """

    run: str = ""
    """The run whose message this is; empty: it is no run's."""
    log: int = 0
    """The session knows the platform log up to this number."""
    event: bool = False
    """The run is a scheduled event's: its message is not in the log."""

    @property
    def of_message(self) -> bool:
        """Whether it is on a message that the log has as well."""
        return bool(self.run and self.log and not self.event)

    def to_json(self) -> dict[str, object]:
        """The form on disk."""
        form: dict[str, object] = {"run": self.run} if self.run else {}
        form["log"] = self.log
        return form | ({"event": True} if self.event else {})


def mark_of(raw: Mapping[str, object]) -> Mark | None:
    """The mark of an entry or a header; ``None`` where there is none, or something else in its place."""
    value = raw.get("mikan")
    if not isinstance(value, Mapping):
        return None
    log = value.get("log")
    if not isinstance(log, int) or isinstance(log, bool) or log < 0:
        log = 0
    return Mark(text_field(value, "run"), log, value.get("event") is True)


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a session file."""

    id: str
    timestamp: str
    cwd: str
    version: int = VERSION
    parent_session: str | None = None
    """Path of the session file that this one came from."""
    log: int | None = None
    """The session begins afresh after this entry of the platform log; ``None``: it goes on from what came before it."""

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
        parent, mark = text_field(raw, "parentSession"), mark_of(raw)
        return cls(
            identity,
            text_field(raw, "timestamp"),
            text_field(raw, "cwd"),
            version,
            parent or None,
            None if mark is None else mark.log,
        )

    def to_json(self) -> dict[str, object]:
        """The form on disk."""
        line: dict[str, object] = {
            "type": "session",
            "version": self.version,
            "id": self.id,
            "timestamp": self.timestamp,
            "cwd": self.cwd,
        }
        parent = {"parentSession": self.parent_session} if self.parent_session else {}
        mark = {} if self.log is None else {"mikan": Mark(log=self.log).to_json()}
        return line | parent | mark


class Stub(msgspec.Struct, frozen=True, gc=False):
    """What places an entry in the tree."""

    type: str
    id: str
    parent_id: str | None = msgspec.field(name="parentId", default=None)
    mark: Mark | None = msgspec.field(name="mikan", default=None)


_stubs = msgspec.json.Decoder(Stub)


def read_stub(content: bytes) -> Stub:
    """Check that a line is a JSON object, and say where it belongs.

    Raises:
        Damaged: it is no JSON object, or has no type or no id.
    """
    try:
        stub = _stubs.decode(content)
        if not content.isascii():
            content.decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        # The slow and exact way: lone surrogates are legal JSON, and a damaged line deserves its reason.
        return stub_of(decode(content))
    if not stub.id:
        raise Damaged("an entry without an id")
    return stub


def stub_of(raw: Mapping[str, object]) -> Stub:
    """Where an entry belongs.

    Raises:
        Damaged: it has no type or no id.
    """
    kind, identity, parent = raw.get("type"), raw.get("id"), raw.get("parentId")
    if not isinstance(kind, str):
        raise Damaged("an entry without a type")
    if not isinstance(identity, str) or not identity:
        raise Damaged("an entry without an id")
    return Stub(kind, identity, parent if parent is None or isinstance(parent, str) else "", mark_of(raw))


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

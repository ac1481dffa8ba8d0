"""One open session: append to it, branch in it, and read what a model should see.

Appends are serial and survive cancellation: once started, an append reaches the file and the tree or neither. A user's
message is durable (fsync) when `append_message` returns, so a run that counts as started is never forgotten; other
entries are in the file at once and durable with the next user message, `sync` or `close`.
"""

import asyncio
import secrets
import threading
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import TracebackType
from typing import Protocol, Self

from mikan_agent.clock import Clock
from mikan_agent.messages import Content, Message
from mikan_agent.pictures import PictureRoom
from mikan_agent.records.lines import encode, iso
from mikan_agent.sessions.context import SessionContext, build_context, lost_result, message_of, missing_results
from mikan_agent.sessions.form import Header, Mark, Stub, text_field
from mikan_agent.sessions.journal import Loaded, Problem
from mikan_agent.sessions.tree import Entry, EntryId
from mikan_api.kill_points import Step, around


class LineFile(Protocol):
    """What a session is written to (`mikan_agent.records.append_file.AppendFile`, or memory)."""

    @property
    def name(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    def append(self, lines: bytes, durable: bool) -> int: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Session:
    """An open session file. Use as an async context manager, or `close` it."""

    def __init__(self, file: LineFile, loaded: Loaded, path: PurePosixPath, clock: Clock) -> None:
        self._file = file
        self._tree = loaded.tree
        self._clock = clock
        self._writing = threading.Lock()
        self.header: Header = loaded.header
        self.problems: Sequence[Problem] = loaded.problems
        """What was wrong with the file when it was opened; each is logged already."""
        self.path = path
        """The real path of the file, for `Header.parent_session` and for people."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def file_name(self) -> str:
        """Name in the sessions directory."""
        return self._file.name

    @property
    def entries(self) -> Sequence[Entry]:
        """Every entry of every branch, in file order."""
        return self._tree.entries

    @property
    def is_empty(self) -> bool:
        """Nothing is said on this branch."""
        return self.leaf is None or all(message_of(entry) is None for entry in self.leaf.ancestry())

    @property
    def leaf(self) -> Entry | None:
        """What the next entry will hang on; ``None``: it will be a root."""
        return self._tree.leaf

    @property
    def leaf_id(self) -> EntryId | None:
        """Where the next entry will hang; ``None``: at the root."""
        return self._tree.leaf.id if self._tree.leaf else None

    @property
    def name(self) -> str:
        """The display name that was set last."""
        infos = self._tree.of_type("session_info")
        return text_field(infos[-1].raw, "name") if infos else ""

    @property
    def last_mark(self) -> Mark | None:
        """What was noted last on this branch."""
        return self.leaf.last_mark if self.leaf else None

    @property
    def known_log(self) -> int | None:
        """Up to which entry this branch knows the platform log; ``None``: it has heard nothing of it yet."""
        return self.header.log if self.last_mark is None else self.last_mark.log

    @property
    def first_custom_message(self) -> Entry | None:
        """The first thing that was said to the model in an extension's, or this program's, own name."""
        return self._tree.first_of_type("custom_message")

    def get(self, entry_id: str) -> Entry:
        """The entry with this id.

        Raises:
            UnknownEntry: there is none.
        """
        return self._tree.get(entry_id)

    def branch_path(self) -> list[Entry]:
        """Entries from the root to the leaf."""
        return self._tree.leaf.path() if self._tree.leaf else []

    def labels(self) -> dict[str, str]:
        """Entry id -> label, of every entry that has one now."""
        labels: dict[str, str] = {}
        for entry in self._tree.of_type("label"):
            labels[text_field(entry.raw, "targetId")] = text_field(entry.raw, "label")
        return {target: label for target, label in labels.items() if label}

    def context(self) -> SessionContext:
        """What a model should see now, with the model and thinking level chosen last on this branch.

        Of pictures only the newest are there, `mikan_agent.pictures.KEPT` of them.
        """
        return build_context(self._tree.leaf, PictureRoom())

    def branch(self, entry_id: str | None) -> None:
        """Go back: the next entry hangs on ``entry_id`` (``None``: starts a new root). Nothing is lost, or written.

        Raises:
            UnknownEntry: there is no such entry.
        """
        self._tree.branch(entry_id)

    async def append_message(self, message: Message, mark: Mark | None = None) -> EntryId:
        """Add a message; one of a user is durable on return. ``mark``: what to note on its entry."""
        durable = message.role == "user"
        return await self._append("message", {"message": message.to_json()}, message, durable, mark)

    async def append_model_change(self, provider: str, model_id: str) -> EntryId:
        """Note that another model answers from here on."""
        return await self._append("model_change", {"provider": provider, "modelId": model_id})

    async def append_thinking_level_change(self, level: str) -> EntryId:
        """Note another thinking level from here on."""
        return await self._append("thinking_level_change", {"thinkingLevel": level})

    async def append_compaction(
        self, summary: str, first_kept_entry_id: str, tokens_before: int, details: object = None
    ) -> EntryId:
        """Let ``summary`` stand for everything before ``first_kept_entry_id``; durable on return.

        Raises:
            UnknownEntry: there is no such entry.
        """
        self._tree.get(first_kept_entry_id)
        fields = {"summary": summary, "firstKeptEntryId": first_kept_entry_id, "tokensBefore": tokens_before}
        return await self._append("compaction", fields | _if_given("details", details), durable=True)

    async def branch_with_summary(self, entry_id: str | None, summary: str, details: object = None) -> EntryId:
        """Go back to ``entry_id`` and leave a summary of the branch that is left."""
        left = self.leaf_id or "root"
        self.branch(entry_id)
        return await self._append(
            "branch_summary", {"fromId": left, "summary": summary} | _if_given("details", details)
        )

    def custom_data(self, custom_type: str) -> list[object]:
        """What was kept of this type on any branch, the oldest first."""
        entries = (e for e in self._tree.of_type("custom") if e.raw.get("customType") == custom_type)
        return [entry.raw.get("data") for entry in entries]

    async def append_custom(self, custom_type: str, data: object = None) -> EntryId:
        """Keep an extension's state; no model sees it."""
        return await self._append("custom", {"customType": custom_type} | _if_given("data", data))

    async def append_custom_message(
        self,
        custom_type: str,
        content: str | list[Content],
        display: bool = True,
        details: object = None,
        mark: Mark | None = None,
    ) -> EntryId:
        """Say something to the model in an extension's name. ``mark``: what to note on its entry."""
        said = content if isinstance(content, str) else [part.to_json() for part in content]
        fields: dict[str, object] = {"customType": custom_type, "content": said, "display": display}
        return await self._append("custom_message", fields | _if_given("details", details), mark=mark)

    async def append_label(self, target_id: str, label: str | None) -> EntryId:
        """Bookmark an entry, or take its bookmark away.

        Raises:
            UnknownEntry: there is no such entry.
        """
        self._tree.get(target_id)
        return await self._append("label", {"targetId": target_id} | _if_given("label", label))

    async def append_session_info(self, name: str) -> EntryId:
        """Set the display name."""
        return await self._append("session_info", {"name": name})

    async def repair(self) -> list[EntryId]:
        """Give every call of the last answer that has no result an error result; call it after a crash or an abort.

        Returns:
            The new entries, in the order of the calls; empty if nothing was missing.
        """
        now = int(self._clock.now().timestamp() * 1000)
        return [await self.append_message(lost_result(call, now)) for call in missing_results(self._tree.leaf)]

    async def sync(self) -> None:
        """Make everything appended so far durable; at the end of a run."""
        await asyncio.to_thread(self._locked_sync)

    async def close(self) -> None:
        """Make everything durable and let others open the file; a second call does nothing."""
        await asyncio.to_thread(self._locked_close)

    async def _append(
        self,
        kind: str,
        fields: Mapping[str, object],
        message: Message | None = None,
        durable: bool = False,
        mark: Mark | None = None,
    ) -> EntryId:
        return await asyncio.to_thread(self._append_now, kind, fields, message, durable, mark)

    def _append_now(
        self, kind: str, fields: Mapping[str, object], message: Message | None, durable: bool, mark: Mark | None
    ) -> EntryId:
        with self._writing:
            stub = Stub(kind, self._new_id(), self.leaf_id, mark)
            base = {"type": kind, "id": stub.id, "parentId": stub.parent_id, "timestamp": iso(self._clock.now())}
            line = encode(base | dict(fields) | ({} if mark is None else {"mikan": mark.to_json()}))
            with around(Step.SESSION_WRITE):
                offset = self._file.append(line, durable)
            self._tree.add(stub, offset, len(line), message)
            return EntryId(stub.id)

    def _new_id(self) -> str:
        """8 hex digits, as other writers of this form make them, and free."""
        while (entry_id := secrets.token_hex(4)) in self._tree:
            continue
        return entry_id

    def _locked_sync(self) -> None:
        with self._writing, around(Step.SESSION_SYNC):
            self._file.sync()

    def _locked_close(self) -> None:
        with self._writing:
            if not self._file.closed:
                try:
                    self._file.sync()
                finally:
                    self._file.close()


def _if_given(name: str, value: object) -> dict[str, object]:
    return {} if value is None else {name: value}

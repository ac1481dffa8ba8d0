"""Doubles for the gateway's edges: a platform and an outbox that note what they do."""

import asyncio
from collections.abc import AsyncIterable, Callable, Sequence
from pathlib import Path
from typing import Any

from gateway_doubles import FakeOffices, ManualClock
from mikan_api.identity import OfficeKey, Platform
from mikan_api.messaging import Attachment, ConversationEvent, ConversationMessage, MessagingInfo, TrustModel
from mikan_api.session_keys import SessionKey
from mikan_api.settings import Settings
from mikan_gateway.exceptions import PlatformRefused, StorageUnavailable
from mikan_gateway.offices.view import OfficeRecord
from mikan_gateway.ports import (
    Health,
    InboundMessage,
    Intake,
    OfficeView,
    OwnAnswer,
    StopOutcome,
    Submitted,
    Target,
)
from mikan_gateway.rendering.split import split_text
from mikan_gateway.storage.outgoing import Outgoing


class FixedSettings:
    """Settings that a test sets."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.current = settings or Settings()


class FakePlatform:
    """A platform whose messages a test looks at. Knows nonces again, as a good one does."""

    def __init__(self, limit: int = 120) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.messages: dict[str, str] = {}
        self.failures: list[Exception] = []
        self.news = asyncio.Event()
        self._nonces: dict[str, str] = {}
        self._limit = limit

    @property
    def platform(self) -> Platform:
        return Platform.CONSOLE

    @property
    def pace(self) -> float:
        return 1.0

    async def start(self, intake: Intake) -> None:
        return None

    async def stop_intake(self) -> None:
        return None

    async def stop(self) -> None:
        return None

    def health(self) -> Health:
        return Health(True)

    def info(self, trust_model: TrustModel, display_name: str) -> MessagingInfo:
        return MessagingInfo(platform=self.platform, trust_model=trust_model, display_name=display_name)

    async def post(self, target: Target, text: str, nonce: str, draft: bool = False) -> str:
        self._fail()
        if nonce in self._nonces:
            self._note("post-again", self._nonces[nonce])
            return self._nonces[nonce]
        message_id = self._nonces[nonce] = f"m{len(self._nonces) + 1}"
        self.messages[message_id] = text
        self._note("post", message_id, text)
        return message_id

    async def edit(self, target: Target, message_id: str, text: str, draft: bool = False) -> None:
        self._fail()
        if message_id not in self.messages:
            raise PlatformRefused("message gone")
        self.messages[message_id] = text
        self._note("draft" if draft else "edit", message_id, text)

    async def delete(self, target: Target, message_id: str) -> None:
        self._fail()
        self.messages.pop(message_id, None)
        self._note("delete", message_id)

    async def upload(self, target: Target, file: Path, name: str, title: str, nonce: str) -> str:
        self._fail()
        content = await asyncio.to_thread(file.read_text)
        self._note("upload", name, title, content)
        return f"u-{nonce}"

    async def set_working(self, target: Target, working: bool) -> None:
        self._note("working", working)

    def split(self, text: str) -> Sequence[str]:
        return split_text(text, self._limit)

    def shown(self) -> list[str]:
        """The messages that stand, in order."""
        return list(self.messages.values())

    def without_working(self) -> list[tuple[Any, ...]]:
        """What was posted, edited and deleted."""
        return [call for call in self.calls if call[0] != "working"]

    async def until(self, *call: Any) -> None:
        """Wait until something was done."""
        while call not in self.calls:
            self.news.clear()
            await self.news.wait()

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        self.news.set()


class MemoryIntents:
    """Intents that survive a renderer, not a test.

    ``crash_before_mark`` loses one mark; ``unwritable`` refuses everything that would change them.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Outgoing] = {}
        self.crash_before_mark = False
        self.unwritable = False

    async def begin(self, run_id: str, slot: str, nonce: str) -> Outgoing:
        self._check()
        return self.rows.setdefault((run_id, slot), Outgoing(run_id, slot, nonce, None))

    async def begin_run(self, run_id: str, slot: str, nonce: str) -> list[Outgoing]:
        await self.begin(run_id, slot, nonce)
        return await self.of_run(run_id)

    async def sent(self, run_id: str, slot: str, message_id: str) -> None:
        if self.crash_before_mark:
            self.crash_before_mark = False
            raise ProcessKilled
        self._check()
        self.rows[(run_id, slot)] = Outgoing(run_id, slot, self.rows[(run_id, slot)].nonce, message_id)

    async def get(self, run_id: str, slot: str) -> Outgoing | None:
        return self.rows.get((run_id, slot))

    async def of_run(self, run_id: str) -> list[Outgoing]:
        return [row for (run, _), row in self.rows.items() if run == run_id]

    def _check(self) -> None:
        if self.unwritable:
            raise StorageUnavailable("storage: cut")


class ProcessKilled(Exception):
    """Stands for the end of a process in the middle of something."""


class PostedLog:
    """Numbers messages of the bot, once per message id."""

    def __init__(self) -> None:
        self.messages: list[ConversationMessage] = []

    async def __call__(self, office: OfficeKey, message: ConversationMessage) -> int:
        known = [m.id for m in self.messages]
        if message.id not in known:
            self.messages.append(message)
        return [m.id for m in self.messages].index(message.id) + 1

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Id and text of each."""
        return [(m.id, m.text) for m in self.messages]


class FakeQueue:
    """A queue that notes what reaches it, in the order of `order`, which a test may share."""

    def __init__(self, order: list[str] | None = None) -> None:
        self.order = [] if order is None else order
        self.submitted: list[tuple[InboundMessage, bool]] = []
        self.stops: list[tuple[OfficeKey, SessionKey, bool]] = []
        self.resets: list[tuple[OfficeKey, SessionKey]] = []
        self.answers: list[OwnAnswer] = []
        self.failures: list[Exception] = []
        """Raised by `answer`, one a call."""
        self.outcome = StopOutcome()
        self.busy_sessions = 0

    async def submit(self, message: InboundMessage, run: bool) -> Submitted:
        self.order.append("queue" if run else "log")
        self.submitted.append((message, run))
        return Submitted(False, len(self.submitted), "run-1" if run else None)

    async def log_posted(self, office: OfficeKey, message: ConversationMessage) -> int:
        return 1

    async def answered(self, message: InboundMessage) -> bool:
        return message.event.message.id in [known.message.event.message.id for known in self.answers]

    async def answer(self, answer: OwnAnswer) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.order.append("answer")
        self.answers.append(answer)

    async def stop(
        self,
        office: OfficeKey,
        session_key: SessionKey,
        top_level: bool,
        answer: Callable[[StopOutcome], OwnAnswer] | None = None,
    ) -> StopOutcome:
        self.order.append("stop")
        self.stops.append((office, session_key, top_level))
        if answer is not None:
            self.answers.append(answer(self.outcome))
        return self.outcome

    async def reset(self, event: ConversationEvent, info: MessagingInfo) -> None:
        self.order.append("reset")
        self.resets.append((event.address.key, event.session_key))

    def busy(self, office: OfficeKey) -> int:
        return self.busy_sessions


class FakeEditor:
    """Notes changes of Office specs."""

    def __init__(self, record: OfficeRecord | None = None) -> None:
        self.office_record = record
        self.changes: list[dict[str, Any]] = []
        self.failure: Exception | None = None

    def record(self, key: OfficeKey) -> OfficeRecord | None:
        return self.office_record

    async def change(self, key: OfficeKey, spec: dict[str, Any]) -> OfficeView | None:
        if self.failure:
            raise self.failure
        self.changes.append(spec)
        return None


class DirectorySpool:
    """A spool in one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def attachment(self, office: OfficeKey, attachment_id: str) -> Path:
        return self._root / f"a-{attachment_id}"

    def blob(self, office: OfficeKey, blob_id: str) -> Path:
        return self._root / f"b-{blob_id}"

    async def save_attachment(self, office: OfficeKey, attachment_id: str, content: AsyncIterable[bytes]) -> int:
        data = b"".join([piece async for piece in content])
        await asyncio.to_thread(self.attachment(office, attachment_id).write_bytes, data)
        return len(data)


class NotedAttachments:
    """Attachments that note when they are fetched."""

    def __init__(self, order: list[str], files: Sequence[Attachment]) -> None:
        self._order = order
        self._files = files

    async def fetch(self, office: OfficeKey, spool: object) -> Sequence[Attachment]:
        self._order.append("attachments")
        return self._files


async def turns(count: int = 20) -> None:
    """Let whatever can run without time passing run."""
    for _ in range(count):
        await asyncio.sleep(0)


__all__ = [
    "DirectorySpool",
    "FakeEditor",
    "FakeOffices",
    "FakePlatform",
    "FakeQueue",
    "FixedSettings",
    "ManualClock",
    "MemoryIntents",
    "NotedAttachments",
    "PostedLog",
    "ProcessKilled",
    "turns",
]

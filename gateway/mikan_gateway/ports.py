"""The protocols at which the parts of the gateway meet, and the values that cross them.

A message's way in: `ChatPlatform` -> `Intake.receive` -> `RunQueue.submit` (durable when it returns) -> the agent's
connection. Its answer's way out: the agent's operations, each committed -> `RunOutput.apply`, in order for one run ->
`ChatPlatform.post` and `edit`.
"""

from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from mikan_api.identity import OfficeAddress, OfficeKey, Platform
from mikan_api.messaging import (
    Attachment,
    ConversationEvent,
    ConversationKind,
    ConversationMessage,
    MessagingInfo,
    TrustModel,
)
from mikan_api.responder import ResponderOperation
from mikan_api.session_keys import SessionKey
from mikan_api.settings import Budgets, DoorPolicy, Llm, Settings


@dataclass(frozen=True, slots=True)
class Target:
    """Where a bot message goes."""

    conversation_id: str
    thread_id: str | None = None
    reply_to: str | None = None
    session_key: SessionKey | None = None
    """The session that it comes from: noted in the office's log."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a part can do its work, and if not why (one line, no secret)."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """A native message, normalized by its adapter.

    ``app`` and ``team`` with the platform and the message id identify it for good: a second delivery is recognised.
    ``triggered`` is the adapter's verdict (direct, mentioned, reply rule); auto-reply is added by the intake.
    """

    event: ConversationEvent
    info: MessagingInfo
    triggered: bool
    app: str = ""
    team: str = ""
    top_level: bool = True
    """Whether the message stands outside any thread (for `stop`: such a one stops the only running run)."""
    attachments: "AttachmentSource | None" = None
    """Where the message's files can be had; asked only once the message is known to be for us."""
    only_noted: bool = False
    """Whether it is logged and nothing else, whatever it says: an edit of an earlier message."""
    place_ids: tuple[str, ...] = ()
    """Other ids by which its platform knows the conversation, and an admin may list it."""


@dataclass(frozen=True, slots=True)
class OfficeView:
    """What the gateway needs to know of an Office object."""

    key: OfficeKey
    uid: str
    token_epoch: int
    address: OfficeAddress
    llm: Llm
    budgets: Budgets
    door_policy: DoorPolicy
    auto_reply: bool
    suspended: bool
    ready: bool
    reason: str
    """Reason of the Ready condition, empty while the operator has not spoken."""
    message: str
    """Message of the first condition that is not as it should be."""
    agent_pod_uid: str | None = None
    """Of ``status.agent``: the pod that may speak for the office, empty if there is none; ``None`` if not known."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a message."""

    duplicate: bool
    log_number: int
    run_id: str | None
    """``None`` where no run was wanted (not triggered)."""
    ahead: int = 0
    """How many runs of the same session come first."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the database has it."""

    run_id: str
    office: OfficeKey
    session_key: SessionKey
    event: ConversationEvent
    info: MessagingInfo
    started: bool = False
    kind: Literal["message", "scheduled", "answer", "refusal", "notice"] = "message"
    """What it comes of; ``answer`` and ``refusal`` are the gateway's own (`OwnAnswer`), a ``notice`` is posted for an
    agent outside of any run."""

    @property
    def line(self) -> str:
        """What its output is shown in order with: its session, or all that is of no session in its conversation."""
        own = self.kind in {"answer", "refusal", "notice"}
        return f"answers of {self.office}" if own else f"{self.office} {self.session_key}"

    @property
    def logged(self) -> bool:
        """Whether what is posted of it is numbered in its office's log."""
        return self.kind != "refusal"

    @property
    def target(self) -> Target:
        """Where its answer goes."""
        message = self.event.message
        session_key = None if self.kind == "notice" else self.session_key
        return Target(self.event.conversation_id, message.thread_id, message.id or None, session_key)


@dataclass(frozen=True, slots=True)
class StopOutcome:
    """What `stop` found: the runs it stopped, or, where it could not choose, those it might have meant."""

    stopped: Sequence[RunRecord] = ()
    candidates: Sequence[RunRecord] = ()


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """What the gateway itself says to a message: the outcome of a command, or why it is not taken."""

    message: InboundMessage
    text: str
    logged: bool = True
    """Whether the office's log has it. To somebody who was not let in we say what no office needs to know."""


class AttachmentSource(Protocol):
    """The files of one inbound message, still at their platform."""

    async def fetch(self, office: OfficeKey, spool: "Spool") -> Sequence[Attachment]:
        """Put each file's bytes where the spool says. A file that fails carries its error; it never raises."""
        ...


class Intake(Protocol):
    """Takes what adapters received. When `receive` returns, the message is durable and may be acknowledged."""

    async def receive(self, message: InboundMessage) -> int | None:
        """Take a message; its log number, or ``None`` if its sender was turned away."""
        ...

    async def refuse(self, message: InboundMessage, reason: str) -> None:
        """Say why a message that `receive` refused can't be served; durable when it returns."""
        ...


class ChatPlatform(Protocol):
    """A connected chat platform. Errors are those of `mikan_gateway.exceptions` (`PlatformError` family)."""

    @property
    def platform(self) -> Platform: ...

    async def start(self, intake: Intake) -> None: ...

    async def stop_intake(self) -> None:
        """Take no further message; sending still works."""
        ...

    async def stop(self) -> None: ...

    def health(self) -> Health: ...

    def info(self, trust_model: TrustModel, display_name: str) -> MessagingInfo:
        """What a run may know of a conversation in which nobody has just written."""
        ...

    async def post(self, target: Target, text: str, nonce: str, draft: bool = False) -> str:
        """Post a message of GFM and return its id; a nonce used before returns the id of then, where that can be.

        Of a ``draft`` (more is coming) nobody waits for the platform's leave: it is posted now or not at all.
        """
        ...

    @property
    def pace(self) -> float:
        """Seconds to leave between two edits of one message."""
        ...

    async def edit(self, target: Target, message_id: str, text: str, draft: bool = False) -> None:
        """Replace a message's text; of a ``draft`` nothing needs to survive a crash, and it is shown now or not."""
        ...

    async def delete(self, target: Target, message_id: str) -> None: ...

    async def upload(self, target: Target, file: Path, name: str, title: str, nonce: str) -> str: ...

    async def set_working(self, target: Target, working: bool) -> None: ...

    def split(self, text: str) -> Sequence[str]:
        """Cut a text into parts that fit one message each."""
        ...


class Offices(Protocol):
    """The Kubernetes side of offices."""

    async def ensure(self, address: OfficeAddress, kind: ConversationKind, info: MessagingInfo) -> OfficeView:
        """The Office of an address, created if it is new; cheap when known."""
        ...

    def get(self, key: OfficeKey) -> OfficeView | None:
        """The Office as last seen by the watch."""
        ...

    def touch(self, key: OfficeKey, running_sessions: int) -> None:
        """Note activity; written on edges and at most every quarter of the idle timeout, in the background."""
        ...

    def health(self) -> Health: ...


class RunQueue(Protocol):
    """Durable messages and the runs that come of them: serial per office and session key, concurrent across."""

    async def submit(self, message: InboundMessage, run: bool) -> Submitted:
        """Number, store and, if ``run``, queue a message, in one transaction. Durable when it returns."""
        ...

    async def log_posted(self, office: OfficeKey, message: ConversationMessage) -> int:
        """Number a message that the bot posted, once per message id; its log number."""
        ...

    async def answered(self, message: InboundMessage) -> bool:
        """Whether a message has got an answer of our own."""
        ...

    async def answer(self, answer: OwnAnswer) -> None:
        """Answer a message, once however often this is called. Durable when it returns, and shown after those before
        it in the conversation; nobody waits for that."""
        ...

    async def stop(
        self,
        office: OfficeKey,
        session_key: SessionKey,
        top_level: bool,
        answer: Callable[[StopOutcome], OwnAnswer] | None = None,
    ) -> StopOutcome:
        """Stop that session's run, or, from top level with no such run, the only running one of the office.

        What ``answer`` says of the outcome is stored in the same transaction.
        """
        ...

    async def reset(self, event: ConversationEvent, info: MessagingInfo) -> None:
        """Abort what the session of a message runs and begin it afresh. A failure is said below the message."""
        ...

    def busy(self, office: OfficeKey) -> int:
        """How many sessions of an office have a run under way or queued."""
        ...


class RunOutput(Protocol):
    """What people see of runs. Calls for one run come one after another; each may come again after a crash."""

    async def apply(self, run: RunRecord, number: int, operation: ResponderOperation) -> None:
        """Show a committed operation. Returning means it needs no second try."""
        ...

    def delta(self, run: RunRecord, offset: int, text: str) -> None:
        """Streamed text; may be dropped, never blocks."""
        ...

    async def cut_off(self, run: RunRecord) -> None:
        """Say once that a run was cut off and will not be repeated."""
        ...

    def expect(self, run: RunRecord) -> None:
        """Leave room for a run's message above those of runs that are told of later in its session."""
        ...

    async def waiting(self, run: RunRecord, reason: str) -> None:
        """Say why a run cannot begin yet (suspended, vault missing, …); empty clears it."""
        ...


class Spool(Protocol):
    """Bytes on their way: attachments in, uploads out."""

    def attachment(self, office: OfficeKey, attachment_id: str) -> Path: ...

    def blob(self, office: OfficeKey, blob_id: str) -> Path: ...

    async def save_attachment(self, office: OfficeKey, attachment_id: str, content: AsyncIterable[bytes]) -> int:
        """Store an attachment whole; its size."""
        ...


class SettingsSource(Protocol):
    """The settings as they are now."""

    @property
    def current(self) -> Settings: ...

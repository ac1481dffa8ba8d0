"""What a command handler is given."""

from dataclasses import dataclass
from typing import Any, Protocol

from mikan_api.identity import OfficeKey
from mikan_api.messaging import ConversationEvent, ConversationKind, MessagingInfo
from mikan_api.settings import Settings
from mikan_gateway.exceptions import CommandRefused
from mikan_gateway.offices.view import OfficeRecord
from mikan_gateway.ports import OfficeView, RunQueue


class OfficeEditor(Protocol):
    """Reads an Office object and changes its spec."""

    def record(self, key: OfficeKey) -> OfficeRecord | None: ...

    async def change(self, key: OfficeKey, spec: dict[str, Any]) -> OfficeView | None:
        """Merge fields into the spec (``None`` removes one); the view afterwards.

        Raises:
            ClusterError: refused, with the reason, or unreachable.
        """
        ...


@dataclass(frozen=True, slots=True)
class CommandContext:
    """One invocation, with everything that a handler may use."""

    arguments: str
    event: ConversationEvent
    info: MessagingInfo
    office: OfficeView
    settings: Settings
    queue: RunQueue
    editor: OfficeEditor

    @property
    def by_admin(self) -> bool:
        """Whether the caller is an admin of this platform."""
        return self.event.message.author.id in self.settings.admins.get(self.event.platform, ())

    @property
    def shared(self) -> bool:
        """Whether the conversation has many humans."""
        return self.event.conversation_kind is ConversationKind.SHARED

    def require_idle(self, what: str) -> None:
        """Refuse a change while something runs.

        Raises:
            CommandRefused: a session of the office runs or is queued.
        """
        if self.queue.busy(self.office.key):
            raise CommandRefused(f"{what} can't be changed while I'm working here. Wait until I'm done, or say `stop`.")

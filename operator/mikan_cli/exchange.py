"""One message and all that comes back for it, as a value that events are fed to."""

from dataclasses import dataclass, field

from mikan_api.console import ConsoleEvent

STATUS_MARKS = ("⚙", "✓", "✗", "⏳")


@dataclass(slots=True)
class Exchange:
    """What has been shown so far in answer to one message."""

    message_id: str
    texts: dict[str, str] = field(default_factory=dict)
    """Message id -> text as it is now, in the order of first appearance."""
    uploads: dict[str, ConsoleEvent] = field(default_factory=dict)
    done: bool = False

    def take(self, event: ConsoleEvent) -> bool:
        """Take in an event; whether it was about this exchange."""
        if event.reply_to != self.message_id and event.message_id not in self.texts:
            return False
        match event.kind:
            case "post" | "edit":
                self.texts[event.message_id] = event.text
            case "draft":
                if event.message_id in self.texts:
                    self.texts[event.message_id] = event.text
            case "delete":
                self.texts.pop(event.message_id, None)
            case "upload":
                self.uploads.setdefault(event.message_id, event)
            case "working":
                self.done = event.working is False
        return True

    @property
    def text(self) -> str:
        """All of it."""
        return "\n\n".join(text for text in self.texts.values() if text)

    @property
    def status_lines(self) -> list[str]:
        """What is being done: lines below a text that still grows."""
        return [line for line in self.text.splitlines() if line.startswith(STATUS_MARKS)]

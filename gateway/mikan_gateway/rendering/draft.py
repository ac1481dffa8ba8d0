"""What a run shows while it is under way: the text so far, and below it what is being done."""

from dataclasses import dataclass, field

from mikan_api.responder import ToolStatus

MAX_TOOLS = 5
"""Tool lines shown; the newest."""
MAX_LABEL = 120
_MARKS = {"running": "⚙", "done": "✓", "failed": "✗"}
WORKING = "_Working…_"


@dataclass(slots=True)
class Draft:
    """Grows with a run's operations and deltas."""

    text: str = ""
    started: bool = False
    waiting: str = ""
    working: str = ""
    tools: dict[str, ToolStatus] = field(default_factory=dict)

    def add(self, offset: int, text: str) -> bool:
        """Take in a delta; ``False`` if one before it was lost, so that it has no place."""
        if offset > len(self.text):
            return False
        self.text = self.text[:offset] + text
        return True

    def note(self, status: ToolStatus) -> None:
        """Take in a tool's progress; only the newest tools are kept."""
        self.tools[status.call_id] = status
        while len(self.tools) > MAX_TOOLS:
            del self.tools[next(iter(self.tools))]

    def compose(self) -> str:
        """All of it as GFM; empty if there is nothing worth showing."""
        lines = [f"{_MARKS[tool.state]} {_code(tool.label)}" for tool in self.tools.values()]
        if self.working:
            lines.append(f"⏳ {_plain(self.working)}")
        if self.waiting:
            lines.append(f"⏳ {_plain(self.waiting)}")
        if not self.text.strip():
            return "\n".join(lines) or (WORKING if self.started else "")
        return "\n\n".join(filter(None, (self.text, "\n".join(lines))))


def _plain(text: str) -> str:
    return " ".join(text.split())


def _code(label: str) -> str:
    """A label as a code span, so that nothing in it formats, links or mentions anybody."""
    plain = _plain(label).replace("`", "'")
    return f"`{plain[:MAX_LABEL]}{'…' if len(plain) > MAX_LABEL else ''}`"

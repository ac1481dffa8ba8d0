"""Takes secrets out of what tools print, before the model sees it and the session keeps it.

It knows some forms of tokens, and every value of its own Secret, ``mikan-extension-redactor``.
"""

import re
from dataclasses import replace

from mikan_agent.extensions.api import ExtensionApi, ToolResult, ToolResultEvent, map_text

TOKENS = re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|xox[abp]-[\w-]{10,})")


def activate(api: ExtensionApi) -> None:
    """Watch every tool's result."""

    def redact(event: ToolResultEvent) -> ToolResult:
        def clean(text: str) -> str:
            # Read each time: a value that was put into the Secret meanwhile counts.
            for name in api.secrets.list():
                if value := (api.secrets.get(name) or "").strip():
                    text = text.replace(value, f"[{name}]")
            return TOKENS.sub("[token]", text)

        return replace(event.result, content=map_text(event.result.content, clean))

    api.on("tool_result", redact)

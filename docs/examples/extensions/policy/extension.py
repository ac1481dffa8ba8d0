"""Says who may ask, and what is not done whoever asks.

The Secret ``mikan-extension-policy`` may have a key ``users``: the ids of those who may ask, one a line. Scheduled runs
have no user, and are let through.
"""

import re

from mikan_agent.extensions.api import Blocked, ExtensionApi, Start, ToolCallEvent

FORBIDDEN = {
    re.compile(r"\brm\s+(-\w*\s+)*-\w*r"): "deleting whole directories",
    re.compile(r"\bgit\s+push\b.*(--force|-f\b)"): "forced pushes",
    re.compile(r"\bcurl\b[^|]*\|\s*(sudo\s+)?(ba)?sh\b"): "running what was just downloaded",
}


def activate(api: ExtensionApi) -> None:
    """Look at every run and every command."""

    def may_ask(start: Start) -> Blocked | None:
        allowed = (api.secrets.get("users") or "").split()
        if not allowed or start.origin.kind == "event" or start.origin.user_id in allowed:
            return None
        api.log(f"turned {start.origin.user_id} away")
        return Blocked("You are not on this office's list. Ask its admin.")

    def may_run(event: ToolCallEvent) -> Blocked | None:
        command = str(event.call.arguments.get("command", ""))
        for pattern, what in FORBIDDEN.items():
            if event.call.name == "bash" and pattern.search(command):
                return Blocked(f"This office's policy forbids {what}. Say so, and ask what to do instead.")
        return None

    api.on("before_agent_start", may_ask)
    api.on("tool_call", may_run)

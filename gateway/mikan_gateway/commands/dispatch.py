"""Carries out a command: checks its place and its caller, then calls its handler.

The place rule is behaviour "Commands": a private command in a shared place shows no link and says to use a direct
message. Commands whose feature this installation does not have say so in one line.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping

from mikan_api.commands import Command, Invocation, Place
from mikan_gateway.commands import auto_reply, model, new, sandbox
from mikan_gateway.commands.context import CommandContext
from mikan_gateway.exceptions import ClusterError, UserFault

logger = logging.getLogger(__name__)

Handler = Callable[[CommandContext], Awaitable[str]]

HANDLERS: Mapping[str, Handler] = {
    "new": new.handle,
    "model": model.handle,
    "sandbox": sandbox.handle,
    "auto-reply": auto_reply.handle,
}


async def run_command(invocation: Invocation, context: CommandContext) -> str:
    """Carry out a command; what to answer. Faults of the caller and of the cluster are answers too."""
    command = invocation.command
    misplaced = _misplaced(command, context)
    if misplaced:
        return misplaced
    handler = HANDLERS.get(command.name)
    if handler is None:
        return f"`/{command.name}` is not available: this installation has no portal to open."
    try:
        return await handler(context)
    except UserFault as fault:
        return str(fault)
    except ClusterError as error:
        logger.warning("command failed", extra={"command": command.name, "reason": str(error)})
        return "That could not be saved: the cluster refused it or can't be reached. The gateway's log has the reason."


def _misplaced(command: Command, context: CommandContext) -> str:
    if command.place is Place.DIRECT and context.shared:
        return f"`/{command.name}` works in a direct message with me only. Please send it there."
    if command.place is Place.SHARED and not context.shared:
        return f"`/{command.name}` is for shared conversations; here I answer every message."
    if command.admin_only and not context.by_admin:
        return f"`/{command.name}` is for admins of this installation."
    return ""

"""``/new``: abort what runs in this session and begin a fresh one; the old files are kept."""

from mikan_gateway.commands.context import CommandContext
from mikan_gateway.exceptions import CommandRefused


async def handle(context: CommandContext) -> str:
    """Reset the session that the message belongs to. In a shared place it takes an admin: others lose context too.

    Raises:
        CommandRefused: a shared place and no admin.
    """
    if context.shared and not context.by_admin:
        raise CommandRefused("In a shared conversation only an admin may start over.")
    await context.queue.reset(context.event, context.info)
    return "A fresh session starts with your next message. The old one is kept."

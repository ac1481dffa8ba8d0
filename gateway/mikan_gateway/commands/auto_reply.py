"""``/auto-reply <on|off|status>``: answer in this shared conversation without being mentioned."""

from mikan_gateway.commands.context import CommandContext
from mikan_gateway.exceptions import CommandRefused


async def handle(context: CommandContext) -> str:
    """Show or switch.

    Raises:
        CommandRefused: wrong form.
        ClusterError: the change could not be saved.
    """
    wanted = context.arguments.lower()
    if wanted in {"", "status"}:
        return f"Auto-reply is {'on' if context.office.auto_reply else 'off'}."
    if wanted not in {"on", "off"}:
        raise CommandRefused("Use `/auto-reply on`, `/auto-reply off` or `/auto-reply status`.")
    await context.editor.change(context.office.key, {"autoReply": "Enabled" if wanted == "on" else "Disabled"})
    return f"Auto-reply is {wanted}."

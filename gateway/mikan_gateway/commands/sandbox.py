"""``/sandbox``: show where commands run and what they may see, or change the door policy."""

from typing import Any

from mikan_api.effective import InvalidPolicy, effective_office
from mikan_api.messaging import TrustModel
from mikan_api.settings import DoorPolicy, Layout, Trust
from mikan_gateway.commands.context import CommandContext
from mikan_gateway.exceptions import CommandRefused
from mikan_gateway.offices.view import OfficeRecord

USAGE = "Use `/sandbox` or `/sandbox door default|isolated|shared|full`."
DOORS = {
    "isolated": DoorPolicy(),
    "shared": DoorPolicy(trust=Trust.TRUSTED, layout=Layout.SHARED_SUPPORT),
    "full": DoorPolicy(trust=Trust.TRUSTED, layout=Layout.FULL),
}
_WIDTH = {Layout.CONVERSATION: 0, Layout.SHARED_SUPPORT: 1, Layout.FULL: 2}


def width(policy: DoorPolicy) -> tuple[int, int]:
    """How much a policy opens; a wider one compares greater."""
    return _WIDTH[policy.layout], int(policy.trust is Trust.TRUSTED)


async def handle(context: CommandContext) -> str:
    """Show, or change the door.

    Raises:
        CommandRefused: wrong form, not allowed, or something runs.
        ClusterError: the change could not be saved.
    """
    record = context.editor.record(context.office.key)
    if record is None:
        raise CommandRefused("This conversation's office was deleted just now; please send that again.")
    verb, _, rest = context.arguments.lower().partition(" ")
    if not verb:
        return _show(context, record)
    if verb == "door":
        return await _set_door(context, record, rest.strip())
    if verb == "boost":
        raise CommandRefused("This installation has no boost to switch on.")
    raise CommandRefused(USAGE)


def _show(context: CommandContext, record: OfficeRecord) -> str:
    try:
        holds = effective_office(record.spec, context.settings)
    except InvalidPolicy as error:
        return f"This office's sandbox is refused: {error}."
    limits = holds.sandbox_resources
    return (
        f"Sandbox: `{holds.sandbox_mode}`\n"
        f"Door: {_describe(holds.door_policy)} ({'set here' if holds.door_policy_source == 'Office' else 'default'})\n"
        f"Limits: {limits.cpu_limit} CPU, {limits.memory_limit} memory, {limits.ephemeral_storage_limit} disk\n{USAGE}"
    )


async def _set_door(context: CommandContext, record: OfficeRecord, name: str) -> str:
    if name != "default" and name not in DOORS:
        raise CommandRefused(USAGE)
    wanted = context.settings.door_policy if name == "default" else DOORS[name]
    if wanted.layout is Layout.FULL and record.spec.trust_model is TrustModel.OPEN_TRIGGER:
        raise CommandRefused("Anybody can write here, so this office can't have the full layout.")
    if width(wanted) > width(context.office.door_policy) and not context.by_admin:
        raise CommandRefused("Only an admin may open the door further.")
    context.require_idle("The door policy")
    own: dict[str, Any] | None = None if name == "default" else wanted.to_json_dict()
    await context.editor.change(context.office.key, {"doorPolicy": own})
    return f"Door: {_describe(wanted)}. The sandbox is made anew with it."


def _describe(policy: DoorPolicy) -> str:
    return f"{policy.trust}, layout {policy.layout}"

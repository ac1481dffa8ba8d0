"""``/model [provider/model[:thinking]]``: show or switch the model of this office."""

from pydantic import ValidationError

from mikan_api.settings import Llm, ThinkingLevel
from mikan_gateway.commands.context import CommandContext
from mikan_gateway.exceptions import CommandRefused

USAGE = f"Use `/model provider/model` or `/model provider/model:thinking`, thinking one of {', '.join(ThinkingLevel)}."


def parse_model(argument: str, current: ThinkingLevel) -> Llm:
    """Read ``provider/model[:thinking]``. A last part that is no thinking level belongs to the model's name.

    Raises:
        CommandRefused: not of that form.
    """
    name, _, suffix = argument.rpartition(":")
    thinking = current
    if name and suffix in set(ThinkingLevel):
        argument, thinking = name, ThinkingLevel(suffix)
    try:
        return Llm(model=argument, thinking_level=thinking)
    except ValidationError:
        raise CommandRefused(f"That is no model I can use. {USAGE}") from None


async def handle(context: CommandContext) -> str:
    """Show the model, or switch it for the runs to come.

    Raises:
        CommandRefused: wrong form, or something runs.
        ClusterError: the change could not be saved.
    """
    llm = context.office.llm
    if not context.arguments:
        return f"Model: `{llm.model}`, thinking {llm.thinking_level}.\n{USAGE}"
    wanted = parse_model(context.arguments, llm.thinking_level)
    context.require_idle("The model")
    await context.editor.change(context.office.key, {"llm": wanted.to_json_dict()})
    return f"Model: `{wanted.model}`, thinking {wanted.thinking_level}, from the next message on."

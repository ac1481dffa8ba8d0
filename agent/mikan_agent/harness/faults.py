"""What the conversation reads when something failed: what it was, and what to do next. No secret, no stack."""

import errno

from mikan_agent.exceptions import (
    BudgetExceeded,
    ContextOverflow,
    ModelError,
    ModelKeyRefused,
    ModelOverloaded,
    ModelRequestRefused,
    ModelUnknown,
    ModelUnreachable,
    SpendingCapReached,
)
from mikan_agent.records.exceptions import StorageError
from mikan_api.logs import mask

_NEXT_STEP: dict[type[ModelError], str] = {
    ModelUnreachable: "The model could not be reached: {}. Try again in a moment; if it stays, tell an admin.",
    ModelOverloaded: "The model is overloaded, fails or limits our requests: {}. Try again in a few minutes.",
    ModelUnknown: "The model {model} is not available: {}. Choose another one with /model.",
    ModelKeyRefused: "The credentials for the model {model} were refused: {}. An admin has to check its key.",
    SpendingCapReached: "The spending cap is reached: {}. Wait until it renews, or ask an admin to raise it.",
    ContextOverflow: "This conversation has become too long for {model}: {}. Start a fresh session with /new.",
    ModelRequestRefused: "The model {model} refused the request: {}. Try another one with /model, or start with /new.",
}
RUNAWAY = "Stopped: {}. Say how to go on, or choose another model with /model."
INTERNAL = "Something went wrong inside the agent; its log says what. Write again, or tell an admin if it stays."
PROCESS_ENDS = "The agent was told to end before this was done. What it did so far is kept; write again to go on."
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def model_fault(error: ModelError, model: str) -> str:
    """What to say of a failed model call."""
    text = _NEXT_STEP.get(type(error), "The model {model} failed: {}.")
    # Not str.format: the error's own text may hold braces.
    return mask(text.replace("{model}", model).replace("{}", str(error).rstrip(". \n") or "no reason given"))


def budget_fault(error: BudgetExceeded) -> str:
    """What to say of a run that reached a cap."""
    return f"Stopped: the budget of this run is used up ({error}). Write again to go on, or ask an admin to raise it."


def storage_fault(error: BaseException) -> str:
    """What to say of an office whose disk does not take what it must."""
    if is_disk_full(error):
        return "The office's disk is full, so nothing more can be recorded. Delete files, or ask an admin for space."
    return f"The office's records cannot be used: {mask(str(error))}. Start afresh with /new, or tell an admin."


def is_disk_full(error: BaseException) -> bool:
    """Whether a full disk or quota is behind an error."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _DISK_FULL:
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def is_storage_fault(error: BaseException) -> bool:
    """Whether an error is of the office's own disk or records."""
    return isinstance(error, StorageError | OSError)

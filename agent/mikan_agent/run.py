"""One run as this process knows it: what was asked, how far it is, and why it was cut short if it was."""

import asyncio
from enum import Enum, auto

from mikan_agent.harness.responder import Responder
from mikan_api.wire import RunRequest


class Phase(Enum):
    """How far a run is."""

    WAITING = auto()
    """Nothing of it is on disk; it may be handed back."""
    BEGUN = auto()
    """Its message is in the session, or just being written."""
    ENDING = auto()
    """It is over but for its last words; it can no longer be cut."""
    OVER = auto()
    """Its end is on its way to the gateway."""


class Cut(Enum):
    """Why a run was cut short."""

    STOPPED = auto()
    HANDED_BACK = auto()
    OUT_OF_TIME = auto()
    PROCESS_ENDS = auto()


class ActiveRun:
    """A run from its delivery to the acknowledgement of its end."""

    def __init__(self, request: RunRequest, responder: Responder) -> None:
        self.request = request
        self.responder = responder
        self.phase = Phase.WAITING
        self.cut: Cut | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def run_id(self) -> str:
        """The run's identity, the same through every delivery."""
        return self.request.run_id

    def cut_short(self, why: Cut) -> bool:
        """End it at its next await. False: it is over already, or was cut before."""
        if self.cut is not None or self.phase in {Phase.ENDING, Phase.OVER}:
            return False
        self.cut = why
        if self.task is not None:
            self.task.cancel()
        return True

"""Named places at which a test kills the process, to see what a crash there does to a conversation.

Each step that something else depends on (a commit, a call of a platform or of the API server, an acknowledgement, a
write to an office's records) has a name, and a place before and after it. `MIKAN_KILL_POINT` names one, like
``gateway.message.commit.before`` or, for the third time it is reached, ``gateway.message.commit.before:3``: there the
process kills itself with SIGKILL. Nothing else can arm a place: no chat, no Office, no setting, and not the chart.
Unarmed, a step costs one look at a variable of this module.
"""

import logging
import os
import re
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from types import TracebackType

from mikan_api.exceptions import ConfigError

VARIABLE = "MIKAN_KILL_POINT"
_SIDES = ("before", "after")
_NAMED = re.compile(r"(?P<step>[a-z.-]+)\.(?P<side>before|after)(?::(?P<nth>[1-9][0-9]{0,5}))?")

logger = logging.getLogger(__name__)


class Step(StrEnum):
    """Every step, by the process that does it."""

    MESSAGE_COMMIT = "gateway.message.commit"
    MESSAGE_ACKNOWLEDGE = "gateway.message.acknowledge"
    OFFICE_CREATE = "gateway.office.create"
    FILE_PUBLISH = "gateway.file.publish"
    AGENT_COMMIT = "gateway.agent.commit"
    AGENT_WELCOME = "gateway.agent.welcome"
    LOG_SEND = "gateway.log.send"
    RUN_SEND = "gateway.run.send"
    STOP_COMMIT = "gateway.stop.commit"
    QUEUED_STOP_COMMIT = "gateway.queued-stop.commit"
    RESET_COMMIT = "gateway.reset.commit"
    RESET_SEND = "gateway.reset.send"
    RESET_DONE_COMMIT = "gateway.reset-done.commit"
    REPORT_COMMIT = "gateway.report.commit"
    REPORT_ACKNOWLEDGE = "gateway.report.acknowledge"
    LOST_COMMIT = "gateway.lost.commit"
    INTENT_COMMIT = "gateway.intent.commit"
    SENT_COMMIT = "gateway.sent.commit"
    POSTED_COMMIT = "gateway.posted.commit"
    SHOWN_COMMIT = "gateway.shown.commit"
    PLATFORM_POST = "gateway.platform.post"
    PLATFORM_EDIT = "gateway.platform.edit"
    PLATFORM_DELETE = "gateway.platform.delete"
    PLATFORM_UPLOAD = "gateway.platform.upload"
    PLATFORM_WORKING = "gateway.platform.working"

    HELLO_SEND = "agent.hello.send"
    LOG_WRITE = "agent.log.write"
    LOG_ACKNOWLEDGE = "agent.log.acknowledge"
    ATTACHMENT_PULL = "agent.attachment.pull"
    REPLY_COMMIT = "gateway.reply.commit"
    PRUNE_COMMIT = "gateway.prune.commit"
    RUN_TAKE = "agent.run.take"
    SESSION_WRITE = "agent.session.write"
    SESSION_RESET = "agent.session.reset"
    MODEL_CALL = "agent.model.call"
    TOOL_RUN = "agent.tool.run"
    UPLOAD_SEND = "agent.upload.send"
    OPERATION_SEND = "agent.operation.send"
    TEXT_SEND = "agent.text.send"
    ANSWER_SEND = "agent.answer.send"
    OPERATION_FORGET = "agent.operation.forget"

    OBJECT_CREATE = "operator.object.create"
    OBJECT_APPLY = "operator.object.apply"
    OBJECT_REPLACE = "operator.object.replace"
    OBJECT_DELETE = "operator.object.delete"


def kill_points(process: str) -> list[str]:
    """The names of all places of a process: ``gateway``, ``agent`` or ``operator``."""
    return [f"{step}.{side}" for step in Step if step.startswith(f"{process}.") for side in _SIDES]


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Armed:
    """Counts how often one place is reached, and kills there."""

    def __init__(self, step: Step, side: str, nth: int, kill: Callable[[], None]) -> None:
        self._step, self._side, self._left, self._kill = step, side, nth, kill

    def reach(self, step: Step, side: str) -> None:
        if step is self._step and side == self._side:
            self._left -= 1
            if self._left == 0:
                self._kill()


class _Around:
    def __init__(self, armed: _Armed, step: Step) -> None:
        self._armed, self._step = armed, step

    def __enter__(self) -> None:
        self._armed.reach(self._step, "before")

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is None:
            self._armed.reach(self._step, "after")


_armed: _Armed | None = None
_NOTHING = nullcontext()


def around(step: Step) -> AbstractContextManager[None]:
    """A step is done within; one that fails has no place after it."""
    return _NOTHING if _armed is None else _Around(_armed, step)


def before(step: Step) -> None:
    """A step comes next; for one whose two places do not lie in one function."""
    if _armed is not None:
        _armed.reach(step, "before")


def after(step: Step) -> None:
    """A step has been done."""
    if _armed is not None:
        _armed.reach(step, "after")


def arm(variables: Mapping[str, str], kill: Callable[[], None] = _kill) -> None:
    """Arm the place that the environment names, if it names one, and say so in the log; else disarm.

    Raises:
        ConfigError: no such place.
    """
    global _armed
    _armed = None
    named = variables.get(VARIABLE)
    if not named:
        return
    found = _NAMED.fullmatch(named)
    if found is None or found["step"] not in set(Step):
        raise ConfigError(f"{VARIABLE}: {named!r} names no place")
    _armed = _Armed(Step(found["step"]), found["side"], int(found["nth"] or 1), kill)
    logger.warning("this process will kill itself: %s is set, which only tests do", VARIABLE, extra={"place": named})

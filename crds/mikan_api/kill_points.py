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

    SCHEMA_COMMIT = "gateway.schema.commit"
    LEASE_WRITE = "gateway.lease.write"
    MESSAGE_COMMIT = "gateway.message.commit"
    MESSAGE_ACKNOWLEDGE = "gateway.message.acknowledge"
    OFFICE_CREATE = "gateway.office.create"
    OFFICE_CHANGE = "gateway.office.change"
    OFFICE_STATUS = "gateway.office.status"
    FILE_PUBLISH = "gateway.file.publish"
    FILE_DISCARD = "gateway.file.discard"
    FILE_SWEEP = "gateway.file.sweep"
    AGENT_COMMIT = "gateway.agent.commit"
    AGENT_WELCOME = "gateway.agent.welcome"
    LOG_SEND = "gateway.log.send"
    LOG_WRITTEN_COMMIT = "gateway.log-written.commit"
    ATTACHMENT_SERVE = "gateway.attachment.serve"
    BLOB_ACKNOWLEDGE = "gateway.blob.acknowledge"
    RUN_SEND = "gateway.run.send"
    STOP_SEND = "gateway.stop.send"
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
    REPLY_COMMIT = "gateway.reply.commit"
    MOVE_COMMIT = "gateway.move.commit"
    PRUNE_COMMIT = "gateway.prune.commit"
    FIRING_COMMIT = "gateway.firing.commit"
    ANCHOR_COMMIT = "gateway.anchor.commit"
    NOTICE_COMMIT = "gateway.notice.commit"
    SCHEDULE_WRITE = "gateway.schedule.write"
    REPLY_SEND = "gateway.reply.send"
    PLATFORM_POST = "gateway.platform.post"
    PLATFORM_EDIT = "gateway.platform.edit"
    PLATFORM_DELETE = "gateway.platform.delete"
    PLATFORM_UPLOAD = "gateway.platform.upload"
    PLATFORM_WORKING = "gateway.platform.working"
    CONSOLE_COMMIT = "gateway.console.commit"
    CONSOLE_FILE = "gateway.console.file"

    # Every method of Telegram's Bot API that is called, and the download of a file.
    TELEGRAM_GET_ME = "gateway.telegram.get-me"
    TELEGRAM_SET_MY_COMMANDS = "gateway.telegram.set-my-commands"
    TELEGRAM_GET_UPDATES = "gateway.telegram.get-updates"
    TELEGRAM_GET_FILE = "gateway.telegram.get-file"
    TELEGRAM_DOWNLOAD = "gateway.telegram.download"
    TELEGRAM_SEND_CHAT_ACTION = "gateway.telegram.send-chat-action"
    TELEGRAM_SEND_MESSAGE = "gateway.telegram.send-message"
    TELEGRAM_EDIT_MESSAGE_TEXT = "gateway.telegram.edit-message-text"
    TELEGRAM_DELETE_MESSAGE = "gateway.telegram.delete-message"
    TELEGRAM_SEND_PHOTO = "gateway.telegram.send-photo"
    TELEGRAM_SEND_DOCUMENT = "gateway.telegram.send-document"

    DIRECTORIES_MAKE = "agent.directories.make"
    HELLO_SEND = "agent.hello.send"
    LOG_WRITE = "agent.log.write"
    LOG_ACKNOWLEDGE = "agent.log.acknowledge"
    ATTACHMENT_PULL = "agent.attachment.pull"
    ATTACHMENT_PUBLISH = "agent.attachment.publish"
    RUN_TAKE = "agent.run.take"
    TORN_TAIL = "agent.torn-tail.set-aside"
    SESSION_BEGIN = "agent.session.begin"
    SESSION_POINT = "agent.session.point"
    SESSION_MIGRATE = "agent.session.migrate"
    SESSION_WRITE = "agent.session.write"
    SESSION_SYNC = "agent.session.sync"
    SESSION_ARCHIVE = "agent.session.archive"
    SESSION_RESET = "agent.session.reset"
    MODEL_CALL = "agent.model.call"
    TOOL_RUN = "agent.tool.run"
    UPLOAD_SEND = "agent.upload.send"
    OPERATION_SEND = "agent.operation.send"
    TEXT_SEND = "agent.text.send"
    ANSWER_SEND = "agent.answer.send"
    OPERATION_FORGET = "agent.operation.forget"
    REQUEST_SEND = "agent.request.send"

    LEASE_CREATE = "operator.lease.create"
    LEASE_REPLACE = "operator.lease.replace"
    SERVICE_ACCOUNT_CREATE = "operator.service-account.create"
    SERVICE_ACCOUNT_APPLY = "operator.service-account.apply"
    SECRET_CREATE = "operator.secret.create"  # noqa: S105  a name
    SECRET_APPLY = "operator.secret.apply"  # noqa: S105
    ROLE_CREATE = "operator.role.create"
    ROLE_APPLY = "operator.role.apply"
    ROLE_BINDING_CREATE = "operator.role-binding.create"
    ROLE_BINDING_APPLY = "operator.role-binding.apply"
    POD_CREATE = "operator.pod.create"
    POD_APPLY = "operator.pod.apply"
    POD_DELETE = "operator.pod.delete"
    OFFICE_APPLY = "operator.office.apply"
    OFFICE_STATUS_APPLY = "operator.office.status.apply"
    VAULT_STATUS_APPLY = "operator.vault.status.apply"
    SCHEDULED_EVENT_STATUS_APPLY = "operator.scheduled-event.status.apply"
    SCHEDULED_EVENT_DELETE = "operator.scheduled-event.delete"
    FIRING_SEND = "operator.firing.send"
    EVENT_CREATE = "operator.event.create"


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

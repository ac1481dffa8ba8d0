"""The way in of every message: admission, magic word, trigger policy, attachments, log, busy policy, queue, dispatch.

The order is a contract: the magic word skips trigger policy, attachments and queue; an untriggered message is logged
and nothing else. Commands are carried out here, after the log and before the queue, so that `/new`
does not wait behind the run that it ends. The busy policy for messages is to queue them in order, which the queue does.

Nothing is sent from here: what we have to say is stored (`OwnAnswer`), so that no platform or chat that is slow to take
it keeps the next message waiting.
"""

import dataclasses
import logging

from mikan_api.commands import Invocation, is_magic_stop, parse_command
from mikan_api.messaging import ConversationKind
from mikan_gateway.admission import Gatekeeper
from mikan_gateway.commands.context import CommandContext, OfficeEditor
from mikan_gateway.commands.dispatch import run_command
from mikan_gateway.exceptions import ClusterError, StorageError
from mikan_gateway.ports import (
    InboundMessage,
    Offices,
    OfficeView,
    OwnAnswer,
    RunQueue,
    RunRecord,
    SettingsSource,
    Spool,
    StopOutcome,
)

logger = logging.getLogger(__name__)

TURNED_AWAY = "Hello! I'm not allowed to talk with you here. Please ask the admin of this installation to add you."
TOO_MANY = "Too many new conversations were started in the last hour. Please try again later."
NO_OFFICE = "That can't be done now: the cluster can't be reached or refuses. Please try again in a moment."


class MessageIntake:
    """Implements `Intake`."""

    def __init__(
        self,
        offices: Offices,
        editor: OfficeEditor,
        queue: RunQueue,
        spool: Spool,
        settings: SettingsSource,
        gatekeeper: Gatekeeper,
    ) -> None:
        self._offices = offices
        self._editor = editor
        self._queue = queue
        self._spool = spool
        self._settings = settings
        self._gatekeeper = gatekeeper

    async def receive(self, message: InboundMessage) -> int | None:
        """Take a message; its log number, ``None`` if its sender was turned away.

        When this returns the message is durable, with what it changed and what is answered to it.

        Raises:
            UserFault: the conversation cannot be served; the message says why.
            StorageError: it is not stored; deliver the message again.
        """
        event = message.event
        if not self._gatekeeper.admits(message):
            await self._turn_away(message, TURNED_AWAY)
            return None
        if event.message.author.is_bot or message.only_noted:
            return await self._log(message)
        if is_magic_stop(event.message.text):
            return await self._stop(message)
        if not self._is_triggered(message):
            return await self._log(message)
        key = event.address.key
        if self._offices.get(key) is None and not self._gatekeeper.may_create(event.platform, key):
            await self._turn_away(message, TOO_MANY)
            return None
        return await self._dispatch(message)

    async def refuse(self, message: InboundMessage, reason: str) -> None:
        """Say why a message can't be served, in no log: whose office it would be is just what is not known.

        Raises:
            StorageError: it is not stored; deliver the message again.
        """
        await self._queue.answer(OwnAnswer(message, reason, logged=False))

    async def _log(self, message: InboundMessage) -> int:
        return (await self._queue.submit(message, run=False)).log_number

    def _is_triggered(self, message: InboundMessage) -> bool:
        if message.triggered or message.event.conversation_kind is ConversationKind.DIRECT:
            return True
        office = self._offices.get(message.event.address.key)
        return office.auto_reply if office else self._settings.current.auto_reply

    async def _dispatch(self, message: InboundMessage) -> int:
        office = await self._office(message)
        message = await self._with_attachments(message)
        invocation = parse_command(message.event.message.text)
        if invocation is None:
            return (await self._queue.submit(message, run=True)).log_number
        number = await self._log(message)
        await self._command(message, invocation, office)
        return number

    async def _office(self, message: InboundMessage) -> OfficeView | None:
        """The Office; ``None`` while the cluster does not make it. What is queued has it made, and says why it waits:
        a platform must not be kept from delivering what other conversations say."""
        event = message.event
        try:
            return await self._offices.ensure(event.address, event.conversation_kind, message.info)
        except ClusterError as error:
            logger.warning("no Office yet", extra={"office": event.address.key, "reason": str(error)})
            return None

    async def _with_attachments(self, message: InboundMessage) -> InboundMessage:
        """Fetch the files. One that fails carries its error and is named to the run, which starts all the same."""
        if message.attachments is None:
            return message
        files = tuple(await message.attachments.fetch(message.event.address.key, self._spool))
        native = message.event.message.model_copy(update={"attachments": files})
        event = message.event.model_copy(update={"message": native})
        return dataclasses.replace(message, event=event, attachments=None)

    async def _command(self, message: InboundMessage, invocation: Invocation, office: OfficeView | None) -> None:
        if await self._queue.answered(message):
            return
        if office is None:
            await self._queue.answer(OwnAnswer(message, NO_OFFICE))
            return
        context = CommandContext(
            invocation.arguments, message.event, message.info, office, self._settings.current, self._queue, self._editor
        )
        await self._queue.answer(OwnAnswer(message, await run_command(invocation, context)))

    async def _stop(self, message: InboundMessage) -> int:
        event = message.event
        number = await self._log(message)
        # A redelivery must not stop what began after the first answer.
        if not await self._queue.answered(message):
            await self._queue.stop(
                event.address.key,
                event.session_key,
                message.top_level,
                lambda outcome: OwnAnswer(message, describe_stop(outcome)),
            )
        return number

    async def _turn_away(self, message: InboundMessage, answer: str) -> None:
        author, platform = message.event.message.author, message.event.platform
        logger.info("message turned away", extra={"platform": platform, "answer": answer})
        if author.is_bot or message.only_noted or not self._is_addressed(message):
            return
        if not self._gatekeeper.first_refusal(platform, author.id, answer):
            return
        try:
            await self.refuse(message, answer)
        except StorageError:
            self._gatekeeper.forget_refusal(platform, author.id, answer)
            raise

    def _is_addressed(self, message: InboundMessage) -> bool:
        return message.triggered or message.event.conversation_kind is ConversationKind.DIRECT


def describe_stop(outcome: StopOutcome) -> str:
    """What to say about a `stop`."""
    if outcome.stopped:
        return "Stopped."
    if outcome.candidates:
        lines = "\n".join(f"- {_label(run)}" for run in outcome.candidates)
        return f"Several are running; say `stop` in the thread of the one you mean:\n{lines}"
    return "Nothing is running here."


def _label(run: RunRecord) -> str:
    message = run.event.message
    first = " ".join(message.text.split())
    return f"“{first[:80]}{'…' if len(first) > 80 else ''}” ({message.author.display_name or message.author.user_name})"

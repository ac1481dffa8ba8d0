"""The polling loop. Telegram is told that an update arrived (by the next offset) only once it is durable here.

So a crash anywhere has the same updates delivered again, and the queue knows those that it has. Whatever goes wrong is
tried again for ever, and reported meanwhile: another poller (409), flood control, an unknown token, no network.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from telegram import Bot, Update, User
from telegram.error import Conflict, EndPointNotFound, InvalidToken, RetryAfter, TelegramError

from mikan_api.exceptions import MikanError
from mikan_api.kill_points import Step, around
from mikan_gateway.exceptions import ClusterError, GatewayError, StorageError, UserFault
from mikan_gateway.platforms.telegram import menu
from mikan_gateway.platforms.telegram.albums import Albums
from mikan_gateway.platforms.telegram.backlog import Backlog
from mikan_gateway.platforms.telegram.errors import OTHER_POLLER, reason, seconds_to_wait
from mikan_gateway.platforms.telegram.feed import fetch_updates
from mikan_gateway.platforms.telegram.updates import UpdateReader
from mikan_gateway.ports import Health, InboundMessage, Intake
from mikan_gateway.runtime.clock import Clock, backoff

T = TypeVar("T")

POLL_SECONDS = 30
"""How long Telegram may hold a poll that has nothing to tell."""
READ_SECONDS = 10.0
"""Beyond that; then the connection counts as dead."""
BATCH = 100
AGAIN = 0.7
"""Seconds until updates are asked for again that are held: sooner, Telegram gives but one of them."""
FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
CONFLICT_PAUSE = 5.0
"""At most, between tries beside another poller: it may be the process before this one, about to end."""
FAULT_TRIES = 3
"""Tries of an update on which our own code fails; then it is given up, so that those after it are read."""
FINISH_SECONDS = 3.0
CONFIRM_SECONDS = 3.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Faults:
    """What is wrong now, of asking Telegram and of passing on what it told."""

    polling: str = "not connected to Telegram yet"
    intake: dict[str, str] = field(default_factory=dict)
    """By conversation."""


class Poller:
    """Reads the updates of one bot."""

    def __init__(
        self,
        bot: Bot,
        reader: Callable[[User], UpdateReader],
        intake: Intake,
        moved: Callable[[int, int], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """Prepare.

        Args:
            bot: the bot, its connections open.
            reader: makes a reader, once the bot's own identity is known.
            intake: takes the messages.
            moved: remembers that a chat has another id since.
            clock: to pause by.
        """
        self._bot = bot
        self._make_reader = reader
        self._intake = intake
        self._moved = moved
        self._clock = clock
        self._albums = Albums(clock)
        self._backlog = Backlog(self._pass_on, clock)
        self._faults = _Faults()
        self._told: int | None = None
        """The offset that Telegram has been told."""
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Read, in the background."""
        self._task = asyncio.create_task(self._keep_running(), name="telegram-poll")

    async def stop(self) -> None:
        """Read no more; what was read is passed on first, for a bounded time, and confirmed."""
        self._stopping = True
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._backlog.close(FINISH_SECONDS)
        await self._confirm()

    def health(self) -> Health:
        """Not well while nothing can be read or passed on."""
        if self._task is not None and self._task.done():
            return Health(False, "the polling loop ended, which it never should; restart the gateway")
        fault = self._faults.polling or next(iter(self._faults.intake.values()), "")
        return Health(not fault, fault)

    async def _keep_running(self) -> None:
        for attempt in count(1):
            try:
                await self._run()
            except Exception:
                # Of the library or ours: nobody else would begin to read again.
                self._faults.polling = "reading failed by a fault of this program; its log has more"
                logger.exception("the polling loop failed and begins anew")
                await self._clock.sleep(backoff(attempt, FIRST_PAUSE, MAX_PAUSE))
            else:
                return

    async def _run(self) -> None:
        # What an earlier round did not come to the end of comes again.
        await self._backlog.close(0)
        self._albums, self._backlog, self._told = Albums(self._clock), Backlog(self._pass_on, self._clock), None
        me = await self._lasting(self._bot.get_me)
        reader = self._make_reader(me)
        await self._offer_commands()
        logger.info("reading a bot's updates", extra={"bot": me.username})
        while not self._stopping:
            fresh = self._backlog.fresh(await self._lasting(self._poll))
            for together in self._albums.sort(fresh):
                await self._note_move(together[0])
                self._backlog.add(together, _read(reader, together))
            if self._albums.held:
                await self._clock.sleep(AGAIN)
            await self._backlog.settled(AGAIN)

    async def _poll(self) -> Sequence[Update]:
        # After a fault one poll is short, to see whether it is over. Not beside another poller: a short one would only
        # interrupt it, which says nothing.
        fault = self._faults.polling
        waiting = self._albums.held or self._backlog.busy
        held = POLL_SECONDS if fault in {"", OTHER_POLLER} and not waiting else 0
        self._told = self._backlog.ask()
        with around(Step.MESSAGE_ACKNOWLEDGE) if self._told else nullcontext():
            return await fetch_updates(self._bot, self._told, BATCH, held, READ_SECONDS)

    async def _lasting(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call until it worked."""
        for attempt in count(1):
            try:
                result = await call()
            except TelegramError as error:
                wait = _pause(error, attempt)
                self._faults.polling = reason(error)
                logger.warning("Telegram is not read", extra={"reason": self._faults.polling, "wait": wait})
                await self._clock.sleep(wait)
            else:
                self._faults.polling = ""
                return result
        raise AssertionError("counting ended")

    async def _offer_commands(self) -> None:
        try:
            await menu.register(self._bot)
        except TelegramError as error:
            logger.warning("commands are not offered in Telegram's menu", extra={"reason": reason(error)})

    async def _confirm(self) -> None:
        """Tell Telegram what is durable, if no poll has. Without it all that happens is a second delivery."""
        offset = self._backlog.offset
        if offset is None or offset == self._told:
            return
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                await fetch_updates(self._bot, offset, 1, 0, CONFIRM_SECONDS)
        except (TelegramError, TimeoutError) as error:
            logger.info("the last updates are not confirmed", extra={"reason": type(error).__name__})

    # Passing on

    async def _note_move(self, update: Update) -> None:
        """Remember a group that became a supergroup: after all messages from where it was, before any from there."""
        message = update.message
        if message is not None and message.migrate_to_chat_id is not None:
            await self._until_noted(message.chat.id, message.migrate_to_chat_id)
        if message is not None and message.migrate_from_chat_id is not None:
            await self._until_noted(message.migrate_from_chat_id, message.chat.id)

    async def _until_noted(self, old: int, new: int) -> None:
        await self._backlog.done_with(str(old))
        for attempt in count(1):
            try:
                await self._moved(old, new)
            except StorageError as error:
                self._faults.intake[str(old)] = f"messages are not taken: {error}"
                logger.warning("a move is not taken yet", extra={"reason": str(error), "attempt": attempt})
                await self._clock.sleep(backoff(attempt, FIRST_PAUSE, MAX_PAUSE))
            else:
                self._faults.intake.pop(str(old), None)
                return

    async def _pass_on(self, message: InboundMessage) -> None:
        for attempt in count(1):
            if await self._received(message, attempt):
                return
            await self._clock.sleep(backoff(attempt, FIRST_PAUSE, MAX_PAUSE))

    async def _give(self, message: InboundMessage) -> None:
        try:
            await self._intake.receive(message)
        except UserFault as fault:
            await self._intake.refuse(message, str(fault))

    async def _received(self, message: InboundMessage, attempt: int) -> bool:
        """Try to pass a message on; whether it is done with."""
        try:
            await self._give(message)
        except (ClusterError, StorageError) as error:
            self._faults.intake[message.event.conversation_id] = f"messages are not taken: {error}"
            logger.warning("a message is not taken yet", extra={"reason": str(error), "attempt": attempt})
            return False
        except GatewayError as error:
            logger.warning("a message is not taken yet", extra={"reason": str(error), "attempt": attempt})
            return attempt >= FAULT_TRIES
        except MikanError as error:
            logger.error("a message can't be taken", extra={"reason": str(error)})
        except Exception:
            # One message must not keep all those behind it from being read.
            logger.exception("taking a message failed", extra={"attempt": attempt})
            return attempt >= FAULT_TRIES
        self._faults.intake.pop(message.event.conversation_id, None)
        return True


def _read(reader: UpdateReader, updates: Sequence[Update]) -> InboundMessage | None:
    try:
        return reader.read(updates)
    except Exception:
        # Whatever it is, it can't be read better the next time.
        logger.exception("an update can't be read", extra={"update": updates[0].update_id})
        return None


def _pause(error: TelegramError, attempt: int) -> float:
    if isinstance(error, RetryAfter):
        return seconds_to_wait(error)
    longest = CONFLICT_PAUSE if isinstance(error, Conflict) else MAX_PAUSE
    unknown = isinstance(error, InvalidToken | EndPointNotFound)
    return backoff(attempt, MAX_PAUSE if unknown else FIRST_PAUSE, longest)

"""Posting so that a crash loses and doubles nothing: the intent is stored, then sent, then marked.

Between the second and the third step a crash leaves an intent without a mark; it is then sent again under the same
nonce, and the platform answers with the message of then where it can tell (architecture section 5).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from mikan_api.identity import OfficeKey
from mikan_api.kill_points import Step, around
from mikan_api.messaging import Attachment, Author, ConversationMessage
from mikan_gateway.exceptions import PlatformRefused, PlatformUnavailable
from mikan_gateway.ports import ChatPlatform, Target
from mikan_gateway.runtime.clock import Clock
from mikan_gateway.storage.outgoing import Outgoing

T = TypeVar("T")

FIRST_PAUSE = 0.5
MAX_PAUSE = 60.0
BOT = Author(id="mikan", user_name="mikan", display_name="mikan", is_bot=True)

logger = logging.getLogger(__name__)


class Intents(Protocol):
    """The stored intents (`mikan_gateway.storage.outgoing.OutgoingStore`)."""

    async def begin(self, run_id: str, slot: str, nonce: str) -> Outgoing: ...

    async def begin_run(self, run_id: str, slot: str, nonce: str) -> list[Outgoing]: ...

    async def sent(self, run_id: str, slot: str, message_id: str) -> None: ...

    async def get(self, run_id: str, slot: str) -> Outgoing | None: ...

    async def of_run(self, run_id: str) -> list[Outgoing]: ...


LogPosted = Callable[[OfficeKey, ConversationMessage], Awaitable[int]]
"""Numbers a message of the bot in its office's log (`RunQueue.log_posted`)."""


class Outbox:
    """Posts and edits on any platform. ``scope`` is a run's id, or what else a message belongs to."""

    def __init__(
        self, intents: Intents, log_posted: LogPosted, clock: Clock, refused: Callable[[str], None] = lambda _: None
    ) -> None:
        """``refused`` is told of what a platform would not take: an answer, an upload, and so on."""
        self._intents = intents
        self._log_posted = log_posted
        self._clock = clock
        self._refused = refused

    async def begin(self, scope: str, slot: str) -> Outgoing:
        """Store the intent to post, ahead of time if there is time."""
        return await self._intents.begin(scope, slot, _nonce(scope, slot))

    async def begin_run(self, scope: str, slot: str) -> list[Outgoing]:
        """The same, in one go with `intents`."""
        return await self._intents.begin_run(scope, slot, _nonce(scope, slot))

    async def intents(self, scope: str) -> list[Outgoing]:
        """Every intent of a scope; one without a message id was never marked."""
        return await self._intents.of_run(scope)

    async def posted(self, scope: str, slot: str) -> str | None:
        """The id of a message that is known to have been sent."""
        found = await self._intents.get(scope, slot)
        return found.message_id if found else None

    async def post(
        self, platform: ChatPlatform, target: Target, scope: str, slot: str, text: str, draft: bool = False
    ) -> str:
        """Post once, however often this is called; the message id.

        Raises:
            PlatformError: it could not be posted.
        """
        intent = await self.begin(scope, slot)
        if intent.message_id is not None:
            return intent.message_id
        return await self.send(platform, target, intent, text, draft=draft)

    async def send(
        self,
        platform: ChatPlatform,
        target: Target,
        intent: Outgoing,
        text: str,
        office: OfficeKey | None = None,
        draft: bool = False,
    ) -> str:
        """Post what is intended and mark it; the message id.

        Args:
            platform: where to.
            target: the place there.
            intent: stored before.
            text: GFM.
            office: number the message in that office's log too; asked for together, mark and number share a commit.
            draft: whether more is coming.

        Raises:
            PlatformError: it could not be posted.
        """
        with around(Step.PLATFORM_POST):
            message_id = await platform.post(target, text, intent.nonce, draft)
        marked = self._intents.sent(intent.run_id, intent.slot, message_id)
        if office is None:
            await marked
        else:
            await asyncio.gather(marked, self.log(office, target, message_id, text))
        return message_id

    async def upload(
        self, platform: ChatPlatform, target: Target, scope: str, slot: str, file: Path, name: str, title: str
    ) -> str:
        """Upload once; the message id.

        Raises:
            PlatformError: it could not be uploaded.
        """
        intent = await self.begin(scope, slot)
        if intent.message_id is not None:
            return intent.message_id
        with around(Step.PLATFORM_UPLOAD):
            message_id = await platform.upload(target, file, name, title, intent.nonce)
        await self._intents.sent(scope, slot, message_id)
        return message_id

    async def log(
        self,
        office: OfficeKey,
        target: Target,
        message_id: str,
        text: str,
        attachments: tuple[Attachment, ...] = (),
    ) -> None:
        """Number a posted message in the office's log, once per message id."""
        message = ConversationMessage(
            id=message_id,
            thread_id=target.thread_id,
            author=BOT,
            text=text,
            attachments=attachments,
            time=datetime.now(UTC),
            session_key=target.session_key,
        )
        await self._log_posted(office, message)

    async def post_logged(
        self, platform: ChatPlatform, target: Target, office: OfficeKey | None, scope: str, slot: str, text: str
    ) -> None:
        """Post a text, in as many messages as it takes, for as long as it takes, and number them in the office's log.

        Without an office they are in no log.
        """
        for index, part in enumerate(platform.split(text)):
            name = slot if index == 0 else f"{slot}.{index}"

            async def send(name: str = name, part: str = part) -> str:
                return await self.post(platform, target, scope, name, part)

            message_id = await self.persist(send, "post")
            if message_id is not None and office is not None:
                await self.log(office, target, message_id, part)

    async def persist(self, call: Callable[[], Awaitable[T]], what: str) -> T | None:
        """Call until it worked, waiting as the platform asks; ``None`` if the platform refuses for good.

        It does where nobody can be answered any more: somebody blocked the bot, or a group removed it.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                return await call()
            except PlatformUnavailable as error:
                wait = error.retry_after if error.retry_after is not None else pause
                logger.warning("platform unavailable", extra={"what": what, "reason": str(error), "wait": wait})
                await self._clock.sleep(wait)
                pause = min(MAX_PAUSE, pause * 2)
            except PlatformRefused as error:
                logger.warning("platform refused", extra={"what": what, "reason": str(error)})
                self._refused(what)
                return None


def _nonce(scope: str, slot: str) -> str:
    return f"{scope}:{slot}"

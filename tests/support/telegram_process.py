"""A gateway's Telegram side as a process of its own, which ends by kill -9 at a place that a test names.

``python -m telegram_process BASE_URL BASE_FILE_URL TOKEN ROOT before|after N``: before or after the N-th message
becomes durable. Messages before it are taken and answered as ever.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from mikan_gateway.config import TelegramConfig
from mikan_gateway.ports import InboundMessage, Intake
from telegram_world import TelegramGateway


class Deadly:
    """An intake that kills the process."""

    def __init__(self, intake: Intake, place: str, number: int) -> None:
        self._intake, self._place, self._left = intake, place, number

    async def receive(self, message: InboundMessage) -> int | None:
        self._left -= 1
        if self._left == 0 and self._place == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        number = await self._intake.receive(message)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return number


async def main(base_url: str, base_file_url: str, token: str, root: str, place: str, number: str) -> None:
    """Run until killed."""
    config = TelegramConfig(token, base_url, base_file_url)
    around = lambda intake: Deadly(intake, place, int(number))  # noqa: E731  said once
    async with TelegramGateway(config, Path(root), around=around):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

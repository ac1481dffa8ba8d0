"""A gateway's Telegram side as a process of its own, which kills itself where `MIKAN_KILL_POINT` says.

``python -m telegram_process BASE_URL BASE_FILE_URL TOKEN ROOT``. What happens before that place is done as ever.
"""

import asyncio
import os
import sys
from pathlib import Path

from mikan_api.kill_points import arm
from mikan_gateway.config import TelegramConfig
from telegram_agent import Turn, echo
from telegram_world import TelegramGateway


async def play(turn: Turn) -> str:
    """As `echo`; the answer to a greeting is shown before it is whole."""
    if turn.text == "hello":
        await turn.stream("You said")
        await asyncio.sleep(0.2)
    return await echo(turn)


async def main(base_url: str, base_file_url: str, token: str, root: str) -> None:
    """Run until killed."""
    arm(os.environ)
    config = TelegramConfig(token, base_url, base_file_url)
    async with TelegramGateway(config, Path(root), play=play):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

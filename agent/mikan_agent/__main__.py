"""``python -m mikan_agent``: exit code 0 after a drain, 2 for a wrong environment, 1 for anything unexpected."""

import asyncio
import logging
import os
import signal
import sys

from mikan_agent.config import Config
from mikan_agent.exceptions import ConfigError
from mikan_api.logs import configure_logging


async def serve(config: Config) -> None:
    """Run the agent until it is drained or told to end."""
    from mikan_agent.app import Agent  # a wrong environment is named before anything heavy is imported

    agent = Agent(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.terminate)
    await agent.run()


def main() -> int:
    """Read the environment and serve; returns the exit code."""
    try:
        config = Config.from_environ(os.environ)
    except ConfigError as error:
        print(f"mikan-agent: {error}", file=sys.stderr)  # noqa: T201  logging is not set up yet
        return 2
    configure_logging("agent", config.log_level)
    # Its line for every request says nothing that ours do not.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(serve(config))
    return 0


if __name__ == "__main__":
    sys.exit(main())

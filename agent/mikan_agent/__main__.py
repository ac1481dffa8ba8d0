"""``python -m mikan_agent``: exit code 0 after a drain, 143 after SIGTERM, 2 for a wrong environment, 1 for anything
unexpected.

Where all containers of a pod end with 0 the pod has succeeded, and the kubelet forgets why it ended it: an eviction, a
node that goes down.
"""

import asyncio
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mikan_agent.config import Config


TERMINATED = 128 + signal.SIGTERM


def end_at_once_on_sigterm() -> None:
    """Until the agent can drain there is nothing to drain.

    Process 1 of a container ignores a signal that has no handler: without this one a pod that is deleted while it
    imports would stay for its whole grace period.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))


async def serve(config: "Config") -> int:
    """Run the agent until it is drained or told to end; the exit code."""
    from mikan_agent.app import Agent  # a wrong environment is named before anything heavy is imported

    agent = Agent(config)
    loop = asyncio.get_running_loop()
    told: list[signal.Signals] = []

    def terminate(number: signal.Signals) -> None:
        told.append(number)
        agent.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, terminate, number)
    # What is there now stays: to look through it takes the collector 0.02 s, in the middle of an answer.
    gc.freeze()
    await agent.run()
    return TERMINATED if told else 0


def main() -> int:
    """Read the environment and serve; returns the exit code."""
    end_at_once_on_sigterm()
    from mikan_agent.config import Config
    from mikan_api.exceptions import ConfigError
    from mikan_api.kill_points import arm
    from mikan_api.logs import configure_logging

    try:
        config = Config.from_environ(os.environ)
        configure_logging("agent", config.log_level)
        arm(os.environ)
    except ConfigError as error:
        print(f"mikan-agent: {error}", file=sys.stderr)  # noqa: T201  logging is not set up yet
        return 2
    import uvloop

    return uvloop.run(serve(config))


if __name__ == "__main__":
    sys.exit(main())

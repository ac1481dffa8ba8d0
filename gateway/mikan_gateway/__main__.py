"""``python -m mikan_gateway``: configuration, logging and signals around `mikan_gateway.app.Gateway`.

Exit codes: 0 after a signal, 1 when the process can't go on, 2 when it was configured wrongly. Where another one may
have become the active gateway it begins anew, and waits for its turn.
"""

import asyncio
import gc
import logging
import os
import signal
import sys

import uvloop

from mikan_api.anew import begin_anew
from mikan_api.exceptions import ConfigError
from mikan_api.kill_points import arm
from mikan_api.logs import configure_logging
from mikan_gateway.app import Gateway
from mikan_gateway.config import Config
from mikan_gateway.exceptions import GatewayError

logger = logging.getLogger("mikan_gateway")


async def _run(config: Config) -> bool:
    """Run until told to end; whether another gateway may be active now."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    gateway = Gateway(config)
    started = asyncio.create_task(gateway.start())
    signalled = asyncio.create_task(stopping.wait())
    lost = asyncio.create_task(gateway.lost.wait())
    try:
        await asyncio.wait({started, signalled}, return_when=asyncio.FIRST_COMPLETED)
        if started.done():
            started.result()
            # What is there now stays: to look through it takes the collector 0.1 s, in the middle of somebody's answer.
            gc.freeze()
            await asyncio.wait({signalled, lost}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        started.cancel()
        await asyncio.gather(started, return_exceptions=True)
        for task in (signalled, lost):
            task.cancel()
        await gateway.stop()
    return gateway.lost.is_set() and not stopping.is_set()


def main() -> int:
    """Run the gateway until it is told to end."""
    try:
        config = Config.from_environ(os.environ)
        configure_logging("gateway", config.log_level)
        arm(os.environ)
        # uvicorn tells of every connection; what matters of them is logged by who serves them.
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        if uvloop.run(_run(config)):
            logger.error("beginning anew")
            begin_anew()
    except ConfigError as error:
        sys.stderr.write(f"mikan-gateway: {error}\n")
        return 2
    except GatewayError as error:
        sys.stderr.write(f"mikan-gateway: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

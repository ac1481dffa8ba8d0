"""``python -m mikan_operator``."""

import asyncio
import logging
import os
import sys

from mikan_api.anew import begin_anew
from mikan_api.exceptions import ConfigError
from mikan_api.kill_points import arm
from mikan_api.logs import configure_logging
from mikan_operator.app import run
from mikan_operator.config import Config
from mikan_operator.exceptions import LeaseLost

logger = logging.getLogger("mikan_operator")


def main() -> int:
    """Run the operator; 2 for a wrong configuration. Once the Lease is lost it begins anew."""
    try:
        config = Config.from_environ(os.environ)
        configure_logging("operator", config.log_level)
        arm(os.environ)
        asyncio.run(run(config))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except BaseExceptionGroup as group:
        # The task group that watches, works and holds the Lease ends as a whole when one of them does.
        lost, others = group.split(LeaseLost)
        if lost is None:
            raise
        logger.error("the Lease is lost: beginning anew", exc_info=others)
        begin_anew()
    return 0


if __name__ == "__main__":
    sys.exit(main())

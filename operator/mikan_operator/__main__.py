"""``python -m mikan_operator``."""

import asyncio
import os
import sys

from mikan_api.exceptions import ConfigError
from mikan_api.kill_points import arm
from mikan_api.logs import configure_logging
from mikan_operator.app import run
from mikan_operator.config import Config
from mikan_operator.exceptions import ApiError, LeaseLost


def main() -> int:
    """Run the operator. Returns 2 for a wrong configuration, 1 where a restart may help."""
    try:
        config = Config.from_environ(os.environ)
        configure_logging("operator", config.log_level)
        arm(os.environ)
        asyncio.run(run(config))
    except ConfigError as error:
        return _leave(error, 2)
    except (ApiError, LeaseLost) as error:
        return _leave(error, 1)
    except BaseExceptionGroup as group:
        # The task group that watches, works and holds the Lease ends as a whole when one of them does.
        known = group.subgroup((ApiError, LeaseLost))
        if known is None or len(known.exceptions) != len(group.exceptions):
            raise
        return _leave(known.exceptions[0], 1)
    return 0


def _leave(error: BaseException, code: int) -> int:
    sys.stderr.write(f"{error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())

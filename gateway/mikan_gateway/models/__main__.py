"""Entry of the models process."""

import os
import sys

import uvloop

from mikan_api.exceptions import ConfigError
from mikan_api.logs import configure_logging
from mikan_gateway.models.config import Config
from mikan_gateway.models.process import serve


def main() -> int:
    """Serve; the exit code is 2 for a configuration that cannot be used."""
    try:
        config = Config.from_environ(os.environ)
        configure_logging("models", config.log_level)
        # One info line a request of each of these would drown our own.
        uvloop.run(serve(config))
    except ConfigError as error:
        sys.stderr.write(f"mikan-models: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

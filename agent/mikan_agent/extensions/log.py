"""What an extension, and what goes wrong in it, leaves in the agent's log; never with one of its secrets."""

import logging
import traceback

from mikan_agent.extensions.secrets import Secrets

logger = logging.getLogger("mikan_agent.extensions")

MAX_MESSAGE = 8_000
"""Characters."""


class ExtensionLog:
    """Log entries that carry the extension's name."""

    def __init__(self, slug: str, secrets: Secrets) -> None:
        self._slug, self._secrets = slug, secrets

    def write(self, level: int, message: str, **fields: str) -> None:
        """One entry."""
        masked = {name: self._secrets.mask(value)[-MAX_MESSAGE:] for name, value in fields.items()}
        text = self._secrets.mask(message)[:MAX_MESSAGE]
        logger.log(level, "%s", text, extra={"extension": self._slug, **masked})

    def failed(self, what: str, error: BaseException) -> None:
        """An error of the extension's, with where it happened."""
        trace = "".join(traceback.format_exception(error))
        self.write(logging.ERROR, f"{what} failed: {type(error).__name__}: {told(error)}", trace=trace)


def told(error: BaseException) -> str:
    """What an error of the extension's says, whose text is its own code too."""
    try:
        return str(error)
    except Exception as another:  # noqa: BLE001  an extension breaks nothing else
        return f"(no text: {type(another).__name__})"

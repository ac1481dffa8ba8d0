"""One log form for every process: a JSON object a line on standard error.

Context goes in as ``logger.info("run finished", extra={"office": key})``. Bearer tokens, office tokens and the
tokens of Telegram bots are masked, as a last line of defence: nothing should log one.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_TALKATIVE = ("httpx", "httpcore")
"""Loggers that tell every address that is asked, with whatever of it is secret."""
_SECRET = re.compile(
    r"(mkn1\.[a-z]+\.[^.\s]+\.[^.\s]+\.[0-9]+\.)[\w-]+|(?i:(bearer\s+))[^\s\"']+|([0-9]{6,20}:)[\w-]{30,}"
)


def mask(text: str) -> str:
    """Replace office tokens, bearer credentials and bot tokens in a text."""
    return _SECRET.sub(lambda m: f"{m[1] or m[2] or m[3]}***", text)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {k: v for k, v in vars(record).items() if k not in _STANDARD}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return mask(json.dumps(entry, ensure_ascii=False, default=str))


def configure_logging(process: str, level: str = "INFO") -> None:
    """Send the root logger's records to standard error in this form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)

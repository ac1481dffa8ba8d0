"""What every process writes, and what none does."""

import json
import logging
from collections.abc import Iterator

import httpx
import pytest

from mikan_api.logs import configure_logging


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("logs_as_before")
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_an_address_that_is_asked_is_not_told(capsys: pytest.CaptureFixture[str], level: str) -> None:
    configure_logging("agent", level)
    with httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as client:
        client.get("https://api.test/?api_key=hunter2")
    logging.getLogger("board").info("done")

    written = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["process"], line["logger"], line["message"]) for line in written] == [("agent", "board", "done")]

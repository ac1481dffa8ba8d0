"""A Bot API server with people in it, and gateways that read from it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from api_server_fixtures import kubectl, namespace
from durability_fixtures import cluster, mothers, new_world
from servers.telegram.server import TelegramServer
from telegram_world import Start, TelegramGateway, config_of

__all__ = ["cluster", "kubectl", "mothers", "namespace", "new_world"]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def start(telegram: TelegramServer, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a gateway; it is stopped at the end."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> TelegramGateway:
            config = options.pop("config", None) or config_of(telegram)
            return await stack.enter_async_context(TelegramGateway(config, tmp_path, **options))

        yield start

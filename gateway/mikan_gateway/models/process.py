"""The composition root of the models process: what is built, started and stopped, in that order and back."""

import asyncio
import gc
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from mikan_api.identity import OfficeKey
from mikan_api.mounted import SETTINGS_FILE, Reloaded, following, read_settings, read_token_keys
from mikan_api.settings import Settings
from mikan_gateway.models.access import Access, OfficeLookup
from mikan_gateway.models.calls import ModelCalls
from mikan_gateway.models.catalog import Catalog, load_catalog, watched_directories
from mikan_gateway.models.config import Config, ProviderEntry
from mikan_gateway.models.health import Health, Part, assess
from mikan_gateway.models.metrics import Metrics
from mikan_gateway.models.providers.litellm import Litellm, LitellmProvider
from mikan_gateway.models.providers.openai import OpenAIProvider
from mikan_gateway.models.providers.provider import Provider
from mikan_gateway.models.server import build_app
from mikan_gateway.models.slots import Slots
from mikan_gateway.models.spending import Cap, Spending
from mikan_gateway.offices.client import connect
from mikan_gateway.offices.directory import OfficeDirectory

STOP_SECONDS = 20
"""How long calls under way may still run after a SIGTERM."""


class CurrentSettings(Protocol):
    """The settings as they are now."""

    @property
    def current(self) -> Settings: ...


@dataclass(frozen=True, slots=True)
class WatchedOffices:
    """`OfficeLookup` over the one watch."""

    directory: OfficeDirectory

    def get(self, key: OfficeKey) -> tuple[str, int] | None:
        """Uid and epoch of an Office that is not being deleted."""
        record = self.directory.record(key)
        return None if record is None or record.deleting else (record.uid, record.epoch)

    def fault(self) -> str:
        """Why Offices may have changed unseen."""
        return self.directory.health().reason

    @property
    def listed(self) -> bool:
        """Whether they were known at least once."""
        return self.directory.synced


@dataclass(frozen=True, slots=True)
class DefaultSettings:
    """For a process that has no settings mounted."""

    current: Settings = Settings()


class ModelsProcess:
    """Everything but the Kubernetes side and the listener."""

    def __init__(self, config: Config, offices: OfficeLookup, settings: CurrentSettings) -> None:
        self._config = config
        self._settings = settings
        self._offices = offices
        self._litellm = Litellm()
        self._client = httpx.AsyncClient(
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64), follow_redirects=False
        )
        self._keys = Reloaded[tuple[bytes, ...]]("token keys", self._load_keys, lambda _: [config.keys_dir], ())
        self._catalog = Reloaded[Catalog | None]("models.json", self._load_catalog, self._catalog_directories, None)
        self.metrics = Metrics(CollectorRegistry())
        calls = ModelCalls(self._usable_catalog, self.cap, Spending(time.monotonic), Slots(), self.metrics)
        access = Access(lambda: self._keys.current, offices)
        self.app = build_app(access, calls, self.metrics, self.health, self._lifespan)

    def cap(self) -> Cap | None:
        """The tighter of the caps in ``models.json`` and in the settings (the latter is for 24 hours)."""
        caps = []
        if usd := self._settings.current.models_cap_usd_per_office:
            caps.append(Cap(usd, 24))
        catalog = self._catalog.current
        if catalog and catalog.config.cap_usd_per_office:
            caps.append(Cap(catalog.config.cap_usd_per_office, catalog.config.cap_window_hours))
        return min(caps, key=lambda cap: cap.usd / cap.hours, default=None)

    def health(self) -> Health:
        """The state of every part."""
        catalog = self._catalog
        parts = {
            "models.json": Part(catalog.fault, needed=catalog.current is None),
            "token keys": Part(self._keys.fault, needed=not self._keys.current),
            "offices": Part(self._offices.fault(), needed=not self._offices.listed),
            "litellm": Part(self._litellm.fault),
        }
        if catalog.current:
            faults = catalog.current.faults
            parts |= {f"provider {n}": Part(faults.get(n, ""), needed=False) for n in catalog.current.config.providers}
        return assess(parts, self.metrics)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        await self._keys.refresh()
        await self._catalog.refresh()
        try:
            async with following(self._keys, self._catalog):
                yield
        finally:
            await self._litellm.close()
            await self._client.aclose()

    def _usable_catalog(self) -> Catalog | None:
        return self._catalog.current

    def _load_keys(self) -> tuple[bytes, ...]:
        return read_token_keys(self._config.keys_dir)

    def _load_catalog(self) -> Catalog:
        catalog = load_catalog(self._config.models_config, self._config.models_keys_dir, self._new_provider)
        if any(entry.kind == "litellm" for entry in catalog.config.providers.values()):
            self._litellm.load()
        return catalog

    def _catalog_directories(self, catalog: Catalog | None) -> list[Path]:
        return watched_directories(self._config.models_config, self._config.models_keys_dir, catalog)

    def _new_provider(self, name: str, entry: ProviderEntry, key: str | None) -> Provider:
        if entry.kind == "litellm":
            return LitellmProvider(name, entry, key, self._litellm)
        return OpenAIProvider(name, entry, key, self._client)


@asynccontextmanager
async def watched_offices(config: Config, settings: CurrentSettings) -> AsyncIterator[WatchedOffices]:
    """The Office objects of the cluster."""
    async with await connect() as api:
        directory = OfficeDirectory(api, config.offices_namespace, settings)
        directory.start()
        try:
            yield WatchedOffices(directory)
        finally:
            await directory.stop()


def mounted_settings(directory: Path) -> Reloaded[Settings] | DefaultSettings:
    """The settings if any are mounted here; the only one that matters here is the cap."""
    if (directory / SETTINGS_FILE).exists():
        return Reloaded.read("settings", lambda: read_settings(directory), [directory])
    return DefaultSettings()


async def serve(config: Config) -> None:
    """Run until SIGTERM or SIGINT."""
    async with AsyncExitStack() as stack:
        settings = await asyncio.to_thread(mounted_settings, config.settings_dir)
        if isinstance(settings, Reloaded):
            await stack.enter_async_context(following(settings))
        offices = await stack.enter_async_context(watched_offices(config, settings))
        process = ModelsProcess(config, offices, settings)
        server = Server(listener(process.app, config))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.handle_exit, number, None)
        await server.serve()


class Server(uvicorn.Server):
    """uvicorn's server, which would raise a signal again after its end and so cut short whatever ends after it."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and keep what is there then out of every collection: it takes 0.05 s of somebody's answer."""
        await super().startup(sockets)
        gc.freeze()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `serve`."""
        yield


def listener(app: Starlette, config: Config) -> uvicorn.Config:
    """How uvicorn serves: our log form, no access log (probes would fill it), a bounded end."""
    return uvicorn.Config(
        app,
        host=config.listen.host,
        port=config.listen.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=STOP_SECONDS,
        lifespan="on",
    )

"""Requests about Office objects, with the API server's errors translated.

Only what the gateway may do: get, list, watch, create, patch, and apply its share of the status. What the answers mean
is for the neighbours.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, CustomObjectsApi
from kubernetes.aio.client.exceptions import ApiException

from mikan_api import names
from mikan_api.kill_points import Step, around
from mikan_gateway.exceptions import ClusterConflict, ClusterError, ClusterNotFound, ClusterRefused

PLURAL = "offices"
PAGE = 500
"""Objects of one page of a list."""
REQUEST_SECONDS = 15.0
_MAX_EVENT = 8 * 1024 * 1024
"""Bytes of one watch event; etcd takes no object that is larger than 1.5 MiB."""

Manifest = dict[str, Any]


def _translated(error: ApiException, doing: str) -> ClusterError:
    kinds = {404: ClusterNotFound, 408: ClusterError, 409: ClusterConflict, 429: ClusterError}
    other = ClusterRefused if 400 <= error.status < 500 else ClusterError
    return kinds.get(error.status, other)(f"{doing}: {error.status} {_reason(error)}")


def _reason(error: ApiException) -> str:
    """The server's own sentence, without the body around it."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)


class WatchExpired(ClusterError):
    """410: the resource version is too old; list again."""


class OfficeApi:
    """Office objects of one namespace."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self._objects = CustomObjectsApi(api)
        self._where = {"group": names.GROUP, "version": names.VERSION, "namespace": namespace, "plural": PLURAL}

    async def list(self) -> tuple[list[Manifest], str]:
        """All of them, and the resource version from which to watch.

        Raises:
            ClusterError: the API server could not be asked.
        """
        items: list[Manifest] = []
        token: str | None = None
        while True:
            page = await self._ask(
                self._objects.list_namespaced_custom_object(
                    **self._where, limit=PAGE, _continue=token, _request_timeout=REQUEST_SECONDS
                ),
                "listing offices",
            )
            items += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return items, str(page["metadata"]["resourceVersion"])

    async def watch(self, version: str, seconds: int, silence: float) -> AsyncIterator[tuple[str, Manifest]]:
        """Changes after ``version`` as (type, object), bookmarks included, until the server ends it by itself.

        Args:
            version: resource version to begin after.
            seconds: how long the server may keep the watch open.
            silence: seconds without a byte after which the connection counts as dead.

        Raises:
            WatchExpired: the version is too old.
            ClusterError: refused, cut off or silent.
        """
        response = await self._ask(
            self._objects.list_namespaced_custom_object_without_preload_content(
                **self._where,
                watch=True,
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=seconds,
                _request_timeout=float(seconds + REQUEST_SECONDS),
            ),
            "watching offices",
        )
        try:
            async for line in _lines(response.content, silence):
                yield _event(line)
        finally:
            response.close()

    async def get(self, name: str) -> Manifest:
        """One Office.

        Raises:
            ClusterNotFound: there is none of that name.
            ClusterError: the API server could not be asked.
        """
        call = self._objects.get_namespaced_custom_object(**self._where, name=name, _request_timeout=REQUEST_SECONDS)
        return dict(await self._ask(call, f"reading office {name}"))

    async def create(self, manifest: Mapping[str, Any]) -> Manifest:
        """Create an Office.

        Raises:
            ClusterConflict: the name is taken.
            ClusterError: refused or unreachable.
        """
        call = self._objects.create_namespaced_custom_object(
            **self._where, body=dict(manifest), field_manager=names.GATEWAY, _request_timeout=REQUEST_SECONDS
        )
        with around(Step.OFFICE_CREATE):
            return dict(await self._ask(call, f"creating office {manifest['metadata']['name']}"))

    async def patch_spec(self, name: str, spec: Mapping[str, Any]) -> Manifest:
        """Merge fields into an Office's spec; ``None`` removes one.

        Raises:
            ClusterError: refused (the message has the server's reason) or unreachable.
        """
        call = self._objects.patch_namespaced_custom_object(
            **self._where,
            name=name,
            body={"spec": dict(spec)},
            field_manager=names.GATEWAY,
            _content_type="application/merge-patch+json",
            _request_timeout=REQUEST_SECONDS,
        )
        with around(Step.OFFICE_CHANGE):
            return dict(await self._ask(call, f"changing office {name}"))

    async def apply_status(self, name: str, status: Mapping[str, Any]) -> Manifest:
        """Apply the gateway's share of an Office's status.

        A name is the hash of an identity, so an Office that was made anew meanwhile is the right one too.

        Raises:
            ClusterNotFound: it is gone.
            ClusterError: refused or unreachable.
        """
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "Office",
            "metadata": {"name": name},
            "status": dict(status),
        }
        call = self._objects.patch_namespaced_custom_object_status(
            **self._where,
            name=name,
            body=body,
            field_manager=names.GATEWAY,
            force=True,
            _content_type="application/apply-patch+yaml",
            _request_timeout=REQUEST_SECONDS,
        )
        with around(Step.OFFICE_STATUS):
            return dict(await self._ask(call, f"writing the status of office {name}"))

    async def _ask(self, call: Awaitable[Any], doing: str) -> Any:
        return await asked(call, doing)


async def asked(call: Awaitable[Any], doing: str) -> Any:
    """What the API server answers.

    Raises:
        WatchExpired: 410.
        ClusterError: refused or unreachable; the message says what was being done.
    """
    try:
        return await call
    except ApiException as error:
        if error.status == 410:
            raise WatchExpired(f"{doing}: the resource version is too old") from None
        raise _translated(error, doing) from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ClusterError(f"{doing}: {type(error).__name__} {error}".rstrip()) from None


async def _lines(content: aiohttp.StreamReader, silence: float) -> AsyncIterator[bytes]:
    """Lines of a stream, however long; the reader's own ``readline`` refuses long ones."""
    pending = b""
    while True:
        try:
            async with asyncio.timeout(silence):
                chunk = await content.readany()
        except TimeoutError:
            raise ClusterError(f"the watch was silent for {silence:.0f} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ClusterError(f"the watch was cut off: {type(error).__name__}") from None
        if not chunk:
            return
        *whole, pending = (pending + chunk).split(b"\n")
        if len(pending) > _MAX_EVENT:
            raise ClusterError("a watch event is too long")
        for line in whole:
            yield line


def _event(line: bytes) -> tuple[str, Manifest]:
    try:
        event = json.loads(line)
        kind, item = str(event["type"]), event["object"]
    except (ValueError, KeyError, TypeError):
        raise ClusterError("the watch sent something that is no event") from None
    if kind == "ERROR":
        if item.get("code") == 410:
            raise WatchExpired("the resource version is too old")
        raise ClusterError(f"the watch failed: {item.get('message', 'no reason given')}")
    return kind, item

"""One client for every object: raw JSON in and out, errors translated, no model classes.

Over the HTTP layer of ``kubernetes.aio``; its typed models are left aside, since decoding them would dominate a resync.
"""

import json
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client, config

from mikan_api import names
from mikan_api.exceptions import ConfigError
from mikan_api.kill_points import Step, around
from mikan_operator import exceptions as errors
from mikan_operator.metrics import REQUESTS
from mikan_operator.storage.kinds import (
    EVENT,
    LEASE,
    OFFICE,
    POD,
    ROLE,
    ROLE_BINDING,
    SCHEDULED_EVENT,
    SECRET,
    SERVICE_ACCOUNT,
    VAULT,
    Kind,
    Manifest,
)

REQUEST_TIMEOUT = 15.0
PAGE = 500
WRITES: Mapping[tuple[str, Kind, str], Step] = {
    ("create", LEASE, ""): Step.LEASE_CREATE,
    ("replace", LEASE, ""): Step.LEASE_REPLACE,
    ("create", SERVICE_ACCOUNT, ""): Step.SERVICE_ACCOUNT_CREATE,
    ("apply", SERVICE_ACCOUNT, ""): Step.SERVICE_ACCOUNT_APPLY,
    ("create", SECRET, ""): Step.SECRET_CREATE,
    ("apply", SECRET, ""): Step.SECRET_APPLY,
    ("create", ROLE, ""): Step.ROLE_CREATE,
    ("apply", ROLE, ""): Step.ROLE_APPLY,
    ("create", ROLE_BINDING, ""): Step.ROLE_BINDING_CREATE,
    ("apply", ROLE_BINDING, ""): Step.ROLE_BINDING_APPLY,
    ("create", POD, ""): Step.POD_CREATE,
    ("apply", POD, ""): Step.POD_APPLY,
    ("delete", POD, ""): Step.POD_DELETE,
    ("apply", OFFICE, ""): Step.OFFICE_APPLY,
    ("apply", OFFICE, "status"): Step.OFFICE_STATUS_APPLY,
    ("apply", VAULT, "status"): Step.VAULT_STATUS_APPLY,
    ("apply", SCHEDULED_EVENT, "status"): Step.SCHEDULED_EVENT_STATUS_APPLY,
    ("delete", SCHEDULED_EVENT, ""): Step.SCHEDULED_EVENT_DELETE,
    ("create", EVENT, ""): Step.EVENT_CREATE,
}
"""Every write of the operator: verb, kind, subresource."""

logger = logging.getLogger(__name__)


class KubernetesApi:
    """The objects of one namespace, and the cluster's."""

    def __init__(self, api: Any, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def get(self, kind: Kind, name: str) -> Manifest:
        """Read an object.

        Raises:
            ApiError: `NotFound` and the others of `mikan_operator.exceptions`.
        """
        return await self._request("GET", kind.path(self._namespace, name))

    async def list_all(self, kind: Kind, label_selector: str = "") -> list[Manifest]:
        """Read all objects of a kind, page by page."""
        found: list[Manifest] = []
        more = ""
        while True:
            query = {"limit": str(PAGE), "labelSelector": label_selector, "continue": more}
            page = await self._request("GET", kind.path(self._namespace), query)
            found.extend({"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in page["items"])
            more = page["metadata"].get("continue", "")
            if not more:
                return found

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Make an object. Raises `AlreadyExists` where the name is taken."""
        query = {"fieldManager": names.OPERATOR}
        with around_write("create", kind):
            return await self._request("POST", kind.path(self._namespace), query, manifest)

    async def replace(self, kind: Kind, name: str, manifest: Manifest) -> Manifest:
        """Write an object as a whole; its resourceVersion is the precondition."""
        query = {"fieldManager": names.OPERATOR}
        with around_write("replace", kind):
            return await self._request("PUT", kind.path(self._namespace, name), query, manifest)

    async def apply(self, kind: Kind, name: str, fields: Manifest, subresource: str = "") -> Manifest:
        """Server-side apply of our own fields; a ``metadata.uid`` in them is a precondition."""
        query = {"fieldManager": names.OPERATOR, "force": "true"}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **fields}
        body["metadata"] = {**fields.get("metadata", {}), "name": name}
        path = kind.path(self._namespace, name, subresource)
        with around_write("apply", kind, subresource):
            return await self._request("PATCH", path, query, body, "application/apply-patch+yaml")

    async def delete(self, kind: Kind, name: str, uid: str, resource_version: str) -> None:
        """Delete exactly the object that was seen. Raises `Conflict` if it has changed since."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        with around_write("delete", kind):
            await self._request("DELETE", kind.path(self._namespace, name), None, body)

    async def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = "application/json",
    ) -> Manifest:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        await self._api.update_params_for_auth(headers, None, ["BearerToken"], path, method, body)
        used = urlencode({key: value for key, value in (query or {}).items() if value})
        url = f"{self._api.configuration.host}{path}{'?' + used if used else ''}"
        try:
            response = await self._api.rest_client.request(
                method, url, headers=headers, body=body, _request_timeout=REQUEST_TIMEOUT
            )
            text = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            REQUESTS.labels(method, "none").inc()
            raise errors.Unavailable(f"{method} {path}: {type(error).__name__}") from error
        REQUESTS.labels(method, str(response.status)).inc()
        if response.status >= 400:
            raise translate(method, response.status, text)
        document: Manifest = json.loads(text)
        return document


def around_write(verb: str, kind: Kind, subresource: str = "") -> AbstractContextManager[None]:
    """The places before and after a write."""
    step = WRITES.get((verb, kind, subresource))
    return nullcontext() if step is None else around(step)


def translate(method: str, status: int, body: bytes) -> errors.ApiError:
    """The error that an answer means (API conventions, "Response Status Kind")."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = {}
    answer = answer if isinstance(answer, dict) else {}
    message = str(answer.get("message") or f"HTTP {status}")[:1024]
    causes = {cause.get("reason") for cause in (answer.get("details") or {}).get("causes") or ()}
    if status == 403 and "NamespaceTerminating" in causes:
        return errors.NamespaceTerminating(message, status)
    if status == 409 and (answer.get("reason") == "AlreadyExists" or (method == "POST" and not answer)):
        return errors.AlreadyExists(message, status)
    known: dict[int, type[errors.ApiError]] = {
        400: errors.Invalid,
        403: errors.Forbidden,
        404: errors.NotFound,
        409: errors.Conflict,
        422: errors.Invalid,
    }
    return known.get(status, errors.Unavailable)(message, status)


async def load_configuration() -> Any:
    """The cluster we run in, else the kubeconfig that ``KUBECONFIG`` names.

    Raises:
        ConfigError: neither can be used.
    """
    configuration = client.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            config.load_incluster_config(client_configuration=configuration)
        else:
            # Named here, since the library takes the variable only once, when it is imported.
            await config.load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise ConfigError(f"no access to a cluster: {error}") from None
    # 5,000 offices may wake at once: as many connections as workers, never more.
    configuration.connection_pool_maxsize = 32
    return configuration


@asynccontextmanager
async def connect(configuration: Any) -> AsyncIterator[Any]:
    """A client, closed at the end."""
    async with client.ApiClient(configuration) as api:
        yield api

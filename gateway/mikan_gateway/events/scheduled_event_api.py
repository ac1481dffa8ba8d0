"""Requests about ScheduledEvent objects, with the API server's errors translated. Decides nothing."""

from collections.abc import Mapping
from typing import Any

from kubernetes.aio.client import ApiClient, CustomObjectsApi

from mikan_api import names
from mikan_api.identity import OfficeAddress
from mikan_api.kill_points import Step, around
from mikan_gateway.offices.api import PAGE, REQUEST_SECONDS, Manifest, asked

PLURAL = "scheduledevents"


class ScheduledEventApi:
    """ScheduledEvents of one namespace."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self._objects = CustomObjectsApi(api)
        self._where = {"group": names.GROUP, "version": names.VERSION, "namespace": namespace, "plural": PLURAL}

    async def list(self, address: OfficeAddress) -> list[Manifest]:
        """Those of one conversation, whoever made them.

        Raises:
            ClusterError: the API server could not be asked.
        """
        wanted = f"spec.platform={address.platform},spec.conversationId={_escaped(address.conversation_id)}"
        items: list[Manifest] = []
        token: str | None = None
        while True:
            page = await asked(
                self._objects.list_namespaced_custom_object(
                    **self._where,
                    field_selector=wanted,
                    limit=PAGE,
                    _continue=token,
                    _request_timeout=REQUEST_SECONDS,
                ),
                "listing scheduled events",
            )
            items += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return items

    async def get(self, name: str) -> Manifest:
        """One of them.

        Raises:
            ClusterNotFound: there is none of that name.
            ClusterError: the API server could not be asked.
        """
        call = self._objects.get_namespaced_custom_object(**self._where, name=name, _request_timeout=REQUEST_SECONDS)
        return dict(await asked(call, f"reading scheduled event {name}"))

    async def create(self, manifest: Mapping[str, Any]) -> Manifest:
        """Make one.

        Raises:
            ClusterConflict: the name is taken.
            ClusterError: refused or unreachable.
        """
        call = self._objects.create_namespaced_custom_object(
            **self._where, body=dict(manifest), field_manager=names.GATEWAY, _request_timeout=REQUEST_SECONDS
        )
        with around(Step.SCHEDULE_WRITE):
            return dict(await asked(call, f"creating scheduled event {manifest['metadata']['name']}"))

    async def patch(self, name: str, fields: Mapping[str, Any]) -> Manifest:
        """Merge fields into one; ``None`` removes a field, a ``metadata.resourceVersion`` is a precondition.

        Raises:
            ClusterNotFound: it is gone.
            ClusterConflict: it is another one now.
            ClusterError: refused or unreachable.
        """
        call = self._objects.patch_namespaced_custom_object(
            **self._where,
            name=name,
            body=dict(fields),
            field_manager=names.GATEWAY,
            _content_type="application/merge-patch+json",
            _request_timeout=REQUEST_SECONDS,
        )
        with around(Step.SCHEDULE_WRITE):
            return dict(await asked(call, f"changing scheduled event {name}"))

    async def delete(self, name: str, uid: str) -> None:
        """Delete exactly the one that was seen.

        Raises:
            ClusterNotFound: it is gone.
            ClusterConflict: it is another one now.
            ClusterError: refused or unreachable.
        """
        call = self._objects.delete_namespaced_custom_object(
            **self._where, name=name, body={"preconditions": {"uid": uid}}, _request_timeout=REQUEST_SECONDS
        )
        with around(Step.SCHEDULE_WRITE):
            await asked(call, f"deleting scheduled event {name}")


def _escaped(value: str) -> str:
    """A value of a field selector (`k8s.io/apimachinery/pkg/fields`)."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")

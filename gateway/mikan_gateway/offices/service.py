"""The gateway's offices: the `Offices` port over directory, API and activity writer."""

from typing import Any

from mikan_api import names
from mikan_api.identity import OfficeAddress, OfficeKey
from mikan_api.messaging import ConversationKind, MessagingInfo
from mikan_gateway.exceptions import ClusterConflict, ClusterNotFound, OfficeConflict, OfficeDeleting
from mikan_gateway.offices.activity import ActivityWriter
from mikan_gateway.offices.api import OfficeApi
from mikan_gateway.offices.directory import OfficeDirectory
from mikan_gateway.offices.view import OfficeRecord, UnusableOffice, read_office
from mikan_gateway.ports import Health, OfficeView

MAX_DISPLAY_NAME = 256
_CREATE_ATTEMPTS = 3


def build_office(address: OfficeAddress, kind: ConversationKind, info: MessagingInfo) -> dict[str, Any]:
    """The manifest of a new Office: its identity, and nothing that the settings decide."""
    spec: dict[str, Any] = {
        "platform": address.platform.value,
        "conversationId": address.conversation_id,
        "trustModel": info.trust_model.value,
        "conversationKind": kind.value,
    }
    if info.display_name:
        spec["displayName"] = info.display_name[:MAX_DISPLAY_NAME]
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Office",
        "metadata": {"name": address.key},
        "spec": spec,
    }


class KubernetesOffices:
    """Implements `Offices` and the spec changes that commands make."""

    def __init__(self, api: OfficeApi, directory: OfficeDirectory, activity: ActivityWriter) -> None:
        self._api = api
        self._directory = directory
        self._activity = activity

    async def ensure(self, address: OfficeAddress, kind: ConversationKind, info: MessagingInfo) -> OfficeView:
        """The Office of an address, created if it is new.

        Raises:
            OfficeConflict: the name belongs to another identity.
            OfficeDeleting: it is on its way out.
            ClusterError: the API server could not be asked.
        """
        record = self._directory.record(address.key)
        if record is None:
            record = await self._create(address, kind, info)
        _check(record, address, info)
        view = self._directory.get(address.key)
        if view is None:
            raise OfficeDeleting("this conversation's office was deleted just now; please send that again")
        return view

    def get(self, key: OfficeKey) -> OfficeView | None:
        return self._directory.get(key)

    def record(self, key: OfficeKey) -> OfficeRecord | None:
        """The object itself, for what a view does not tell."""
        return self._directory.record(key)

    def touch(self, key: OfficeKey, running_sessions: int) -> None:
        self._activity.touch(key, running_sessions)

    def health(self) -> Health:
        return self._directory.health()

    async def change(self, key: OfficeKey, spec: dict[str, Any]) -> OfficeView | None:
        """Merge fields into an Office's spec; the effect is visible when this returns.

        Raises:
            ClusterError: the API server refused it or could not be asked.
        """
        self._directory.observe(await self._api.patch_spec(key, spec))
        return self._directory.get(key)

    async def _create(self, address: OfficeAddress, kind: ConversationKind, info: MessagingInfo) -> OfficeRecord:
        manifest = build_office(address, kind, info)
        for _ in range(_CREATE_ATTEMPTS):
            try:
                return self._directory.observe(await self._api.create(manifest))
            except ClusterConflict:
                try:
                    found = await self._api.get(address.key)
                except ClusterNotFound:
                    continue  # deleted between the two requests: create it after all
                return self._adopt_known(found)
        raise OfficeDeleting("this conversation's office is being deleted; please send that again in a moment")

    def _adopt_known(self, manifest: dict[str, Any]) -> OfficeRecord:
        try:
            read_office(manifest)
        except UnusableOffice:
            raise OfficeConflict("this conversation's office name is taken by something else; ask an admin") from None
        return self._directory.observe(manifest)


def _check(record: OfficeRecord, address: OfficeAddress, info: MessagingInfo) -> None:
    if record.spec.address != address or record.spec.trust_model is not info.trust_model:
        raise OfficeConflict("this conversation's office was made for another kind of conversation; ask an admin")
    if record.deleting:
        raise OfficeDeleting("this conversation's office is being deleted; please send that again in a moment")

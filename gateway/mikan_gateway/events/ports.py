"""What this package needs of the rest of the gateway."""

from typing import Protocol

from mikan_api.identity import OfficeKey
from mikan_gateway.offices.view import OfficeRecord
from mikan_gateway.ports import Health, OfficeView


class KnownOffices(Protocol):
    """The Offices as the watch has last seen them (`mikan_gateway.offices.service.KubernetesOffices`)."""

    def get(self, key: OfficeKey) -> OfficeView | None: ...

    def record(self, key: OfficeKey) -> OfficeRecord | None: ...

    def health(self) -> Health: ...

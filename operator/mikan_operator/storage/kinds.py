"""Where each kind of object that the operator touches lives in the API."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from mikan_api import names

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object in its JSON form."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource type."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Path of a collection, an object or a subresource."""
        root = f"/apis/{self.group}" if self.group else "/api"
        scope = f"/namespaces/{namespace}" if self.namespaced else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}/{self.version}{scope}/{self.plural}{tail}"


OFFICE = Kind(names.GROUP, names.VERSION, "Office", "offices")
VAULT = Kind(names.GROUP, names.VERSION, "Vault", "vaults")
SCHEDULED_EVENT = Kind(names.GROUP, names.VERSION, "ScheduledEvent", "scheduledevents")
POD = Kind("", "v1", "Pod", "pods")
SECRET = Kind("", "v1", "Secret", "secrets")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
EVENT = Kind("events.k8s.io", "v1", "Event", "events")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False)

"""What an office key names in the cluster: objects, labels, annotations, field managers, mount paths.

The operator builds from these; the gateway, the models process and the agent look things up by them.
"""

from mikan_api.identity import OfficeKey

GROUP = "mikan.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

OPERATOR = "mikan-operator"
"""Field manager of the operator, and the value of ``app.kubernetes.io/managed-by``."""
GATEWAY = "mikan-gateway"
"""Field manager of the gateway's share of an Office's status."""

LABEL_OFFICE = f"{GROUP}/office"
LABEL_COMPONENT = f"{GROUP}/component"
LABEL_VAULT = f"{GROUP}/vault"
LABEL_EXTENSION = f"{GROUP}/extension"
"""On a ScheduledEvent: which extension made it."""
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT_AGENT = "agent"
COMPONENT_SANDBOX = "sandbox"

ANNOTATION_BAKED = f"{GROUP}/baked"
"""On a pod: hash of everything that only a new pod can change."""
ANNOTATION_VAULT_VERSION = f"{GROUP}/vault-version"
"""On a sandbox pod: the Secret's resourceVersion; touching it makes the kubelet refresh the mount."""
ANNOTATION_TOKEN_EPOCH = f"{GROUP}/token-epoch"
"""On an Office: raise it to make every token issued before it invalid."""
ANNOTATION_REQUEST = f"{GROUP}/request"
"""On a ScheduledEvent: the request that made it, so that the same one again is no second one."""
ANNOTATION_PLATFORM_ID = f"{GROUP}/conversation-id"

FINALIZER = f"{GROUP}/operator-cleanup"


def agent_pod(key: OfficeKey) -> str:
    """Name of the agent pod, its ServiceAccount, Role and RoleBinding."""
    return f"a-{key}"


def sandbox_pod(key: OfficeKey) -> str:
    """Name of the office's own sandbox pod."""
    return f"s-{key}"


def token_secret(key: OfficeKey) -> str:
    """Name of the Secret that holds the office's tokens for gateway and models."""
    return f"t-{key}"


def scheduled_event(key: OfficeKey, name: str, owner: str = "") -> str:
    """Name of a ScheduledEvent that an office's agent, or an extension (``owner``), made. Neither part has a dot."""
    return ".".join(filter(None, (key.rpartition("-")[2], owner, name)))


def extension_secret(slug: str) -> str:
    """Name of the Secret that a package's extensions read."""
    return f"mikan-extension-{slug}"


# Paths that more than one process must agree on.
WORKSPACE = "/workspace"
RECORDS = "/mikan/records"
SHARED = "/mikan/shared"
PACKAGES = "/mikan/packages"
EXTENSION_SECRETS = "/mikan/extension-secrets"
VAULT = "/mikan/vault"
TOKENS = "/mikan/tokens"
TOKEN_FILE_GATEWAY = "gateway"  # noqa: S105  a file name
TOKEN_FILE_MODELS = "models"  # noqa: S105  a file name
HELPER = "/mikan/bin/mikan-sandbox"
SANDBOX_CONTAINER = "sandbox"
AGENT_CONTAINER = "agent"

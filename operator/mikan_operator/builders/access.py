"""What an agent may do: open the command stream to its own sandbox pod, and prove to gateway and models who it is."""

import base64

from mikan_api import names
from mikan_api.tokens import Audience, OfficeClaims, issue_token
from mikan_operator.builders.plan import OfficePlan, digest, metadata
from mikan_operator.inputs import TokenKeys
from mikan_operator.storage.kinds import ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT, Kind, Manifest


def service_account(plan: OfficePlan) -> Manifest:
    """The agent's identity towards the API server. Its token is mounted by the agent pod alone."""
    return _object(SERVICE_ACCOUNT, plan, names.agent_pod(plan.key)) | {"automountServiceAccountToken": False}


def role(plan: OfficePlan) -> Manifest:
    """``pods/exec`` on its own sandbox pod: ``get`` opens the stream; Kubernetes 1.35 and later want ``create``."""
    rules = [
        {
            "apiGroups": [""],
            "resources": ["pods/exec"],
            "resourceNames": [names.sandbox_pod(plan.key)],
            "verbs": ["create", "get"],
        }
    ]
    return _object(ROLE, plan, names.agent_pod(plan.key)) | {"rules": rules if plan.has_sandbox else []}


def role_binding(plan: OfficePlan, namespace: str) -> Manifest:
    """Gives the role to the service account."""
    name = names.agent_pod(plan.key)
    return _object(ROLE_BINDING, plan, name) | {
        "roleRef": {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name},
        "subjects": [{"kind": SERVICE_ACCOUNT.kind, "name": name, "namespace": namespace}],
    }


def token_secret(plan: OfficePlan, keys: TokenKeys, epoch: int) -> Manifest:
    """The office's tokens. The same input gives the same Secret, so at rest there is nothing to write."""
    claims = OfficeClaims(plan.key, plan.uid, epoch)
    issued: tuple[tuple[str, bytes, Audience], ...] = (
        (names.TOKEN_FILE_GATEWAY, keys.gateway, "gateway"),
        (names.TOKEN_FILE_MODELS, keys.models, "models"),
    )
    data = {file: base64.b64encode(issue_token(key, who, claims).encode()).decode() for file, key, who in issued}
    return _object(SECRET, plan, names.token_secret(plan.key)) | {"type": "Opaque", "data": data}


def token_version(secret: Manifest) -> str:
    """A digest that changes with the tokens and tells nothing of them."""
    return digest(secret["data"])[:16]


def _object(kind: Kind, plan: OfficePlan, name: str) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata(plan, name)}

"""The short-lived pod that removes a deleted office's data, where its ``dataRetention`` says so.

The only pod that sees the whole offices volume besides a full sandbox. It has no network (no policy lets it out), no
credential, and runs one fixed script that follows no link.
"""

from mikan_api import layout
from mikan_api.effective import effective_office
from mikan_api.resources import OfficeSpec
from mikan_api.settings import Settings
from mikan_operator.builders import pods
from mikan_operator.builders.plan import OfficePlan
from mikan_operator.installation import Installation
from mikan_operator.observed import OfficeObject
from mikan_operator.storage.kinds import Manifest

COMPONENT = "cleanup"
DEADLINE_SECONDS = 3600
_DATA = "/data"

_REMOVE = """
for path do
    if [ -d "$path" ] && [ ! -L "$path" ]; then
        chmod -R u+rwX -- "$path" || echo "not all of $path could be opened up"
    fi
    rm -rf -- "$path" || exit
done
"""
"""Commands may have left directories without rights, or nested deeper than Python's own removal can go."""


def cleanup_pod_name(key: str) -> str:
    """Name of the pod."""
    return f"c-{key}"


def cleanup_pod(office: OfficeObject, spec: OfficeSpec, installation: Installation) -> Manifest:
    """The manifest. Of the office only its identity counts: what its policy was no longer matters."""
    bare = OfficeSpec(platform=spec.platform, conversation_id=spec.conversation_id, trust_model=spec.trust_model)
    plan = OfficePlan(spec.address, office.meta.uid, effective_office(bare, Settings()), None, "", installation)
    subpaths = (layout.office_subpath(plan.key), layout.records_subpath(plan.key))
    container = pods.container(
        plan,
        COMPONENT,
        installation.images.agent,
        read_only_root=True,
        command=["sh", "-c", _REMOVE, COMPONENT, *(f"{_DATA}/{subpath}" for subpath in subpaths)],
        volumeMounts=[pods.mount(pods.OFFICES_VOLUME, _DATA)],
    )
    body: Manifest = {
        "restartPolicy": "OnFailure",
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "containers": [container],
        "volumes": [pods.claim_volume(pods.OFFICES_VOLUME, installation.claims.offices)],
    }
    if installation.agent.resources:
        container["resources"] = installation.agent.resources
    return pods.pod(plan, cleanup_pod_name(plan.key), COMPONENT, body, {})

"""The office row: frozen layout, and what each door policy lets agent and sandbox see."""

import dataclasses
from pathlib import PurePosixPath

import pytest

from mikan_api.effective import effective_office
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.layout import RESERVED_WORKSPACE_NAMES, Workspace
from mikan_api.messaging import TrustModel
from mikan_api.resources import OfficeDoorPolicy, OfficeSpec
from mikan_api.settings import Settings
from mikan_operator.builders.agent_pod import agent_pod
from mikan_operator.builders.plan import MountedVault, OfficePlan
from mikan_operator.builders.sandbox_pod import sandbox_pod
from mikan_operator.storage.kinds import Manifest
from mikan_operator.vault_mounts import Mounts
from mikan_operator_testing.world import INSTALLATION

ADDRESS = OfficeAddress(Platform.SLACK, "C123")
KEY = "v1-slack-c123-f1bbf4ab194ff2ea"
OWN = (f"/workspace/{KEY}", "offices", f"offices/{KEY}", "rw")
SUPPORT = ("/mikan/shared/support", "shared", "support", "rw")
AGENTS = ("/mikan/shared/agents", "shared", "agents", "ro")
HISTORY = (f"/mikan/records/{KEY}/history", "offices", f"records/{KEY}/history", "ro")
RECORDS = (f"/mikan/records/{KEY}", "offices", f"records/{KEY}", "rw")
POLICIES = {
    "isolated": OfficeDoorPolicy(),
    "trusted": OfficeDoorPolicy(trust="trusted"),
    "shared-support": OfficeDoorPolicy(trust="trusted", layout="shared-support"),
    "full": OfficeDoorPolicy(trust="trusted", layout="full"),
}
SANDBOX = {
    "isolated": {OWN, HISTORY},
    "trusted": {OWN, HISTORY},
    "shared-support": {OWN, HISTORY, SUPPORT},
    "full": {
        OWN,
        ("/workspace", "offices", "offices", "rw"),
        ("/mikan/records", "offices", "records", "ro"),
        SUPPORT,
        AGENTS,
    },
}
OWN_HISTORY = (*HISTORY[:3], "rw")
AGENT = {
    "isolated": {OWN, RECORDS, OWN_HISTORY},
    "trusted": {OWN, RECORDS, OWN_HISTORY},
    "shared-support": {OWN, RECORDS, OWN_HISTORY, SUPPORT, AGENTS},
    "full": {OWN, RECORDS, OWN_HISTORY, SUPPORT, AGENTS},
}


def plan(name: str) -> OfficePlan:
    spec = OfficeSpec(
        platform=Platform.SLACK,
        conversation_id="C123",
        trust_model=TrustModel.MEMBERSHIP,
        door_policy=POLICIES[name],
    )
    vault = MountedVault("secret", "1", Mounts(("TOKEN",), (), every_variable=True))
    return OfficePlan(ADDRESS, "uid", effective_office(spec, Settings()), vault, "", INSTALLATION)


def volumes_seen(pod: Manifest) -> set[tuple[str, str, str, str]]:
    return {
        (m["mountPath"], m["name"], m["subPath"], "ro" if m.get("readOnly") else "rw")
        for m in pod["spec"]["containers"][0]["volumeMounts"]
        if m["name"] in {"offices", "shared"}
    }


@pytest.mark.parametrize("name", POLICIES)
def test_what_a_sandbox_sees(name: str) -> None:
    assert volumes_seen(sandbox_pod(plan(name))) == SANDBOX[name]


@pytest.mark.parametrize("name", POLICIES)
def test_what_an_agent_sees(name: str) -> None:
    assert volumes_seen(agent_pod(plan(name), "t")) == AGENT[name]


@pytest.mark.parametrize("name", POLICIES)
def test_no_sandbox_can_write_any_record(name: str) -> None:
    writable = {path for path, _, _, access in volumes_seen(sandbox_pod(plan(name))) if access == "rw"}

    assert not {path for path in writable if path.startswith("/mikan/records")}


def test_the_paths_of_an_office() -> None:
    office = Workspace().office(ADDRESS)

    assert office.directory == PurePosixPath(f"/workspace/{KEY}")
    assert office.log == PurePosixPath(f"/mikan/records/{KEY}/history/log.jsonl")
    assert office.links == {office.directory / "log.jsonl": office.log, office.directory / "sessions": office.sessions}


def test_reserved_names_are_no_keys() -> None:
    assert RESERVED_WORKSPACE_NAMES == ("MEMORY.md", "skills", "events", "agents")
    assert not {name for name in RESERVED_WORKSPACE_NAMES if name.startswith("v1-")}


def test_an_office_is_memoized_and_frozen() -> None:
    workspace = Workspace()
    office = workspace.office(ADDRESS)

    assert workspace.office(OfficeAddress(Platform.SLACK, "C123")) is office
    with pytest.raises(dataclasses.FrozenInstanceError):
        office.directory = PurePosixPath("/")  # type: ignore[misc]


def test_one_raw_id_on_two_platforms_is_two_offices() -> None:
    one = Workspace().office(OfficeAddress(Platform.SLACK, "C123"))
    two = Workspace().office(OfficeAddress(Platform.DISCORD, "C123"))

    assert one.key != two.key
    assert one.directory != two.directory
    assert one.records != two.records

"""What the keys of a Secret become."""

import pytest

from mikan_api.resources import Reason, VaultFile, VaultScope, VaultSpec
from mikan_operator.vault_mounts import FileMount, MountFault, Mounts, plan_mounts


def spec(*, env: tuple[str, ...] | None = None, files: tuple[VaultFile, ...] = ()) -> VaultSpec:
    return VaultSpec(scope=VaultScope.OFFICE, env=env, files=files)


def plan(vault: VaultSpec, *keys: str) -> Mounts:
    found = plan_mounts(vault, frozenset(keys))
    assert isinstance(found, Mounts), found
    return found


def fault(vault: VaultSpec, *keys: str) -> MountFault:
    found = plan_mounts(vault, frozenset(keys))
    assert isinstance(found, MountFault), found
    return found


def test_every_valid_variable_name_is_a_variable_by_default() -> None:
    assert plan(spec(), "TOKEN", "_x", "a1") == Mounts(("TOKEN", "_x", "a1"), (), every_variable=True)


def test_listed_variables_are_the_only_ones() -> None:
    assert plan(spec(env=("A",)), "A", "B") == Mounts(("A",), (), every_variable=False)


def test_an_empty_list_means_no_variable() -> None:
    assert plan(spec(env=()), "A").variables == ()


def test_files_land_by_name() -> None:
    assert plan(spec(), "gws.json", "gcloud-adc.json", ".netrc").files == (
        FileMount(".netrc", ".netrc", "0600"),
        FileMount("gcloud-adc.json", ".config/gcloud/application_default_credentials.json", "0600"),
        FileMount("gws.json", ".config/gws/credentials.json", "0600"),
    )


def test_an_explicit_path_wins_and_makes_a_variable_name_a_file() -> None:
    key = VaultFile(key="id_ed25519", path="~/.ssh/id_ed25519", mode="0400")

    found = plan(spec(files=(key,)), "id_ed25519", "TOKEN")

    assert found == Mounts(("TOKEN",), (FileMount("id_ed25519", ".ssh/id_ed25519", "0400"),), every_variable=False)


@pytest.mark.parametrize("vault", [spec(env=("A",)), spec(files=(VaultFile(key="A"),))])
def test_a_key_that_the_secret_lacks_is_a_fault(vault: VaultSpec) -> None:
    assert fault(vault, "B") == MountFault(Reason.KEY_MISSING, "the Secret has no key A")


@pytest.mark.parametrize("name", ["LD_PRELOAD", "MIKAN_VAULT_ENV"])
def test_a_variable_that_could_take_over_the_sandbox_is_refused_where_asked_for(name: str) -> None:
    assert fault(spec(env=(name,)), name).reason is Reason.UNSAFE_KEY


@pytest.mark.parametrize("name", ["LD_PRELOAD", "MIKAN_VAULT_ENV"])
def test_such_a_variable_is_left_out_where_it_just_happens_to_be_there(name: str) -> None:
    assert plan(spec(), name, "A").variables == ("A",)


@pytest.mark.parametrize("path", ["~/../x", "a/./b", ".."])
def test_a_path_that_leaves_the_home_directory_is_refused(path: str) -> None:
    assert fault(spec(files=(VaultFile(key="k", path=path),)), "k").reason is Reason.UNSAFE_KEY


@pytest.mark.parametrize(("one", "two"), [("~/x", "x"), ("x", "~/x/y"), (".ssh/id", ".ssh")])
def test_two_files_at_one_place_collide(one: str, two: str) -> None:
    files = (VaultFile(key="k1", path=one), VaultFile(key="k2", path=two))

    assert fault(spec(files=files), "k1", "k2").reason is Reason.MOUNT_COLLISION


def test_files_side_by_side_do_not_collide() -> None:
    files = (VaultFile(key="k1", path=".ssh/id"), VaultFile(key="k2", path=".ssh/id.pub"))

    assert len(plan(spec(files=files), "k1", "k2").files) == 2

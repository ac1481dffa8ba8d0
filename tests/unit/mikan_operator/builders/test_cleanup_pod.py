"""The script of the clean-up pod, run on what a command may have left to stop it."""

import os
import subprocess
from pathlib import Path

from mikan_api.identity import Platform
from mikan_api.messaging import TrustModel
from mikan_api.resources import OfficeSpec
from mikan_operator.builders.cleanup_pod import cleanup_pod
from mikan_operator.observed import OfficeObject
from mikan_operator_testing.world import INSTALLATION

SPEC = OfficeSpec(platform=Platform.SLACK, conversation_id="C123", trust_model=TrustModel.MEMBERSHIP)
KEY = SPEC.address.key
OFFICE = OfficeObject.of({"metadata": {"name": KEY, "uid": "0b1c"}, "spec": SPEC.to_json_dict()})


def clean(volume: Path) -> None:
    """Run the pod's command with its volume at ``volume``, as somebody whom modes bind."""
    command = cleanup_pod(OFFICE, SPEC, INSTALLATION)["spec"]["containers"][0]["command"]
    argv = [part.replace("/data/", f"{volume}/") for part in command]
    user = 10001 if os.getuid() == 0 else None
    subprocess.run(argv, check=True, user=user, group=user, extra_groups=[] if user else None)


def office_in(volume: Path) -> Path:
    """An office's directory with records and a neighbour, owned by whoever cleans."""
    for folder in ("offices", "records"):
        for key in (KEY, "v1-slack-other"):
            (volume / folder / key).mkdir(parents=True)
            (volume / folder / key / "file").write_text("kept?")
    return volume / "offices" / KEY


def give_away(volume: Path) -> None:
    """Let the cleaner own the volume, and reach it."""
    if os.getuid() == 0:
        subprocess.run(["chown", "-Rh", "10001:10001", str(volume)], check=True)
        for above in (volume, *volume.parents):
            if above.stat().st_uid == 0 and above != Path("/"):
                above.chmod(above.stat().st_mode | 0o111)


def left(volume: Path) -> list[str]:
    return sorted(str(path.relative_to(volume)) for path in volume.glob("*/*"))


NEIGHBOURS = ["offices/v1-slack-other", "records/v1-slack-other"]


def test_files_and_records_of_the_office_go_and_those_of_others_stay(tmp_path: Path) -> None:
    office_in(tmp_path)
    give_away(tmp_path)

    clean(tmp_path)

    assert left(tmp_path) == NEIGHBOURS


def test_a_directory_without_rights_goes_too(tmp_path: Path) -> None:
    locked = office_in(tmp_path) / "a" / "b"
    locked.mkdir(parents=True)
    (locked / "file").write_text("x")
    give_away(tmp_path)
    locked.chmod(0)
    locked.parent.chmod(0)

    clean(tmp_path)

    assert left(tmp_path) == NEIGHBOURS


def test_directories_nested_deeper_than_python_recurses_go_too(tmp_path: Path) -> None:
    deep = str(office_in(tmp_path))
    for _ in range(1_500):
        deep += "/d"
        os.mkdir(deep)
    give_away(tmp_path)

    clean(tmp_path)

    assert left(tmp_path) == NEIGHBOURS


def test_links_go_and_what_they_point_to_stays(tmp_path: Path) -> None:
    office = office_in(tmp_path)
    (office / "out").symlink_to(tmp_path / "records" / "v1-slack-other")
    (tmp_path / "records" / KEY / "file").unlink()
    (tmp_path / "records" / KEY).rmdir()
    (tmp_path / "records" / KEY).symlink_to(tmp_path / "offices" / "v1-slack-other")
    give_away(tmp_path)

    clean(tmp_path)

    assert left(tmp_path) == NEIGHBOURS
    assert (tmp_path / "records" / "v1-slack-other" / "file").read_text() == "kept?"
    assert (tmp_path / "offices" / "v1-slack-other" / "file").read_text() == "kept?"

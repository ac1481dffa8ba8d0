"""What a pod finds and leaves when it makes its office's directories."""

import logging
from pathlib import Path, PurePosixPath

import pytest

from mikan_agent.records.directories import materialize
from mikan_agent.records.exceptions import Refused
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.layout import Office, Workspace


@pytest.fixture
def office(tmp_path: Path) -> Office:
    workspace = Workspace(PurePosixPath(tmp_path / "workspace"), PurePosixPath(tmp_path / "records"))
    return workspace.office(OfficeAddress(Platform.SLACK, "C123"))


def test_an_office_gets_its_directories_and_links(office: Office) -> None:
    materialize(office)
    directory = Path(office.directory)
    assert sorted(p.name for p in directory.iterdir()) == ["attachments", "log.jsonl", "scratch", "sessions", "skills"]
    assert (directory / "log.jsonl").readlink() == Path(office.log)
    assert (directory / "sessions").readlink() == Path(office.sessions)
    assert (directory / "sessions").is_dir()
    assert sorted(p.name for p in Path(office.records).iterdir()) == ["extensions", "history"]


def test_making_it_again_changes_nothing(office: Office) -> None:
    materialize(office)
    (Path(office.attachments) / "kept").write_text("kept")
    before = {p: p.lstat().st_mtime_ns for p in Path(office.directory).rglob("*")}
    materialize(office)
    assert {p: p.lstat().st_mtime_ns for p in Path(office.directory).rglob("*")} == before


@pytest.mark.parametrize("name", ["log.jsonl", "sessions", "attachments", "scratch", "skills"])
def test_a_link_to_elsewhere_is_moved_aside_and_not_followed(
    office: Office, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    directory = Path(office.directory)
    directory.mkdir(parents=True)
    (directory / name).symlink_to(outside)
    with caplog.at_level(logging.WARNING):
        materialize(office)
    [aside] = directory.glob(f"{name}.aside-*")
    assert aside.readlink() == outside
    assert list(outside.iterdir()) == []
    assert [r.message for r in caplog.records] == ["moved aside what stood in the way"]
    assert (directory / name).is_dir() == (name != "log.jsonl")
    materialize(office)
    assert len(list(directory.glob("*.aside-*"))) == 1


def test_a_real_log_and_a_real_sessions_directory_are_moved_aside_whole(office: Office) -> None:
    directory = Path(office.directory)
    (directory / "sessions").mkdir(parents=True)
    (directory / "sessions" / "forged.jsonl").write_text("forged")
    (directory / "log.jsonl").write_text("forged")
    materialize(office)
    [log] = directory.glob("log.jsonl.aside-*")
    [sessions] = directory.glob("sessions.aside-*")
    assert log.read_text() == (sessions / "forged.jsonl").read_text() == "forged"
    assert list(Path(office.sessions).iterdir()) == []


def test_our_own_link_of_an_earlier_layout_is_replaced(office: Office) -> None:
    directory = Path(office.directory)
    directory.mkdir(parents=True)
    (directory / "sessions").symlink_to(Path(office.records) / "sessions")
    materialize(office)
    assert (directory / "sessions").readlink() == Path(office.sessions)
    assert list(directory.glob("*.aside-*")) == []


def test_a_link_in_the_records_is_refused(office: Office, tmp_path: Path) -> None:
    Path(office.records).mkdir(parents=True)
    Path(office.history).symlink_to(tmp_path)
    with pytest.raises(Refused):
        materialize(office)

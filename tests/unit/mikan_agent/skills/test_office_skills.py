"""Which skills an office has, and what hostile directories can do: nothing."""

import logging
import os
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import pytest

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.exceptions import ToolError
from mikan_agent.records.exceptions import TooLarge
from mikan_agent.skills import place as place_module
from mikan_agent.skills.office_skills import OfficeSkills
from mikan_agent.skills.place import Found, Place, Shelf
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.layout import Workspace
from mikan_api.settings import DoorPolicy

ISOLATED = DoorPolicy()
SHARED = DoorPolicy.model_validate({"trust": "trusted", "layout": "shared-support"})


def write_skill(directory: Path, name: str, description: str = "does it", body: str = "Do it.") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "SKILL.md"
    file.write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    return file


class World:
    """Directories of an office, the workspace and packages."""

    def __init__(self, root: Path) -> None:
        base = PurePosixPath(root)
        self.workspace = Workspace(root=base / "workspace", records=base / "records", shared=base / "shared")
        self.office = self.workspace.office(OfficeAddress(Platform.CONSOLE, "room"))
        self.own = Path(self.office.skills)
        self.shared = root / "shared" / "support" / "skills"
        self.package = root / "packages" / "tools" / "skills"
        for directory in (self.own, self.shared, self.package):
            directory.mkdir(parents=True)
        self.packages = [Place(ConfinedDirectory(self.package), PurePosixPath("/mikan/packages/tools/skills"))]
        self.skills = OfficeSkills(self.office, self.workspace)

    async def names(self, policy: DoorPolicy = SHARED) -> dict[str, str]:
        return {skill.name: skill.description for skill in (await self.skills.index(policy, self.packages)).skills}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_an_office_without_skills_has_none(world: World) -> None:
    index = await world.skills.index(SHARED)
    assert (list(index.skills), list(index.faults)) == ([], [])
    with pytest.raises(ToolError, match="There are: none"):
        await world.skills.instructions("pdf")


async def test_the_offices_own_come_before_the_workspaces_before_packages(world: World) -> None:
    for number, directory in enumerate((world.own, world.shared, world.package)):
        for name in ("a", "b", "c")[: number + 1]:
            write_skill(directory / name, name, f"of {number}")
    assert await world.names() == {"a": "of 0", "b": "of 1", "c": "of 2"}
    assert await world.names(ISOLATED) == {"a": "of 0", "b": "of 2", "c": "of 2"}


async def test_paths_are_those_that_commands_see(world: World) -> None:
    for directory in (world.own, world.shared):
        write_skill(directory / "deep" / directory.parent.name, directory.parent.name, body="{baseDir}/run.sh")
    write_skill(world.package / "p", "p", body="{baseDir}/run.sh")
    await world.names()
    texts = [(await world.skills.instructions(n))[1] for n in (world.office.key, "support", "p")]
    assert texts == [
        f"{world.office.skills}/deep/{world.office.key}/run.sh",
        f"{world.workspace.root}/skills/deep/support/run.sh",
        "/mikan/packages/tools/skills/p/run.sh",
    ]


async def test_a_change_shows_at_the_next_look_and_nothing_is_read_again_without_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_skill(world.own / "a", "a", "old")
    read: list[str] = []
    real = ConfinedDirectory.open

    def watched(self: ConfinedDirectory, path: str) -> BinaryIO:
        read.append(path)
        return real(self, path)

    monkeypatch.setattr(ConfinedDirectory, "open", watched)
    assert await world.names() == {"a": "old"}
    assert await world.names() == {"a": "old"}
    assert read == ["a/SKILL.md"]
    write_skill(world.own / "a", "a", "new and longer")
    assert await world.names() == {"a": "new and longer"}
    file.unlink()
    assert await world.names() == {}


async def test_what_cannot_be_used_is_named_logged_once_and_keeps_nothing_else_out(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(world.own / "good", "good")
    (world.own / "bad").mkdir()
    (world.own / "bad" / "SKILL.md").write_text("no header")
    write_skill(world.own / "twin", "good")
    for _ in range(2):
        index = await world.skills.index(ISOLATED)
    assert [skill.name for skill in index.skills] == ["good"]
    assert list(index.faults) == [
        f"{world.office.skills}/bad: it does not begin with a line '---'",
        f"{world.office.skills}/twin: the name good is taken by {world.office.skills}/good",
    ]
    assert [r.levelno for r in caplog.records] == [logging.WARNING] * 2


async def test_nothing_is_followed_and_no_strange_file_stops_the_rest(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write_skill(outside, "stolen")
    (world.own / "link").symlink_to(outside)
    (world.own / "inner").mkdir()
    (world.own / "inner" / "SKILL.md").symlink_to(outside / "SKILL.md")
    (world.own / "fifo").mkdir()
    os.mkfifo(world.own / "fifo" / "SKILL.md")
    (world.own / "nested").mkdir()
    (world.own / "nested" / "SKILL.md").mkdir()
    (world.own / "file.md").write_text("x")
    write_skill(world.own / ".git" / "x", "hidden")
    write_skill(world.own / "node_modules" / "x", "module")
    write_skill(world.own / "good", "good")
    index = await world.skills.index(ISOLATED)
    assert [skill.name for skill in index.skills] == ["good"]
    faults = {fault.removeprefix(f"{world.office.skills}/").split(":")[0]: fault for fault in index.faults}
    assert sorted(faults) == ["fifo", "inner", "link", "nested"]
    assert "a link, which is not followed" in faults["link"]
    assert "symbolic link" in faults["inner"]


async def test_a_linked_skills_directory_is_named_and_not_followed(world: World, tmp_path: Path) -> None:
    write_skill(tmp_path / "outside" / "x", "stolen")
    world.own.rmdir()
    world.own.symlink_to(tmp_path / "outside")
    index = await world.skills.index(ISOLATED)
    assert list(index.skills) == []
    assert len(index.faults) == 1


async def test_a_skill_that_became_a_link_is_not_read(world: World, tmp_path: Path) -> None:
    file = write_skill(world.own / "a", "a")
    await world.skills.index(ISOLATED)
    file.unlink()
    file.symlink_to(write_skill(tmp_path / "outside", "a", body="secret"))
    with pytest.raises(ToolError, match="symbolic link"):
        await world.skills.instructions("a")


def look(directory: Path) -> tuple[list[str], list[str]]:
    found: list[Found] = Shelf(Place(ConfinedDirectory(directory), PurePosixPath("/s"))).look()
    return [one.skill.name for one in found if one.skill], [one.fault for one in found if not one.skill]


def test_depth_numbers_and_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skill(tmp_path / "1/2/3/4", "deep")
    write_skill(tmp_path / "1/2/3/x/5", "too-deep")
    assert look(tmp_path) == (["deep"], [])
    monkeypatch.setattr(place_module, "MAX_SKILLS", 2)
    for name in ("a", "b", "c"):
        write_skill(tmp_path / name, name)
    assert look(tmp_path) == (["a", "b"], ["there are more than 2 skills"])
    monkeypatch.setattr(place_module, "MAX_NAMES", 3)
    assert look(tmp_path) == ([], ["'' holds more than 3 names"])
    monkeypatch.undo()
    monkeypatch.setattr(place_module, "MAX_DIRECTORIES", 2)
    for number in range(5):
        (tmp_path / "e" / str(number)).mkdir(parents=True)
    names, faults = look(tmp_path)
    assert (names, len(faults)) == (["a", "b", "c"], 1)
    monkeypatch.undo()
    monkeypatch.setattr(place_module, "MAX_FILE", 50)
    found = Shelf(Place(ConfinedDirectory(tmp_path), None)).look()[0]
    write_skill(tmp_path / found.path, "a", body="x" * 50)
    with pytest.raises(TooLarge, match="larger than 50 bytes"):
        found.instructions()

"""Packages come onto the volume whole, checked, and at once; what is on it is left alone by whatever goes wrong."""

import os
from pathlib import Path

import pytest

from git_server import FILE, PROGRAM, GitServer
from mikan_api.packages import GitSource, parse_package_source
from mikan_gateway.packages.exceptions import FetchFailed, PackageRefused, VolumeMissing
from mikan_gateway.packages.installer import Installer, PackageReport
from mikan_gateway.packages.limits import Limits
from mikan_gateway.packages.volume import Volume

ACTIVATE = "def activate(api): ...\n"


def install(installer: Installer, text: str, *, update: bool = False) -> PackageReport:
    return installer.install(parse_package_source(text), update=update)


def checkout(volume: Path, text: str) -> Path:
    source = parse_package_source(text)
    assert isinstance(source, GitSource)
    return volume / "checkouts" / source.checkout


def files(directory: Path) -> dict[str, str]:
    """Every file below a directory, by its path there."""
    found = (path for path in directory.resolve().rglob("*") if path.is_file())
    return {str(path.relative_to(directory.resolve())): path.read_text() for path in found}


def test_a_repository_is_there_with_what_it_holds(server: GitServer, installer: Installer, volume: Path) -> None:
    commit = server.repository().commit(
        {"extensions/audit.py": ACTIVATE, "skills/guide/SKILL.md": "Guide", "run.sh": (PROGRAM, "#!/bin/sh\n")}
    )

    report = install(installer, server.source())

    assert report == PackageReport(
        source=server.source(),
        slug="tools",
        commit=commit,
        secret="mikan-extension-tools",
        extensions=("audit",),
        skills=("guide",),
    )
    tree = checkout(volume, server.source())
    assert files(tree) == {"extensions/audit.py": ACTIVATE, "skills/guide/SKILL.md": "Guide", "run.sh": "#!/bin/sh\n"}
    assert [(tree / name).stat().st_mode & 0o777 for name in ("run.sh", "extensions/audit.py")] == [0o755, 0o644]
    assert sorted(os.listdir(volume / "checkouts")) == [".lock", ".trees", tree.name]
    assert os.listdir(volume / "checkouts" / ".trees") == [f"{tree.name}.{commit}"]


@pytest.mark.parametrize("ref", ["main", "v1", "heavy", "feature/x", "refs/heads/main", "commit"])
def test_branches_tags_and_commits_are_refs(server: GitServer, installer: Installer, volume: Path, ref: str) -> None:
    repository = server.repository()
    old = repository.commit({"extension.py": ACTIVATE, "a": "old"}, "refs/heads/feature/x")
    new = repository.commit({"extension.py": ACTIVATE, "a": "new"})
    repository.git("tag", "v1", old)
    repository.git("tag", "-a", "-m", "A tag", "heavy", old)
    text = server.source(old if ref == "commit" else ref)

    assert install(installer, text).commit == (new if ref.endswith("main") else old)
    assert files(checkout(volume, text))["a"] == ("new" if ref.endswith("main") else "old")


def test_what_is_there_needs_no_network(server: GitServer, installer: Installer) -> None:
    server.repository().commit({"extension.py": ACTIVATE, "board/extension.py": ACTIVATE})
    first = install(installer, server.source("main"))
    server.stop()

    assert install(installer, server.source("main")) == first
    assert install(installer, server.source("main", "board")).slug == "board"
    with pytest.raises(FetchFailed):
        install(installer, server.source("v1"))


def test_an_update_follows_a_branch_and_leaves_a_commit_where_it_is(
    server: GitServer, installer: Installer, volume: Path
) -> None:
    repository = server.repository()
    old = repository.commit({"extension.py": ACTIVATE, "a": "old"})
    install(installer, server.source())
    install(installer, server.source(old))
    new = repository.commit({"extension.py": ACTIVATE, "a": "new"})

    assert install(installer, server.source()).commit == old
    assert install(installer, server.source(), update=True).commit == new
    server.requests.clear()
    assert install(installer, server.source(old), update=True).commit == old
    assert server.requests == []
    assert files(checkout(volume, server.source()))["a"] == "new"
    assert files(checkout(volume, server.source(old)))["a"] == "old"


def test_the_tree_before_stays_for_pods_that_read_it_and_older_ones_go(
    server: GitServer, installer: Installer, volume: Path
) -> None:
    repository = server.repository()
    commits = []
    for number in range(4):
        commits.append(repository.commit({"extension.py": ACTIVATE, "a": str(number)}))
        install(installer, server.source(), update=True)

    trees = sorted(path.suffix[1:] for path in (volume / "checkouts" / ".trees").iterdir())
    assert trees == sorted(commits[-2:])


def test_an_update_to_the_same_commit_changes_nothing(server: GitServer, installer: Installer, volume: Path) -> None:
    server.repository().commit({"extension.py": ACTIVATE})
    first = install(installer, server.source())
    before = checkout(volume, server.source()).resolve().stat().st_ino

    assert install(installer, server.source(), update=True) == first
    assert checkout(volume, server.source()).resolve().stat().st_ino == before


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ({"extension.py": "def activate(:"}, "extension.py: line 1: invalid syntax"),
        ({"README.md": "nothing"}, "it holds neither an extension nor a skill"),
        ({"extension.py": (FILE, "x" * 200)}, "has more than 100 bytes"),
    ],
)
def test_an_update_that_cannot_be_used_leaves_what_is_there(
    server: GitServer, volume: Path, broken: dict[str, str | tuple[str, str]], fault: str
) -> None:
    repository = server.repository()
    installer = Installer(Volume(volume), Limits(file_bytes=100), loopback=True)
    old = repository.commit({"extension.py": ACTIVATE})
    install(installer, server.source())
    repository.commit(broken)

    with pytest.raises(PackageRefused, match=fault):
        install(installer, server.source(), update=True)
    assert installer.status([parse_package_source(server.source())])[0].commit == old
    assert files(checkout(volume, server.source())) == {"extension.py": ACTIVATE}
    assert len(os.listdir(volume / "checkouts" / ".trees")) == 1


@pytest.mark.parametrize(
    ("ref", "subpath", "fault"),
    [
        ("gone", "", "couldn't find remote ref gone"),
        ("f" * 40, "", "not our ref"),
        ("main", "nowhere", "the repository has no such directory"),
        ("main", "README.md", "the repository has no such directory"),
        ("main", "docs", "neither an extension nor a skill"),
    ],
)
def test_what_is_not_in_the_repository_is_told_and_nothing_is_kept(
    server: GitServer, installer: Installer, volume: Path, ref: str, subpath: str, fault: str
) -> None:
    server.repository().commit({"extension.py": ACTIVATE, "README.md": "x", "docs/x": "x"})

    with pytest.raises((FetchFailed, PackageRefused), match=fault):
        install(installer, server.source(ref, subpath))
    assert sorted(os.listdir(volume / "checkouts")) == [".lock", ".trees"]
    assert os.listdir(volume / "checkouts" / ".trees") == []
    assert os.listdir(volume / "skills") == []


def test_no_such_repository_and_no_server_are_told(server: GitServer, installer: Installer) -> None:
    with pytest.raises(FetchFailed, match="not found"):
        install(installer, server.source(name="nothing"))
    server.stop()
    with pytest.raises(FetchFailed, match="unable to access"):
        install(installer, server.source())


def test_a_server_that_does_not_answer_is_given_up(server: GitServer, volume: Path) -> None:
    server.hangs.set()
    installer = Installer(Volume(volume), Limits(seconds=0.5), loopback=True)

    with pytest.raises(FetchFailed, match=r"more than 0\.5 s"):
        install(installer, server.source())


def test_plain_http_is_for_tests_only(server: GitServer, volume: Path) -> None:
    server.repository().commit({"extension.py": ACTIVATE})

    with pytest.raises(FetchFailed, match="transport 'http' not allowed"):
        install(Installer(Volume(volume)), server.source())
    assert server.requests == []


def test_what_a_killed_process_left_is_cleared_away(server: GitServer, installer: Installer, volume: Path) -> None:
    server.repository().commit({"extension.py": ACTIVATE})
    left = volume / "checkouts" / ".trees" / ".new-killed" / "tree"
    left.mkdir(parents=True)
    (left / "extension.py").write_text(ACTIVATE)

    install(installer, server.source())
    assert not left.parent.exists()


def test_a_volume_that_is_not_there_is_told(tmp_path: Path, server: GitServer) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(VolumeMissing, match="Not a directory"):
        install(Installer(Volume(tmp_path / "file"), loopback=True), server.source())


def test_skills_are_where_sandboxes_mount_them(server: GitServer, installer: Installer, volume: Path) -> None:
    repository = server.repository()
    repository.commit({"board/skills/guide/SKILL.md": "one", "plain/extension.py": ACTIVATE})
    board, plain = (parse_package_source(server.source(subpath=name)) for name in ("board", "plain"))
    kubelet = volume / "skills" / board.skills
    kubelet.mkdir(parents=True)  # it makes what a pod mounts and what is not there

    for source in (board, plain):
        installer.install(source)
    assert files(volume / "skills" / board.skills) == {"guide/SKILL.md": "one"}
    assert (volume / "skills" / board.skills).resolve().is_relative_to(volume)
    assert (volume / "skills" / plain.skills).is_dir()
    assert os.listdir(volume / "skills" / plain.skills) == []

    repository.commit({"board/skills/guide/SKILL.md": "two", "plain/extension.py": ACTIVATE})
    installer.install(plain, update=True)
    assert files(volume / "skills" / board.skills) == {"guide/SKILL.md": "two"}


def test_skills_that_are_gone_leave_an_empty_directory_and_no_dangling_link(
    server: GitServer, installer: Installer, volume: Path
) -> None:
    """A link that leads nowhere would keep pods from starting."""
    repository = server.repository()
    repository.commit({"board/skills/guide/SKILL.md": "one", "plain/extension.py": ACTIVATE})
    board, plain = (parse_package_source(server.source(subpath=name)) for name in ("board", "plain"))
    installer.install(board)
    repository.commit({"plain/extension.py": ACTIVATE})

    installer.install(plain, update=True)
    assert not (volume / "skills" / board.skills).is_symlink()
    assert os.listdir(volume / "skills" / board.skills) == []


def test_a_path_package_is_used_where_it_is(installer: Installer, volume: Path) -> None:
    source = parse_package_source("/mikan/packages/local/board")
    (volume / "local" / "board" / "skills" / "guide").mkdir(parents=True)
    (volume / "local" / "board" / "skills" / "guide" / "SKILL.md").write_text("x")

    assert installer.install(source).skills == ("guide",)
    assert (volume / "skills" / source.skills / "guide" / "SKILL.md").read_text() == "x"
    with pytest.raises(PackageRefused, match="not there"):
        install(installer, "/mikan/packages/local/gone")


def test_the_status_tells_what_is_there_and_what_is_not(server: GitServer, installer: Installer) -> None:
    server.repository().commit({"extension.py": ACTIVATE})
    install(installer, server.source())

    there, not_there = installer.status([parse_package_source(server.source(ref)) for ref in ("", "v2")])
    assert (there.extensions, there.fault) == (("tools",), "")
    assert (not_there.extensions, not_there.commit, not_there.fault) == ((), "", "not there")

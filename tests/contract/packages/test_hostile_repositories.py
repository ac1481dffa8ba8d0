"""Repositories that mean harm: nothing of them runs, and nothing lands, or leads, outside of their checkout."""

import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from git_server import FILE, LINK, SUBMODULE, TREE, GitServer, Repository
from mikan_api.packages import GitSource, parse_package_source
from mikan_gateway.packages.exceptions import FetchFailed, PackageError, PackageRefused
from mikan_gateway.packages.installer import Installer
from mikan_gateway.packages.limits import Limits
from mikan_gateway.packages.volume import Volume

ACTIVATE = "def activate(api): ...\n"


def install(installer: Installer, text: str) -> None:
    installer.install(parse_package_source(text))


def tree(volume: Path, text: str) -> Path:
    source = parse_package_source(text)
    assert isinstance(source, GitSource)
    return volume / "checkouts" / source.checkout


def nothing_is_kept(volume: Path) -> None:
    assert sorted(os.listdir(volume / "checkouts")) == [".lock", ".trees"]
    assert os.listdir(volume / "checkouts" / ".trees") == []


@pytest.mark.parametrize(
    "links",
    [
        {"evil": "/etc/passwd"},
        {"evil": "../../../../etc/passwd"},
        {"a/b/evil": "../../../outside"},
        {"here": ".", "evil": "here/../../outside"},
        {"one": "two", "two": "a/..", "evil": "one/../../x"},
        {"extensions/audit.py": "../../../volume/local/x.py"},
    ],
)
def test_no_link_leads_out(server: GitServer, installer: Installer, volume: Path, links: dict[str, str]) -> None:
    server.repository().commit({"extension.py": ACTIVATE, "a/x": "x", **{p: (LINK, t) for p, t in links.items()}})

    with pytest.raises(PackageRefused, match=r"the link '.*' leads out of the package"):
        install(installer, server.source())
    nothing_is_kept(volume)


def test_links_that_stay_inside_are_kept(server: GitServer, installer: Installer, volume: Path) -> None:
    server.repository().commit(
        {"src/board.py": ACTIVATE, "extension.py": (LINK, "src/board.py"), "gone": (LINK, "nowhere")}
    )
    install(installer, server.source())

    assert os.readlink(tree(volume, server.source()) / "extension.py") == "src/board.py"


def test_a_subpath_through_a_link_stays_in_its_checkout(server: GitServer, installer: Installer) -> None:
    server.repository().commit({"src/extension.py": ACTIVATE, "current": (LINK, "src")})

    assert installer.install(parse_package_source(server.source(subpath="current"))).extensions == ("current",)


def test_no_file_is_written_through_a_link(
    server: GitServer, installer: Installer, volume: Path, tmp_path: Path
) -> None:
    """A tree with a link and a directory of one name, the oldest trick against checkouts."""
    repository = server.repository()
    outside = tmp_path / "outside"
    outside.mkdir()
    link = repository.blob(str(outside).encode())
    inner = repository.tree((FILE, "planted", repository.blob(b"x")))
    repository.commit_tree(repository.tree((LINK, "dir", link), (TREE, "dir", inner)))

    with pytest.raises(PackageError):
        install(installer, server.source())
    assert os.listdir(outside) == []
    nothing_is_kept(volume)


@pytest.mark.parametrize("name", ["..", ".git", ".GIT", ".", "a\\b", "a\nb"])
def test_no_path_names_what_it_must_not(server: GitServer, installer: Installer, volume: Path, name: str) -> None:
    repository = server.repository()
    inner = repository.tree((FILE, "hooks", repository.blob(b"x")))
    repository.commit_tree(repository.tree((TREE, name, inner)))

    with pytest.raises(PackageError):
        install(installer, server.source())
    nothing_is_kept(volume)


def test_a_path_that_is_no_text_is_refused(server: GitServer, installer: Installer, volume: Path) -> None:
    repository = server.repository()
    entry = b"100644 caf\xe9\0" + bytes.fromhex(repository.blob(b"x"))
    repository.commit_tree(repository.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=entry))

    with pytest.raises(PackageRefused, match="is no text"):
        install(installer, server.source())
    nothing_is_kept(volume)


def test_submodules_are_not_fetched(server: GitServer, installer: Installer, volume: Path) -> None:
    other = server.repository("other")
    commit = other.commit({"secret.py": "x"})
    server.repository().commit(
        {
            "extension.py": ACTIVATE,
            ".gitmodules": f'[submodule "m"]\n\tpath = m\n\turl = {server.source(name="other")}\n',
            "m": (SUBMODULE, commit),
        }
    )
    install(installer, server.source())

    assert not (tree(volume, server.source()) / "m").exists()
    assert not any("/other.git/" in request for request in server.requests)


@pytest.mark.parametrize("url", ["--upload-pack=touch ran", "ext::sh -c 'touch ran'", "-u./ran"])
def test_a_submodule_that_poses_as_an_option_is_refused_or_ignored(
    server: GitServer, installer: Installer, tmp_path: Path, url: str
) -> None:
    server.repository().commit(
        {
            "extension.py": ACTIVATE,
            ".gitmodules": f'[submodule "m"]\n\tpath = m\n\turl = {url}\n',
            "m": (SUBMODULE, "1" * 40),
        }
    )
    with suppress(PackageError):
        install(installer, server.source())
    assert not list(tmp_path.rglob("ran"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A careless home: filters, hooks and a credential helper that all leave a trace."""
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    for hook in ("post-checkout", "post-merge", "reference-transaction"):
        (home / "hooks" / hook).write_text(f"#!/bin/sh\necho {hook} >> {tmp_path}/ran\n")
        (home / "hooks" / hook).chmod(0o755)
    (home / ".gitconfig").write_text(
        f'[core]\n\thooksPath = {home}/hooks\n[filter "evil"]\n\tsmudge = "echo smudge >> {tmp_path}/ran; cat"\n'
        f'[credential]\n\thelper = "!echo helper >> {tmp_path}/ran; echo password=x"\n'
        f'[url "file://{tmp_path}/"]\n\tinsteadOf = http://127.0.0.1\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(home / "hooks"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {tmp_path}/ran")
    monkeypatch.setenv("GIT_ASKPASS", f"{home}/hooks/post-merge")
    return home


def test_hooks_filters_and_attributes_mean_nothing(
    server: GitServer, installer: Installer, volume: Path, home: Path, tmp_path: Path
) -> None:
    server.repository().commit(
        {
            "extension.py": ACTIVATE,
            ".gitattributes": "* filter=evil ident eol=crlf export-subst working-tree-encoding=UTF-16\n",
            "text": "$Id$ $Format:%H$\n",
            "hooks/post-checkout": ("100755", f"#!/bin/sh\necho repository >> {tmp_path}/ran\n"),
        }
    )
    install(installer, server.source())

    assert (tree(volume, server.source()) / "text").read_bytes() == b"$Id$ $Format:%H$\n"
    assert not (tmp_path / "ran").exists()


def test_nobody_is_asked_for_credentials(server: GitServer, installer: Installer, home: Path, tmp_path: Path) -> None:
    server.wants_password = True

    with pytest.raises(FetchFailed, match="terminal prompts disabled"):
        install(installer, server.source())
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        (Limits(file_bytes=1_000), "'big' has more than 1000 bytes"),
        (Limits(total_bytes=1_000), "it has more than 1000 bytes"),
        (Limits(files=2), "it has more than 2 files"),
        (Limits(files=1, path_bytes=1), "it has more files than a package may have"),
        (Limits(path_bytes=15), "is longer than 15 bytes or 32 names"),
        (Limits(depth=2), "is longer than 512 bytes or 2 names"),
        (Limits(pack_bytes=2_000), "it has more than 2000 bytes"),
    ],
)
def test_there_is_a_limit_to_everything(server: GitServer, volume: Path, limits: Limits, fault: str) -> None:
    noise = "".join(random.Random(1).choices("0123456789abcdef", k=20_000))
    server.repository().commit({"extension.py": ACTIVATE, "big": noise, "deep/er/and/deeper": "x"})

    with pytest.raises(PackageRefused, match=fault):
        install(Installer(Volume(volume), limits, loopback=True), server.source())
    nothing_is_kept(volume)


def test_a_small_pack_that_grows_is_refused_before_anything_is_written(server: GitServer, volume: Path) -> None:
    """A mebibyte of zeros a hundred times: a few hundred bytes on the way."""
    repository = server.repository()
    zeros = repository.blob(bytes(1024 * 1024))
    repository.commit_tree(repository.tree(*((FILE, f"zeros-{n:03}", zeros) for n in range(100))))

    with pytest.raises(PackageRefused, match="it has more than 67108864 bytes"):
        install(Installer(Volume(volume), loopback=True), server.source())
    nothing_is_kept(volume)


def test_compiled_python_is_left_out(server: GitServer, installer: Installer, volume: Path) -> None:
    """What nobody reviews would be run in the place of what they did."""
    server.repository().commit(
        {
            "extension.py": ACTIVATE,
            "__pycache__/extension.cpython-311.pyc": "x",
            "lib.pyc": "x",
            "lib/__pycache__/a": "x",
        }
    )
    install(installer, server.source())

    assert sorted(os.listdir(tree(volume, server.source()))) == ["extension.py"]


def test_a_pinned_commit_is_that_commit_or_nothing(server: GitServer, installer: Installer) -> None:
    """A branch that is called like a commit does not stand for it."""
    repository = server.repository()
    repository.commit({"extension.py": ACTIVATE}, f"refs/heads/{'a' * 40}")

    with pytest.raises(FetchFailed):
        install(installer, server.source("a" * 40))


def test_a_broken_object_is_refused(server: GitServer, installer: Installer, volume: Path) -> None:
    repository = server.repository()
    blob = repository.blob(b"x")
    repository.commit_tree(repository.tree((FILE, "b", blob), (FILE, "a", blob)))  # not in git's order

    with pytest.raises(FetchFailed):
        install(installer, server.source())
    nothing_is_kept(volume)


@pytest.mark.parametrize(
    "source",
    ["--upload-pack=id", "github:a/b@--upload-pack=id", "-c", "github:a/b#../x", "file:///etc", "ext::sh -c id"],
)
def test_the_command_takes_nothing_for_an_option_or_another_transport(volume: Path, source: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mikan_gateway.packages", "install", "--", source],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MIKAN_PACKAGES_DIR": str(volume)},
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1


def test_an_honest_repository_of_this_size_passes(server: GitServer, installer: Installer) -> None:
    """The limits are for harm: a repository with a few hundred files and some megabytes is none."""
    repository: Repository = server.repository()
    repository.commit({"extension.py": ACTIVATE, **{f"data/{n % 20}/{n}": "line\n" * 2_000 for n in range(300)}})

    install(installer, server.source())

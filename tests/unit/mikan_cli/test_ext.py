"""`mikan ext` against a played cluster, whose gateway's pod is the real program on this machine."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from git_server import GitServer
from mikan_api.identity import OfficeAddress, Platform
from mikan_cli.main import app
from played_kubectl import PlayedKubectl

ACTIVATE = "def activate(api): ...\n"
KEY = OfficeAddress(Platform.CONSOLE, "hello").key
OFFICE = f"office team-offices/{KEY}"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedKubectl:
    """A release ``team``: its gateway with a packages volume, its settings, and one office."""
    played = PlayedKubectl(tmp_path / "cluster")
    (tmp_path / "volume").mkdir()
    for name, value in {
        "KUBECTL": str(played.program),
        "MIKAN_PACKAGES_DIR": str(tmp_path / "volume"),
        "MIKAN_PACKAGES_LOOPBACK": "1",
    }.items():
        monkeypatch.setenv(name, value)
    played.put("deployment", "default/team-gateway", played="team-offices")
    played.put("configmap", "default/team-settings", data={"settings.json": '{"idleTimeout": "5m"}'})
    played.put("office", f"team-offices/{KEY}", spec={"platform": "console", "conversationId": "hello"})
    return played


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "repositories") as server:
        server.repository().commit(
            {"extension.py": ACTIVATE, "skills/guide/SKILL.md": "x", "board/extension.py": ACTIVATE}
        )
        yield server


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["ext", *arguments, *(["--release", "team"] if arguments[0] in LISTS else [])])


LISTS = {"install", "remove", "list"}


def packages_of_the_office(cluster: PlayedKubectl) -> list[str]:
    found: list[str] = cluster.objects[OFFICE]["spec"].get("packages", [])
    return found


def overrides(cluster: PlayedKubectl) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        cluster.objects["configmap default/team-settings-overrides"]["data"]["overrides.json"]
    )
    return found


def test_a_package_is_brought_to_the_volume_and_then_into_the_offices_list(
    cluster: PlayedKubectl, server: GitServer, tmp_path: Path
) -> None:
    done = run("install", server.source("main"), "--conversation", "hello")

    assert done.exit_code == 0, done.output
    assert packages_of_the_office(cluster) == [server.source("main")]
    assert os.listdir(tmp_path / "volume" / "checkouts" / ".trees")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{server.source('main')} at ")
    assert lines[0].endswith(f" is installed for {KEY}")
    assert lines[1:3] == [
        "  extensions: tools; skills: guide",
        "  its Secret, if it wants one: mikan-extension-tools in team-offices",
    ]


def test_an_office_may_be_named_by_its_key(cluster: PlayedKubectl, server: GitServer) -> None:
    assert run("install", server.source(), "--conversation", KEY).exit_code == 0
    assert packages_of_the_office(cluster) == [server.source()]


def test_installing_again_at_another_ref_moves_the_pin(cluster: PlayedKubectl, server: GitServer) -> None:
    run("install", server.source(), "-c", "hello")
    run("install", server.source(subpath="board"), "-c", "hello")
    run("install", server.source("main"), "-c", "hello")

    assert packages_of_the_office(cluster) == [server.source("main"), server.source(subpath="board")]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("github:acme", "a GitHub package is github:<owner>/<repository>"),
        ("SERVER@gone", "couldn't find remote ref gone"),
        ("SERVER#nowhere", "the repository has no such directory"),
        ("/mikan/packages/local/gone", "/mikan/packages/local/gone: not there"),
    ],
)
def test_nothing_is_written_for_a_package_that_cannot_be_had(
    cluster: PlayedKubectl, server: GitServer, source: str, fault: str
) -> None:
    done = run("install", source.replace("SERVER", server.source()), "--conversation", "hello")

    assert done.exit_code == 1
    assert fault in done.stderr
    assert packages_of_the_office(cluster) == []
    assert not any("patch" in call for call in cluster.calls)


def test_for_an_office_that_is_not_there_nothing_is_fetched(cluster: PlayedKubectl, server: GitServer) -> None:
    done = run("install", server.source(), "--conversation", "nobody")

    assert done.exit_code == 1
    assert "there is no office v1-console-nobody-" in done.stderr
    assert "Say hello there." in done.stderr
    assert server.requests == []


def test_globally_it_goes_into_the_overrides_and_leaves_the_rest_of_them(
    cluster: PlayedKubectl, server: GitServer
) -> None:
    assert run("install", server.source(), "--global").exit_code == 0
    assert overrides(cluster) == {"packages": [server.source()]}

    cluster.put(
        "configmap",
        "default/team-settings-overrides",
        data={"overrides.json": '{"idleTimeout": "7m", "packages": ["github:acme/audit"]}'},
    )
    assert run("install", server.source(), "--global").exit_code == 0
    assert overrides(cluster) == {"idleTimeout": "7m", "packages": ["github:acme/audit", server.source()]}


def test_what_the_values_declare_stays_declared(cluster: PlayedKubectl, server: GitServer) -> None:
    cluster.put("configmap", "default/team-settings", data={"settings.json": '{"packages": ["github:acme/audit"]}'})

    assert run("install", server.source(), "--global").exit_code == 0
    assert overrides(cluster) == {"packages": ["github:acme/audit", server.source()]}


@pytest.mark.parametrize("scope", [["--global"], ["--conversation", "hello"]])
def test_a_write_that_comes_too_late_is_made_on_what_is_there_now(
    cluster: PlayedKubectl, server: GitServer, scope: list[str]
) -> None:
    run("install", server.source(subpath="board"), *scope)
    cluster.meet_conflicts(2)

    assert run("install", server.source(), *scope).exit_code == 0
    written = overrides(cluster)["packages"] if scope == ["--global"] else packages_of_the_office(cluster)
    assert written == [server.source(subpath="board"), server.source()]


def test_others_that_never_stop_are_told(cluster: PlayedKubectl, server: GitServer) -> None:
    cluster.meet_conflicts(100)
    done = run("install", server.source(), "--conversation", "hello")

    assert done.exit_code == 1
    assert "others change it all the time" in done.stderr


def test_a_name_that_is_taken_is_refused(cluster: PlayedKubectl, server: GitServer) -> None:
    cluster.put("configmap", "default/team-settings", data={"settings.json": '{"packages": ["github:acme/tools"]}'})
    done = run("install", server.source(), "--conversation", "hello")

    assert done.exit_code == 1
    assert f"{server.source()}: the name tools is taken by github:acme/tools" in done.stderr
    assert packages_of_the_office(cluster) == []


def test_a_directory_of_this_machine_is_sent(cluster: PlayedKubectl, tmp_path: Path) -> None:
    package = tmp_path / "My_Board"
    (package / "__pycache__").mkdir(parents=True)
    (package / ".git").mkdir()
    (package / "extension.py").write_text(ACTIVATE)
    (package / "__pycache__" / "x.pyc").write_text("x")
    (package / ".git" / "config").write_text("x")

    done = run("install", str(package), "--conversation", "hello")

    assert done.exit_code == 0, done.output
    assert packages_of_the_office(cluster) == ["/mikan/packages/local/my-board"]
    assert os.listdir(tmp_path / "volume" / "local" / "my-board") == ["extension.py"]


def test_a_directory_with_a_link_is_not_sent(cluster: PlayedKubectl, tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / "extension.py").symlink_to("/etc/passwd")
    done = run("install", str(tmp_path / "board"), "--conversation", "hello")

    assert done.exit_code == 1
    assert "extension.py is no regular file; only those are sent" in done.stderr


def test_removing_takes_it_out_of_the_list_and_leaves_the_volume(
    cluster: PlayedKubectl, server: GitServer, tmp_path: Path
) -> None:
    for subpath in ("", "board"):
        run("install", server.source(subpath=subpath), "-c", "hello")

    assert run("remove", "tools", "-c", "hello").exit_code == 0
    assert packages_of_the_office(cluster) == [server.source(subpath="board")]
    assert run("remove", server.source("v9", "board"), "-c", "hello").exit_code == 0
    assert packages_of_the_office(cluster) == []
    assert os.listdir(tmp_path / "volume" / "checkouts" / ".trees")
    done = run("remove", "tools", "-c", "hello")
    assert (done.exit_code, "tools is not in the list" in done.stderr) == (1, True)


def test_the_list_shows_scope_ref_and_what_is_shadowed(cluster: PlayedKubectl, server: GitServer) -> None:
    run("install", server.source("main"), "--global")
    run("install", server.source(), "--conversation", "hello")
    commit = server.repository("other").commit({"extension.py": ACTIVATE})
    run("install", server.source(commit, name="other"), "--global")
    cluster.put("office", f"team-offices/{KEY}", spec={"packages": [server.source(), "github:acme/gone", "nonsense"]})

    everywhere, here = run("list"), run("list", "--conversation", "hello")

    assert [line.split()[:2] for line in everywhere.stdout.splitlines()] == [
        ["SCOPE", "NAME"],
        ["global", "tools"],
        ["global", "other"],
    ]
    rows = [line.split(maxsplit=3) for line in here.stdout.splitlines()[1:]]
    assert rows == [
        ["global", "other", server.source(commit, name="other"), f"at {commit[:12]}"],
        ["office", "tools", server.source(), rows[1][3]],
        ["office", "gone", "github:acme/gone", "not there"],
        ["global", "tools", server.source("main"), "shadowed"],
    ]
    assert rows[1][3].startswith("at ")
    assert "nonsense: a package source is" in here.stderr


def test_without_packages_the_list_says_so(cluster: PlayedKubectl) -> None:
    assert run("list").stdout == "No packages.\n"


def test_a_gateway_without_the_volume_says_what_to_set_and_the_list_still_shows(
    cluster: PlayedKubectl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MIKAN_PACKAGES_DIR", str(tmp_path / "none"))
    cluster.put("configmap", "default/team-settings", data={"settings.json": '{"packages": ["github:acme/tools"]}'})

    done = run("install", "github:acme/board", "--global")
    assert (done.exit_code, "set packages.gatewayClaim" in done.stderr) == (1, True)
    listed = run("list")
    assert listed.stdout.splitlines()[1].split() == ["global", "tools", "github:acme/tools", "unknown"]
    assert "set packages.gatewayClaim" in listed.stderr


def test_what_is_forbidden_comes_with_what_to_ask_for(cluster: PlayedKubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYED_EXEC", "forbidden")
    done = run("install", "github:acme/board", "--global")

    assert done.exit_code == 1
    assert "you may not run a command in the gateway's pod" in done.stderr
    assert "`create` on pods/exec" in done.stderr


@pytest.mark.parametrize("scope", [[], ["--global", "--conversation", "hello"]])
def test_exactly_one_scope_is_to_be_named(cluster: PlayedKubectl, scope: list[str]) -> None:
    done = run("install", "github:acme/board", *scope)

    assert (done.exit_code, done.stderr) == (1, "mikan: say where: either --global or --conversation\n")
    assert cluster.calls == []

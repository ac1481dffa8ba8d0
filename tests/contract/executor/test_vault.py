"""What the helper makes of a mounted vault, and how it keeps commands out of itself."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from mikan_agent.executor import ExecRequest, HelperExecutor, LocalHelper

StartHelper = Callable[..., AbstractAsyncContextManager[LocalHelper]]
KEY = "-----BEGIN KEY-----\nline 'one'\n\nline $two\n-----END KEY-----\n"


def mount(directory: Path, generation: str, secret: dict[str, bytes]) -> None:
    """Lay a Secret out as the kubelet does: a directory for each generation and a link that is swapped."""
    data = directory / "vault" / "data"
    (data / generation).mkdir(parents=True)
    for key, value in secret.items():
        (data / generation / key).write_bytes(value)
        if not (data / key).is_symlink():
            (data / key).symlink_to(f"..data/{key}")
    (data / "..next").symlink_to(generation)
    (data / "..next").rename(data / "..data")


def runs(pid: int) -> bool:
    """Whether there is such a process, a zombie aside."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def variables(executor: HelperExecutor) -> dict[str, str]:
    result = await executor.exec(ExecRequest(argv=["env", "-0"]))
    return dict(entry.split("=", 1) for entry in result.stdout.decode().split("\0") if entry)


async def test_every_valid_name_becomes_a_variable_to_the_byte(start_helper: StartHelper, directory: Path) -> None:
    secret = {"TOKEN": b"abc", "SSH_KEY": KEY.encode(), "SPACES": b" x \n", "EMPTY": b"", "id.rsa": b"file"}
    mount(directory, "..1", secret)
    async with start_helper() as helper:
        executor = helper.executor()
        found = await variables(executor)
        await executor.aclose()

    assert {name: found.get(name) for name in secret} == {
        "TOKEN": "abc",
        "SSH_KEY": KEY,
        "SPACES": " x \n",
        "EMPTY": "",
        "id.rsa": None,
    }


@pytest.mark.parametrize(("listed", "expected"), [("A,C", {"A", "C"}), ("*", {"A", "B", "C"}), ("", set())])
async def test_list_selects_the_variables(
    start_helper: StartHelper, directory: Path, listed: str, expected: set[str]
) -> None:
    mount(directory, "..1", {"A": b"1", "B": b"2", "C": b"3"})
    async with start_helper(MIKAN_VAULT_ENV=listed) as helper:
        executor = helper.executor()
        found = await variables(executor)
        await executor.aclose()

    assert found.keys() & {"A", "B", "C"} == expected


async def test_unsafe_names_and_values_are_left_out_and_logged_by_name(
    start_helper: StartHelper, directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = {
        "LD_PRELOAD": b"/evil.so",
        "MIKAN_RUN_ID": b"forged",
        "NULL": b"se\0cret",
        "HUGE": b"s" * 140_000,
        "GOOD": b"x",
    }
    mount(directory, "..1", secret)
    async with start_helper() as helper:
        executor = helper.executor()
        found = await variables(executor)
        await executor.aclose()

    assert found.keys() & {"LD_PRELOAD", "NULL", "HUGE", "GOOD"} == {"GOOD"}
    assert found["MIKAN_RUN_ID"] != "forged"
    said = capfd.readouterr().err
    assert all(name in said for name in ("LD_PRELOAD", "MIKAN_RUN_ID", "NULL", "HUGE"))
    assert "evil" not in said
    assert "cret" not in said


async def test_rotation_is_seen_by_the_next_command(start_helper: StartHelper, directory: Path) -> None:
    mount(directory, "..1", {"TOKEN": b"old", "GONE": b"x"})
    async with start_helper() as helper:
        executor = helper.executor()
        before = await variables(executor)
        mount(directory, "..2", {"TOKEN": b"new"})
        after = await variables(executor)
        await executor.aclose()

    assert (before["TOKEN"], before["GONE"]) == ("old", "x")
    assert (after["TOKEN"], "GONE" in after) == ("new", False)


async def test_request_variables_win_over_the_vault(start_helper: StartHelper, directory: Path) -> None:
    mount(directory, "..1", {"TOKEN": b"vault"})
    async with start_helper() as helper:
        executor = helper.executor()
        result = await executor.exec(ExecRequest(command="echo $TOKEN", env={"TOKEN": "request"}))
        await executor.aclose()

    assert result.stdout == b"request\n"


async def test_files_are_links_into_the_mount(start_helper: StartHelper, directory: Path) -> None:
    mount(directory, "..1", {"id": KEY.encode(), "gh": b"token"})
    files = [{"key": "id", "path": ".ssh/id_rsa", "mode": 384}, {"key": "gh", "path": "~/.config/gh/hosts.yml"}]
    home = directory / "home"
    async with start_helper(MIKAN_VAULT_FILES=json.dumps(files)) as helper:
        executor = helper.executor()
        first = await executor.exec(ExecRequest(command="cat ~/.ssh/id_rsa ~/.config/gh/hosts.yml"))
        (home / ".ssh/id_rsa").unlink()
        mount(directory, "..2", {"id": b"rotated", "gh": b""})
        second = await executor.exec(ExecRequest(command="cat ~/.ssh/id_rsa ~/.config/gh/hosts.yml"))
        await executor.aclose()

    assert (first.stdout, second.stdout) == (KEY.encode() + b"token", b"rotated")
    assert os.readlink(home / ".ssh/id_rsa") == str(directory / "vault/data/id")
    assert [stat.S_IMODE((home / name).stat().st_mode) for name in (".ssh", ".config", ".config/gh")] == [0o700] * 3


async def test_what_stands_at_a_file_s_place_is_left_alone(
    start_helper: StartHelper, directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mount(directory, "..1", {"a": b"1", "b": b"2", "c": b"3"})
    home, outside = directory / "home", directory / "outside"
    home.mkdir()
    outside.mkdir()
    (home / "own").write_bytes(b"mine")
    (home / "other").symlink_to("/etc/hostname")
    (home / "way").symlink_to(outside)
    files = [{"key": "a", "path": "own"}, {"key": "b", "path": "other"}, {"key": "c", "path": "way/out"}]
    async with start_helper(MIKAN_VAULT_FILES=json.dumps(files)) as helper:
        executor = helper.executor()
        await executor.connect()
        await executor.aclose()

    assert (home / "own").read_bytes() == b"mine"
    assert os.readlink(home / "other") == "/etc/hostname"
    assert os.listdir(outside) == []
    said = capfd.readouterr().err
    assert [f'key "{key}"' in said for key in "abc"] == [True] * 3


@pytest.mark.parametrize(
    "listed",
    [
        '[{"key": "a", "path": "../out"}]',
        '[{"key": "a", "path": "/etc/passwd"}]',
        '[{"key": "a", "path": "."}]',
        '[{"key": "../a", "path": "x"}]',
        '[{"key": "..data", "path": "x"}]',
        "not json",
    ],
)
def test_unsafe_file_list_ends_serve_with_a_reason(helper_binary: Path, directory: Path, listed: str) -> None:
    done = subprocess.run(
        [helper_binary, "serve", "--socket", directory / "s", "--home", directory],
        env={"MIKAN_VAULT_FILES": listed},
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "MIKAN_VAULT_FILES" in done.stderr


async def test_commands_can_t_open_the_helper(start_helper: StartHelper) -> None:
    """Same uid, so only the kernel's dumpable flag is in the way; root is let through by capability, hence setpriv."""
    drop = ["setpriv", "--reuid=10001", "--regid=10001", "--clear-groups"] if os.getuid() == 0 else []
    async with start_helper() as helper:
        executor = helper.executor()
        attempt = 'for f in mem environ fd/1 fd/0; do (: >"$0/$f") 2>/dev/null && echo opened; done; ls "$0/fd"'
        process = f"/proc/{helper.pid}"
        result = await executor.exec(ExecRequest(argv=[*drop, "sh", "-c", attempt, process]))
        owner = os.stat(f"{process}/fd").st_uid
        await executor.aclose()

    assert (result.stdout, owner) == (b"", 0)
    assert result.exit_code != 0


async def test_sigterm_ends_the_helper_and_its_commands_at_once(start_helper: StartHelper) -> None:
    async with start_helper() as helper:
        executor = helper.executor()
        result = await executor.exec(ExecRequest(command="trap '' TERM; sleep 600 & echo $!"))
        child = int(result.stdout)
        assert runs(child)
        await executor.aclose()
        # Leaving the block sends SIGTERM and waits.

    assert not runs(child)


async def test_orphans_are_reaped(start_helper: StartHelper) -> None:
    async with start_helper() as helper:
        executor = helper.executor()
        await executor.exec(ExecRequest(command="for i in 1 2 3 4 5; do (setsid sleep 0.1 &) ; done; sleep 0.5"))
        result = await executor.exec(ExecRequest(command=f"cat /proc/{helper.pid}/task/*/children | wc -w"))
        await executor.aclose()

    assert result.stdout == b"1\n"  # the shell that asks

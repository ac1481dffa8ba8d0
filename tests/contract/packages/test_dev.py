"""`mikan ext dev`: the real command, the real agent, a real model server, and lines of a terminal."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest

from agent_peers.helper import build_helper
from mikan_dev.paths import REPOSITORY

PATIENCE = 60.0


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_helper(tmp_path_factory.mktemp("helper"))


class Terminal:
    """A chat: lines go in, and lines come out."""

    def __init__(self, package: Path, cwd: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [str(Path(sys.executable).with_name("mikan")), "ext", "dev", str(package), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd,
            start_new_session=True,
        )
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def say(self, text: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def until(self, expected: str) -> list[str]:
        """Lines up to the first that holds a text."""
        seen: list[str] = []
        while not seen or expected not in seen[-1]:
            try:
                seen.append(self._lines.get(timeout=PATIENCE))
            except Empty:
                raise AssertionError(f"{expected!r} does not come: {seen}") from None
        return seen

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to everybody in the group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self) -> int:
        """Close the input; the exit code."""
        assert self._process.stdin
        self._process.stdin.close()
        return self._process.wait(timeout=PATIENCE)

    def kill(self) -> None:
        """Whatever is left of it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            stream.close()


Open = Callable[..., Terminal]


@pytest.fixture
def dev(tmp_path: Path, helper: Path) -> Iterator[Open]:
    opened: list[Terminal] = []

    def start(code: str | Path, *, with_helper: bool = True) -> Terminal:
        package = code if isinstance(code, Path) else tmp_path / "hello"
        if isinstance(code, str):
            package.mkdir()
            (package / "extension.py").write_text(code)
        opened.append(Terminal(package, tmp_path, *(["--helper", str(helper)] if with_helper else [])))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.kill()


WHICH = """
def activate(api):
    api.register_command("which", "d", lambda call: "this is {0}")
"""


@pytest.mark.timeout(300)
def test_an_edit_is_there_after_new(dev: Open, tmp_path: Path) -> None:
    terminal = dev(WHICH.format("one"))
    terminal.say("/which")
    assert terminal.until("this is one") == ["this is one"]

    (tmp_path / "hello" / "extension.py").write_text(WHICH.format("two"))
    terminal.say("/which")
    terminal.until("this is one")
    terminal.say("/new")
    terminal.until("a new session")
    terminal.say("/which")
    assert terminal.until("this is") == ["this is two"]
    assert terminal.end() == 0


@pytest.mark.timeout(300)
def test_tools_hooks_and_commands_of_the_machine_work_as_in_an_office(dev: Open, tmp_path: Path) -> None:
    terminal = dev(
        """
from dataclasses import replace
from mikan_agent.extensions.api import map_text

def activate(api):
    api.on("tool_result", lambda event: replace(
        event.result, content=map_text(event.result.content, lambda text: text.replace("secret", "***"))))
"""
    )
    terminal.say("run: echo a secret; pwd")
    lines = terminal.until("/workspace/v1-console-ext-dev-hello-")
    assert lines[:2] == ["⚙ $ echo a secret; pwd", "✓ $ echo a secret; pwd"]
    assert "a ***" in lines
    assert terminal.end() == 0
    assert (tmp_path / ".mikan-ext-dev" / "records").is_dir()


@pytest.mark.timeout(300)
def test_what_cannot_be_loaded_is_said_and_the_chat_goes_on(dev: Open, tmp_path: Path) -> None:
    terminal = dev("import nowhere\ndef activate(api): ...\n")
    terminal.say("hello")
    lines = terminal.until("scripted model")
    assert any("hello: not activated: ModuleNotFoundError: No module named 'nowhere'" in line for line in lines)

    (tmp_path / "hello" / "extension.py").write_text(WHICH.format("mended"))
    terminal.say("/new")
    terminal.say("/which")
    terminal.until("this is mended")
    assert terminal.end() == 0


@pytest.mark.timeout(300)
def test_ctrl_c_ends_an_answer_and_then_the_chat(dev: Open) -> None:
    terminal = dev(WHICH.format("one"))
    terminal.say("sleep 100")
    terminal.until("⚙")
    terminal.interrupt()
    terminal.until("(stopped)")
    terminal.say("/which")
    terminal.until("this is one")
    assert terminal.end() == 0


@pytest.mark.timeout(300)
def test_without_a_helper_all_but_commands_works(dev: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = dev(WHICH.format("one"), with_helper=False)
    terminal.say("/which")
    terminal.until("this is one")
    terminal.say("run: true")
    assert any("name it with --helper" in line for line in terminal.until("✗"))
    assert terminal.end() == 0


@pytest.mark.timeout(300)
def test_the_readmes_example_is_ready_to_be_tried(dev: Open) -> None:
    terminal = dev(REPOSITORY / "docs" / "examples" / "extensions" / "follow-up-board")
    terminal.say("/board")
    lines = terminal.until("Nothing is open.")
    assert any("no reminders: this host starts no runs by itself" in line for line in lines)
    assert terminal.end() == 0

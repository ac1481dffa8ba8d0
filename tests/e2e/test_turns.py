"""Messages of one conversation take turns, and ``stop`` cuts a turn short."""

import subprocess
import time

from mikan_cluster.commands import eventually
from mikan_cluster.release import Chat, Release


def start(chat: Chat, text: str) -> subprocess.Popen[str]:
    """Send a message and do not wait for its answer."""
    return subprocess.Popen(
        chat.argv(text, 120), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=chat.environment()
    )


def running(release: Release, chat: Chat, what: str) -> list[str]:
    """Processes in the office's sandbox whose command line holds ``what``."""
    script = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f 2>/dev/null; echo; done"
    lines = release.in_sandbox(chat.key, "sh", "-c", script).stdout.splitlines()
    return [line for line in lines if what in line and "for f in" not in line]


def test_a_second_message_waits_its_turn(release: Release, chat: Chat) -> None:
    chat.say("run: true")
    first = start(chat, "run: sleep 6; date +%s.%N > done-1; echo one")
    eventually("the first command runs", lambda: running(release, chat, "sleep 6"))

    second = chat.say("run: date +%s.%N > started-2; cat done-1 started-2; echo two")

    one, _ = first.communicate(timeout=60)
    assert "one" in one
    done, started = [float(line) for line in second.split() if line.replace(".", "", 1).isdigit() and "." in line][-2:]
    assert done < started


def test_stop_cuts_a_sleep_and_one_behind_setsid_within_two_seconds(release: Release, chat: Chat) -> None:
    chat.say("run: true")
    sleeper = start(chat, "run: setsid sleep 611 & sleep 600")
    eventually("both sleep", lambda: running(release, chat, "sleep 611") and running(release, chat, "sleep 600"))
    client = start(chat, "stop")

    began = time.monotonic()
    shown, _ = sleeper.communicate(timeout=30)
    took = time.monotonic() - began
    client.communicate(timeout=30)

    # The clock starts before the second mikan command has even connected.
    print(f"\nstop, with the start of a mikan command: {took:.2f} s\n{shown}")
    eventually("no process is left", lambda: not running(release, chat, "sleep 6"), seconds=2)
    assert "scripted" in chat.say("hello again")


def test_stop_with_nothing_running_says_so(chat: Chat) -> None:
    chat.say("hello")

    assert "nothing" in chat.say("stop").lower()

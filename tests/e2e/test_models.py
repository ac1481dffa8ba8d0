"""Model calls through the whole path: translated by litellm, to a server that is not ours and stands outside."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aimock import ensure_aimock
from mikan_cluster.commands import eventually
from mikan_cluster.release import Chat, Release
from mikan_dev.paths import CLUSTER_SCRIPTS

OUTSIDE, PORT = "203.0.113.10", 4010
FIXTURES = {
    "fixtures": [
        {
            "match": {"userMessage": "look around", "hasToolResult": False},
            "response": {
                "toolCalls": [
                    {"name": "bash", "arguments": {"command": "echo from-the-first-of-two-streamed-calls > one.txt"}},
                    {"name": "bash", "arguments": {"command": "cat one.txt; echo and-the-second > two.txt"}},
                ]
            },
        },
        {
            "match": {"userMessage": "look around", "hasToolResult": True},
            "response": {"content": "Both calls are done."},
        },
        {
            "match": {"userMessage": "break off"},
            "response": {"content": "This answer is cut somewhere in the middle of its one long sentence."},
            "latency": 20,
            "truncateAfterChunks": 3,
        },
    ]
}


@pytest.fixture(scope="module")
def outside_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The independent model server, in the namespace that plays the Internet."""
    fixtures: Path = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES))
    argv = [
        str(CLUSTER_SCRIPTS / "ctl.sh"), "outside", "node", str(ensure_aimock()), "--host", OUTSIDE,
        "--port", str(PORT), "--fixtures", str(fixtures), "--strict", "--chunk-size", "7",
    ]  # fmt: skip
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)
    reach = [str(CLUSTER_SCRIPTS / "ctl.sh"), "outside", "bash", "-c", f": <>/dev/tcp/{OUTSIDE}/{PORT}"]
    try:
        eventually(
            "the model server listens", lambda: subprocess.run(reach, capture_output=True, check=False).returncode == 0
        )
        yield
    finally:
        # The script and what it started in there.
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=10)


@pytest.fixture
def elsewhere(release: Release, outside_models: None) -> Chat:
    """A conversation whose office asks that server, in Anthropic's form."""
    chat = Chat(release)
    chat.say("hello")
    release.use_model(chat.key, "elsewhere/claude-sonnet-4-5")
    return chat


def test_tool_calls_streamed_through_litellm_are_run_in_order(release: Release, elsewhere: Chat) -> None:
    answer = elsewhere.say("look around", timeout=60)

    assert "Both calls are done." in answer
    files = release.in_sandbox(
        elsewhere.key, "sh", "-c", f"cat /workspace/{elsewhere.key}/one.txt /workspace/{elsewhere.key}/two.txt"
    )
    assert files.stdout == "from-the-first-of-two-streamed-calls\nand-the-second\n"


def test_a_stream_that_is_cut_again_and_again_ends_in_an_error_that_says_so(elsewhere: Chat) -> None:
    answer = elsewhere.say("break off", timeout=110)

    assert "one long sentence" not in answer
    assert "cut" in answer.lower() or "broke off" in answer.lower()
    assert answer.count("This answer is cut") <= 1


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("nowhere/model", "nowhere"),
        ("unreachable/model", "unreachable"),
        ("scripted/not-there", "not-there"),
    ],
)
def test_a_model_that_cannot_answer_is_named_in_the_chat(release: Release, chat: Chat, model: str, says: str) -> None:
    chat.say("hello")
    release.use_model(chat.key, model)

    answer = chat.say("hello?", timeout=110)

    assert says in answer
    assert "/model" in answer or "admin" in answer

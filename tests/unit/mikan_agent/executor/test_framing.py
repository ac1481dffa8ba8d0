"""Frames: whatever the chunks, the same frames; whatever is not the helper's, refused."""

import base64
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mikan_agent.executor import framing
from mikan_agent.executor.exceptions import (
    FileMissing,
    InvalidRequest,
    NoSpace,
    NotAFile,
    NotPermitted,
    OperationFailed,
    ProtocolViolation,
    SandboxBusy,
    TooLarge,
)
from mikan_agent.executor.framing import Frame, FrameDecoder, Kind
from mikan_agent.executor.ports import ExecRequest, ExecResult, FileStat, FileType

FRAMES = st.lists(
    st.builds(
        Frame,
        st.sampled_from(sorted(framing.FROM_HELPER)),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=300),
    ),
    max_size=8,
)


def wire(frames: list[Frame]) -> bytes:
    return b"".join(framing.build(frame.kind, frame.request, frame.payload) for frame in frames)


@given(FRAMES, st.data())
def test_frames_survive_any_chunking(frames: list[Frame], data: st.DataObject) -> None:
    stream, decoder, found = wire(frames), FrameDecoder(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += decoder.feed(stream[:size])
        stream = stream[size:]

    assert found == frames
    assert not decoder.inside_frame


def test_cut_inside_a_frame_is_known() -> None:
    decoder = FrameDecoder()

    assert decoder.feed(framing.build(Kind.STDOUT, 1, b"abc")[:-1]) == []
    assert decoder.inside_frame


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">IBI", framing.MAX_PAYLOAD + 1, Kind.STDOUT, 1),
        struct.pack(">IBI", 0, Kind.EXEC, 1),
        struct.pack(">IBI", 0, 0xFF, 1),
        b"OCI runtime exec failed",
    ],
)
def test_what_is_not_a_frame_of_the_helper_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        FrameDecoder().feed(data)


def test_largest_payload_passes_and_no_larger_is_built() -> None:
    largest = bytes(framing.MAX_PAYLOAD)

    assert FrameDecoder().feed(framing.build(Kind.DATA, 7, largest)) == [Frame(Kind.DATA, 7, largest)]
    with pytest.raises(TooLarge):
        framing.build(Kind.EXEC, 7, largest + b"x")


def test_exec_request_as_sent() -> None:
    request = ExecRequest(argv=["echo", "\udcff"], cwd="/a b", env={"N": "x=y"}, stdin=b"", timeout=1.5, grace=0.25)

    assert json.loads(framing.exec_payload(request)) == {
        "argv": [base64.b64encode(word).decode() for word in (b"echo", b"\xff")],
        "cwd": base64.b64encode(b"/a b").decode(),
        "env": [base64.b64encode(b"N=x=y").decode()],
        "stdin": True,
        "timeout_ms": 1500,
        "grace_ms": 250,
    }


def test_text_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        framing.stat_payload("\ud800", follow=True)


def test_exit_of_a_signal() -> None:
    payload = {"code": -1, "signal": 9, "timed_out": True, "killed": False, "survivors": 1}
    payload |= {"stdout_bytes": 4, "stderr_bytes": 5}

    assert framing.parse_exit(json.dumps(payload).encode()).result == ExecResult(
        exit_code=137, signal=9, timed_out=True, survivors=1, stdout_bytes=4, stderr_bytes=5
    )


def test_done_of_a_stat() -> None:
    payload = {"bytes": 0, "type": "directory", "size": 4096, "mode": 0o755, "mtime_ns": 12}

    assert framing.parse_done(json.dumps(payload).encode()) == framing.Done(
        0, FileStat(FileType.DIRECTORY, 4096, 0o755, 12)
    )


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b"\xff", b'{"code": "0"}'])
def test_malformed_answers_are_violations(payload: bytes) -> None:
    for parse in (framing.parse_exit, framing.parse_done):
        with pytest.raises(ProtocolViolation):
            parse(payload)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("not_found", FileMissing),
        ("not_permitted", NotPermitted),
        ("is_directory", NotAFile),
        ("not_regular", NotAFile),
        ("too_large", TooLarge),
        ("no_space", NoSpace),
        ("busy", SandboxBusy),
        ("invalid", InvalidRequest),
        ("io", OperationFailed),
        ("anything else", OperationFailed),
    ],
)
def test_error_codes_have_their_exceptions(code: str, expected: type[Exception]) -> None:
    error = framing.parse_error(json.dumps({"code": code, "message": "why"}).encode())

    assert (type(error), str(error)) == (expected, "why")


def test_hello_of_another_protocol_is_refused() -> None:
    framing.parse_hello(Frame(Kind.HELLO, 0, b'{"protocol": 1, "version": "x"}'))
    for frame in (Frame(Kind.HELLO, 0, b'{"protocol": 2}'), Frame(Kind.EXIT, 0, b'{"protocol": 1}')):
        with pytest.raises(ProtocolViolation, match="protocol 1"):
            framing.parse_hello(frame)


@pytest.mark.parametrize("arguments", [{}, {"command": "x", "argv": ["y"]}])
def test_a_request_is_a_command_or_an_argv(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="either a command or an argv"):
        ExecRequest(**arguments)  # type: ignore[arg-type]

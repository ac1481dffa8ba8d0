"""The frames of ``agent/sandbox/PROTOCOL.md``: the builder and the parser of this side, and nothing else.

The other side is untrusted code's neighbour: whatever arrives is checked before it is believed.
"""

import base64
import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from pathlib import PurePosixPath
from typing import Any

from mikan_agent.executor.exceptions import InvalidRequest, ProtocolViolation, RequestRefused, TooLarge, refusal
from mikan_agent.executor.ports import ExecRequest, ExecResult, FileStat, FileType

PROTOCOL_VERSION = 1
MAX_PAYLOAD = 1 << 20
WINDOW = 1 << 20
"""Bytes in flight per request and direction, at the beginning."""
BULK_WINDOW = 4 << 20
"""The same of output that goes on: a grant takes its time through the API server, most of all on a busy node."""
GRANT_SHARE = 4
"""A grant is given for each such part of the window that has been taken."""
INPUT_CHUNK = 128 * 1024

_HEADER = struct.Struct(">IBI")
_WINDOW = struct.Struct(">I")


class Kind(IntEnum):
    """Kinds of frames."""

    EXEC = 0x01
    INPUT = 0x02
    INPUT_END = 0x03
    KILL = 0x04
    READ = 0x05
    WRITE = 0x06
    COMMIT = 0x07
    ABORT = 0x08
    STAT = 0x09
    WINDOW = 0x40
    HELLO = 0x80
    STDOUT = 0x81
    STDERR = 0x82
    EXIT = 0x83
    ERROR = 0x84
    DATA = 0x85
    DONE = 0x86


FROM_HELPER = frozenset(kind for kind in Kind if kind >= Kind.WINDOW)
DATA_KINDS = frozenset({Kind.STDOUT, Kind.STDERR, Kind.DATA})
FINAL_KINDS = frozenset({Kind.EXIT, Kind.ERROR, Kind.DONE})


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame from the helper."""

    kind: Kind
    request: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of an exec: its result without the output, and the counts that the output must match."""

    result: ExecResult


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a read, write or stat."""

    bytes: int
    stat: FileStat


def build(kind: Kind, request: int, payload: bytes = b"") -> bytes:
    """One frame.

    Raises:
        TooLarge: a control payload that no frame can hold.
    """
    if len(payload) > MAX_PAYLOAD:
        raise TooLarge("the request is larger than 1 MiB")
    return _HEADER.pack(len(payload), kind, request) + payload


def build_window(request: int, amount: int) -> bytes:
    """A grant of that many more bytes."""
    return build(Kind.WINDOW, request, _WINDOW.pack(amount))


class FrameDecoder:
    """Cuts a byte stream into frames, however it was chunked."""

    def __init__(self) -> None:
        # Both numbers count from the start of what is kept: a frame that comes in many chunks is joined once.
        self._parts: list[bytes] = []
        self._size = 0
        self._need = _HEADER.size

    @property
    def inside_frame(self) -> bool:
        """Whether the stream stands in the middle of a frame."""
        return self._size > 0

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete.

        Raises:
            ProtocolViolation: they are not frames of the helper.
        """
        self._parts.append(data)
        self._size += len(data)
        frames: list[Frame] = []
        if self._size < self._need:
            return frames
        buffer = memoryview(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
        start = 0
        while True:
            end = self._frame_end(buffer, start)
            self._need = end - start
            if end > self._size:
                break
            frames.append(_frame(buffer[start:end]))
            start = end
        self._size -= start
        self._parts = [bytes(buffer[start:])] if self._size else []
        return frames

    def _frame_end(self, buffer: memoryview, start: int) -> int:
        if len(buffer) - start < _HEADER.size:
            return start + _HEADER.size
        length, kind, _ = _HEADER.unpack_from(buffer, start)
        if length > MAX_PAYLOAD or kind not in FROM_HELPER:
            raise ProtocolViolation("the stream from the sandbox is not the helper's")
        return start + _HEADER.size + int(length)


def _frame(view: memoryview) -> Frame:
    _, kind, request = _HEADER.unpack_from(view)
    return Frame(Kind(kind), request, bytes(view[_HEADER.size :]))


def exec_payload(request: ExecRequest) -> bytes:
    """Payload of an exec frame."""
    message: dict[str, object] = {
        "cwd": _bytes(request.cwd),
        "env": [_bytes(f"{name}={value}") for name, value in request.env.items()],
        "stdin": request.stdin is not None,
        "timeout_ms": 0 if request.timeout is None else max(1, round(request.timeout * 1000)),
        "grace_ms": _grace(request.grace),
    }
    if request.command is None:
        message["argv"] = [_bytes(argument) for argument in request.argv]
    else:
        message["command"] = _bytes(request.command)
    return _json(message)


def kill_payload(grace: float) -> bytes:
    """Payload of a kill frame."""
    return _json({"grace_ms": _grace(grace)})


def read_payload(path: str | PurePosixPath, offset: int, limit: int | None) -> bytes:
    """Payload of a read frame."""
    return _json({"path": _bytes(path), "offset": offset, "limit": limit})


def write_payload(path: str | PurePosixPath, mode: int | None, parents: bool) -> bytes:
    """Payload of a write frame."""
    return _json({"path": _bytes(path), "mode": mode, "parents": parents})


def commit_payload(count: int) -> bytes:
    """Payload of a commit frame."""
    return _json({"bytes": count})


def stat_payload(path: str | PurePosixPath, follow: bool) -> bytes:
    """Payload of a stat frame."""
    return _json({"path": _bytes(path), "follow": follow})


def parse_window(payload: bytes) -> int:
    """The amount of a grant."""
    if len(payload) != _WINDOW.size:
        raise ProtocolViolation("malformed window frame")
    return int(_WINDOW.unpack(payload)[0])


def parse_hello(frame: Frame) -> None:
    """Check the first frame.

    Raises:
        ProtocolViolation: it is not the hello of a helper that we can talk to.
    """
    message = _parse(frame.payload)
    if frame.kind is not Kind.HELLO or message.get("protocol") != PROTOCOL_VERSION:
        raise ProtocolViolation(f"the sandbox helper does not speak protocol {PROTOCOL_VERSION}")


def parse_exit(payload: bytes) -> Exit:
    """The end of an exec."""
    message = _parse(payload)
    signal = _number(message, "signal")
    return Exit(
        ExecResult(
            exit_code=128 + signal if signal else _number(message, "code"),
            signal=signal or None,
            timed_out=message.get("timed_out") is True,
            killed=message.get("killed") is True,
            survivors=_number(message, "survivors"),
            stdout_bytes=_number(message, "stdout_bytes"),
            stderr_bytes=_number(message, "stderr_bytes"),
        )
    )


def parse_done(payload: bytes) -> Done:
    """The end of a read, write or stat."""
    message = _parse(payload)
    try:
        kind = FileType(str(message.get("type")))
    except ValueError as error:
        raise ProtocolViolation("malformed control frame") from error
    stat = FileStat(kind, *(_number(message, name) for name in ("size", "mode", "mtime_ns")))
    return Done(_number(message, "bytes"), stat)


def parse_error(payload: bytes) -> RequestRefused:
    """The exception that an error frame stands for."""
    message = _parse(payload)
    return refusal(str(message.get("code")), str(message.get("message")))


def _json(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode()


def _parse(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload)
    except ValueError as error:
        raise ProtocolViolation("malformed control frame") from error
    if not isinstance(message, dict):
        raise ProtocolViolation("malformed control frame")
    return message


def _number(message: dict[str, Any], name: str) -> int:
    value = message.get(name)
    if not isinstance(value, int):
        raise ProtocolViolation("malformed control frame")
    return value


def _bytes(text: str | PurePosixPath) -> str:
    """Base64 of a name; bytes that are not UTF-8 stand in Python strings as lone surrogates (PEP 383)."""
    try:
        return base64.b64encode(str(text).encode("utf-8", "surrogateescape")).decode()
    except UnicodeEncodeError as error:
        raise InvalidRequest("a name or argument is not text that can be encoded") from error


def _grace(seconds: float) -> int:
    return max(1, round(seconds * 1000))

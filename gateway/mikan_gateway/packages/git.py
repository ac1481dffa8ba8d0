"""Git as it is safe to use on repositories of strangers: it fetches objects into a bare repository and reads them back.

It never writes a working tree, so no hook, filter, attribute, submodule or link of a repository means anything to it.
It reads no configuration but ours, asks for no credentials, and speaks https only.
"""

import os
import re
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mikan_api.packages import GitSource
from mikan_gateway.packages.exceptions import FetchFailed, PackageRefused
from mikan_gateway.packages.limits import Limits

_FETCHED = "refs/mikan/fetched"
_CHUNK = 1024 * 1024
_PASSED_ON = ("PATH", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "GIT_SSL_CAINFO")
_CONFIG = {
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.askPass": "",
    "credential.helper": "",
    "credential.interactive": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    "fetch.fsckObjects": "true",
    # Whatever comes stays one file, which is what its size is bounded by.
    "fetch.unpackLimit": "1",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "pack.threads": "1",
    "core.bigFileThreshold": "1m",
    "core.deltaBaseCacheLimit": "16m",
    "core.packedGitLimit": "64m",
    "core.packedGitWindowSize": "16m",
}
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A blob of a commit's tree."""

    mode: str
    """``100644``, ``100755`` or ``120000`` (a link)."""
    object_id: str
    size: int
    path: str


class Repository:
    """A bare repository in a directory of its own."""

    def __init__(self, directory: Path, limits: Limits, *, loopback: bool = False) -> None:
        """``loopback`` lets plain http reach servers on this machine."""
        self._directory, self._limits, self._loopback = directory, limits, loopback
        self._deadline = time.monotonic() + limits.seconds

    def fetch(self, source: GitSource) -> str:
        """Get one commit, without history, and return its id.

        Raises:
            FetchFailed: no such repository or ref, a broken object, or it took too long.
            PackageRefused: more bytes than a package may have.
        """
        self._run("init", "--quiet", "--bare", "--template=", str(self._directory), directory=None)
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance")
        self._run("fetch", *options, "--", source.url, f"{source.ref or 'HEAD'}:{_FETCHED}")
        commit = self._run("rev-parse", "--verify", "--end-of-options", f"{_FETCHED}^{{commit}}").decode().strip()
        if not re.fullmatch(r"[0-9a-f]{40}", commit) or (source.pinned and commit != source.ref):
            raise FetchFailed(f"{source.url} gave another commit than {source.ref}")
        return commit

    def entries(self, commit: str) -> list[Entry]:
        """Every file and link of a commit. Submodules are left out: nothing of them is fetched.

        Raises:
            PackageRefused: more than a package may have.
        """
        limits = self._limits
        room = limits.files * (limits.path_bytes + 80)
        listing = self._run("ls-tree", "-r", "-z", "-l", "--full-tree", commit, room=room)
        found = [_entry(line) for line in listing.split(b"\0") if line and b" commit " not in line.partition(b"\t")[0]]
        if len(found) > limits.files:
            raise PackageRefused(f"it has more than {limits.files} files")
        if sum(entry.size for entry in found) > limits.total_bytes:
            raise PackageRefused(f"it has more than {limits.total_bytes} bytes")
        return found

    @contextmanager
    def blobs(self) -> Iterator["Blobs"]:
        """Read the contents of entries, one after another."""
        with self._process("cat-file", "--batch", stdin=subprocess.PIPE) as process:
            assert process.stdin and process.stdout  # noqa: S101, PT018  asked for
            yield Blobs(process.stdin, process.stdout, self._left)
            process.stdin.close()

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise FetchFailed(f"it took more than {self._limits.seconds:g} s")
        return left

    def _run(self, *arguments: str, directory: str | None = "", room: int = _CHUNK) -> bytes:
        with self._process(*arguments, directory=directory, stdin=subprocess.DEVNULL) as process:
            out, err = _read_both(process, room, self._left)
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._left())
        if process.returncode and self._is_full():
            raise PackageRefused(f"it has more than {self._limits.pack_bytes} bytes")
        if process.returncode:
            raise FetchFailed(_last_words(err) or f"git ended with {process.returncode}")
        return out

    def _is_full(self) -> bool:
        """Whether a file has reached the size that none may pass. Git does not say so."""
        sizes = (path.lstat().st_size for path in self._directory.rglob("*"))
        return any(size >= self._limits.pack_bytes for size in sizes)

    @contextmanager
    def _process(self, *arguments: str, directory: str | None = "", stdin: int) -> Iterator["subprocess.Popen[bytes]"]:
        where = () if directory is None else ("--git-dir", directory or str(self._directory))
        process = subprocess.Popen(  # noqa: S603  every argument is ours, or checked by its grammar
            ["git", *_options(self._loopback), *where, *arguments],  # noqa: S607  found on the image's own PATH
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if stdin == subprocess.DEVNULL else subprocess.DEVNULL,
            env=_environment(os.environ),
            cwd="/",
            start_new_session=True,
            preexec_fn=self._restrain,  # this process has one thread
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with what it started
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()

    def _restrain(self) -> None:
        """In the child, before git: bounds that hold for all that it starts."""
        limits = self._limits
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits.pack_bytes, limits.pack_bytes))
        resource.setrlimit(resource.RLIMIT_DATA, (limits.memory_bytes, limits.memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Blobs:
    """Contents by object id."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes], left: Callable[[], float]) -> None:
        self._requests, self._answers, self._left = requests, answers, left

    def read(self, entry: Entry) -> bytes:
        """The whole content.

        Raises:
            FetchFailed: git does not give it.
        """
        self._left()
        self._requests.write(f"{entry.object_id}\n".encode())
        self._requests.flush()
        if self._answers.readline().split() != [entry.object_id.encode(), b"blob", b"%d" % entry.size]:
            raise FetchFailed(f"git does not give {entry.path!r}")
        content = self._answers.read(entry.size)
        if len(content) != entry.size or self._answers.read(1) != b"\n":
            raise FetchFailed(f"git does not give all of {entry.path!r}")
        return content


def _options(loopback: bool) -> list[str]:
    settings = _CONFIG | ({"protocol.http.allow": "always"} if loopback else {})
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return _ENVIRONMENT | {name: ours[name] for name in _PASSED_ON if name in ours}


def _entry(line: bytes) -> Entry:
    """One line of ``ls-tree -l``: mode, type, id, size, and the path after a tab."""
    about, _, path = line.partition(b"\t")
    mode, _, object_id, size = about.decode("ascii").split()
    try:
        return Entry(mode, object_id, int(size), path.decode())
    except UnicodeDecodeError:
        raise PackageRefused(f"the path {path!r} is no text") from None


def _read_both(process: "subprocess.Popen[bytes]", room: int, left: Callable[[], float]) -> tuple[bytes, bytes]:
    """What a command prints, until it closes both streams.

    Raises:
        PackageRefused: more than ``room`` bytes.
        FetchFailed: no time is left.
    """
    printed: dict[object, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None  # noqa: S101  asked for
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(left()):
                chunk = os.read(key.fd, 65_536)
                if not chunk:
                    selector.unregister(key.fileobj)
                printed[key.fileobj] += chunk
                if len(printed[key.fileobj]) > room:
                    raise PackageRefused("it has more files than a package may have")
    return bytes(printed[process.stdout]), bytes(printed[process.stderr])


def _last_words(err: bytes) -> str:
    """The last line of what git complained of that says anything."""
    lines = [line.strip() for line in err.decode(errors="replace").splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))] or lines
    return "".join(c for c in (said[-1] if said else "") if c.isprintable())[:500]

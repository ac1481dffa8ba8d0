"""What `mikan` has kubectl do, with the user's own context and rights."""

import asyncio
import base64
import binascii
import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mikan_cli.exceptions import ClusterUnusable, ConsoleUnreachable

CONSOLE_PORT = 8081
START_SECONDS = 20.0
_FORWARDING = re.compile(rb"^Forwarding from 127\.0\.0\.1:(\d+) -> ")


@dataclass(frozen=True, slots=True)
class Release:
    """A Helm release; without a namespace, that of the current context."""

    name: str = "mikan"
    namespace: str | None = None

    @property
    def namespace_arguments(self) -> tuple[str, ...]:
        """For kubectl."""
        return ("--namespace", self.namespace) if self.namespace else ()

    def __str__(self) -> str:
        where = f"namespace {self.namespace!r}" if self.namespace else "the current context's namespace"
        return f"release {self.name!r} in {where}"


def program() -> str:
    """The kubectl to call: ``$KUBECTL`` or the one on the path."""
    return os.environ.get("KUBECTL") or "kubectl"


async def read_console_token(release: Release) -> str:
    """The console's bearer token, from the Secret ``<release>-console``.

    Raises:
        ClusterUnusable: it can't be read; the message says why.
    """
    secret = f"{release.name}-console"
    arguments = (*release.namespace_arguments, "get", "secret", secret, "-o", "jsonpath={.data.token}")
    encoded = await _run(arguments, release, f"read the Secret {secret!r}")
    try:
        token = base64.b64decode(encoded, validate=True).decode("ascii").strip()
    except (binascii.Error, UnicodeDecodeError):
        token = ""
    if not token:
        raise ClusterUnusable(f"the Secret {secret!r} has no usable key 'token'", "Check the release's console values.")
    return token


async def _run(arguments: Sequence[str], release: Release, doing: str) -> bytes:
    code, out, err = await call(arguments)
    if code:
        raise explain(err, release, doing)
    return out


async def call(arguments: Sequence[str], stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Have kubectl do something; its exit code and what it printed on both streams.

    Raises:
        ClusterUnusable: there is no kubectl.
    """
    process = await _spawn(arguments, asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL)
    out, err = await process.communicate(stdin or None)
    return process.returncode or 0, out, err.decode(errors="replace")


async def _spawn(arguments: Sequence[str], stdin: int = asyncio.subprocess.DEVNULL) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            program(),
            *arguments,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C in the terminal is for us to handle: it must not cut the connection.
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError):
        raise ClusterUnusable(
            f"kubectl ({program()!r}) can't be run",
            "Install kubectl, or set KUBECTL to its path, or use --url with --token-file.",
        ) from None


CHAT_RIGHTS = "Ask an admin for `get` on that Secret and on pods, and for `create` on pods/portforward."


def explain(stderr: str, release: Release, doing: str, rights: str = CHAT_RIGHTS) -> ClusterUnusable:
    """What kubectl's complaint means for somebody; ``rights``: what to ask for where something is forbidden."""
    last = next((line for line in reversed(stderr.strip().splitlines()) if line.strip()), "no reason given")
    low = stderr.lower()
    if "notfound" in low or "not found" in low:
        step = "See which releases there are with `helm list --all-namespaces`; then use --release and --namespace."
        return ClusterUnusable(f"there is no {release} ({last})", step)
    if "forbidden" in low:
        return ClusterUnusable(f"you may not {doing} ({last})", rights)
    if "unauthorized" in low or "must be logged in" in low:
        return ClusterUnusable(f"the cluster does not accept your credentials ({last})", "Log in to the cluster again.")
    step = "Check the cluster with `kubectl cluster-info`."
    return ClusterUnusable(f"could not {doing}: {last}", step)


class PortForward:
    """A `kubectl port-forward` to the gateway's pod, on a port that kubectl chooses."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[None] | None = None

    async def open(self) -> str:
        """Start it; the URL at which the console is to be had.

        Raises:
            ClusterUnusable: kubectl refused.
            ConsoleUnreachable: it did not come up in time.
        """
        await self.close()
        arguments = (
            *self._release.namespace_arguments,
            *("port-forward", "--address", "127.0.0.1"),
            *(f"deployment/{self._release.name}-gateway", f":{CONSOLE_PORT}"),
        )
        self._process = await _spawn(arguments)
        assert self._process.stdout  # noqa: S101  it was asked for
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await self._process.stdout.readline()
        except TimeoutError:
            await self.close()
            raise ConsoleUnreachable("the port-forward did not come up", "Look at the gateway's pod.") from None
        found = _FORWARDING.match(line)
        if found is None:
            raise await self._failure()
        self._drain = asyncio.create_task(_discard(self._process))
        return f"http://127.0.0.1:{int(found[1])}"

    async def close(self) -> None:
        """End it, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            await process.wait()
        if self._drain is not None:
            await self._drain
            self._drain = None

    async def _failure(self) -> ClusterUnusable:
        assert self._process is not None  # noqa: S101  only called right after the start
        process, self._process = self._process, None
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        _, err = await process.communicate()
        return explain(err.decode(errors="replace"), self._release, "reach the gateway's pod")


async def _discard(process: asyncio.subprocess.Process) -> None:
    """Keep its pipes empty, or it would stop at the first full one."""
    assert process.stdout and process.stderr  # noqa: S101, PT018  they were asked for

    async def empty(stream: asyncio.StreamReader) -> None:
        while await stream.read(65_536):
            pass

    await asyncio.gather(empty(process.stdout), empty(process.stderr))

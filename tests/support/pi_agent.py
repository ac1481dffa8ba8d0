"""The session store of the public pi coding agent, in a Node process of its own: an independent reader and writer."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from npm_packages import installed

VERSION = "0.73.1"
PACKAGE = "@mariozechner/pi-coding-agent"
_PROGRAM = """
import { createInterface } from "node:readline"
import { performance } from "node:perf_hooks"
const { SessionManager } = await import(process.argv[1])
let session
const contextAt = (id) => {
  const leaf = session.getLeafId()
  if (id === null) session.resetLeaf(); else session.branch(id)
  const context = session.buildSessionContext()
  if (leaf === null) session.resetLeaf(); else session.branch(leaf)
  return context
}
const does = {
  create: (cwd, directory) => { session = SessionManager.create(cwd, directory); return session.getSessionFile() },
  open: (file) => { session = SessionManager.open(file); return session.getLeafId() },
  call: (method, ...args) => session[method](...args.map((value) => value ?? undefined)),
  state: () => ({
    header: session.getHeader(), leaf: session.getLeafId(), name: session.getSessionName() ?? "",
    ids: session.getEntries().map((e) => e.id),
    labels: Object.fromEntries(session.getEntries().map((e) => [e.id, session.getLabel(e.id)]).filter(([, l]) => l)),
    contexts: Object.fromEntries(session.getEntries().map((e) => [e.id, contextAt(e.id)])),
  }),
  time: (file, message, appends) => {
    const began = performance.now()
    const opened = SessionManager.open(file)
    const open = performance.now() - began
    const times = []
    for (let i = 0; i < appends; i++) {
      const start = performance.now(); opened.appendMessage(message); times.push(performance.now() - start)
    }
    return { open, append: times.sort((a, b) => a - b)[times.length >> 1], resident: process.memoryUsage().rss }
  },
}
for await (const line of createInterface({ input: process.stdin })) {
  const [what, ...args] = JSON.parse(line)
  try { console.log(JSON.stringify({ result: does[what](...args) })) }
  catch (error) { console.log(JSON.stringify({ error: String(error) })) }
}
"""


class PiAgent:
    """One process; it has one session open at a time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def create(self, cwd: str, directory: Path) -> Path:
        """Begin a session; its file appears with the first answer in it."""
        return Path(self._ask("create", cwd, str(directory)))

    def open(self, file: Path) -> None:
        """Open a session file; an old version is migrated."""
        self._ask("open", str(file))

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the package's ``SessionManager``; ``None`` stands for ``undefined``."""
        return self._ask("call", method, *args)

    def state(self) -> dict[str, Any]:
        """Header, leaf, name, labels, entry ids, and the context at each entry."""
        found: dict[str, Any] = self._ask("state")
        return found

    def time(self, file: Path, message: dict[str, Any], appends: int) -> dict[str, float]:
        """Milliseconds to open a file and, in the middle, to append a message; resident bytes after that."""
        found: dict[str, float] = self._ask("time", str(file), message, appends)
        return found

    def _ask(self, *words: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise AssertionError(f"pi: {answer['error']}")
        return answer.get("result")


@contextmanager
def pi_agent() -> Iterator[PiAgent]:
    """A running one.

    Raises:
        PackageUnavailable: no npm, or the package cannot be had.
    """
    module = installed(PACKAGE, VERSION) / "dist" / "core" / "session-manager.js"
    node = shutil.which("node") or "node"
    command = [node, "--input-type=module", "--eval", _PROGRAM, str(module)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield PiAgent(process)
        finally:
            process.kill()

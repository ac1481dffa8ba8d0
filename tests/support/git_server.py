"""Git repositories of tests, honest and hostile, and a real git server for them on loopback (``git http-backend``)."""

import os
import subprocess
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@test",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@test",
}
FILE, PROGRAM, LINK, TREE, SUBMODULE = "100644", "100755", "120000", "40000", "160000"


@dataclass(frozen=True)
class Repository:
    """A bare repository whose commits are made object by object, so that they may be what no git would make."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> "Repository":
        """An empty one."""
        made = cls(path)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True, env=_ENVIRONMENT)
        made.git("config", "uploadpack.allowAnySHA1InWant", "true")
        return made

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run a git command in it."""
        done = subprocess.run(
            ["git", "--git-dir", str(self.path), *arguments],
            input=stdin,
            capture_output=True,
            check=True,
            env=_ENVIRONMENT,
        )
        return done.stdout.decode().strip()

    def blob(self, content: bytes) -> str:
        """Write a blob; returns its id."""
        return self.git("hash-object", "-w", "--stdin", stdin=content)

    def tree(self, *entries: tuple[str, str, str]) -> str:
        """Write a tree of (mode, name, object id), unchecked."""
        content = b"".join(
            f"{mode} {name}".encode() + b"\0" + bytes.fromhex(object_id) for mode, name, object_id in entries
        )
        return self.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=content)

    def commit(self, files: dict[str, str | tuple[str, str]], ref: str = "refs/heads/main") -> str:
        """Commit files by path, each its text or (mode, text); returns the commit's id."""
        root: dict[str, Any] = {}
        for path, content in files.items():
            *above, name = path.split("/")
            at = root
            for part in above:
                at = at.setdefault(part, {})
            mode, text = content if isinstance(content, tuple) else (FILE, content)
            at[name] = (mode, text if mode == SUBMODULE else self.blob(text.encode()))
        return self.commit_tree(self._tree(root), ref)

    def commit_tree(self, tree: str, ref: str = "refs/heads/main") -> str:
        """Commit a tree; returns the commit's id."""
        commit = self.git("commit-tree", tree, "-m", "A commit")
        self.git("update-ref", ref, commit)
        return commit

    def _tree(self, node: dict[str, Any]) -> str:
        entries = [
            (TREE, name, self._tree(below)) if isinstance(below, dict) else (below[0], name, below[1])
            for name, below in node.items()
        ]
        # Git sorts directories as if their names ended in a slash.
        return self.tree(*sorted(entries, key=lambda e: f"{e[1]}/" if e[0] == TREE else e[1]))


class GitServer:
    """Serves every repository below a directory at ``http://127.0.0.1:<port>/<name>.git``."""

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.requests: list[str] = []
        self.wants_password = False
        self.hangs = threading.Event()
        """Set it to leave requests unanswered."""
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "GitServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Answer nobody any more."""
        self._released.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def repository(self, name: str = "tools") -> Repository:
        """A new repository."""
        return Repository.create(self.root / f"{name}.git")

    def source(self, ref: str = "", subpath: str = "", name: str = "tools") -> str:
        """A package source of a repository here."""
        at, hash_ = (f"@{ref}" if ref else ""), (f"#{subpath}" if subpath else "")
        return f"http://127.0.0.1:{self._server.server_port}/{name}.git{at}{hash_}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                if server.hangs.is_set():
                    server._released.wait()
                elif server.wants_password:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="test"')
                    self.end_headers()
                else:
                    self._backend()

            do_POST = do_GET  # noqa: N815  the base class calls it so

            def _backend(self) -> None:
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                environment = {
                    **_ENVIRONMENT,
                    "GIT_PROJECT_ROOT": str(server.root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                }
                done = subprocess.run(
                    ["git", "http-backend"], input=body, capture_output=True, check=False, env=environment
                )
                head, _, content = done.stdout.partition(b"\r\n\r\n")
                headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
                self.send_response(int(headers.pop("Status", "200").split()[0]))
                for header, value in headers.items():
                    self.send_header(header, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                return

        return Handler

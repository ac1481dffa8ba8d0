"""Builds every image without Docker and without a registry, with the layout that `images/*/Dockerfile` give.

    python -m mikan_dev.images build [NAME…]      into the store below the cache
    python -m mikan_dev.images load [NAME…]       build, then import into our running cluster
    python -m mikan_dev.images archive NAME… >TAR OCI archive, as `ctr images import` and `kind load image-archive` read
    python -m mikan_dev.images list

NAME is `operator`, `gateway`, `models`, `agent`, `sandbox`, `sandbox-helper`, `python`, `busybox`, `pause` or
`coredns`; none = all of them. A Python component is four layers: Debian with Python 3.11, user and interpreter links,
the locked dependencies of its one extra, and our own wheel, so a code change makes only the last one again. All but the
dependencies are shared, save with the gateway, whose Debian has git too.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mikan_dev import rootfs
from mikan_dev.exceptions import CommandFailed, DevError, NotUp
from mikan_dev.oci import Blob, ImageStore
from mikan_dev.paths import CLUSTER_SCRIPTS, REPOSITORY, cache_dir
from mikan_dev.programs import run, say, step, which

USER = "10001:10001"
VENV = "/opt/mikan"
SITE = "lib/python3.11/site-packages"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MODULES = {
    "operator": "mikan_operator",
    "gateway": "mikan_gateway",
    "models": "mikan_gateway.models",
    "agent": "mikan_agent",
}
"""Component (also the name of its extra) -> module that its image runs."""

SYSTEM_ENV = [f"PATH={SYSTEM_PATH}", "LANG=C.UTF-8"]


def _process_config(module: str) -> dict[str, object]:
    """Image configuration of one Python process."""
    return {
        "Entrypoint": ["python", "-m", module],
        "User": USER,
        "WorkingDir": "/home/mikan",
        "Env": [
            f"PATH={VENV}/bin:{SYSTEM_PATH}",
            "LANG=C.UTF-8",
            "PYTHONSAFEPATH=1",
            "PYTHONUNBUFFERED=1",
            "PYTHONDONTWRITEBYTECODE=1",
        ],
    }


CONFIGS: dict[str, dict[str, object]] = {
    **{component: _process_config(module) for component, module in MODULES.items()},
    "sandbox": {"Cmd": ["/bin/bash"], "User": USER, "WorkingDir": "/home/mikan", "Env": SYSTEM_ENV},
    "sandbox-helper": {"Entrypoint": ["/mikan-sandbox"], "User": USER, "Env": ["PATH=/"]},
}
"""Image configuration of each of mikan's images; its Dockerfile says the same."""

SOURCES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "crds/mikan_api",
    "operator",
    "gateway/mikan_gateway",
    "agent/mikan_agent",
)
"""What the wheel is made of."""


class Builder:
    """Builds images into one store; every method returns the store's name of the image."""

    def __init__(self, cache: Path, repository: Path = REPOSITORY, tag: str = "dev") -> None:
        cache.mkdir(parents=True, exist_ok=True)
        self.store = ImageStore(cache / "oci")
        self._cache = cache
        self._repository = repository
        self._tag = tag

    def targets(self) -> dict[str, Callable[[], str]]:
        """Every image that can be built, by its short name."""
        components = {name: self._component_target(name) for name in MODULES}
        return {
            **components,
            "sandbox-helper": self.sandbox_helper,
            "sandbox": self.sandbox,
            "python": self.python,
            "busybox": self.busybox,
            "pause": self.pause,
            "coredns": self.coredns,
        }

    def _component_target(self, name: str) -> Callable[[], str]:
        return lambda: self.component(name)

    def component(self, component: str) -> str:
        """Image of one Python process."""
        packages = rootfs.GATEWAY_PACKAGES if component == "gateway" else rootfs.PYTHON_PACKAGES
        base = rootfs.debian(self.store, packages)
        layers = [base, self._interpreter(base), self._dependencies(base, component), self._project(base)]
        return self._put(f"mikan-{component}:{self._tag}", CONFIGS[component], layers)

    def sandbox(self) -> str:
        """Default image for tool commands: Debian with a shell, git, curl and Python."""
        base = rootfs.debian(self.store, rootfs.SANDBOX_PACKAGES)
        users = self._small("accounts /bin/bash 1", base, lambda: rootfs.accounts(self.store, base, "/bin/bash"))
        return self._put(f"mikan-sandbox:{self._tag}", CONFIGS["sandbox"], [base, users])

    def sandbox_helper(self) -> str:
        """The static program that an init container copies into every sandbox."""
        source = self._repository / "agent" / "sandbox"
        if not (source / "go.mod").exists():
            raise DevError(f"{source}/go.mod is missing: the sandbox helper's sources are not in this checkout")
        go = run(CLUSTER_SCRIPTS / "go.sh").strip()
        with tempfile.TemporaryDirectory(dir=self._cache) as work:
            flags = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
            run(
                *(go, "build", *flags, "-o", f"{work}/mikan-sandbox", "."),
                cwd=source,
                env={"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"},
            )
            layer = self._program(Path(work) / "mikan-sandbox")
        return self._put(f"mikan-sandbox-helper:{self._tag}", CONFIGS["sandbox-helper"], [layer])

    def python(self) -> str:
        """Debian with Python 3.11 alone, for test pods."""
        base = rootfs.debian(self.store, rootfs.PYTHON_PACKAGES)
        return self._put("python:3.11", {"Cmd": ["/bin/bash"], "Env": SYSTEM_ENV}, [base])

    def busybox(self) -> str:
        """Busybox alone, for tests against an image without our user, bash or glibc."""
        return self._put(
            "busybox:1", {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]}, [rootfs.busybox(self.store, self._cache)]
        )

    def pause(self) -> str:
        """The process that holds a pod's namespaces."""
        layer = self._program(self._cache / "bin" / "pause")
        return self._put("pause:1", {"Entrypoint": ["/pause"], "User": "65535:65535"}, [layer])

    def coredns(self) -> str:
        """The cluster's DNS."""
        return self._put("coredns:1", {"Entrypoint": ["/coredns"]}, [self._program(self._cache / "bin" / "coredns")])

    def _put(self, name: str, config: Mapping[str, object], layers: Sequence[Blob]) -> str:
        full = f"localhost/{name}"
        self.store.put(full, config, layers)
        return full

    def _program(self, program: Path) -> Blob:
        """Layer with one program in the root directory."""
        if not program.exists():
            raise DevError(f"{program} is missing: run tests/cluster/build.sh first")
        data = program.read_bytes()

        def write(out: Path) -> None:
            with tarfile.open(out, "w") as tar:
                rootfs.add_file(tar, program.name, data, 0o755)

        return self.store.layer(f"program {program.name} {hashlib.sha256(data).hexdigest()}", write)

    def _small(self, key: str, base: Blob, content: Callable[[], bytes]) -> Blob:
        def write(out: Path) -> None:
            out.write_bytes(content())

        return self.store.layer(f"{key} on {base.digest}", write)

    def _interpreter(self, base: Blob) -> Blob:
        """User, home, and the virtual environment's frame: `/opt/mikan/bin/python` is Debian's Python 3.11."""

        def content() -> bytes:
            buffer = io.BytesIO(rootfs.accounts(self.store, base, "/usr/sbin/nologin"))
            with tarfile.open(fileobj=buffer, mode="a") as tar:
                config = "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11\n"
                rootfs.add_file(tar, VENV[1:] + "/pyvenv.cfg", config.encode())
                rootfs.add_link(tar, VENV[1:] + "/bin/python3.11", "/usr/bin/python3.11")
                for name in ("python", "python3"):
                    rootfs.add_link(tar, f"{VENV[1:]}/bin/{name}", "python3.11")
            return buffer.getvalue()

        return self._small("interpreter 1", base, content)

    def _dependencies(self, base: Blob, component: str) -> Blob:
        """The locked dependencies of one extra, as `uv.lock` pins them, with bytecode."""
        export = ["export", "--frozen", "--no-dev", "--no-emit-project", "--no-header", "--extra", component]
        requirements = run(self._uv(), *export, cwd=self._repository)

        def write(out: Path) -> None:
            with step(f"dependencies of {component}"), tempfile.TemporaryDirectory(dir=self._cache) as work:
                listed = Path(work) / "requirements.txt"
                listed.write_text(requirements)
                self._install(base, Path(work), ["--no-deps", "--require-hashes", "-r", listed], out)

        return self.store.layer(f"dependencies 1 on {base.digest}\n{requirements}", write)

    def _project(self, base: Blob) -> Blob:
        """Our own wheel without its dependencies, with bytecode."""

        def write(out: Path) -> None:
            with step("our own wheel"), tempfile.TemporaryDirectory(dir=self._cache) as work:
                run(self._uv(), "build", "--wheel", "--quiet", "--out-dir", f"{work}/dist", cwd=self._repository)
                (wheel,) = Path(work, "dist").glob("*.whl")
                self._install(base, Path(work), ["--no-deps", wheel], out)

        return self.store.layer(f"project 1 on {base.digest} {digest_of_sources(self._repository)}", write)

    def _install(self, base: Blob, work: Path, what: Sequence[str | Path], out: Path) -> None:
        """Install for the image's Python, whatever this machine's is, compile there, and pack."""
        venv = work / "tree" / VENV[1:]
        site = venv / SITE
        site.mkdir(parents=True)
        target = ("--target", site, "--python-version", "3.11", "--python-platform", _wheel_platform())
        run(self._uv(), "pip", "install", "--quiet", "--no-build", "--link-mode", "copy", *target, *what)
        own_scripts(site, venv)
        compile_all = ["python3.11", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
        rootfs.run_inside(self.store, base, self._cache, venv, VENV, [*compile_all, f"{VENV}/{SITE}"])
        rootfs.pack(work / "tree", out)

    def _uv(self) -> Path:
        return which("uv", self._repository / ".venv" / "bin" / "uv")


def digest_of_sources(repository: Path) -> str:
    """Digest of everything that goes into the wheel."""
    found = hashlib.sha256()
    for path in sorted(file for name in SOURCES for file in _files(repository / name)):
        found.update(f"{path.relative_to(repository)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts]


def _wheel_platform() -> str:
    """Platform tag of the newest wheels that Debian 12's C library (2.36) takes."""
    return f"{platform.machine()}-manylinux_2_36"


def own_scripts(site: Path, venv: Path) -> None:
    """Move console scripts into the environment's `bin` and let its interpreter run them."""
    for script in sorted((site / "bin").glob("*")):
        first, rest = script.read_bytes().split(b"\n", 1)
        (venv / "bin").mkdir(exist_ok=True)
        owned = venv / "bin" / script.name
        owned.write_bytes((f"#!{VENV}/bin/python".encode() if b"python" in first else first) + b"\n" + rest)
        owned.chmod(0o755)
    shutil.rmtree(site / "bin", ignore_errors=True)


def load(store: ImageStore, names: Sequence[str]) -> None:
    """Import images of the store into our running cluster's container runtime.

    Raises:
        NotUp: The cluster does not run.
        CommandFailed: The runtime refused the archive.
    """
    ctr = (CLUSTER_SCRIPTS / "ctl.sh", "node", cache_dir() / "bin" / "ctr", "-n", "k8s.io")
    try:
        known = set(run(*ctr, "content", "ls", "-q").split())
    except CommandFailed as error:
        raise NotUp(f"the cluster is not up, so nothing was loaded: run tests/cluster/up.sh\n{error}") from error
    command = [str(part) for part in (*ctr, "images", "import", "--local", "-")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as importer:
        stdin: Any = importer.stdin
        try:
            store.archive(names, stdin, without=known)
        finally:
            stdin.close()
        output = importer.stdout.read().decode() if importer.stdout else ""
    if importer.returncode:
        raise CommandFailed(f"importing {', '.join(names)} failed:\n{output[-2000:]}")


@dataclass(frozen=True)
class Request:
    """A parsed command line."""

    verb: str
    names: list[str]
    tag: str


def parse(arguments: Sequence[str]) -> Request:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="mikan_dev.images", description="Build images without Docker or a registry.")
    parser.add_argument("verb", choices=["build", "load", "archive", "list"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tag", default="dev", help="tag of mikan's own images")
    found = parser.parse_args(arguments)
    return Request(found.verb, found.names, found.tag)


def build(builder: Builder, names: Sequence[str]) -> list[str]:
    """Build images by their short names, all when there is none.

    Raises:
        DevError: A name is unknown, or a build failed.
    """
    targets = builder.targets()
    unknown = sorted(set(names) - set(targets))
    if unknown:
        raise DevError(f"no image {', '.join(unknown)}: choose from {', '.join(targets)}")
    built = []
    with builder.store.locked():
        for name in names or targets:
            with step(f"image {name}"):
                built.append(targets[name]())
    return built


def main(arguments: Sequence[str]) -> None:
    """Run one command line."""
    request = parse(arguments)
    builder = Builder(cache_dir(), tag=request.tag)
    if request.verb == "list":
        print("\n".join(builder.store.names()))
        return
    names = build(builder, request.names)
    if request.verb == "archive":
        builder.store.archive(names, sys.stdout.buffer)
    elif request.verb == "load":
        with step("import"):
            load(builder.store, names)
    else:
        print("\n".join(names))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except DevError as error:
        say(f"error: {error}")
        sys.exit(1)

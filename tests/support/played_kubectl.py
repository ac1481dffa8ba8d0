"""A kubectl that plays a small cluster: objects in a JSON file, and commands "in a pod" run on this machine.

``KUBECTL`` names a script that calls `main`. Every call is noted; a file ``conflicts`` says how many writes are to meet
somebody else's.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RESERVED = ("--namespace", "--container", "-o", "--patch", "--type")


@dataclass
class PlayedKubectl:
    """The cluster as a test sets it up and looks at it."""

    directory: Path

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.objects = {}
        script = self.program
        support, root = Path(__file__).parent, Path(__file__).parents[2]
        path = ":".join(map(str, (support, *(root / part for part in ("crds", "operator", "gateway", "agent")))))
        script.write_text(
            f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -m played_kubectl {self.directory} "$@"\n'
        )
        script.chmod(0o755)

    @property
    def program(self) -> Path:
        """What ``KUBECTL`` is set to."""
        return self.directory / "kubectl"

    @property
    def objects(self) -> dict[str, Any]:
        """``<kind> <namespace>/<name>`` -> object."""
        found: dict[str, Any] = json.loads((self.directory / "objects.json").read_text())
        return found

    @objects.setter
    def objects(self, objects: dict[str, Any]) -> None:
        (self.directory / "objects.json").write_text(json.dumps(objects))

    def put(self, kind: str, place: str, **fields: Any) -> None:
        """Make or replace an object."""
        self.objects = self.objects | {f"{kind} {place}": {"metadata": {"resourceVersion": "1"}, **fields}}

    def meet_conflicts(self, count: int) -> None:
        """Have so many writes come too late."""
        (self.directory / "conflicts").write_text(str(count))

    @property
    def calls(self) -> list[list[str]]:
        """Arguments of every call."""
        file = self.directory / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main(directory: Path, arguments: list[str]) -> int:
    """One call of kubectl."""
    with (directory / "calls").open("a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    options = {
        name: arguments[n + 1] for n, name in enumerate(arguments) if name in _RESERVED and n + 1 < len(arguments)
    }
    options |= dict(one.split("=", 1) for one in arguments if one.startswith("--") and "=" in one)
    words = [one for n, one in enumerate(arguments) if not one.startswith("-") and arguments[n - 1] not in _RESERVED]
    namespace, cluster = options.get("--namespace", "default"), PlayedKubectl.__new__(PlayedKubectl)
    cluster.directory = directory
    if words[0] == "exec":
        command = arguments[arguments.index("--") + 1 :]
        return _exec([sys.executable, *command[1:]])
    kind, name = words[1].partition(".")[0].removesuffix("s"), words[2]
    return _object(cluster, words[0], f"{kind} {namespace}/{name}", options, arguments)


def _exec(command: list[str]) -> int:
    if os.environ.get("PLAYED_EXEC") == "forbidden":
        return _error('Error from server (Forbidden): pods is forbidden: User "ada" cannot create resource "pods/exec"')
    done = subprocess.run(command, check=False)
    return _error(f"command terminated with exit code {done.returncode}") if done.returncode else 0


def _object(cluster: PlayedKubectl, verb: str, place: str, options: dict[str, str], arguments: list[str]) -> int:
    objects = cluster.objects
    found = objects.get(place)
    if verb == "get":
        if found is None:
            return (
                0 if "--ignore-not-found" in arguments else _error(f"Error from server (NotFound): {place} not found")
            )
        sys.stdout.write(found["played"] if options.get("-o", "").startswith("jsonpath") else json.dumps(found))
        return 0
    if _too_late(cluster):
        found = objects.setdefault(place, {"metadata": {"resourceVersion": "0"}})
        found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)
        cluster.objects = objects
    if verb == "create":
        if place in objects:
            return _error(f"Error from server (AlreadyExists): {place} already exists")
        key, _, value = options["--from-literal"].partition("=")
        objects[place] = {"metadata": {"resourceVersion": "1"}, "data": {key: value}}
    else:
        patch = json.loads(options["--patch"])
        if patch["metadata"].pop("resourceVersion") != objects[place]["metadata"]["resourceVersion"]:
            return _error("Error from server (Conflict): the object has been modified; please apply your changes")
        objects[place] = _merged(objects[place], patch)
        objects[place]["metadata"]["resourceVersion"] += "0"
    cluster.objects = objects
    return 0


def _too_late(cluster: PlayedKubectl) -> bool:
    file = cluster.directory / "conflicts"
    left = int(file.read_text()) if file.exists() else 0
    file.write_text(str(max(left - 1, 0)))
    return left > 0


def _merged(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _merged(below.get(key), value) for key, value in above.items()}


def _error(text: str) -> int:
    sys.stderr.write(text + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

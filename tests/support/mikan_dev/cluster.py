"""Brings up the cluster for `make up` and the tests, and remembers what it started.

    python -m mikan_dev.cluster up            prints the kubeconfig's path
    python -m mikan_dev.cluster load [NAME…]  builds images and gives them to the cluster (none = all)
    python -m mikan_dev.cluster provider      prints what `up` chose: own, kind or context
    python -m mikan_dev.cluster kubeconfig    prints the kubeconfig's path
    python -m mikan_dev.cluster status        prints `up` or `down`
    python -m mikan_dev.cluster env           prints KUBECONFIG and PATH (kubectl, helm) for a shell to eval
    python -m mikan_dev.cluster down          stops exactly what `up` started

In order: the context in `MIKAN_CONTEXT`, if it is on the allow-list; kind, where Docker answers and kind is
installed; our own (`tests/cluster/`). `MIKAN_CLUSTER_PROVIDER` (kind or own) takes one of the last two at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mikan_dev.exceptions import DevError, NotUp
from mikan_dev.paths import cache_dir, state_dir
from mikan_dev.programs import run, say
from mikan_dev.providers import KindCluster, NamedContext, OwnCluster, Provider, own_kubeconfig, tool


@dataclass(frozen=True)
class Record:
    """What `up` did, so that `down` undoes that and no more."""

    kind: str
    started: bool
    context: str = ""

    def provider(self) -> Provider:
        """The provider that `up` used, whatever the environment says now."""
        if self.kind == NamedContext.kind:
            return NamedContext(self.context)
        return KindCluster() if self.kind == KindCluster.kind else OwnCluster()


def record_file() -> Path:
    """Beside the state, which `down` removes."""
    return state_dir().with_name(state_dir().name + ".started.json")


def read_record() -> Record | None:
    """The last `up` that no `down` has undone."""
    return Record(**json.loads(record_file().read_text())) if record_file().exists() else None


def require_record() -> Record:
    """The same, where there must be one.

    Raises:
        NotUp: There is none.
    """
    record = read_record()
    if record is None:
        raise NotUp("no cluster was brought up: run `make up`, or tests/cluster/dev.sh cluster up")
    return record


def choose(environment: Mapping[str, str]) -> Provider:
    """Choose a way to a cluster.

    Raises:
        ContextRefused: The named context is not on the allow-list.
        DevError: `MIKAN_CLUSTER_PROVIDER` names no provider.
    """
    if context := environment.get("MIKAN_CONTEXT"):
        return NamedContext(context, environment)
    match environment.get("MIKAN_CLUSTER_PROVIDER", ""):
        case "kind":
            return KindCluster()
        case "own":
            return OwnCluster()
        case "":
            return KindCluster() if KindCluster.available() else OwnCluster()
        case other:
            raise DevError(f"MIKAN_CLUSTER_PROVIDER={other} is unknown: kind or own")


def up(environment: Mapping[str, str] = os.environ) -> Path:
    """Bring a cluster up, remember whether we started it, and return its kubeconfig."""
    provider = choose(environment)
    context = environment.get("MIKAN_CONTEXT", "")
    earlier = read_record()
    ours_already = earlier is not None and (earlier.kind, earlier.context) == (provider.kind, context)
    if earlier is not None and earlier.started and not ours_already:
        raise DevError(
            f"`up` started another cluster before ({earlier.kind}): run `down` first, "
            f"or remove {record_file()} if that cluster is gone"
        )
    was_running = provider.running()
    started = provider.kind != NamedContext.kind and (not was_running or (ours_already and _started(earlier)))
    if not was_running:
        # Remembered first: a start that is cut short is `down`'s to clean up.
        _remember(Record(provider.kind, started, context))
    provider.up()
    _remember(Record(provider.kind, started, context))
    return provider.kubeconfig()


def _started(record: Record | None) -> bool:
    return record is not None and record.started


def _remember(record: Record) -> None:
    record_file().parent.mkdir(parents=True, exist_ok=True)
    record_file().write_text(json.dumps(asdict(record)))


def down() -> None:
    """Stop what `up` started; what was running before stays."""
    record = read_record()
    if record is None:
        say("nothing was brought up: nothing to stop")
        return
    if record.started:
        record.provider().down()
    else:
        say(f"{record.context or record.kind} was running before `up`: left as it is")
    own_kubeconfig().unlink(missing_ok=True)
    record_file().unlink()


def environment_for_tools() -> dict[str, str]:
    """Variables with which kubectl and helm of any process reach this cluster."""
    kubeconfig = require_record().provider().kubeconfig()
    directories = dict.fromkeys(str(tool(name).parent) for name in ("kubectl", "helm"))
    return {"KUBECONFIG": str(kubeconfig), "PATH": os.pathsep.join([*directories, os.environ.get("PATH", "")])}


def status(environment: Mapping[str, str] = os.environ) -> str:
    """Whether the cluster that `up` took, or would take, runs: `up` or `down`."""
    record = read_record()
    provider = record.provider() if record else choose(environment)
    return "up" if provider.running() else "down"


def print_up() -> None:
    """Bring it up, and say where it is."""
    kubeconfig = up()
    context = run(tool("kubectl"), "--kubeconfig", kubeconfig, "config", "current-context").strip()
    say(f"context {context} in {kubeconfig}; tools in {cache_dir() / 'bin'}")
    print(kubeconfig)


def print_env() -> None:
    """Print assignments for a shell."""
    for name, value in environment_for_tools().items():
        print(f"export {name}='{value}'")


def main(arguments: Sequence[str]) -> None:
    """Run one command line."""
    parser = argparse.ArgumentParser(prog="mikan_dev.cluster", description="The cluster for development and tests.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("up", "down", "status", "provider", "kubeconfig", "env"):
        verbs.add_parser(verb)
    verbs.add_parser("load").add_argument("names", nargs="*", metavar="NAME")
    request = parser.parse_args(arguments)
    actions: dict[str, Callable[[], None]] = {
        "up": print_up,
        "down": down,
        "env": print_env,
        "status": lambda: print(status()),
        "provider": lambda: print(require_record().kind),
        "kubeconfig": lambda: print(require_record().provider().kubeconfig()),
        "load": lambda: require_record().provider().load(request.names),
    }
    actions[request.verb]()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except DevError as error:
        say(f"error: {error}")
        sys.exit(1)

"""``python -m mikan_gateway.packages``: what ``mikan ext`` runs in the gateway's pod.

Prints one JSON document. Exit codes: 0; 1 with one line on standard error where a package can't be had or used; 2 for a
wrong command line.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mikan_api import names
from mikan_api.exceptions import InvalidPackage
from mikan_api.packages import PathSource, parse_package_source
from mikan_gateway.packages.exceptions import PackageError, VolumeMissing
from mikan_gateway.packages.installer import Installer, PackageReport
from mikan_gateway.packages.volume import Volume


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run one command line."""
    asked = _parser().parse_args(arguments)
    try:
        reports = _run(asked, _installer(environ))
    except (PackageError, InvalidPackage) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps([report.to_json_dict() for report in reports]) + "\n")
    return 0


def _installer(environ: Mapping[str, str]) -> Installer:
    """``MIKAN_PACKAGES_LOOPBACK=1`` is for tests: plain http from servers on this machine."""
    root = Path(environ.get("MIKAN_PACKAGES_DIR") or names.PACKAGES)
    if not root.is_dir():
        raise VolumeMissing("the gateway has no packages volume; set packages.gatewayClaim in the chart's values")
    return Installer(Volume(root), loopback=environ.get("MIKAN_PACKAGES_LOOPBACK") == "1")


def _run(asked: argparse.Namespace, installer: Installer) -> list[PackageReport]:
    sources = [parse_package_source(text) for text in asked.sources]
    match asked.verb:
        case "status":
            return installer.status(sources)
        case "put":
            (source,) = sources
            if not isinstance(source, PathSource):
                raise InvalidPackage(f"a directory can be put below {names.PACKAGES}/local only")
            return [installer.put(source, sys.stdin.buffer)]
        case verb:
            return [installer.install(source, update=verb == "update") for source in sources]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mikan_gateway.packages", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, count, text in (
        ("install", "+", "have packages on the volume"),
        ("update", "+", "look their refs up anew"),
        ("status", "*", "say what there is of them"),
        ("put", 1, "make the tar on standard input a local package"),
    ):
        verbs.add_parser(verb, help=text, allow_abbrev=False).add_argument("sources", nargs=count, metavar="SOURCE")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))

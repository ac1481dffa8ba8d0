"""``python -m mikan_agent.extensions``: what ``mikan ext validate`` and ``mikan ext dev`` run on an author's machine.

Exit codes: 0; 1 where something can't be used, or the chat can't begin; 2 for a wrong command line.
"""

import argparse
import asyncio
import logging
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

HELPER = "mikan-sandbox"


def main(arguments: Sequence[str]) -> int:
    """Run one command line."""
    asked = _parser().parse_args(arguments)
    if not asked.path.exists():
        sys.stderr.write(f"{asked.path}: not there\n")
        return 1
    return _validate(asked) if asked.verb == "validate" else _dev(asked)


def _validate(asked: argparse.Namespace) -> int:
    from mikan_agent.extensions.validation import validate

    found = validate(asked.path)
    for kind, names in (("extension", found.extensions), ("skill", found.skills)):
        sys.stdout.writelines(f"{kind} {name}\n" for name in names)
    sys.stderr.writelines(f"note: {note}\n" for note in found.notes)
    sys.stderr.writelines(f"fault: {fault}\n" for fault in found.faults)
    return 1 if found.faults else 0


def _dev(asked: argparse.Namespace) -> int:
    try:
        from mikan_agent.extensions.dev.chat import DevChat
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error.name} is missing: install mikan with the extra 'agent'\n")
        return 1
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    helper = asked.helper or shutil.which(HELPER)
    chat = DevChat(
        package=asked.path,
        directory=asked.directory,
        models_url=asked.models_url,
        models_token=asked.models_token,
        model=asked.model,
        helper=Path(helper) if helper else None,
    )
    asyncio.run(chat.run(_show))
    return 0


def _show(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mikan_agent.extensions", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    validate = verbs.add_parser("validate", help="find and import, without activating", allow_abbrev=False)
    dev = verbs.add_parser("dev", help="a chat in the terminal", allow_abbrev=False)
    for verb in (validate, dev):
        verb.add_argument("path", type=Path)
    dev.add_argument("--directory", type=Path, required=True, help="where the conversation is kept")
    dev.add_argument("--models-url", required=True)
    dev.add_argument("--models-token", type=Path, required=True, help="file with the token for it")
    dev.add_argument("--model", required=True)
    dev.add_argument("--helper", type=Path, help=f"the sandbox helper; by default {HELPER} on the path")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

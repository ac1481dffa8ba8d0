"""`mikan ext`: extensions and skills, from an author's machine to the offices of a release."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from mikan_api.exceptions import InvalidValue
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.packages import slugify
from mikan_cli.exceptions import CliError
from mikan_cli.kubectl import Release
from mikan_cli.package_lists import PackageLists
from mikan_cli.packages import Cluster, Conversation

app = typer.Typer(no_args_is_help=True, help="Extensions and skills: write, try, install.")

AGENT = (sys.executable, "-P", "-m", "mikan_agent.extensions")
"""What runs an author's code is a process of its own: this one imports none of it."""
MODELS = (sys.executable, "-P", "-m", "mikan_gateway.models.alone")

Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace of the release.")]
ReleaseName = Annotated[str, typer.Option("--release", help="Name of the Helm release.")]
Everywhere = Annotated[bool, typer.Option("--global", help="For every office.")]
Where = Annotated[str | None, typer.Option("--conversation", "-c", help="For one: its conversation id or office key.")]
PlatformName = Annotated[str, typer.Option("--platform", help="Platform of the conversation.")]


@app.command()
def validate(path: Annotated[Path, typer.Argument(help="Directory of a package, or one file.")]) -> None:
    """Find the extensions in PATH and import each, without activating it. Runs their top level, on this machine."""
    raise typer.Exit(_run([*AGENT, "validate", str(path)]))


@app.command()
def dev(
    path: Annotated[Path, typer.Argument(help="Directory of a package.")],
    model: Annotated[str, typer.Option(help="Model; with --api-base, as the upstream calls it.")] = "",
    api_base: Annotated[str, typer.Option(help="An OpenAI-compatible upstream, up to and with /v1.")] = "",
    key_file: Annotated[Path | None, typer.Option(help="File with the upstream's key.")] = None,
    helper: Annotated[
        Path | None, typer.Option(help="The sandbox helper; by default mikan-sandbox on the path.")
    ] = None,
    directory: Annotated[Path, typer.Option(help="Where the conversation is kept.")] = Path(".mikan-ext-dev"),
) -> None:
    """Chat with the extensions in PATH, in this terminal, on the runtime that offices have; /new loads them again.

    Commands run on this machine, as you, and with no sandbox around them.
    """
    address = OfficeAddress(Platform.CONSOLE, f"ext-dev-{slugify(path.resolve().name)}")
    upstream = ["--api-base", api_base] if api_base else []
    upstream += ["--key-file", str(key_file)] if key_file else []
    with tempfile.TemporaryDirectory(prefix="mikan-ext-") as scratch:
        token = Path(scratch) / "token"
        models = subprocess.Popen(  # noqa: S603  our own program
            [*MODELS, "--office", address.key, "--token-file", str(token), *upstream],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends an answer, not this
        )
        with models:
            assert models.stdin and models.stdout  # noqa: S101, PT018  asked for
            url = models.stdout.readline().decode().strip()
            if not url:
                models.stdin.close()
                _fail(CliError("no model to talk to: install mikan with the extras 'agent' and 'models'"))
            named = f"given/{model}" if api_base else model or "scripted/demo"
            arguments = ["--models-url", url, "--models-token", str(token), "--model", named]
            arguments += ["--directory", str(directory), *(["--helper", str(helper)] if helper else [])]
            try:
                code = _run([*AGENT, "dev", str(path), *arguments])
            finally:
                models.stdin.close()
        raise typer.Exit(code)


@app.command()
def install(
    source: Annotated[str, typer.Argument(help="github:owner/repo@ref#subpath, a git URL, or a directory here.")],
    everywhere: Everywhere = False,
    conversation: Where = None,
    platform: PlatformName = "console",
    update: Annotated[bool, typer.Option("--update", help="Look a branch or tag up anew.")] = False,
    namespace: Namespace = None,
    release: ReleaseName = "mikan",
) -> None:
    """Bring a package onto the packages volume, and have one office or all load it."""
    where = _where(everywhere, conversation, platform)
    _finish(_lists(release, namespace).install(source, where, update=update))


@app.command()
def remove(
    package: Annotated[str, typer.Argument(help="Its source, or its name in `mikan ext list`.")],
    everywhere: Everywhere = False,
    conversation: Where = None,
    platform: PlatformName = "console",
    namespace: Namespace = None,
    release: ReleaseName = "mikan",
) -> None:
    """Have a package loaded no more. What is on the volume, and the data of its extensions, stays."""
    where = _where(everywhere, conversation, platform)
    _finish(_lists(release, namespace).remove(package, where))


@app.command("list")
def list_(
    conversation: Where = None,
    platform: PlatformName = "console",
    namespace: Namespace = None,
    release: ReleaseName = "mikan",
) -> None:
    """Show the packages of every office, or what one office loads."""
    where = Conversation(platform, conversation) if conversation else None
    _finish(_lists(release, namespace).show(where))


def _where(everywhere: bool, conversation: str | None, platform: str) -> Conversation | None:
    """One office, or ``None`` for all."""
    if everywhere == bool(conversation):
        _fail(CliError("say where: either --global or --conversation"))
    return Conversation(platform, conversation) if conversation else None


def _finish(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except (CliError, InvalidValue) as error:
        _fail(error)


def _fail(error: Exception) -> None:
    sys.stderr.write(f"mikan: {error}\n")
    if isinstance(error, CliError) and error.next_step:
        sys.stderr.write(f"       {error.next_step}\n")
    raise typer.Exit(1)


def _lists(release: str, namespace: str | None) -> PackageLists:
    return PackageLists(Cluster(Release(release, namespace)), sys.stdout, sys.stderr)


def _run(command: list[str]) -> int:
    """A program in this terminal. Ctrl-C is its own affair."""
    process = subprocess.Popen(command)  # noqa: S603  our own program
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue

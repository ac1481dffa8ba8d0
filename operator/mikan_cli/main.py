"""The `mikan` command."""

import asyncio
import getpass
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console as RichConsole

from mikan_api.exceptions import InvalidValue
from mikan_cli import ext
from mikan_cli.chat import Chat, Person
from mikan_cli.console import Console, FixedUrl, Transport
from mikan_cli.display import Display, PlainDisplay, TerminalDisplay
from mikan_cli.exceptions import CliError, ClusterUnusable
from mikan_cli.kubectl import PortForward, Release, read_console_token
from mikan_cli.lines import LineReader

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Talk to mikan from a terminal.")
app.add_typer(ext.app, name="ext")

HINT = "Type a message; /new starts over, /model shows the model. Ctrl-C stops an answer, Ctrl-D leaves."


@app.callback()
def _root() -> None:
    """Talk to mikan from a terminal."""


@app.command()
def chat(
    message: Annotated[str | None, typer.Option("--message", "-m", help="Send this, print the answer, end.")] = None,
    conversation: Annotated[str, typer.Option(help="Which conversation; each has an office of its own.")] = "terminal",
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace of the release.")] = None,
    release: Annotated[str, typer.Option(help="Name of the Helm release.")] = "mikan",
    url: Annotated[str | None, typer.Option(help="Address of a console; then no kubectl is needed.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with the console's token, for --url.")] = None,
    user: Annotated[str | None, typer.Option(help="Who you are; by default your login name.")] = None,
    thread: Annotated[str | None, typer.Option(help="Id of a message whose thread to write in.")] = None,
    attach: Annotated[list[Path] | None, typer.Option(help="A file to send along (with --message).")] = None,
    save: Annotated[Path | None, typer.Option(help="Directory for files that come back.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer; 0 = for ever.")] = 300.0,
) -> None:
    """Chat with an office: interactively, or one message with --message."""
    person = Person(user or getpass.getuser(), user or getpass.getuser())
    display: Display = TerminalDisplay(RichConsole()) if sys.stdout.isatty() else PlainDisplay()
    try:
        if save is not None and not save.is_dir():
            raise CliError(f"{save} is not a directory", "Make it, then try again.")
        where = Release(release, namespace)
        asyncio.run(
            _chat(where, url, token_file, conversation, person, display, message, thread, attach, save, timeout)
        )
    except (CliError, InvalidValue) as error:
        _complain(error)
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(130) from None


async def _chat(
    release: Release,
    url: str | None,
    token_file: Path | None,
    conversation: str,
    person: Person,
    display: Display,
    message: str | None,
    thread: str | None,
    attach: list[Path] | None,
    save: Path | None,
    timeout: float,  # noqa: ASYNC109  of one answer, not of this call
) -> None:
    _end_well_on(signal.SIGTERM, signal.SIGHUP)
    token = _read_token(token_file) if token_file else ""
    if url and not token:
        raise CliError("--url needs a token", "Give its file with --token-file.")
    transport: Transport = FixedUrl(url) if url else PortForward(release)
    console = Console(transport, token or await read_console_token(release), conversation)
    chat_ = Chat(console, person, display, timeout, save)
    try:
        if message is not None:
            await chat_.say(message, attach or (), thread)
        else:
            await _converse(chat_, display, thread)
    finally:
        await console.close()


async def _converse(chat_: Chat, display: Display, thread: str | None) -> None:
    display.note(HINT)
    lines = LineReader()
    while True:
        sys.stdout.write("> ")
        sys.stdout.flush()
        text = await lines.next()
        if text is None:
            return
        if text.strip():
            try:
                await _say_stoppable(chat_, text, thread)
            except ClusterUnusable:
                raise
            except CliError as error:
                _complain(error)


async def _say_stoppable(chat_: Chat, text: str, thread: str | None) -> None:
    """Say something; Ctrl-C meanwhile says `stop`, a second one leaves."""
    loop = asyncio.get_running_loop()
    stopping: set[asyncio.Task[None]] = set()
    saying = asyncio.create_task(chat_.say(text, (), thread))

    def interrupt() -> None:
        if stopping:
            saying.cancel()
        else:
            stopping.add(asyncio.create_task(chat_.stop(thread)))

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        await saying
        await asyncio.gather(*stopping)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _end_well_on(*numbers: signal.Signals) -> None:
    """Have these signals unwind us like Ctrl-C does, so that no kubectl is left behind."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  called from a coroutine
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _read_token(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"the token file {file} can't be read: {type(error).__name__}") from None


def _complain(error: Exception) -> None:
    sys.stderr.write(f"mikan: {error}\n")
    if isinstance(error, CliError) and error.next_step:
        sys.stderr.write(f"       {error.next_step}\n")


def main() -> None:
    """Entry point of the console script."""
    app()

"""Showing an exchange: live on a terminal; else the answer on standard output and progress on standard error."""

import sys
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from mikan_cli.exchange import Exchange
from mikan_cli.text import printable

MAX_LIVE_LINES = 40


class Display(Protocol):
    """Shows one exchange after another."""

    def begin(self) -> None: ...

    def update(self, exchange: Exchange) -> None: ...

    def end(self, exchange: Exchange) -> None: ...

    def note(self, text: str) -> None:
        """A line about the chat itself."""
        ...


class TerminalDisplay:
    """For a person."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def begin(self) -> None:
        self._live = Live(console=self._console, transient=True, refresh_per_second=12, vertical_overflow="crop")
        self._live.start()

    def update(self, exchange: Exchange) -> None:
        if self._live:
            # The end of a long text: a live region can't be taller than the terminal.
            tail = printable(exchange.text).splitlines()[-min(MAX_LIVE_LINES, self._console.height - 2) :]
            self._live.update(Text("\n".join(tail)))

    def end(self, exchange: Exchange) -> None:
        if self._live:
            self._live.stop()
            self._live = None
        if exchange.text:
            self._console.print(Markdown(printable(exchange.text), hyperlinks=False))

    def note(self, text: str) -> None:
        self._console.print(Text(printable(text), style="dim"))


class PlainDisplay:
    """For a script."""

    def __init__(self, out: TextIO = sys.stdout, err: TextIO = sys.stderr) -> None:
        self._out = out
        self._err = err
        self._told: set[str] = set()

    def begin(self) -> None:
        self._told.clear()

    def update(self, exchange: Exchange) -> None:
        for line in exchange.status_lines:
            if line not in self._told:
                self._told.add(line)
                self.note(line)

    def end(self, exchange: Exchange) -> None:
        if exchange.text:
            self._out.write(printable(exchange.text) + "\n")
            self._out.flush()

    def note(self, text: str) -> None:
        self._err.write(printable(text) + "\n")
        self._err.flush()

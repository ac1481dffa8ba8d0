"""The text of a run's answer while it streams: what there is, and what the conversation has been shown of it.

A model call may be repeated after its stream was cut. What was shown stays; nothing is sent while the new text only
repeats it, and where the new text differs the whole is shown anew (a delta at offset 0).
"""

from mikan_api.wire import Delta

_GAP = "\n\n"
MAX_SHOWN = 200_000
"""Characters of an answer that stream; the whole comes with `Respond`, and a frame has a longest length."""


class AnswerText:
    """Grows by segments, one per model message; one run has one."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._sealed = ""
        self._open: list[str] = []
        self._shown = ""
        self._held = ""

    def hold(self, word: str) -> None:
        """Show nothing while the answer may become just this word, which is meant for us and not for people."""
        self._held = word

    def append(self, text: str) -> None:
        """Add to the segment that is open."""
        self._open.append(text)

    def seal(self) -> None:
        """The open segment is complete; the next one begins a new paragraph."""
        self._sealed, self._open = self.whole, []

    def discard(self) -> None:
        """Forget the open segment: it is going to be told again."""
        self._open.clear()

    @property
    def whole(self) -> str:
        """All segments so far."""
        segment = "".join(self._open)
        if len(self._open) > 1:
            self._open = [segment]
        return self._sealed + _GAP + segment if self._sealed and segment.strip() else self._sealed + segment

    def restart(self) -> None:
        """The other side has lost what it was shown; the next delta tells it all again."""
        self._shown = ""

    def next_delta(self) -> Delta | None:
        """What to show next; counts as shown from then on. ``None``: nothing new."""
        whole = self.whole[:MAX_SHOWN]
        if (self._held and self._held.startswith(whole.strip())) or self._shown.startswith(whole):
            return None
        offset = len(self._shown) if whole.startswith(self._shown) else 0
        self._shown = whole
        return Delta(run_id=self._run_id, offset=offset, text=whole[offset:])

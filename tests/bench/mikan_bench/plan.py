"""How much is measured: the whole, or just enough to see that every figure can be had."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Counts of one run."""

    cold: int
    """Times that a sleeping office is woken."""
    warm: int
    """Messages of each kind to a running one."""
    crowd: int
    """Chats at once."""
    crowd_rounds: int
    commands: int
    output_mb: int
    file_mb: int
    rest_settles: float
    """Seconds after which what the last message started must be over."""
    rest: float
    """Seconds for which writes are counted."""
    firsts: int
    """New conversations that write at once."""
    flood_chats: int
    flood_messages: int
    """Messages that each of those chats sends as fast as it can."""
    turns: int
    """Messages in one conversation, one after another."""


WHOLE = Plan(
    cold=7,
    warm=60,
    crowd=20,
    crowd_rounds=7,
    commands=300,
    output_mb=200,
    file_mb=20,
    rest_settles=20,
    rest=60,
    firsts=50,
    flood_chats=50,
    flood_messages=40,
    turns=300,
)
SHORT = Plan(
    cold=1,
    warm=5,
    crowd=2,
    crowd_rounds=1,
    commands=20,
    output_mb=20,
    file_mb=5,
    rest_settles=1,
    rest=5,
    firsts=4,
    flood_chats=4,
    flood_messages=10,
    turns=20,
)

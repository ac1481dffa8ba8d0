"""What a message holds besides text and files, in words: nobody's message may be lost for its kind.

Service messages (somebody joined, a title changed) say nothing to anybody and have no words.
"""

from collections.abc import Callable
from typing import Any

from telegram import Checklist, Contact, Location, Message, Poll, Sticker, Venue

_HARMLESS = frozenset({"reply_markup"})
"""Fields that this library's version does not know and that say nothing."""
MAX_FIELDS = 5


def described(message: Message) -> str:
    """The words; empty where text and files are all that there is, or for a service message."""
    for name, words in _KINDS.items():
        content = getattr(message, name)
        # An empty row stands for nothing, too.
        if content:
            return words(content)
    return _unknown(message)


def _unknown(message: Message) -> str:
    """Of a kind that came after the library: better said than lost."""
    names = [name for name in message.api_kwargs if name not in _HARMLESS]
    if not names or message.text or message.caption or message.effective_attachment:
        return ""
    return f"[Something that I can't read: {', '.join(sorted(names)[:MAX_FIELDS])}]"


def _poll(poll: Poll) -> str:
    return "\n".join([f"[Poll: {poll.question}]", *(f"- {option.text}" for option in poll.options)])


def _checklist(checklist: Checklist) -> str:
    tasks = (f"- [{'x' if task.completion_date else ' '}] {task.text}" for task in checklist.tasks)
    return "\n".join([f"[Checklist: {checklist.title}]", *tasks])


def _contact(contact: Contact) -> str:
    name = " ".join(filter(None, (contact.first_name, contact.last_name)))
    return f"[Contact: {name}, {contact.phone_number}]"


def _location(location: Location) -> str:
    live = ", live" if location.live_period else ""
    return f"[Location: {location.latitude:.6f}, {location.longitude:.6f}{live}]"


def _venue(venue: Venue) -> str:
    return f"[Place: {venue.title}, {venue.address} ({venue.location.latitude:.6f}, {venue.location.longitude:.6f})]"


def _sticker(sticker: Sticker) -> str:
    return f"[Sticker {sticker.emoji}]" if sticker.emoji else "[Sticker]"


def _seconds(spoken: Any) -> int:
    duration = spoken.duration
    return int(duration if isinstance(duration, int) else duration.total_seconds())


# A place has a location too, so it comes first.
_KINDS: dict[str, Callable[[Any], str]] = {
    "poll": _poll,
    "checklist": _checklist,
    "contact": _contact,
    "venue": _venue,
    "location": _location,
    "dice": lambda dice: f"[{dice.emoji} {dice.value}]",
    "sticker": _sticker,
    "voice": lambda voice: f"[Voice message, {_seconds(voice)} s]",
    "video_note": lambda note: f"[Video message, {_seconds(note)} s]",
    "game": lambda game: f"[Game: {game.title}]",
    "invoice": lambda invoice: f"[Invoice: {invoice.title}]",
    "story": lambda _: "[A story, which bots can't open]",
    "paid_media": lambda paid: f"[Pictures or videos for {paid.star_count} stars, which bots can't open]",
    "giveaway": lambda _: "[A giveaway]",
    "giveaway_winners": lambda _: "[The winners of a giveaway]",
}

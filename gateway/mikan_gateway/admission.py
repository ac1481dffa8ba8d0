"""Who may create or use an office (architecture section 5); comes before everything else of the intake.

A platform that is not listed in the settings admits nobody. Creation of offices is limited by a rate per platform.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from mikan_api.identity import OfficeKey, Platform
from mikan_api.settings import Admission, Settings
from mikan_gateway.ports import InboundMessage, SettingsSource

HOUR = 3600.0
MAX_STRANGERS = 10_000
"""Strangers remembered as answered; the oldest are forgotten."""


def is_admitted(message: InboundMessage, admission: Admission) -> bool:
    """Whether any list of the platform names the sender or the place. Admins come in by `Gatekeeper`."""
    event = message.event
    return (
        admission.open
        or event.message.author.id in admission.users
        or not {event.conversation_id, *message.place_ids}.isdisjoint(admission.conversations)
        or (bool(message.team) and message.team in (*admission.teams, *admission.guilds))
    )


class Gatekeeper:
    """Decides by the settings of the moment; remembers whom it refused and how many offices were new."""

    def __init__(self, settings: SettingsSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._told: OrderedDict[tuple[Platform, str, str], None] = OrderedDict()
        self._created: dict[Platform, OrderedDict[OfficeKey, float]] = {}

    def admits(self, message: InboundMessage) -> bool:
        """Whether a message's sender may use this installation, at this place."""
        settings = self._settings.current
        admission = settings.admission.get(message.event.platform, Admission())
        return is_admitted(message, admission) or _is_admin(message, settings)

    def may_create(self, platform: Platform, office: OfficeKey) -> bool:
        """Whether an office may be made now; if so it counts toward its platform's rate, however often it is tried."""
        rate = self._settings.current.admission.get(platform, Admission()).offices_per_hour
        now = self._clock()
        created = self._created.setdefault(platform, OrderedDict())
        while created and next(iter(created.values())) <= now - HOUR:
            created.popitem(last=False)
        if office in created:
            return True
        if len(created) >= rate:
            return False
        created[office] = now
        return True

    def first_refusal(self, platform: Platform, user: str, answer: str) -> bool:
        """Whether somebody gets this answer for the first time; a second time would be noise."""
        told = (platform, user, answer)
        first = told not in self._told
        self._told[told] = None
        self._told.move_to_end(told)
        while len(self._told) > MAX_STRANGERS:
            self._told.popitem(last=False)
        return first

    def forget_refusal(self, platform: Platform, user: str, answer: str) -> None:
        """The answer could not be given after all."""
        self._told.pop((platform, user, answer), None)


def _is_admin(message: InboundMessage, settings: Settings) -> bool:
    return message.event.message.author.id in settings.admins.get(message.event.platform, ())

"""Runs that an extension sets up, by the clock or at once; of its own conversation only."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import ValidationError

from mikan_agent.extensions.exceptions import CapabilityUnavailable, ExtensionError
from mikan_agent.extensions.extension import Extension
from mikan_agent.extensions.ports import ExtensionHost, Schedule, ScheduleHost
from mikan_api.events import ImmediateEvent, OneShotEvent, PeriodicEvent, describe
from mikan_api.identity import Platform

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
T = TypeVar("T")


class Schedules:
    """Runs by the clock. They outlive the process, so an extension may set them up anew at each activation.

    A run that begins so knows nothing of the conversation but its text, and the text is stored where admins read it:
    it holds no secrets.
    """

    def __init__(self, extension: Extension, host: ExtensionHost) -> None:
        self._extension, self._host = extension, host

    async def upsert(self, name: str, *, text: str, schedule: str = "", timezone: str = "UTC", at: str = "") -> None:
        """Set up a run, or replace this extension's one of that name.

        Args:
            name: 1 to 40 of ``a-z``, ``0-9`` and ``-``.
            text: the prompt.
            schedule: five-field cron, in ``timezone`` (IANA); or
            at: an ISO 8601 instant with ``Z`` or an offset, for one run. One that has passed is run at once, each time
                that it is set up.

        Raises:
            CapabilityUnavailable: this host runs nothing by the clock.
            ExtensionError: an argument is wrong, or the text holds a secret.
            RequestFailed: the gateway refuses, or does not answer.
        """
        host = self._schedules()
        if not _NAME.fullmatch(name):
            raise ExtensionError(f"{name!r} is no name for a schedule: 1 to 40 of a-z, 0-9 and -")
        if bool(schedule) == bool(at):
            raise ExtensionError("a schedule has either schedule or at")
        platform, conversation = self._check(text)

        def make() -> OneShotEvent | PeriodicEvent:
            if at:
                return OneShotEvent(platform=platform, conversation_id=conversation, text=text, at=at)
            return PeriodicEvent(
                platform=platform, conversation_id=conversation, text=text, schedule=schedule, timezone=timezone
            )

        await host.upsert(self._extension.slug, name, _valid(make))

    async def remove(self, name: str) -> bool:
        """Take a run away. False: there was none of that name.

        Raises:
            CapabilityUnavailable: this host runs nothing by the clock.
        """
        return await self._schedules().remove(self._extension.slug, name)

    async def list(self) -> Sequence[Schedule]:
        """This extension's runs in this conversation.

        Raises:
            CapabilityUnavailable: this host runs nothing by the clock.
        """
        return await self._schedules().list(self._extension.slug)

    async def trigger(self, text: str) -> None:
        """See `ExtensionApi.trigger_run`."""
        host = self._schedules()
        platform, conversation = self._check(text)
        event = _valid(lambda: ImmediateEvent(platform=platform, conversation_id=conversation, text=text))
        await host.trigger(self._extension.slug, event)

    def _schedules(self) -> ScheduleHost:
        if self._host.schedules is None:
            raise CapabilityUnavailable("this host starts no runs by itself")
        return self._host.schedules

    def _check(self, text: str) -> tuple[Platform, str]:
        """The conversation that a text is for."""
        if self._extension.secrets.found_in(text):
            raise ExtensionError("the text of a run is stored where admins read it, and this one holds a secret")
        context = self._host.context()
        return Platform(context.platform), context.conversation_id


def _valid(make: Callable[[], T]) -> T:
    try:
        return make()
    except ValidationError as error:
        raise ExtensionError(describe(error)) from None

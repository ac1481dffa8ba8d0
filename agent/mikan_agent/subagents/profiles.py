"""What kinds of subagents there are: the built-in ones, patched and joined by ``agents/*.md``.

A file that bears a built-in's name changes only what it states; any other defines a profile and must say which tools it
grants. A malformed file is a diagnostic and is skipped.
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.front_matter import InvalidFrontMatter, split_front_matter
from mikan_agent.records.exceptions import NotFound, StorageError
from mikan_api.base import ApiModel
from mikan_api.durations import Duration, parse_duration
from mikan_api.events import describe
from mikan_api.layout import Workspace
from mikan_api.settings import MODEL_PATTERN, ThinkingLevel

logger = logging.getLogger(__name__)

MAX_FILE = 64 * 1024
MAX_FILES = 100
NAME = r"^[a-z0-9]+(-[a-z0-9]+)*$"

ALL_TOOLS = ("read", "bash", "edit", "write", "history")
READING = ("read", "history")


@dataclass(frozen=True, slots=True)
class Caps:
    """What one run of a subagent may consume."""

    turns: int = 100
    cost_usd: float = 10.0
    duration: timedelta = timedelta(minutes=10)

    def tightened(
        self, turns: int | None = None, cost_usd: float | None = None, duration: timedelta | None = None
    ) -> "Caps":
        """The same or less; nothing raises a cap."""
        return Caps(
            min(self.turns, turns if turns is not None else self.turns),
            min(self.cost_usd, cost_usd if cost_usd is not None else self.cost_usd),
            min(self.duration, duration if duration is not None else self.duration),
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of subagent."""

    name: str
    description: str
    instructions: str
    tools: tuple[str, ...] = ALL_TOOLS
    model: str | None = None
    """``provider/model``; absent: the parent's."""
    thinking_level: ThinkingLevel | None = None
    caps: Caps = Caps()


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles by name, and what was wrong with the files."""

    by_name: Mapping[str, Profile]
    diagnostics: tuple[str, ...] = ()

    def index(self) -> str:
        """One line for each."""
        return "\n".join(f"- {profile.name}: {profile.description}" for profile in self.by_name.values())


BUILT_IN = {
    profile.name: profile
    for profile in (
        Profile(
            "worker",
            "any well-described task that fits nobody else",
            "Do the task as it is written. Look before you change something, check what you did, and report what you "
            "found or changed, with paths.",
        ),
        Profile(
            "software-engineer",
            "reads, writes, tests and repairs code",
            "Understand the code around the task first and follow its conventions. Make the smallest change that does "
            "it, run the tests that concern it, and report what changed, what you ran and what it said.",
        ),
        Profile(
            "devops-engineer",
            "deployments, pipelines, infrastructure, incidents",
            "Find out how things are before you touch them. Prefer what can be undone. Report the state before and "
            "after, the commands you ran, and how to go back.",
        ),
        Profile(
            "data-scientist",
            "analyses data, computes figures, draws charts",
            "Look at the data's shape and gaps first. Compute with code, never in your head; keep the code and the "
            "charts as files. Report figures with their units, how you got them, and how sure they are.",
        ),
        Profile(
            "account-manager",
            "customer matters: replies, follow-ups, summaries of a relation",
            "Be exact about what was promised, by whom and until when. Write as the customer should read it: polite, "
            "plain, nothing promised that the material does not support. Name what is still open.",
        ),
        Profile(
            "business-development",
            "markets, prospects, offers, partnerships",
            "Separate what the material says from what you conclude. Compare options by what they cost, bring and "
            "risk, recommend one, and say what would change your mind.",
        ),
        Profile(
            "creative-producer",
            "texts, concepts, scripts and plans for media",
            "Find out for whom and to what end. Offer a few distinct directions, work the best one out, and keep "
            "names, facts and figures true to the material.",
        ),
        Profile(
            "ad-operations-specialist",
            "campaigns: set-up, tracking, budgets, reports",
            "Check names, dates, budgets and tracking against the brief line by line. Report every deviation with "
            "where it is; never round a figure away.",
        ),
        Profile(
            "analysis-only",
            "thinks about material that it is given; changes nothing",
            "Answer from the material alone. Say what it does not tell. You can read and search, and change nothing.",
            tools=READING,
        ),
    )
}


def _as_list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class _Header(ApiModel):
    """The header of a file in ``agents/``."""

    name: str | None = None
    description: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    tools: Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(max_length=50)] | None = None
    model: Annotated[str, Field(pattern=MODEL_PATTERN, max_length=256)] | None = None
    thinking_level: ThinkingLevel | None = None
    max_turns: Annotated[int, Field(gt=0)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    max_duration: Duration | None = None


class OfficeProfiles:
    """The profiles that an office has, read anew each time; what is wrong with a file is logged once."""

    def __init__(self, workspace: Workspace) -> None:
        self._directory = ConfinedDirectory(workspace.shared / "agents")
        self._logged: tuple[str, ...] = ()

    async def read(self) -> Profiles:
        """What there are now."""
        profiles = await asyncio.to_thread(load_profiles, self._directory)
        if profiles.diagnostics != self._logged:
            self._logged = profiles.diagnostics
            for diagnostic in profiles.diagnostics:
                logger.warning("subagent profile: %s", diagnostic)
        return profiles


def load_profiles(directory: ConfinedDirectory) -> Profiles:
    """The built-in profiles, and what a directory of ``*.md`` files makes of them. Blocking; no file makes it raise."""
    profiles, diagnostics = dict(BUILT_IN), list[str]()
    try:
        files = sorted(name for name in directory.names() if name.endswith(".md"))
    except NotFound:
        files = []
    except StorageError as error:
        return Profiles(profiles, (f"agents/ cannot be read: {error}",))
    if len(files) > MAX_FILES:
        diagnostics.append(f"agents/ holds {len(files)} files; only the first {MAX_FILES} are read")
    for file in files[:MAX_FILES]:
        try:
            profile = _read(directory, file)
        except (StorageError, InvalidFrontMatter) as error:
            diagnostics.append(f"agents/{file} is skipped: {error}")
        except ValidationError as error:
            diagnostics.append(f"agents/{file} is skipped: {describe(error)}")
        else:
            profiles[profile.name] = profile
    return Profiles(profiles, tuple(diagnostics))


def _read(directory: ConfinedDirectory, file: str) -> Profile:
    content = directory.read(file, MAX_FILE)
    fields, body = split_front_matter(content.decode(errors="replace"))
    header, name = _Header.model_validate(fields), file.removesuffix(".md")
    if header.name not in {None, name}:
        raise InvalidFrontMatter(f"its name is {header.name!r}, but the file is called {file}")
    profile = BUILT_IN.get(name)
    if profile is None:
        profile = _defined(name, header, body)
    duration = parse_duration(header.max_duration) if header.max_duration else None
    return replace(
        profile,
        description=header.description or profile.description,
        instructions=body.strip() or profile.instructions,
        tools=profile.tools if header.tools is None else header.tools,
        model=header.model or profile.model,
        thinking_level=header.thinking_level or profile.thinking_level,
        caps=profile.caps.tightened(header.max_turns, header.max_cost_usd, duration),
    )


def _defined(name: str, header: _Header, body: str) -> Profile:
    if not re.match(NAME, name):
        raise InvalidFrontMatter("a profile's name has small letters, digits and single dashes only")
    missing = [
        what
        for what, there in (
            ("description", header.description),
            ("tools (which tools it may use; [] for none)", header.tools is not None),
            ("instructions below the header", body.strip()),
        )
        if not there
    ]
    if missing:
        raise InvalidFrontMatter(f"a new profile needs {', '.join(missing)}")
    return Profile(name, "", "", ())

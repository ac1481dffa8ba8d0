"""Notes in a session that another model, or another thinking level, answers from here on."""

from collections.abc import Iterator

from mikan_agent.sessions.context import ModelChoice, model_of, thinking_level_of
from mikan_agent.sessions.session import Session
from mikan_agent.sessions.tree import Entry
from mikan_api.settings import Llm, ThinkingLevel


async def note_model(session: Session, llm: Llm) -> None:
    """Append the entries that say what changed since the last answer; nothing in a session without one."""
    provider, _, model = llm.model.partition("/")
    chosen = next(filter(None, map(model_of, _back(session))), None)
    if chosen is not None and chosen != ModelChoice(provider, model):
        await session.append_model_change(provider, model)
    level = next(filter(None, map(thinking_level_of, _back(session))), ThinkingLevel.OFF.value)
    if level != llm.thinking_level.value:
        await session.append_thinking_level_change(llm.thinking_level.value)


def _back(session: Session) -> Iterator[Entry]:
    """Entries of the branch, the newest first."""
    entry = session.get(session.leaf_id) if session.leaf_id is not None else None
    while entry is not None:
        yield entry
        entry = entry.parent

"""Notes in a session that another model, or another thinking level, answers from here on."""

from mikan_agent.sessions.context import ModelChoice, chosen_model, chosen_thinking_level
from mikan_agent.sessions.session import Session
from mikan_api.settings import Llm


async def note_model(session: Session, llm: Llm) -> None:
    """Append the entries that say what changed since the last answer; nothing in a session without one."""
    provider, _, model = llm.model.partition("/")
    chosen = chosen_model(session.leaf)
    if chosen is not None and chosen != ModelChoice(provider, model):
        await session.append_model_change(provider, model)
    if chosen_thinking_level(session.leaf) != llm.thinking_level.value:
        await session.append_thinking_level_change(llm.thinking_level.value)

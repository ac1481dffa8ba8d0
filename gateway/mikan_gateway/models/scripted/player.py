"""Which turn of a script comes next, decided from the messages alone."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mikan_gateway.models.chat import ChatRequest, JsonObject, text_of
from mikan_gateway.models.exceptions import UpstreamFailed
from mikan_gateway.models.scripted.script import Count, Rule, Script, Step

MAX_MATCHED = 65_536
"""Characters of the user's message that rules look at."""
CLOSING = "(scripted model) That was all the script has."
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A tool call, its templates filled in."""

    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model does now, all templates filled in."""

    text: str = ""
    thinking: str = ""
    calls: tuple[PlannedCall, ...] = ()
    tokens: int = 0
    delay_seconds: float = 0.0
    error: UpstreamFailed | None = None
    cut: bool = False


def plan_turn(script: Script, request: ChatRequest) -> Turn:
    """The turn that follows these messages."""
    last_user = _last_question(request.messages)
    asked = text_of(request.messages[last_user])[:MAX_MATCHED] if last_user >= 0 else ""
    since = request.messages[last_user + 1 :]
    done = sum(message["role"] == "assistant" for message in since)
    results = [text_of(message) for message in since if message["role"] == "tool"]
    found = _matching(script, asked)
    if found is None:
        return Turn(text=CLOSING)
    rule, groups = found
    values = groups | {
        "result": results[-1] if results else "",
        "results": "\n".join(results),
        "turn": str(done + 1),
    }
    for step in _turns(rule, values, done):
        return _offered_only(_fill(step, values), request)
    return Turn(text=CLOSING)


def _last_question(messages: list[JsonObject]) -> int:
    """Where the user last spoke. Pictures that follow tool results belong to these."""
    for index in range(len(messages) - 1, -1, -1):
        after_tool = index > 0 and messages[index - 1]["role"] == "tool"
        if messages[index]["role"] == "user" and not (after_tool and _has_picture(messages[index])):
            return index
    return -1


def _has_picture(message: JsonObject) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(part.get("type") == "image_url" for part in content)


def _matching(script: Script, asked: str) -> tuple[Rule, dict[str, str]] | None:
    for rule in script.rules:
        if match := re.search(rule.match, asked, re.IGNORECASE | re.MULTILINE):
            return rule, {name: value or "" for name, value in match.groupdict().items()}
    return None


def _turns(rule: Rule, values: Mapping[str, str], skip: int) -> Iterator[Step]:
    """The steps from turn ``skip`` on."""
    for step in rule.steps:
        times = _count(step.repeat, values)
        if skip < times:
            yield step
        skip -= times


def _fill(step: Step, values: Mapping[str, str]) -> Turn:
    error = (
        None
        if step.error is None
        else UpstreamFailed(
            min(max(_count(step.error.status, values), 400), 599),
            "upstream_error",
            step.error.code,
            fill(step.error.message, values),
            None if step.error.retry_after is None else str(step.error.retry_after),
        )
    )
    return Turn(
        text=fill(step.say, values),
        thinking=fill(step.think, values),
        calls=tuple(PlannedCall(call.tool, fill_all(call.arguments, values)) for call in step.calls),
        tokens=_count(step.tokens, values),
        delay_seconds=_count(step.delay_ms, values) / 1000,
        error=error,
        cut=step.cut,
    )


def _offered_only(turn: Turn, request: ChatRequest) -> Turn:
    offered = {(tool.get("function") or {}).get("name") for tool in request.options.get("tools") or ()}
    missing = sorted({call.tool for call in turn.calls} - offered)
    if not missing:
        return turn
    return Turn(text=f"(scripted model) I would call the tool {', '.join(missing)}, but it is not offered here.")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill a template in one pass, so that what is filled in is never read as a template. Unknown names stay."""

    def place(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        return values.get(match[1], match[0])

    return _PLACE.sub(place, template)


def fill_all(value: Any, values: Mapping[str, str]) -> Any:
    """Fill every string of a JSON value."""
    if isinstance(value, str):
        return fill(value, values)
    if isinstance(value, list):
        return [fill_all(item, values) for item in value]
    if isinstance(value, dict):
        return {key: fill_all(item, values) for key, item in value.items()}
    return value


def _count(value: Count, values: Mapping[str, str]) -> int:
    """A number, or a template of one; what is no number counts 0, and nothing more than a million."""
    if isinstance(value, int):
        return value
    text = fill(value, values)
    return min(int(text), 1_000_000) if text.isascii() and text.isdigit() and len(text) < 10 else 0

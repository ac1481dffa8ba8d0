"""A chat request as the agent sends it, reduced to what may reach an upstream; and the parts of an answer.

One owner of what passes: fields and message keys outside these lists are dropped, so that no request can name a base
URL, a key, a callback or a file. Images are ``data:`` URLs only: some upstream libraries fetch others themselves.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import from_json

from mikan_gateway.models.exceptions import CallRefused

JsonObject = dict[str, Any]

PASSED_FIELDS = (
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "response_format",
    "presence_penalty",
    "frequency_penalty",
)
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
MESSAGE_KEYS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
THINKING_KEYS = frozenset({"reasoning_content", "thinking_blocks"})
KEPT_KEYS = MESSAGE_KEYS | THINKING_KEYS
THINKING_LEVELS = frozenset({"off", "none", "minimal", "low", "medium", "high", "xhigh", "max"})
MAX_MESSAGES = 20_000
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_IMAGE = 1000


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked request. ``options`` are the `PASSED_FIELDS` that it has."""

    provider: str
    model: str
    messages: list[JsonObject]
    stream: bool = False
    thinking: str = "off"
    options: JsonObject = field(default_factory=dict)

    def without_thinking(self) -> "ChatRequest":
        """The same for a model that cannot be told how much to think."""
        return replace(self, thinking="off")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call. ``cached`` and ``cache_write`` are parts of ``prompt``; ``reasoning`` of ``completion``."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event of a streamed answer.

    Attributes:
        data: JSON of a ``chat.completion.chunk``; empty = nothing but a sign of life.
        finished: it carries a finish reason.
        usage: what the upstream says it used up to here.
    """

    data: bytes
    finished: bool = False
    usage: Usage | None = None


def _bad(message: str) -> CallRefused:
    return CallRefused(400, "invalid_request_error", "invalid_request", message)


def parse_request(body: bytes) -> ChatRequest:
    """Check a request's body and keep what may pass.

    Raises:
        CallRefused: 400; the message names the field and holds no content.
    """
    try:
        raw = from_json(body)
    except ValueError:
        raise _bad("the request's body is not JSON") from None
    if not isinstance(raw, dict):
        raise _bad("the request's body must be a JSON object")
    provider, model = _split_model(raw.get("model"))
    if raw.get("n", 1) != 1:
        raise _bad("n: one answer at a time")
    thinking = raw.get("reasoning_effort") or "off"
    if thinking not in THINKING_LEVELS:
        raise _bad(f"reasoning_effort: one of {', '.join(sorted(THINKING_LEVELS))}")
    return ChatRequest(
        provider=provider,
        model=model,
        messages=_messages(raw.get("messages")),
        stream=raw.get("stream") is True,
        thinking="off" if thinking == "none" else thinking,
        options={name: raw[name] for name in PASSED_FIELDS if raw.get(name) is not None},
    )


def _split_model(value: object) -> tuple[str, str]:
    provider, slash, model = value.partition("/") if isinstance(value, str) and len(value) <= 256 else ("", "", "")
    if not slash or not provider or not model or not model.isprintable() or " " in model:
        raise _bad("model: a string of the form provider/model")
    return provider, model


def _messages(value: object) -> list[JsonObject]:
    if not isinstance(value, list) or not value:
        raise _bad("messages: a list of at least one message")
    if len(value) > MAX_MESSAGES:
        raise _bad(f"messages: more than {MAX_MESSAGES}")
    return [_message(index, message) for index, message in enumerate(value)]


def _message(index: int, message: object) -> JsonObject:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise _bad(f"messages[{index}].role: one of {', '.join(sorted(ROLES))}")
    # Most messages of a long conversation hold nothing else, and all of it is read in every call.
    plain = KEPT_KEYS.issuperset(message)
    kept = message if plain else {k: v for k, v in message.items() if k in KEPT_KEYS}
    content = kept.get("content")
    if isinstance(content, str) and "tool_calls" not in kept:
        return kept
    if isinstance(content, list):
        kept["content"] = [_part(f"messages[{index}].content[{n}]", part) for n, part in enumerate(content)]
    elif not isinstance(content, str | None):
        raise _bad(f"messages[{index}].content: a string, null or a list of parts")
    calls = kept.get("tool_calls")
    if calls is not None and not (isinstance(calls, list) and all(isinstance(c, dict) for c in calls)):
        raise _bad(f"messages[{index}].tool_calls: a list of objects")
    return kept


def _part(where: str, part: object) -> JsonObject:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(part, dict) and kind == "text" and isinstance(part.get("text"), str):
        return {k: part[k] for k in ("type", "text", "cache_control") if k in part}
    if isinstance(part, dict) and kind == "image_url" and isinstance(image := part.get("image_url"), dict):
        if not str(image.get("url", "")).startswith("data:image/"):
            raise _bad(f"{where}.image_url.url: only data: URLs of images; this process fetches nothing")
        return {"type": "image_url", "image_url": {k: image[k] for k in ("url", "detail") if k in image}}
    raise _bad(f"{where}: a part of type text or image_url")


def plain_messages(messages: list[JsonObject]) -> list[JsonObject]:
    """Messages in the strict OpenAI form: without signed thinking and cache hints, which strict upstreams refuse."""
    return [
        {k: _plain_parts(v) if k == "content" else v for k, v in message.items() if k in MESSAGE_KEYS}
        for message in messages
    ]


def _plain_parts(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [{k: v for k, v in part.items() if k != "cache_control"} for part in content]


def text_of(message: JsonObject) -> str:
    """The text of a message, its parts joined by line breaks."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def estimate_prompt_tokens(request: ChatRequest) -> int:
    """A rough count for where the upstream gave none: four characters a token, 1,000 tokens an image."""
    characters = len(str(request.options.get("tools", "")))
    images = 0
    for message in request.messages:
        content = message.get("content")
        if calls := message.get("tool_calls"):
            characters += len(str(calls))
        if isinstance(content, str):
            characters += len(content)
        elif isinstance(content, list):
            characters += len(text_of(message))
            images += sum(part.get("type") == "image_url" for part in content)
    return characters // CHARACTERS_PER_TOKEN + images * TOKENS_PER_IMAGE

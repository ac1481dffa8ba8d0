"""A streamed chat completion, put together: OpenAI chunks in, one `AssistantMessage` out.

Hostile by default: ids may be missing or doubled, arguments may be no JSON. What cannot be used becomes a fault of that
tool call, told to the model as its result; the rest of the answer stands.
"""

import json
import secrets
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from mikan_agent.exceptions import ModelRequestRefused, ModelUnreachable
from mikan_agent.messages import (
    AssistantMessage,
    Content,
    Cost,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)
from mikan_agent.strict_json import read_json

MAX_TOOL_CALLS = 128
MAX_CALL_ID = 256


class _Open(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Function(_Open):
    name: str | None = None
    arguments: str | None = None


class _CallPart(_Open):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(_Open):
    """A piece of content as some servers send it: text, or reasoning in parts of its own."""

    text: str | None = None
    thinking: "list[_Part] | None" = None


class _Delta(_Open):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_CallPart] | None = None


class _Choice(_Open):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(_Open):
    cached_tokens: int | None = None


class _Usage(_Open):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    cost_usd: float | None = None
    cost: float | None = None


class _Chunk(_Open):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: dict[str, Any] | str | None = None


class StreamedError(Exception):
    """An error that came as an event of the stream. ``body`` is its ``error`` object."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__("error event")
        self.body = body


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class Completion:
    """Collects one answer. ``on_text`` hears each piece of text as it comes."""

    def __init__(self, model: str, on_text: Callable[[str], None], timestamp: int) -> None:
        self._model, self._on_text, self._timestamp = model, on_text, timestamp
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        """The call that the next piece with this number belongs to."""
        self._usage = Usage()
        self._finish: str | None = None
        self.faults: dict[str, str] = {}
        """Tool call id -> why its arguments cannot be used; complete once `message` was called."""

    @property
    def finished(self) -> bool:
        """Whether the model said why it ended. A stream that ends without that was cut."""
        return self._finish is not None

    @property
    def usage(self) -> Usage:
        """What the call consumed, as far as the stream told."""
        return self._usage

    def feed(self, data: str) -> None:
        """Take one chunk.

        Raises:
            StreamedError: it is an error event.
            ModelUnreachable: it is no chunk.
            ModelRequestRefused: it asks for too many calls; paid for once, it is not asked for again.
        """
        try:
            chunk = _Chunk.model_validate_json(data)
        except ValidationError:
            raise ModelUnreachable("the model's stream holds something that is no chunk") from None
        if chunk.error is not None:
            raise StreamedError(chunk.error if isinstance(chunk.error, dict) else {"message": chunk.error})
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        for choice in (chunk.choices or ())[:1]:
            if choice.delta is not None:
                self._take(choice.delta)
            self._finish = choice.finish_reason or self._finish

    def _take(self, delta: _Delta) -> None:
        if delta.reasoning_content:
            self._thinking.append(delta.reasoning_content)
        if isinstance(delta.content, list):
            self._take_parts(delta.content)
        elif text := delta.content or delta.refusal:
            self._say(text)
        for part in delta.tool_calls or ():
            call = self._call(part)
            call.id = call.id or part.id or ""
            if part.function is not None:
                call.name = call.name or part.function.name or ""
                call.arguments.append(part.function.arguments or "")

    def _take_parts(self, parts: list[_Part]) -> None:
        for part in parts:
            self._thinking += [piece.text for piece in part.thinking or () if piece.text]
            if part.text:
                self._say(part.text)

    def _say(self, text: str) -> None:
        self._text.append(text)
        self._on_text(text)

    def _call(self, part: _CallPart) -> _Call:
        # Some servers number no parts; then one that brings an id begins a new call. Others give all one number; then
        # one that brings another id and a name does. An id alone begins none: some make a new one for each piece.
        open_call = self._by_index.get(part.index)
        named = part.index is None or (part.function is not None and part.function.name)
        if open_call is None or (part.id and named and open_call.id and open_call.id != part.id):
            if len(self._calls) >= MAX_TOOL_CALLS:
                raise ModelRequestRefused(f"the model asked for more than {MAX_TOOL_CALLS} tool calls at once")
            open_call = self._by_index[part.index] = _Call()
            self._calls.append(open_call)
        return open_call

    def message(self, stop_reason: StopReason | None = None, error: str | None = None) -> AssistantMessage:
        """The answer so far; tool calls only where it is complete, since half a call must never run."""
        content: list[Content] = []
        if self._thinking:
            content.append(ThinkingContent(thinking="".join(self._thinking)))
        if self._text:
            content.append(TextContent(text="".join(self._text)))
        if stop_reason is None:
            content += self._tool_calls()
        provider, _, model = self._model.partition("/")
        return AssistantMessage(
            content=content,
            provider=provider,
            model=model,
            usage=self._usage,
            stop_reason=stop_reason or self._stop_reason(),
            error_message=error,
            timestamp=self._timestamp,
        )

    def _stop_reason(self) -> StopReason:
        if self._finish == "length":
            return "length"
        return "toolUse" if self._calls else "stop"

    def _tool_calls(self) -> list[ToolCall]:
        calls: list[ToolCall] = []
        seen: set[str] = set()
        for call in self._calls:
            identity = (
                call.id if 0 < len(call.id) <= MAX_CALL_ID and call.id not in seen else f"call_{secrets.token_hex(8)}"
            )
            seen.add(identity)
            arguments, fault = _arguments("".join(call.arguments))
            try:
                made = ToolCall(id=identity, name=call.name, arguments=arguments)
            except ValidationError:
                made, fault = ToolCall(id=identity, name=call.name), "The arguments are nested too deeply."
            if fault:
                self.faults[identity] = fault
            calls.append(made)
        return calls


def _arguments(text: str) -> tuple[dict[str, Any], str]:
    try:
        value = read_json(text or "{}")
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else "nested too deeply"
        return {}, f"The arguments are not valid JSON ({reason}). Send the call again, complete. Received: {text[:500]}"
    if "\\u" in text and not _encodable(value):
        return {}, "The arguments hold half a surrogate pair, which no text may."
    if not isinstance(value, dict):
        return {}, f"The arguments must be a JSON object. Received: {text[:500]}"
    return value, ""


def _encodable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _usage(usage: _Usage) -> Usage:
    prompt, output = usage.prompt_tokens or 0, usage.completion_tokens or 0
    cached = (usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None) or 0
    price = usage.cost_usd if usage.cost_usd is not None else usage.cost or 0.0
    return Usage(
        input=max(prompt - cached, 0),
        output=output,
        cache_read=cached,
        total_tokens=prompt + output,
        cost=Cost(total=price),
    )

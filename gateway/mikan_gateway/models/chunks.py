"""Building and collecting ``chat.completion.chunk`` objects, for models that do not come in that form."""

from dataclasses import dataclass, field

from pydantic_core import from_json, to_json

from mikan_gateway.models.chat import Chunk, JsonObject

JOINED = ("content", "reasoning_content", "refusal")
"""Fields of a delta whose pieces are joined to one text."""


@dataclass(frozen=True, slots=True)
class ChunkWriter:
    """Writes the chunks of one answer."""

    id: str
    created: int
    model: str

    def delta(self, delta: JsonObject, finish: str | None = None) -> Chunk:
        """A chunk with a piece of the message, or, with ``finish``, its end."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return Chunk(to_json(self._envelope([choice])), finished=finish is not None)

    def usage(self, usage: JsonObject) -> bytes:
        """The last chunk."""
        return to_json(self._envelope([]) | {"usage": usage})

    def _envelope(self, choices: list[JsonObject]) -> JsonObject:
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


@dataclass(slots=True)
class Collected:
    """A whole ``chat.completion`` from the chunks of a stream, for clients that do not stream."""

    envelope: JsonObject = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: dict[int, JsonObject] = field(default_factory=dict)
    blocks: list[JsonObject] = field(default_factory=list)
    finish: str | None = None
    usage: JsonObject = field(default_factory=dict)

    def add(self, data: bytes) -> None:
        """Take the next chunk."""
        chunk = from_json(data)
        if not self.envelope:
            self.envelope = {k: v for k, v in chunk.items() if k not in {"choices", "usage", "object"}}
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk.get("choices") or ():
            self.finish = choice.get("finish_reason") or self.finish
            self._add_delta(choice.get("delta") or {})

    def _add_delta(self, delta: JsonObject) -> None:
        for name in JOINED:
            if isinstance(piece := delta.get(name), str):
                self.texts.setdefault(name, []).append(piece)
        self.blocks.extend(delta.get("thinking_blocks") or ())
        for piece in delta.get("tool_calls") or ():
            index = piece.get("index", 0)
            call = self.calls.setdefault(
                index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
            )
            function = piece.get("function") or {}
            call["id"] = piece.get("id") or call["id"]
            call["function"]["name"] += function.get("name") or ""
            call["function"]["arguments"] += function.get("arguments") or ""

    def completion(self) -> JsonObject:
        """The whole answer."""
        message: JsonObject = {"role": "assistant", "content": None}
        message |= {name: "".join(pieces) for name, pieces in self.texts.items()}
        if self.calls:
            message["tool_calls"] = [self.calls[index] for index in sorted(self.calls)]
            message["content"] = message["content"] or None
        if self.blocks:
            message["thinking_blocks"] = self.blocks
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return self.envelope | {"object": "chat.completion", "choices": [choice], "usage": self.usage}

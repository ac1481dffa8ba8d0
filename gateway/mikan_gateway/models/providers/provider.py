"""The protocol of an upstream."""

from collections.abc import AsyncGenerator
from typing import Protocol

from mikan_gateway.models.chat import ChatRequest, Chunk, Usage
from mikan_gateway.models.pricing import Price


class Provider(Protocol):
    """Answers calls in chunks of the OpenAI form."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[Chunk, None]:
        """Ask the upstream. Closing the iterator cancels the upstream's call.

        Raises:
            CallFailed: `UpstreamFailed` as a rule before the first chunk, `UpstreamCut` after it.
        """
        ...

    def price(self, model: str, usage: Usage) -> Price | None:
        """What a model costs for a call of that size; ``None`` where only the configuration could say."""
        ...

    def window(self, model: str) -> int | None:
        """A model's context window in tokens; ``None`` where only the configuration could say."""
        ...

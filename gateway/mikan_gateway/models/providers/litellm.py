"""Upstreams that do not speak the OpenAI form, translated by litellm.

Importing litellm takes seconds and 200 MB, so it happens in a thread, and only where such a provider is configured.
Two of its habits are undone here: its own retries (the agent retries, once is enough), and its making a stream that
ended without a finish look like a whole answer.
"""

import asyncio
import importlib
import logging
import os
import re
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any

from pydantic_core import from_json, to_json

from mikan_gateway.models.chat import ChatRequest, Chunk, JsonObject, Usage
from mikan_gateway.models.config import ProviderEntry
from mikan_gateway.models.exceptions import CallFailed, CallRefused, UpstreamCut
from mikan_gateway.models.pricing import MILLION, Price, read_usage
from mikan_gateway.models.providers.openai import error_fields
from mikan_gateway.models.providers.upstream import Refusals

logger = logging.getLogger(__name__)

DELTA_FIELDS = ("role", "content", "reasoning_content", "thinking_blocks", "refusal")
CALL_FIELDS = frozenset({"index", "id", "type", "function"})
LONG_CONTEXT = 200_000
"""Prompt tokens from which some models cost more; litellm's map names those prices ``…_above_200k_tokens``."""
ABOVE_HIGH = frozenset({"xhigh", "max"})
_NOISE = re.compile(r"^(litellm\.)?(\w+(Error|Exception)(:| -) (- )?)+")
_PAYLOAD = re.compile(r"\{.*\}", re.DOTALL)


class Litellm:
    """The library, imported when it is first wanted."""

    def __init__(self) -> None:
        self._module: Future[Any] | None = None
        self._lock = threading.Lock()

    def load(self) -> None:
        """Begin to import it, unless that has begun. Any thread."""
        with self._lock:
            if self._module is not None:
                return
            self._module = Future()
        # A daemon, so that a process told to end need not wait for the import.
        threading.Thread(target=_import, args=[self._module], name="import-litellm", daemon=True).start()

    @property
    def fault(self) -> str:
        """Why it cannot be used yet; empty where nobody wants it."""
        if self._module is None:
            return ""
        if not self._module.done():
            return "being imported"
        error = self._module.exception()
        return f"cannot be imported: {type(error).__name__}" if error else ""

    async def get(self) -> Any:
        """The module.

        Raises:
            CallRefused: 503; it cannot be imported.
        """
        self.load()
        assert self._module is not None  # noqa: S101  load() has set it
        try:
            return await asyncio.wrap_future(self._module)
        except ImportError:
            message = "litellm is not installed here; an admin uses the models image or a provider of kind openai"
            raise CallRefused(503, "server_error", "provider_fault", message) from None

    def now(self) -> Any | None:
        """The module if it is there already."""
        module = self._module
        return module.result() if module and module.done() and not module.exception() else None

    async def close(self) -> None:
        """Close the connections that it keeps."""
        if module := self.now():
            await module.close_litellm_async_clients()


def _import(into: "Future[Any]") -> None:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a price list over the Internet
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it reads .env files
    try:
        module: Any = importlib.import_module("litellm")
    except Exception as error:
        logger.exception("litellm cannot be imported")
        into.set_exception(error)
        return
    module.telemetry = False
    module.suppress_debug_info = True
    module.turn_off_message_logging = True
    module.disable_streaming_logging = True
    module.drop_params = True
    module.modify_params = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # it logs requests, content included
        logging.getLogger(name).handlers.clear()
    into.set_result(module)


class LitellmProvider:
    """One provider of litellm's."""

    def __init__(self, name: str, entry: ProviderEntry, key: str | None, library: Litellm) -> None:
        self._name = name
        self._entry = entry
        self._key = key
        self._library = library
        self._refusals = Refusals(name, [*filter(None, [key]), *entry.headers.values()])

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Chunk, None]:
        """Ask, and translate what comes."""
        library = await self._library.get()
        began = False
        try:
            answer = await library.acompletion(**self._arguments(library, request))
            async with aclosing(answer):
                async for piece in answer:
                    chunk = read_piece(piece.model_dump(exclude_none=True))
                    if chunk.finished and not (answer.received_finish_reason or answer.intermittent_finish_reason):
                        raise UpstreamCut(f"the stream of {self._name} ended without a finish")
                    yield chunk
                    began = True
        except CallFailed:
            raise
        except Exception as error:  # noqa: BLE001  translated, all of them
            # litellm lets errors of many libraries through besides its own tree.
            raise self._failure(library, error, began) from None

    def window(self, model: str) -> int | None:
        """The window in litellm's own list."""
        told = self._info(self._library.now(), model).get("max_input_tokens")
        return told if isinstance(told, int) and told > 0 else None

    def price(self, model: str, usage: Usage) -> Price | None:
        """The price in litellm's own list."""
        info = self._info(self._library.now(), model)
        suffix = "_above_200k_tokens" if usage.prompt > LONG_CONTEXT else ""

        def per_million(name: str) -> float | None:
            value = info.get(f"{name}{suffix}") or info.get(name)
            return value * MILLION if isinstance(value, int | float) else None

        prompt, completion = per_million("input_cost_per_token"), per_million("output_cost_per_token")
        if prompt is None or completion is None:
            return None
        cached, write = per_million("cache_read_input_token_cost"), per_million("cache_creation_input_token_cost")
        return Price(prompt, completion, cached, write)

    def _info(self, library: Any | None, model: str) -> JsonObject:
        if library is None:
            return {}
        try:
            return dict(library.get_model_info(model, custom_llm_provider=self._entry.litellm_provider))
        except Exception:  # noqa: BLE001
            # It raises a bare Exception for a model that it does not list.
            logger.debug("litellm lists no model %s of %s", model, self._name)
            return {}

    def _arguments(self, library: Any, request: ChatRequest) -> JsonObject:
        entry = self._entry
        arguments = request.options | {
            "model": f"{entry.litellm_provider}/{request.model}",
            "messages": request.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "timeout": max(entry.timeout_seconds, entry.idle_timeout_seconds) + 5,
            "max_retries": 0,
            "num_retries": 0,
        }
        if entry.api_base:
            arguments["api_base"] = entry.api_base
        if self._key:
            arguments["api_key"] = self._key
        if entry.headers:
            arguments["extra_headers"] = dict(entry.headers)
        if request.thinking != "off":
            arguments["reasoning_effort"] = self._effort(library, request)
        return arguments

    def _effort(self, library: Any, request: ChatRequest) -> str:
        """The level to send: those above high only where the model is listed as knowing them."""
        if request.thinking not in ABOVE_HIGH:
            return request.thinking
        known = self._info(library, request.model).get(f"supports_{request.thinking}_reasoning_effort")
        return request.thinking if known else "high"

    def _failure(self, library: Any, error: Exception, began: bool) -> CallFailed:
        if began or isinstance(error, library.exceptions.MidStreamFallbackError):
            return UpstreamCut(f"the stream of {self._name} broke off ({type(error).__name__})")
        logger.info("litellm call failed", extra={"provider": self._name, "error": type(error).__name__})
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return self._refusals.unreachable(error)
        code, message = read_message(str(getattr(error, "message", "") or type(error).__name__))
        if isinstance(error, library.ContextWindowExceededError):
            code = "context_length_exceeded"
        headers = getattr(error, "litellm_response_headers", None) or {}
        return self._refusals.refused(status, code, message, headers.get("retry-after"))


def read_message(message: str) -> tuple[str, str]:
    """Code and message of a litellm error: the upstream's own where its body is quoted."""
    if payload := _PAYLOAD.search(message):
        try:
            code, said = error_fields(from_json(payload[0]))
        except ValueError:
            code, said = "", ""
        if said:
            return code, said
    return "", _NOISE.sub("", message)


def read_piece(piece: JsonObject) -> Chunk:
    """One of litellm's chunks in the plain OpenAI form, with nothing of litellm's own in it."""
    choices = [_choice(choice) for choice in piece.get("choices") or ()]
    finished = any(choice["finish_reason"] for choice in choices)
    raw = piece.get("usage")
    usage = read_usage(raw) if isinstance(raw, dict) else None
    if not finished and not any(choice["delta"] for choice in choices):
        return Chunk(b"", usage=usage)
    kept = {name: piece.get(name) for name in ("id", "object", "created", "model")}
    return Chunk(to_json(kept | {"choices": choices}), finished, usage)


def _choice(choice: JsonObject) -> JsonObject:
    delta = choice.get("delta") or {}
    kept = {name: delta[name] for name in DELTA_FIELDS if delta.get(name) is not None}
    if calls := delta.get("tool_calls"):
        kept["tool_calls"] = [{k: v for k, v in call.items() if k in CALL_FIELDS} for call in calls]
    return {"index": choice.get("index", 0), "delta": kept, "finish_reason": choice.get("finish_reason")}

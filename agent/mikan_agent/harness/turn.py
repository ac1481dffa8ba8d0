"""The turn loop: ask the model, run the tools it asks for, ask again, until it has answered.

Owns retries and the order of what is recorded. How a run begins and what is said at its end is `harness.runner`'s.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from mikan_agent.backoff import Backoff
from mikan_agent.clock import Clock, unix_ms
from mikan_agent.exceptions import ModelError
from mikan_agent.harness.budgets import Spending
from mikan_agent.harness.completion import Completion
from mikan_agent.harness.models_client import ModelCall, ModelClient
from mikan_agent.harness.responder import Responder
from mikan_agent.harness.settle import settled
from mikan_agent.harness.toolbox import Toolbox
from mikan_agent.harness.transcript import Transcript, encode
from mikan_agent.messages import AssistantMessage, StopReason
from mikan_agent.sessions.session import Session
from mikan_agent.tools.tool import ToolContext
from mikan_api.kill_points import Step, around
from mikan_api.settings import Llm


@dataclass(frozen=True, slots=True)
class Retries:
    """When a model call that failed is made again."""

    count: int = 6
    """All of them take 16 to 32 s: a models process whose only pod is replaced is there again within that."""
    backoff: Backoff = field(default_factory=lambda: Backoff(0.5, 20.0))
    longest: float = 60.0
    """Seconds; a server that asks for a longer wait gets none."""

    def wait(self, error: ModelError, attempt: int) -> float | None:
        """Seconds until retry ``attempt`` (from 0); ``None``: there is none."""
        asked = error.retry_after or 0.0
        if not error.transient or attempt >= self.count or asked > self.longest:
            return None
        return max(self.backoff.delay(attempt), asked)


class Turn:
    """The work of one run between its message and its answer."""

    def __init__(
        self,
        *,
        session: Session,
        transcript: Transcript,
        models: ModelClient,
        toolbox: Toolbox,
        clock: Clock,
        retries: Retries,
        responder: Responder,
        spending: Spending,
        llm: Llm,
        system: str,
        context: Callable[[], ToolContext],
        interrupted: Callable[[], bool],
    ) -> None:
        self._session, self._transcript, self._models, self._toolbox = session, transcript, models, toolbox
        self._clock, self._retries, self._responder = clock, retries, responder
        self._spending, self._llm, self._context = spending, llm, context
        self._system = encode({"role": "system", "content": system})
        self._interrupted = interrupted
        self._open: Completion | None = None
        self.used_tools = False

    async def run(self) -> AssistantMessage:
        """Work until the model has answered; returns its last message.

        Raises:
            ModelError, BudgetExceeded, StorageError
        """
        while True:
            self._spending.begin_call()
            completion = await self._ask()
            message = completion.message()
            await settled(self._session.append_message(message))
            self._open = None
            self._responder.text.seal()
            self._check()
            if not message.tool_calls:
                return message
            for call in message.tool_calls:
                self.used_tools = True
                fault = completion.faults.get(call.id)
                result = await self._toolbox.run(call, fault, self._context, self._responder)
                await settled(self._session.append_message(result))
                self._check()

    def _check(self) -> None:
        """A cancellation that some library swallowed still ends the run."""
        if self._interrupted():
            raise asyncio.CancelledError

    async def seal(self, stop_reason: StopReason, error: str = "") -> None:
        """Make the session one that any model accepts, after a cut at whatever point: what was said stays."""
        if self._open is not None:
            message = self._open.message(stop_reason, error or None)
            self._open = None
            if message.content:
                await self._session.append_message(message)
        await self._session.repair()
        await self._session.sync()

    async def _ask(self) -> Completion:
        messages = [self._system, *self._transcript.encoded()]
        call = ModelCall(self._llm, messages, self._toolbox.schemas)
        attempt = 0
        while True:
            completion = Completion(self._llm.model, self._responder.stream, unix_ms(self._clock))
            self._open = completion
            try:
                with around(Step.MODEL_CALL):
                    await self._models.stream(call, completion)
            except ModelError as error:
                wait = self._retries.wait(error, attempt)
                if wait is None:
                    raise
            else:
                return completion
            finally:
                self._spending.add(completion.usage)
            await self._pause(wait)
            attempt += 1
            self._spending.begin_call()

    async def _pause(self, seconds: float) -> None:
        """Wait before a repeat. What was shown stays; the repeat continues it where it says the same."""
        self._responder.text.discard()
        self._open = None
        await self._responder.working(f"the model did not answer; trying again in {seconds:.0f} s")
        await self._clock.sleep(seconds)
        await self._responder.working("")

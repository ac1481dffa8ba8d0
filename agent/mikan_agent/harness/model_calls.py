"""The model calls of one run: counted against its budget, and made again where that may help."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mikan_agent.backoff import Backoff
from mikan_agent.clock import Clock, unix_ms
from mikan_agent.exceptions import ModelError
from mikan_agent.harness.budgets import Spending
from mikan_agent.harness.completion import Completion
from mikan_agent.harness.models_client import ModelCall, ModelClient
from mikan_agent.harness.responder import Responder
from mikan_agent.harness.transcript import encode
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


class ModelCalls:
    """Makes them."""

    def __init__(
        self,
        models: ModelClient,
        llm: Llm,
        spending: Spending,
        retries: Retries,
        clock: Clock,
        responder: Responder,
    ) -> None:
        self._models, self._spending, self._retries = models, spending, retries
        self._clock, self._responder = clock, responder
        self.llm = llm

    async def make(
        self, call: ModelCall, begin: Callable[[], Completion], abandon: Callable[[], None] | None = None
    ) -> Completion:
        """Ask until there is an answer. ``begin`` makes what an attempt is fed into; ``abandon`` hears that one failed
        and that another follows.

        Raises:
            ModelError, BudgetExceeded
        """
        attempt = 0
        while True:
            self._spending.begin_call()
            completion = begin()
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
            if abandon is not None:
                abandon()
            await self._pause(wait)
            attempt += 1

    async def say(self, prompt: str, system: str = "") -> str:
        """What the model answers to a prompt alone, without tools; nothing of it is shown.

        Raises:
            ModelError, BudgetExceeded
        """
        messages = [encode({"role": "system", "content": system})] if system else []
        call = ModelCall(self.llm, [*messages, encode({"role": "user", "content": prompt})], [])
        completion = await self.make(call, lambda: self.completion(lambda _: None))
        return completion.message().text

    def completion(self, on_text: Callable[[str], None]) -> Completion:
        """An answer that is about to come."""
        return Completion(self.llm.model, on_text, unix_ms(self._clock))

    async def window(self) -> int:
        """The model's context window in tokens, as far as anybody knows."""
        return await self._models.window(self.llm.model)

    async def _pause(self, seconds: float) -> None:
        await self._responder.working(f"the model did not answer; trying again in {seconds:.0f} s")
        await self._clock.sleep(seconds)
        await self._responder.working("")

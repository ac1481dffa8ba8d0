"""The turn loop: ask the model, run the tools it asks for, ask again, until it has answered.

Owns the order of what is recorded, and when a session is compacted. How a run begins and what is said at its end is
`harness.runner`'s; how a model call is repeated is `harness.model_calls`'.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from mikan_agent.exceptions import ContextOverflow, ModelRequestRefused
from mikan_agent.harness.compaction import CHARACTERS_PER_TOKEN, KEPT, Limits
from mikan_agent.harness.compactor import Compactor, Reason
from mikan_agent.harness.completion import Completion
from mikan_agent.harness.hooks import Hooks, Origin, ToolResult
from mikan_agent.harness.loop_guard import LoopGuard
from mikan_agent.harness.model_calls import ModelCalls
from mikan_agent.harness.models_client import ModelCall
from mikan_agent.harness.responder import Responder
from mikan_agent.harness.settle import settled
from mikan_agent.harness.toolbox import Toolbox
from mikan_agent.harness.transcript import Transcript, encode
from mikan_agent.messages import AssistantMessage, StopReason, ToolCall, ToolResultMessage
from mikan_agent.sessions.session import Session
from mikan_agent.tools.tool import ToolContext

MAX_PARALLEL = 4
"""Tool calls that run at once."""


class Turn:
    """The work of one run between its message and its answer."""

    def __init__(
        self,
        *,
        session: Session,
        transcript: Transcript,
        calls: ModelCalls,
        toolbox: Toolbox,
        hooks: Hooks,
        origin: Origin,
        responder: Responder,
        system: str,
        context: Callable[[], ToolContext],
        interrupted: Callable[[], bool],
    ) -> None:
        self._session, self._transcript, self._calls, self._toolbox = session, transcript, calls, toolbox
        self._hooks, self._origin, self._responder, self._context = hooks, origin, responder, context
        self._system = encode({"role": "system", "content": system})
        self._overhead = (len(self._system) + toolbox.size) // CHARACTERS_PER_TOKEN
        self._interrupted = interrupted
        self._guard = LoopGuard()
        self._open: Completion | None = None
        self.used_tools = False

    async def run(self) -> AssistantMessage:
        """Work until the model has answered; returns its last message.

        Raises:
            ModelError, BudgetExceeded, RunawayLoop, StorageError
        """
        while True:
            completion = await self._ask()
            message = completion.message()
            await settled(self._record_answer(message))
            self._responder.text.seal()
            self._check()
            await self._hooks.message_end(message, self._origin)
            results = await self._run_tools(message, completion)
            await self._hooks.turn_end(message, results, self._origin)
            if not message.tool_calls:
                return message

    async def _record_answer(self, message: AssistantMessage) -> None:
        await self._session.append_message(message)
        self._open = None  # in one with the append, which a cut does not part: else `seal` would record it again

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
        messages = self._encoded()
        tokens = self._transcript.tally.of_call(self._overhead)
        # No model has a window that such a call would not fit in, so that short sessions need not ask for it.
        if tokens > KEPT and tokens > (limits := Limits(await self._calls.window())).most:
            await self._compact("threshold", tokens, limits)
            messages = self._encoded()
        try:
            return await self._shown(messages)
        except ContextOverflow:
            tokens = self._transcript.tally.of_call(self._overhead)
            await self._compact("overflow", tokens, Limits(await self._calls.window()))
        return await self._shown(self._encoded())

    def _encoded(self) -> Sequence[bytes]:
        return self._transcript.encoded(self._calls.llm.model)

    async def _shown(self, messages: Sequence[bytes]) -> Completion:
        """Ask; once more without pictures, where there are some and the request is refused.

        A model may read none at all, or not this one: a session that has it would be refused for ever.
        """
        model, transcript = self._calls.llm.model, self._transcript
        try:
            return await self._stream(messages)
        except ModelRequestRefused as refusal:
            if not transcript.has_pictures:
                raise
            reason = str(refusal)
        self._abandon()
        transcript.show_pictures(model, False)
        try:
            completion = await self._stream(self._encoded())
        except BaseException:
            transcript.show_pictures(model, True)  # they were not the reason, as far as is known
            raise
        await self._responder.warn_once(f"{model} goes on without the pictures of this conversation: {reason}")
        return completion

    async def _stream(self, messages: Sequence[bytes]) -> Completion:
        call = ModelCall(self._calls.llm, [self._system, *messages], self._toolbox.schemas)
        return await self._calls.make(call, self._begin, self._abandon)

    def _begin(self) -> Completion:
        self._open = self._calls.completion(self._responder.stream)
        return self._open

    def _abandon(self) -> None:
        """Before a repeat. What was shown stays; the repeat continues it where it says the same."""
        self._responder.text.discard()
        self._open = None

    async def _compact(self, reason: Reason, tokens: int, limits: Limits) -> None:
        self._abandon()
        try:
            await Compactor(self._session, self._summarise).compact(tokens, limits, reason)
        finally:
            await self._responder.working("")
        await self._hooks.session_compact(reason, tokens)

    async def _summarise(self, prompt: str) -> str:
        await self._responder.working("the conversation is long; summarising its older part")
        return await self._calls.say(prompt)

    async def _run_tools(self, message: AssistantMessage, completion: Completion) -> list[ToolResultMessage]:
        """Run the calls of an answer and record each result, in the order of the calls."""
        results: list[ToolResultMessage] = []
        for group in _groups(message.tool_calls, self._toolbox.parallel):
            self.used_tools = True
            before = len(results)
            work = [asyncio.create_task(self._call(call, completion.faults.get(call.id))) for call in group]
            try:
                for task in work:
                    results.append(await task)
                    await settled(self._session.append_message(results[-1]))
                    self._check()
                    await self._hooks.message_end(results[-1], self._origin)
            finally:
                for task in work:
                    task.cancel()
                given = await asyncio.gather(*work, return_exceptions=True)
                # Of a cut turn: what calls gave that were over before it, beside one that was not.
                for result in given[len(results) - before :]:
                    if isinstance(result, ToolResultMessage):
                        await self._session.append_message(result)
        return results

    async def _call(self, call: ToolCall, fault: str | None) -> ToolResultMessage:
        refusal = self._guard.refusal(call)
        if refusal is None and (blocked := await self._hooks.tool_call(call, self._origin)) is not None:
            refusal = blocked.reason
        if refusal is not None:
            result = await self._toolbox.refuse(call, refusal, self._responder)
        else:
            result = await self._toolbox.run(call, fault, self._context, self._responder)
        self._guard.note(call, result.is_error)
        seen = await self._hooks.tool_result(
            ToolResult(call, result.content, result.is_error, result.details), self._origin
        )
        changed = {"content": list(seen.content), "is_error": seen.is_error, "details": seen.details}
        return result.model_copy(update=changed)


def _groups(calls: Sequence[ToolCall], parallel: Callable[[ToolCall], bool]) -> Iterator[list[ToolCall]]:
    """Calls in order; neighbours that may run at the same time together."""
    group: list[ToolCall] = []
    for call in calls:
        if group and (len(group) == MAX_PARALLEL or not parallel(call) or not parallel(group[-1])):
            yield group
            group = []
        group.append(call)
    if group:
        yield group

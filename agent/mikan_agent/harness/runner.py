"""A session's runs, one at a time: begin durably, work, seal the session, say how it ended.

The order that a crash at any point must not break: the message is durable in the session, then `RunStarted`; what model
and tools say is recorded as it completes; `Respond` with the whole answer; the session is sealed, then `RunFinished`
(which the runtime sends).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mikan_agent.clock import Clock, unix_ms
from mikan_agent.confined import ConfinedDirectory
from mikan_agent.exceptions import BudgetExceeded, ModelError, RunawayLoop
from mikan_agent.harness import faults
from mikan_agent.harness.budgets import Spending
from mikan_agent.harness.hooks import Blocked, Hooks, NoHooks, Origin, Start
from mikan_agent.harness.model_calls import ModelCalls, Retries
from mikan_agent.harness.models_client import ModelClient
from mikan_agent.harness.prompt import MAX_USERS, SILENT, Memory, Surroundings, build_system_prompt
from mikan_agent.harness.settle import settled
from mikan_agent.harness.steady_time import SteadyTime
from mikan_agent.harness.toolbox import Toolbox
from mikan_agent.harness.transcript import Transcript
from mikan_agent.harness.turn import Turn
from mikan_agent.harness.user_message import build_user_message
from mikan_agent.messages import AssistantMessage, ImageContent
from mikan_agent.records.log import PlatformLog
from mikan_agent.run import ActiveRun, Cut, Phase
from mikan_agent.sandbox import Sandbox
from mikan_agent.sessions.chat_history import catch_up, keep_out
from mikan_agent.sessions.form import Mark
from mikan_agent.sessions.model_choice import note_model
from mikan_agent.sessions.session import Session
from mikan_agent.skills.place import Place
from mikan_agent.skills.skill import SkillIndex
from mikan_agent.subagents.subagents import Parent, Subagents
from mikan_agent.tools.tool import Delegate, ToolContext, Uploads
from mikan_api.layout import Office
from mikan_api.messaging import Attachment, Author
from mikan_api.responder import MAX_TEXT, DeleteResponse, ReplaceResponse, RunFinished, RunOutcome, RunStarted
from mikan_api.session_keys import SessionKey
from mikan_api.settings import DoorPolicy
from mikan_api.wire import RunRequest

if TYPE_CHECKING:
    from mikan_agent.extensions.loader import LoadedExtensions
    from mikan_agent.extensions.office import RunnerExtensions

logger = logging.getLogger(__name__)


class Memories(Protocol):
    """Reads what the agent has noted for itself."""

    async def read(self, policy: DoorPolicy) -> Sequence[Memory]:
        """Each MEMORY.md that the policy lets this office see, bounded; a file that cannot be read is left out."""


class Skills(Protocol):
    """Knows what skills there are."""

    async def index(self, policy: DoorPolicy, packages: Sequence[Place] = ()) -> SkillIndex:
        """Each skill that the policy lets this office see, and which cannot be used."""


class Files(Protocol):
    """Where attachments are, and which could not be fetched."""

    def failures(self) -> dict[str, str]:
        """Attachment id -> why it is not there."""

    async def pictures(self, attachments: Sequence[Attachment]) -> dict[str, ImageContent]:
        """Attachment id -> the picture, of those that a model can be shown."""


class UploadsFor(Protocol):
    """Makes the port by which one run sends files."""

    def __call__(self, run: ActiveRun) -> Uploads: ...


@dataclass(frozen=True, slots=True)
class Services:
    """What every runner of this process shares."""

    office: Office
    models: ModelClient
    toolbox: Toolbox
    subagents: Subagents
    sandbox: Sandbox
    memories: Memories
    skills: Skills
    files: Files
    log: PlatformLog
    uploads: UploadsFor
    clock: Clock
    retries: Retries


class SessionRunner:
    """Runs for one session. The caller sees to it that there is one at a time."""

    def __init__(
        self, key: SessionKey, session: Session, services: Services, extensions: "RunnerExtensions | None" = None
    ) -> None:
        self._key, self._session, self._services = key, session, services
        self._extensions = extensions
        self._loaded: LoadedExtensions | None = None
        self._hooks: Hooks = NoHooks()
        self._toolbox = services.toolbox
        self._transcript = Transcript(session)
        self._time = SteadyTime()
        self._people: dict[str, Author] = {}

    async def run(self, run: ActiveRun) -> RunFinished:
        """Carry out a run to its end, whatever happens; says everything but the `RunFinished` that it returns.

        Raises:
            CancelledError: cancelled by somebody other than `ActiveRun.cut_short`.
        """
        return await (self._told_as_cut(run) if self._went_on(run) else self._carry_out(run))

    async def _carry_out(self, run: ActiveRun) -> RunFinished:
        spending = Spending(run.request.budgets)
        turn: Turn | None = None
        try:
            async with self._deadline(run, spending.seconds):
                if await self._commanded(run, spending):
                    return RunFinished(outcome=RunOutcome.COMPLETED, detail="a command of an extension")
                start = await self._hooks.before_agent_start(await self._start(run))
                if isinstance(start, Blocked):
                    return await self._blocked(run, start.reason)
                await self._begin(run, start.prompt)
                if fault := self._services.sandbox.fault:
                    return await self._failed(run, None, spending, fault)
                self._services.sandbox.warm()
                turn = self._turn(run, start.system_prompt, spending)
                message = await turn.run()
                run.phase = Phase.ENDING
            await self._answer(run, message, turn)
            await self._session.sync()
            return RunFinished(outcome=RunOutcome.COMPLETED, usage=spending.usage)
        except asyncio.CancelledError:
            if run.cut is None and _is_cancelled():
                raise
            return await self._cancelled(run, turn, spending)
        except BudgetExceeded as error:
            return await self._over_budget(run, turn, spending, error)
        except RunawayLoop as error:
            return await self._failed(run, turn, spending, faults.RUNAWAY.format(error))
        except ModelError as error:
            logger.warning("model call failed", extra={"run": run.run_id, "reason": str(error)})
            return await self._failed(run, turn, spending, faults.model_fault(error, run.request.llm.model))
        except Exception as error:
            logger.exception("run failed", extra={"run": run.run_id})
            if faults.is_storage_fault(error):
                return await self._failed(run, turn, spending, faults.storage_fault(error))
            return await self._failed(run, turn, spending, faults.INTERNAL)
        finally:
            if self._extensions is not None:
                self._extensions.end()

    async def _cancelled(self, run: ActiveRun, turn: Turn | None, spending: Spending) -> RunFinished:
        if run.cut is not None:
            _uncancel()
            return await self._cut(run, turn, spending)
        # Something that the run waited for was cancelled, and not the run: it must end, and be seen to.
        logger.exception("run failed", extra={"run": run.run_id})
        return await self._failed(run, turn, spending, faults.INTERNAL)

    async def close(self) -> None:
        """Let go of the session file and the extensions."""
        try:
            if self._extensions is not None:
                await self._extensions.close()
        finally:
            await self._session.close()

    def _went_on(self, run: ActiveRun) -> bool:
        """Whether an earlier process, which has died, did more of a run than record its message."""
        leaf = self._session.leaf
        mark = None if leaf is None or leaf.mark is not None else leaf.last_mark
        return mark is not None and mark.run == run.run_id

    async def _told_as_cut(self, run: ActiveRun) -> RunFinished:
        """Have the gateway say that a run was cut off, of which it never heard that it began.

        Its tools may have run, and doing that again could do harm twice. What is handed back after its start is not
        delivered again.
        """
        run.phase = Phase.ENDING
        await self._session.repair()
        await self._session.sync()
        await run.responder.emit(RunStarted())
        return RunFinished(outcome=RunOutcome.HANDED_BACK)

    async def _commanded(self, run: ActiveRun, spending: Spending) -> bool:
        """Have the extensions there. Whether a command of theirs is all that was asked, and has been answered."""
        if self._extensions is None:
            return False
        loaded = await self._extensions.begin(run.request.llm, self._delegate(run, spending))
        if loaded is not self._loaded:
            self._loaded, self._hooks = loaded, loaded.hooks
            self._toolbox = self._services.toolbox.with_more(loaded.tools)
        return run.request.kind == "message" and await self._command(run, loaded)

    async def _command(self, run: ActiveRun, loaded: "LoadedExtensions") -> bool:
        said: list[str] = []

        async def respond(text: str) -> None:
            said.append(text)
            if len(said) == 1:
                await run.responder.respond(text)
            else:
                await run.responder.emit(ReplaceResponse(text="\n\n".join(said)[:MAX_TEXT]))

        if not await loaded.commands.dispatch(run.request.event.message.text, _origin(run), respond):
            return False
        run.phase = Phase.ENDING
        await settled(keep_out(self._session, run.request.log_number))
        if not said:
            await run.responder.emit(DeleteResponse())
        return True

    @asynccontextmanager
    async def _deadline(self, run: ActiveRun, seconds: float | None) -> AsyncIterator[None]:
        async def watch(limit: float) -> None:
            await self._services.clock.sleep(limit)
            run.cut_short(Cut.OUT_OF_TIME)

        watching = None if seconds is None else asyncio.create_task(watch(seconds))
        try:
            yield
        finally:
            if watching is not None:
                watching.cancel()

    async def _start(self, run: ActiveRun) -> Start:
        services, request = self._services, run.request
        surroundings = Surroundings(
            info=request.info,
            kind=request.event.conversation_kind,
            scheduled=request.kind == "scheduled",
            office=services.office.directory,
            history=services.office.history,
            now=self._time.tell(services.clock.now()),
            memories=await services.memories.read(request.door_policy),
            skills=await services.skills.index(request.door_policy, self._packages()),
            people=self._met(request.info.users),
        )
        return Start(build_system_prompt(surroundings), request.event.message.text, _origin(run))

    def _packages(self) -> list[Place]:
        brought = self._loaded.skills if self._loaded is not None else ()
        return [Place(ConfinedDirectory(one.directory), one.shown) for one in brought]

    def _met(self, users: Sequence[Author]) -> list[Author]:
        """Everybody who was named since this session was opened: a platform may name only who writes."""
        for user in users:
            self._people[user.id] = user
        return list(self._people.values())[-MAX_USERS:]

    async def _begin(self, run: ActiveRun, prompt: str) -> None:
        """Record the message, then tell that the run has started."""
        await self._session.repair()
        if run.request.kind == "scheduled":
            run.responder.text.hold(SILENT)
        run.phase = Phase.BEGUN
        mark = self._session.last_mark
        if mark is None or mark.run != run.run_id:  # else an earlier process recorded it, and died
            await settled(self._record(run.request, prompt))
        await settled(run.responder.emit(RunStarted()))

    async def _record(self, request: RunRequest, prompt: str) -> None:
        services, session = self._services, self._session
        before = request.log_number - (request.kind == "message")
        await catch_up(session, self._key, services.log, before, services.clock.now())
        await note_model(session, request.llm)
        message = build_user_message(
            _worded(request, prompt),
            services.office.attachments,
            unix_ms(services.clock),
            failed=services.files.failures(),
            pictures=await services.files.pictures(request.event.message.attachments),
        )
        known = max(request.log_number, session.known_log or 0)
        await session.append_message(message, Mark(request.run_id, known, request.kind == "scheduled"))

    async def _blocked(self, run: ActiveRun, reason: str) -> RunFinished:
        run.phase = Phase.ENDING
        logger.info("run blocked by an extension", extra={"run": run.run_id})
        # Else it would be told with what was written meanwhile.
        await settled(keep_out(self._session, run.request.log_number))
        await run.responder.diagnostic(reason, "warning")
        return RunFinished(outcome=RunOutcome.COMPLETED, detail="blocked by an extension")

    def _turn(self, run: ActiveRun, system: str, spending: Spending) -> Turn:
        services = self._services
        return Turn(
            session=self._session,
            transcript=self._transcript,
            calls=ModelCalls(
                services.models, run.request.llm, spending, services.retries, services.clock, run.responder
            ),
            toolbox=self._toolbox,
            hooks=self._hooks,
            origin=_origin(run),
            responder=run.responder,
            system=system,
            context=lambda: self._tool_context(run, spending),
            interrupted=lambda: run.cut is not None,
        )

    def _tool_context(self, run: ActiveRun, spending: Spending) -> ToolContext:
        return ToolContext(
            executor=self._services.sandbox.executor,
            directory=self._services.office.directory,
            uploads=self._services.uploads(run),
            can_upload=run.request.info.can_upload,
            delegate=self._delegate(run, spending),
        )

    def _delegate(self, run: ActiveRun, spending: Spending) -> Delegate:
        parent = Parent(
            llm=run.request.llm,
            spending=spending,
            toolbox=self._toolbox,
            hooks=self._hooks,
            origin=_origin(run),
            context=lambda: self._tool_context(run, spending),
            interrupted=lambda: run.cut is not None,
        )
        return lambda request, progress: self._services.subagents.run(request, parent, progress)

    async def _answer(self, run: ActiveRun, message: AssistantMessage, turn: Turn) -> None:
        run.responder.stop_streaming()
        text = run.responder.text.whole
        # What was said before tool calls was on the way; the answer is the last message.
        if run.request.kind == "scheduled" and message.text.strip() == SILENT:
            await run.responder.emit(DeleteResponse())
        elif text.strip():
            await run.responder.respond(text)
        else:
            await run.responder.emit(DeleteResponse())
            if not turn.used_tools:
                await run.responder.diagnostic("The model gave an empty answer. Write again, or choose another model.")
        if message.stop_reason == "length":
            await run.responder.diagnostic("The answer was cut at the model's output limit. Ask it to go on.", "info")

    async def _cut(self, run: ActiveRun, turn: Turn | None, spending: Spending) -> RunFinished:
        if run.phase is Phase.WAITING and run.cut in {Cut.HANDED_BACK, Cut.PROCESS_ENDS}:
            return RunFinished(outcome=RunOutcome.HANDED_BACK)
        await self._seal(run, turn, "aborted", "")
        await self._keep_text(run)
        if run.cut is Cut.OUT_OF_TIME:
            limit = f"duration: {run.request.budgets.duration} allowed"
            await run.responder.diagnostic(faults.budget_fault(BudgetExceeded(limit)))
            await self._hooks.budget_exceeded(limit, spending.usage, _origin(run))
            return RunFinished(outcome=RunOutcome.BUDGET_EXCEEDED, usage=spending.usage, detail=limit)
        if run.cut is Cut.PROCESS_ENDS:
            await run.responder.diagnostic(faults.PROCESS_ENDS)
            return RunFinished(outcome=RunOutcome.FAILED, usage=spending.usage, detail="the agent process was ended")
        return RunFinished(outcome=RunOutcome.STOPPED, usage=spending.usage)

    async def _over_budget(
        self, run: ActiveRun, turn: Turn | None, spending: Spending, error: BudgetExceeded
    ) -> RunFinished:
        run.phase = Phase.ENDING
        await self._seal(run, turn, "aborted", str(error))
        await self._keep_text(run)
        await run.responder.diagnostic(faults.budget_fault(error))
        await self._hooks.budget_exceeded(str(error), spending.usage, _origin(run))
        return RunFinished(outcome=RunOutcome.BUDGET_EXCEEDED, usage=spending.usage, detail=str(error))

    async def _failed(self, run: ActiveRun, turn: Turn | None, spending: Spending, fault: str) -> RunFinished:
        run.phase = Phase.ENDING
        await self._seal(run, turn, "error", fault)
        await self._keep_text(run)
        await run.responder.diagnostic(fault)
        await self._hooks.agent_error(fault, _origin(run))
        return RunFinished(outcome=RunOutcome.FAILED, usage=spending.usage, detail=fault[:2000])

    async def _seal(self, run: ActiveRun, turn: Turn | None, stop_reason: str, error: str) -> None:
        run.phase = Phase.ENDING
        run.responder.stop_streaming()
        if turn is None:
            return
        try:
            await turn.seal("error" if stop_reason == "error" else "aborted", error)
        except Exception:
            # What is missing now is repaired when the session is next used; the conversation must hear of the end.
            logger.exception("the session could not be sealed", extra={"run": run.run_id})

    async def _keep_text(self, run: ActiveRun) -> None:
        """What people saw of the answer stays."""
        if text := run.responder.text.whole.strip():
            await run.responder.respond(text)


def _origin(run: ActiveRun) -> Origin:
    event = run.request.event
    if run.request.kind == "scheduled":
        return Origin("event", event.platform.value)
    message = event.message
    return Origin(
        kind="interactive",
        platform=event.platform.value,
        message_id=message.id,
        user_id=message.author.id,
        user_name=message.author.user_name,
        thread_id=message.thread_id,
        attachments=message.attachments,
    )


def _worded(request: RunRequest, prompt: str) -> RunRequest:
    """The request with the words that hooks made of it."""
    event = request.event
    if prompt == event.message.text:
        return request
    message = event.message.model_copy(update={"text": prompt})
    return request.model_copy(update={"event": event.model_copy(update={"message": message})})


def _is_cancelled() -> bool:
    """Whether somebody cancels this task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _uncancel() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()

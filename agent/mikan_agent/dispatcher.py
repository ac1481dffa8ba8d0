"""What each of the gateway's frames means for this process."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from mikan_agent.answer_text import AnswerText
from mikan_agent.config import Config
from mikan_agent.exceptions import AgentError
from mikan_agent.gateway_requests import GatewayRequests
from mikan_agent.logbook import Logbook
from mikan_agent.outbox import Outbox
from mikan_agent.runtime import Runtime
from mikan_agent.sessions.store import SessionStore
from mikan_api.base import OpenModel
from mikan_api.kill_points import Step, around
from mikan_api.responder import RunFinished
from mikan_api.wire import Ack, Answer, Drain, Hello, LogBatch, LogWritten, Query, Reply, Reset, Run, Stop

logger = logging.getLogger(__name__)

_REMEMBERED = 200


class Dispatcher:
    """Routes frames; keeps the answers that were given, so that a question asked again gets the same one."""

    def __init__(
        self,
        config: Config,
        incarnation: str,
        outbox: Outbox,
        logbook: Logbook,
        runtime: Runtime,
        store: SessionStore,
        requests: GatewayRequests,
        send: Callable[[OpenModel], None],
        drain: Callable[[], None],
    ) -> None:
        self._config, self._incarnation, self._outbox = config, incarnation, outbox
        self._logbook, self._runtime, self._store, self._requests = logbook, runtime, store, requests
        self._send, self._drain = send, drain
        self._answers: OrderedDict[str, Answer | None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def hello(self) -> Hello:
        """Who we are and what we have."""
        return Hello(
            pod_name=self._config.pod_name,
            pod_uid=self._config.pod_uid,
            incarnation=self._incarnation,
            log_number=self._logbook.last_number,
            runs=self._runtime.run_ids,
        )

    def news(self) -> list[OpenModel]:
        """How far the log is, which may have been written since the hello, and requests without a reply."""
        number = self._logbook.last_number
        return [*([LogWritten(number=number)] if number else []), *self._requests.pending()]

    def texts(self) -> list[AnswerText]:
        """The answers that are streaming now."""
        return self._runtime.texts()

    async def acknowledged(self, number: int) -> None:
        """Operations up to ``number`` are durable; a run whose end is among them is forgotten."""
        with around(Step.OPERATION_FORGET):
            for operation in await self._outbox.acknowledge(number):
                if isinstance(operation.operation, RunFinished):
                    self._runtime.ended(operation.run_id, operation.operation.outcome)

    async def receive(self, frame: OpenModel) -> None:
        """Do what a frame says."""
        match frame:
            case Ack():
                await self.acknowledged(frame.number)
            case Run():
                with around(Step.RUN_TAKE):
                    self._runtime.deliver(frame.run)
            case Stop():
                self._runtime.stop(frame.run_id)
            case LogBatch():
                await self._take_log(frame)
            case Reset():
                self._answer(frame.id, lambda: self._reset(frame))
            case Query():
                self._answer(frame.id, self._sessions)
            case Reply():
                self._requests.replied(frame)
            case Drain():
                self._drain()
            case _:
                logger.warning("frame of no use here", extra={"type": getattr(frame, "type", "")})

    async def _take_log(self, frame: LogBatch) -> None:
        if frame.entries and frame.entries[-1].number <= self._logbook.last_number:
            self._send(LogWritten(number=self._logbook.last_number))
        else:
            await self._logbook.add(frame)

    def _answer(self, question: str, work: Callable[[], Coroutine[Any, Any, dict[str, object]]]) -> None:
        if question in self._answers:
            given = self._answers[question]
            if given is not None:
                self._send(given)
            return
        self._answers[question] = None
        while len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        task = asyncio.create_task(self._work_out(question, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_out(self, question: str, work: Callable[[], Coroutine[Any, Any, dict[str, object]]]) -> None:
        try:
            answer = Answer(id=question, result=await work())
        except AgentError as error:
            answer = Answer(id=question, error=str(error))
        except Exception:
            logger.exception("a question could not be answered")
            answer = Answer(id=question, error="internal error; the agent's log has it")
        self._answers[question] = answer
        self._send(answer)

    async def _reset(self, frame: Reset) -> dict[str, object]:
        with around(Step.SESSION_RESET):
            return {"file": await self._runtime.reset(frame.session_key, frame.log_number)}

    async def _sessions(self) -> dict[str, object]:
        files = await self._store.files()
        return {
            "running": list(self._runtime.running),
            "sessions": [
                {
                    "file": file.name,
                    "id": file.header.id,
                    "timestamp": file.header.timestamp,
                    "size": file.size,
                    "current": file.is_current,
                }
                for file in files
            ],
        }

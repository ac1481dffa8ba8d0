"""Messages on the WebSocket between an agent and the gateway (architecture section 5).

The agent dials ``/agent/v1/offices/<office key>`` with its office token and says `Hello`. Text frames, one JSON object
each, told apart by ``type``. Nothing depends on a connection's life; both sides resume by identities that are durable:

* **Runs** are known by ``run_id``. After a `Hello` the gateway delivers again every run that the agent does not name
  and that has not started; the agent ignores one it knows. A run that another incarnation had started is cut off: it is
  reported once in the conversation and never delivered again.
* **Operations** are numbered from 1 by each agent process (``incarnation``). The gateway commits, then sends `Ack`
  (cumulative); the agent keeps what is not acknowledged and sends it again after a cut. Numbers already seen are
  ignored; a gap closes the connection.
* **Log** entries carry the office's own numbers. The agent says the last one it has written; the gateway sends what
  follows, and never a run before the log entries it builds on.
* **Deltas** of streamed text are not numbered and may be lost: each says at which offset of the run's text it goes.

Bytes go by HTTP beside the socket, with the same token: ``GET …/attachments/<id>`` and ``PUT …/blobs/<id>``.
Unknown fields are ignored and unknown types refused, so that either side can be upgraded first.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from mikan_api.base import OpenModel
from mikan_api.exceptions import InvalidValue
from mikan_api.messaging import ConversationEvent, LogEntry, MessagingInfo
from mikan_api.responder import ResponderOperation
from mikan_api.session_keys import SessionKey
from mikan_api.settings import Budgets, DoorPolicy, Llm

PROTOCOL = 1
MAX_FRAME = 4 * 1024 * 1024
"""Bytes of one frame; a longer one closes the connection."""
MAX_LOG_BATCH = 200
"""Entries of one log batch."""
MAX_REQUESTS = 16
"""Requests of an agent that may be unanswered; the gateway refuses more."""


class Hello(OpenModel):
    """First frame of an agent."""

    type: Literal["hello"] = "hello"
    protocol: int = PROTOCOL
    version: str = ""
    pod_name: str
    pod_uid: str
    incarnation: str
    """Random, one per agent process: operation numbers start anew with it."""
    log_number: int = 0
    """Number of the last log entry on disk; 0 = none."""
    runs: tuple[str, ...] = ()
    """Every run this process knows and has not had its end acknowledged for."""


class Operation(OpenModel):
    """A numbered responder operation of a run."""

    type: Literal["operation"] = "operation"
    number: Annotated[int, Field(ge=1)]
    run_id: str
    operation: ResponderOperation


class Delta(OpenModel):
    """Streamed text of a run's answer: ``text`` begins at ``offset`` characters. Offset 0 starts over."""

    type: Literal["delta"] = "delta"
    run_id: str
    offset: Annotated[int, Field(ge=0)]
    text: str


class LogWritten(OpenModel):
    """Log entries up to ``number`` are on disk."""

    type: Literal["log_written"] = "log_written"
    number: Annotated[int, Field(ge=0)]


class Request(OpenModel):
    """Something an agent wants done or told outside a run's answer; answered by `Reply` with the same id.

    ``id`` makes a repeat harmless: after a cut the agent asks again under the same one. A method that the gateway does
    not know gets a `Reply` with an error.
    """

    type: Literal["request"] = "request"
    id: Annotated[str, Field(min_length=1, max_length=64)]
    method: Annotated[str, Field(min_length=1, max_length=64)]
    params: dict[str, Any] = {}


class Answer(OpenModel):
    """The agent's answer to a `Query`."""

    type: Literal["answer"] = "answer"
    id: str
    result: dict[str, object] = {}
    error: str | None = None


class Welcome(OpenModel):
    """First frame of the gateway."""

    type: Literal["welcome"] = "welcome"
    protocol: int = PROTOCOL
    operation_number: int = 0
    """Last operation of this incarnation that is durable."""


class RunRequest(OpenModel):
    """One unit of work for an office, with the settings that hold for it."""

    run_id: str
    session_key: SessionKey
    event: ConversationEvent
    log_number: int
    """The run's own message is the log entry of this number. A scheduled event is none: the last entry before it."""
    kind: Literal["message", "scheduled"] = "message"
    info: MessagingInfo
    llm: Llm
    budgets: Budgets
    door_policy: DoorPolicy
    queued_at: datetime


class Run(OpenModel):
    """Deliver a run."""

    type: Literal["run"] = "run"
    run: RunRequest


class Stop(OpenModel):
    """Cut a run short; harmless if it is over."""

    type: Literal["stop"] = "stop"
    run_id: str


class Reset(OpenModel):
    """Start a fresh session for a key; answered by `Answer` with the same id."""

    type: Literal["reset"] = "reset"
    id: str
    session_key: SessionKey
    log_number: int = 0
    """The fresh session hears nothing of log entries up to this number (0: of none that is on disk by now)."""


class LogBatch(OpenModel):
    """Log entries in order of their numbers."""

    type: Literal["log"] = "log"
    entries: Annotated[tuple[LogEntry, ...], Field(max_length=MAX_LOG_BATCH)]
    after: Annotated[int, Field(ge=0)] = 0
    """Entries up to this number are gone for good: a log that ends before it goes on after it."""


class Ack(OpenModel):
    """Operations up to ``number`` are durable."""

    type: Literal["ack"] = "ack"
    number: int


class Reply(OpenModel):
    """The gateway's answer to a `Request`."""

    type: Literal["reply"] = "reply"
    id: str
    result: dict[str, Any] = {}
    error: str | None = None


class Query(OpenModel):
    """A question about an office's sessions; answered by `Answer`."""

    type: Literal["query"] = "query"
    id: str
    method: Literal["sessions"]
    params: dict[str, object] = {}


class Drain(OpenModel):
    """Take no new run, hand back what has not started, end when the running ones have."""

    type: Literal["drain"] = "drain"


AgentFrame = Annotated[Hello | Operation | Delta | LogWritten | Request | Answer, Field(discriminator="type")]
GatewayFrame = Annotated[
    Welcome | Run | Stop | Reset | LogBatch | Ack | Reply | Query | Drain, Field(discriminator="type")
]

_AGENT: TypeAdapter[Hello | Operation | Delta | LogWritten | Request | Answer] = TypeAdapter(AgentFrame)
_GATEWAY: TypeAdapter[Welcome | Run | Stop | Reset | LogBatch | Ack | Reply | Query | Drain] = TypeAdapter(GatewayFrame)


class InvalidFrame(InvalidValue):
    """A frame that is not of the protocol."""


def parse_agent_frame(data: str | bytes) -> Hello | Operation | Delta | LogWritten | Request | Answer:
    """Read a frame that an agent sent.

    Raises:
        InvalidFrame: the message names the fault and no content.
    """
    try:
        return _AGENT.validate_json(data)
    except ValidationError as error:
        raise InvalidFrame(_fault(error)) from None


def parse_gateway_frame(
    data: str | bytes,
) -> Welcome | Run | Stop | Reset | LogBatch | Ack | Reply | Query | Drain:
    """Read a frame that the gateway sent.

    Raises:
        InvalidFrame: the message names the fault and no content.
    """
    try:
        return _GATEWAY.validate_json(data)
    except ValidationError as error:
        raise InvalidFrame(_fault(error)) from None


def _fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['type']}"


def build_frame(frame: OpenModel) -> str:
    """Write a frame."""
    return frame.model_dump_json(by_alias=True, exclude_none=True)

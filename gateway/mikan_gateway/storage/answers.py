"""The gateway's own answers to messages: stored with what they tell of, and shown like the output of runs.

An answer is a run that was over before it began: two operations to be shown, under an id that its message alone has.
"""

import hashlib

from sqlalchemy import Connection, bindparam, select

from mikan_api.identity import OfficeKey
from mikan_api.responder import Respond, ResponderOperation, RunFinished, RunOutcome
from mikan_gateway.ports import InboundMessage, OwnAnswer
from mikan_gateway.storage.operations import StoredOperation, insert_outputs
from mikan_gateway.storage.runs import Kind, StoredRun, add_run, own_incarnation
from mikan_gateway.storage.tables import runs

# Built once: building costs more than running it.
_KNOWN = select(runs.c.position).where(runs.c.run_id == bindparam("id"))


def is_known(connection: Connection, run_id: str) -> bool:
    """Whether something is stored under this id, or was."""
    return connection.execute(_KNOWN, {"id": run_id}).scalar() is not None


def is_answered(connection: Connection, message: InboundMessage) -> bool:
    """Whether an answer to a message is stored, or was."""
    return is_known(connection, _answer_id(message))


def store_answer(connection: Connection, answer: OwnAnswer, now: float) -> StoredRun | None:
    """Store an answer to be shown by `answer_operations`; ``None`` where its message has one already."""
    if is_answered(connection, answer.message):
        return None
    event, kind = answer.message.event, _kind(answer)
    run_id, office = _answer_id(answer.message), event.address.key
    run = StoredRun(run_id, office, event.session_key, kind, 0, 0, now, event, answer.message.info)
    insert_outputs(connection, [one.row() for one in answer_operations(office, run_id, answer.text)])
    return add_run(connection, run, "finished")


def answer_operations(office: OfficeKey, run_id: str, text: str) -> list[StoredOperation]:
    """What an answer shows."""
    shown: tuple[ResponderOperation, ...] = (Respond(text=text), RunFinished(outcome=RunOutcome.COMPLETED))
    own = own_incarnation(run_id)
    return [StoredOperation(office, own, number, run_id, one) for number, one in enumerate(shown, 1)]


def _kind(answer: OwnAnswer) -> Kind:
    return "answer" if answer.logged else "refusal"


def _answer_id(message: InboundMessage) -> str:
    identity = "\0".join((message.event.address.key, message.app, message.team, message.event.message.id))
    return f"answer-{hashlib.sha256(identity.encode()).hexdigest()[:24]}"

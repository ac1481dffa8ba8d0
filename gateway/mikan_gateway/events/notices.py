"""What an agent posts outside of any run: ``notify``, ``upload`` and ``react`` of `mikan_api.wire.Request`.

A notice is a run that was over before it began, like our own answers: stored with the operations that show it, under an
id that its request alone has, so that it stands in the conversation once however often it is asked for.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Connection

from mikan_api.base import ApiModel
from mikan_api.identity import Platform
from mikan_api.kill_points import Step
from mikan_api.messaging import ConversationEvent, ConversationMessage
from mikan_api.responder import MAX_TEXT, Respond, ResponderOperation, RunFinished, RunOutcome, Upload
from mikan_api.session_keys import parse_session_key
from mikan_api.tokens import OfficeClaims
from mikan_gateway.events.ports import KnownOffices
from mikan_gateway.exceptions import SpoolRefused, UserFault
from mikan_gateway.ports import ChatPlatform, Spool
from mikan_gateway.rendering.outbox import BOT
from mikan_gateway.runtime.clock import Clock
from mikan_gateway.runtime.conversation_runtime import ConversationRuntime
from mikan_gateway.runtime.desk import RequestMethod
from mikan_gateway.storage.answers import is_known
from mikan_gateway.storage.database import Database
from mikan_gateway.storage.messages import know_offices
from mikan_gateway.storage.operations import StoredOperation, insert_outputs
from mikan_gateway.storage.runs import StoredRun, add_run, own_incarnation


class NotifyParams(ApiModel):
    """Params of ``notify``."""

    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class UploadParams(ApiModel):
    """Params of ``upload``; the bytes were brought before, beside the socket."""

    blob_id: Annotated[str, Field(min_length=1, max_length=128)]
    name: Annotated[str, Field(min_length=1, max_length=255)]
    title: Annotated[str, Field(max_length=1_000)] = ""
    media_type: Annotated[str, Field(max_length=255)] = "application/octet-stream"


class ReactParams(ApiModel):
    """Params of ``react``."""

    message_id: Annotated[str, Field(min_length=1, max_length=256)]
    emoji: Annotated[str, Field(min_length=1, max_length=64)]


class Notices:
    """Posts for agents."""

    def __init__(
        self,
        database: Database,
        offices: KnownOffices,
        platforms: Mapping[Platform, ChatPlatform],
        spool: Spool,
        runtime: ConversationRuntime,
        clock: Clock,
    ) -> None:
        self._database, self._offices, self._platforms = database, offices, platforms
        self._spool, self._runtime, self._clock = spool, runtime, clock

    @property
    def methods(self) -> dict[str, RequestMethod]:
        """By name."""
        return {"notify": self._notify, "upload": self._upload, "react": self._react}

    async def _notify(self, claims: OfficeClaims, request_id: str, params: dict[str, Any]) -> dict[str, Any]:
        text = NotifyParams.model_validate(params).text
        if not text.strip():
            raise UserFault("there is no text to post")
        await self._post(claims, request_id, [Respond(text=text)])
        return {}

    async def _upload(self, claims: OfficeClaims, request_id: str, params: dict[str, Any]) -> dict[str, Any]:
        asked = UploadParams.model_validate(params)
        upload = Upload(blob_id=asked.blob_id, name=asked.name, title=asked.title, media_type=asked.media_type)
        if not await self._is_there(claims, asked.blob_id) and not await self._is_known(claims, request_id):
            raise UserFault(f"no file was uploaded as {asked.blob_id!r}")
        await self._post(claims, request_id, [upload])
        return {}

    async def _react(self, claims: OfficeClaims, request_id: str, params: dict[str, Any]) -> dict[str, Any]:
        ReactParams.model_validate(params)
        record = self._offices.record(claims.office)
        where = record.spec.platform.value if record else "this platform"
        raise UserFault(f"{where} has no reactions here")

    async def _is_there(self, claims: OfficeClaims, blob_id: str) -> bool:
        try:
            return await asyncio.to_thread(self._spool.blob(claims.office, blob_id).is_file)
        except SpoolRefused:
            return False

    async def _is_known(self, claims: OfficeClaims, request_id: str) -> bool:
        return await self._database.read(lambda connection: is_known(connection, _run_id(claims, request_id)))

    async def _post(self, claims: OfficeClaims, request_id: str, operations: Sequence[ResponderOperation]) -> None:
        """Have operations shown, once for each request; durable when it returns."""
        run = self._run(claims, request_id)
        ended = (*operations, RunFinished(outcome=RunOutcome.COMPLETED))
        own = own_incarnation(run.run_id)
        stored = [StoredOperation(run.office, own, number, run.run_id, one) for number, one in enumerate(ended, 1)]

        def store(connection: Connection) -> StoredRun | None:
            if is_known(connection, run.run_id):
                return None
            know_offices(connection, [(run.record.event, run.record.info)], run.queued_at)
            insert_outputs(connection, [one.row() for one in stored])
            return add_run(connection, run, "finished")

        def show(new: StoredRun | None) -> None:
            if new is not None:
                self._runtime.show(new, stored)

        await self._database.write(store, show, Step.NOTICE_COMMIT)

    def _run(self, claims: OfficeClaims, request_id: str) -> StoredRun:
        record = self._offices.record(claims.office)
        platform = None if record is None else self._platforms.get(record.spec.platform)
        if record is None or platform is None:
            raise UserFault("this conversation's platform is not connected here")
        spec, now = record.spec, self._clock.now()
        session = parse_session_key(spec.conversation_id)
        event = ConversationEvent(
            platform=spec.platform,
            conversation_id=spec.conversation_id,
            conversation_kind=spec.conversation_kind,
            session_key=session,
            message=ConversationMessage(id="", author=BOT, time=datetime.fromtimestamp(now, UTC)),
        )
        info = platform.info(spec.trust_model, spec.display_name or "")
        return StoredRun(_run_id(claims, request_id), claims.office, session, "notice", 0, 0, now, event, info)


def _run_id(claims: OfficeClaims, request_id: str) -> str:
    identity = "\0".join((claims.office, claims.uid, request_id))
    return f"notice-{hashlib.sha256(identity.encode()).hexdigest()[:24]}"

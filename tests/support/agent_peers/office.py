"""An office on this machine's disk, the agent that serves it, and the runs it is given."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agent_peers.gateway import TOKEN
from mikan_agent.app import Agent
from mikan_agent.backoff import Backoff
from mikan_agent.config import Config
from mikan_agent.harness.model_calls import Retries
from mikan_agent.sandbox import StartingExecutor
from mikan_api.identity import OfficeAddress, Platform
from mikan_api.layout import Workspace
from mikan_api.messaging import (
    Attachment,
    Author,
    ConversationEvent,
    ConversationKind,
    ConversationMessage,
    LogEntry,
    MessagingInfo,
    TrustModel,
)
from mikan_api.sandbox_mode import parse_sandbox_mode
from mikan_api.session_keys import parse_session_key
from mikan_api.settings import Budgets, DoorPolicy, Llm
from mikan_api.wire import RunRequest

if TYPE_CHECKING:
    from mikan_agent.app import MakeExtensions

ADDRESS = OfficeAddress(Platform.CONSOLE, "room")
EPOCH = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def workspace_in(root: Path) -> Workspace:
    """The layout of `mikan_api.layout` beneath a directory."""
    base = PurePosixPath(root)
    return Workspace(root=base / "workspace", records=base / "records", shared=base / "shared")


def config_in(root: Path, gateway_url: str, models_url: str, mode: str = "image:test") -> Config:
    """The configuration of an agent beneath a directory."""
    tokens = root / "tokens"
    tokens.mkdir(exist_ok=True)
    (tokens / "gateway").write_text(TOKEN)
    (tokens / "models").write_text("a-token-for-models")
    return Config(
        office=ADDRESS,
        gateway_url=gateway_url,
        models_url=models_url,
        tokens=tokens,
        pod_name=f"a-{ADDRESS.key}",
        pod_uid="a-uid",
        namespace="offices",
        sandbox_mode=parse_sandbox_mode(mode),
        sandbox_pod=f"s-{ADDRESS.key}",
        drain=timedelta(seconds=1),
    )


@asynccontextmanager
async def serving(
    root: Path,
    gateway_url: str,
    models_url: str,
    make_executor: Callable[[], StartingExecutor] | None = None,
    mode: str = "image:test",
    make_extensions: "MakeExtensions | None" = None,
) -> AsyncIterator[Agent]:
    """An agent in this process, with waits too short to notice."""
    quick = Backoff(0.001, 0.01)
    agent = Agent(
        config_in(root, gateway_url, models_url, mode),
        workspace=workspace_in(root),
        make_executor=make_executor,
        retries=Retries(count=3, backoff=quick, longest=1.0),
        reconnect=quick,
        make_extensions=make_extensions,
    )
    task = asyncio.create_task(agent.run())
    try:
        yield agent
    finally:
        agent.drain()
        done, _ = await asyncio.wait({task}, timeout=10)
        if not done:
            task.cancel()
            await asyncio.wait({task})
            raise AssertionError("the agent did not end")
        task.result()


def message(text: str, number: int = 1, attachments: tuple[Attachment, ...] = ()) -> ConversationMessage:
    """A person's message; its id and time follow from its number."""
    return ConversationMessage(
        id=f"m{number}",
        author=Author(id="U1", user_name="ada", display_name="Ada"),
        text=text,
        attachments=attachments,
        time=EPOCH + timedelta(seconds=number),
    )


def entry(text: str, number: int = 1, attachments: tuple[Attachment, ...] = ()) -> LogEntry:
    """A log entry of such a message."""
    return LogEntry(number=number, message=message(text, number, attachments))


def run_request(
    text: str = "hello",
    run_id: str = "r1",
    *,
    session_key: str = "room",
    log_number: int = 0,
    budgets: Budgets | None = None,
    kind: ConversationKind = ConversationKind.DIRECT,
    scheduled: bool = False,
    attachments: tuple[Attachment, ...] = (),
    can_upload: bool = True,
    model: str = "test/model",
) -> RunRequest:
    """A run."""
    key = parse_session_key(session_key)
    return RunRequest(
        run_id=run_id,
        session_key=key,
        event=ConversationEvent(
            platform=Platform.CONSOLE,
            conversation_id="room",
            conversation_kind=kind,
            session_key=key,
            message=message(text, max(log_number, 1), attachments),
        ),
        log_number=log_number,
        kind="scheduled" if scheduled else "message",
        info=MessagingInfo(platform=Platform.CONSOLE, trust_model=TrustModel.MEMBERSHIP, can_upload=can_upload),
        llm=Llm(model=model),
        budgets=budgets or Budgets(),
        door_policy=DoorPolicy(),
        queued_at=EPOCH,
    )

"""The tables. Bodies are JSON texts of `mikan_api` models, so that a wire type may grow without a migration.

An office key stands for platform and raw conversation id (`mikan_api.identity`), so ``office`` with app, team and
message id is a message's identity for good.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

# SQLite numbers rows by itself only where the type is exactly INTEGER.
_Serial = BigInteger().with_variant(Integer, "sqlite")

schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

offices = Table(
    "offices",
    metadata,
    Column("office", Text, primary_key=True),
    Column("platform", Text, nullable=False),
    Column("conversation_id", Text, nullable=False),
    Column("conversation_kind", Text, nullable=False),
    Column("display_name", Text, nullable=False),
    Column("last_number", BigInteger, nullable=False),
    Column("written_number", BigInteger, nullable=False, server_default="0"),
    Column("created_at", Float, nullable=False),
    Column("last_message_at", Float, nullable=False),
    Column("runs", BigInteger, nullable=False, server_default="0"),
    Column("input_tokens", BigInteger, nullable=False, server_default="0"),
    Column("output_tokens", BigInteger, nullable=False, server_default="0"),
    Column("model_calls", BigInteger, nullable=False, server_default="0"),
    Column("cost_usd", Float, nullable=False, server_default="0"),
)
"""Inventory, the last log number given out, the last one that the office's log is known to have, and usage.

Times are seconds since the epoch.
"""

messages = Table(
    "messages",
    metadata,
    Column("office", Text, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("app", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("from_bot", Boolean, nullable=False),
    Column("body", Text, nullable=False),
    Column("run_id", Text),
    Column("stored_at", Float, nullable=False, server_default="0"),
    PrimaryKeyConstraint("office", "number"),
    UniqueConstraint("office", "app", "team", "message_id"),
)
"""The platform truth: every message of an office, numbered from 1. ``body`` is a `ConversationMessage`."""

runs = Table(
    "runs",
    metadata,
    Column("position", _Serial, primary_key=True, autoincrement=True),
    Column("run_id", Text, nullable=False, unique=True),
    Column("office", Text, nullable=False),
    Column("session_key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("event", Text),
    Column("info", Text),
    Column("incarnation", Text),
    Column("stop_requested", Boolean, nullable=False),
    Column("queued_at", Float, nullable=False),
    Column("outcome", Text),
    Column("detail", Text),
    Index("runs_unfinished", "state", "position"),
    sqlite_autoincrement=True,
)
"""Work of sessions in the order it is to be done. ``number`` is the log number of a run's own message."""

incarnations = Table(
    "incarnations",
    metadata,
    Column("office", Text, nullable=False),
    Column("incarnation", Text, nullable=False),
    Column("office_uid", Text, nullable=False),
    Column("pod_name", Text, nullable=False),
    Column("pod_uid", Text, nullable=False),
    Column("operation_number", BigInteger, nullable=False),
    Column("superseded", Boolean, nullable=False),
    Column("connected_at", Float, nullable=False),
    PrimaryKeyConstraint("office", "incarnation"),
)
"""Agent processes that have said hello, with the last operation of each that is durable."""

operations = Table(
    "operations",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("office", Text, nullable=False),
    Column("incarnation", Text, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False),
    UniqueConstraint("office", "incarnation", "number"),
    Index("operations_run", "run_id"),
    sqlite_autoincrement=True,
)
"""Operations that are durable and not yet shown; a row goes once it has been applied."""

outgoing = Table(
    "outgoing",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("slot", Text, nullable=False),
    Column("nonce", Text, nullable=False),
    Column("message_id", Text),
    PrimaryKeyConstraint("run_id", "slot"),
)
"""Intents to send a message; ``message_id`` is absent until the platform has answered."""

moved_conversations = Table(
    "moved_conversations",
    metadata,
    Column("platform", Text, nullable=False),
    Column("conversation_id", Text, nullable=False),
    Column("current_id", Text, nullable=False),
    PrimaryKeyConstraint("platform", "conversation_id"),
)
"""Conversations that their platform knows by another id now."""

console_messages = Table(
    "console_messages",
    metadata,
    Column("seq", _Serial, primary_key=True, autoincrement=True),
    Column("conversation", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("nonce", Text),
    Column("body", Text, nullable=False),
    UniqueConstraint("conversation", "nonce"),
    Index("console_messages_after", "conversation", "seq"),
    sqlite_autoincrement=True,
)
"""What the console platform shows, in order."""

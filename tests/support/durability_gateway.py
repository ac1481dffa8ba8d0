"""The gateway's process, with all imported that it would import once it runs, and soon sure that an agent is lost."""

import aiosqlite
import asyncpg
import sqlalchemy.dialects.postgresql.asyncpg
import sqlalchemy.dialects.sqlite.pysqlite
import uvicorn.protocols.http.h11_impl
import uvicorn.protocols.websockets.websockets_sansio_impl

from mikan_gateway.__main__ import main
from mikan_gateway.runtime import keeper

__all__ = ["aiosqlite", "asyncpg", "main", "sqlalchemy", "uvicorn"]

keeper.LOST_AFTER = 0.3

"""The gateway's process, with all imported that it would import once it runs, and soon sure that an agent is lost."""

import os
import sys

import aiosqlite
import asyncpg
import sqlalchemy.dialects.postgresql.asyncpg
import sqlalchemy.dialects.sqlite.pysqlite
import uvicorn.protocols.http.h11_impl
import uvicorn.protocols.websockets.websockets_sansio_impl

import census
from mikan_gateway import __main__, pruner
from mikan_gateway.runtime import keeper

__all__ = ["aiosqlite", "asyncpg", "main", "sqlalchemy", "uvicorn"]

PRUNE_VARIABLE = "TEST_PRUNE_EVERY"
keeper.LOST_AFTER = 0.3


def main() -> int:
    """As ``python -m mikan_gateway``, which is what begins anew when its Lease is lost."""
    sys.orig_argv = [sys.executable, "-m", "mikan_gateway"]
    pruner.EVERY = float(os.environ.get(PRUNE_VARIABLE, pruner.EVERY))
    census.answer(os.environ)
    return __main__.main()

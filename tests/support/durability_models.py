"""The models process, with all imported that it would import once it runs."""

import os

import httpcore
import uvicorn.protocols.http.h11_impl

import census
from mikan_gateway.models import __main__

__all__ = ["httpcore", "main", "uvicorn"]


def main() -> int:
    """As ``python -m mikan_gateway.models``."""
    census.answer(os.environ)
    return __main__.main()

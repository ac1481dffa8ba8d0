"""The operator's process, with all imported that it would import once it runs."""

from mikan_operator.__main__ import main

__all__ = ["main"]

"""Errors of the development tools.

DevError
├── CommandFailed      a program that we called exited with an error
├── ToolMissing        a program that we need is not installed
├── ContextRefused     the named Kubernetes context is not one that tests may change
└── NotUp              there is no cluster to work on

Every message says what to do next; the command line prints it alone, without a traceback.
"""

from __future__ import annotations


class DevError(Exception):
    """Base of everything that the command lines report without a traceback."""


class CommandFailed(DevError):
    """A program exited with an error; the message carries the end of what it printed."""


class ToolMissing(DevError):
    """A program is not installed; the message names the package that brings it."""


class ContextRefused(DevError):
    """The named context is not on the allow-list."""


class NotUp(DevError):
    """No cluster was started, or it is gone."""

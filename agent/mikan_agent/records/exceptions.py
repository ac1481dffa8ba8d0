"""What can go wrong with an office's data on disk. Messages name relative paths, never contents.

::

    AgentError
    └── StorageError
        ├── Refused           a path that could lead elsewhere, or to something that is not a file
        │   ├── UnsafePath    absolute, empty, ``..``, NUL, or too deep
        │   ├── SymlinkRefused
        │   └── NotRegular    FIFO, device, socket, or a directory where a file should be (or the reverse)
        ├── NotFound
        ├── AlreadyExists
        ├── TooLarge          more bytes than the caller allows
        ├── StorageFailed     the system said no: disk full, permission, I/O
        ├── FileBusy          an append-only file has a writer already
        ├── FileClosed        an append after `close`
        ├── NotJson           a value that JSON cannot carry, such as NaN
        ├── LogGap            a log batch that does not continue where the file ends
        └── SessionError      see `mikan_agent.sessions.exceptions`
"""

from mikan_agent.exceptions import AgentError


class StorageError(AgentError):
    """Something about the office's data on disk."""


class Refused(StorageError):
    """A path that could lead elsewhere, or to something that is not a file. Nothing was touched."""


class UnsafePath(Refused):
    """A path that is absolute, empty, too deep, or holds ``..`` or NUL."""


class SymlinkRefused(Refused):
    """A symbolic link somewhere on the path."""


class NotRegular(Refused):
    """A FIFO, device, socket, or a directory where a file should be, or the reverse."""


class NotFound(StorageError):
    """Nothing there."""


class AlreadyExists(StorageError):
    """Something is there already."""


class TooLarge(StorageError):
    """More bytes than the caller allows."""


class StorageFailed(StorageError):
    """The system refused: disk full, permission, I/O error."""


class FileBusy(StorageError):
    """An append-only file has a writer already, in this process or another."""


class FileClosed(StorageError):
    """An append to a file that was closed."""


class NotJson(StorageError):
    """A value that JSON cannot carry, such as NaN."""


class LogGap(StorageError):
    """A log batch that does not continue where the file ends; nothing of it was written."""

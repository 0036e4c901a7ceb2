"""
Imports modules late: with the first request that needs them, when the process may have no file descriptor left.

Connections of clients can take all of them. Requests of those that are served must go on to be served, so that a
descriptor is kept for such imports. Python opens one file at a time for them.
"""

from __future__ import annotations

import errno
import os
from importlib import import_module
from types import ModuleType

_NONE_LEFT = (errno.EMFILE, errno.ENFILE)
_spare: list[int] = []


def keep_descriptor() -> None:
    """Keep a descriptor for :func:`import_late`, to the end of the process, unless one is kept or none is left."""
    if not _spare:
        try:
            _spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as e:
            if e.errno not in _NONE_LEFT:
                raise


def import_late(name: str) -> ModuleType:
    """
    Import a module, by the kept descriptor if there is no other.

    :raise OSError: there is none, and none is kept.
    """
    try:
        return import_module(name)
    except OSError as e:
        if e.errno not in _NONE_LEFT or not _spare:
            raise
    os.close(_spare.pop())
    try:
        return import_module(name)
    finally:
        keep_descriptor()

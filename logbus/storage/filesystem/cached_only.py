"""
Looks things up in files without waiting for the device, and loads in a thread what that would have waited for.

A look-up reads an index and some batch headers, a few bytes here and there, of which each read depends on the one
before. So it is tried with reads that do not wait. The first of them that would ends the attempt by
:class:`.NotCached`; its bytes are loaded, and the look-up begins again. What it has read before is cached then.
"""

from __future__ import annotations

from threading import get_ident

from logbus.storage.istorage import IDisk

MOST_LOADS = 16
"""Of one look-up; after that it waits: what it needs does not stay in memory for as long as it takes."""


class CachedOnly:
    """
    A context in which reads of a disk's files, in this thread, raise :class:`.NotCached` rather than wait for it.

    :param on: False: a context within such a one in which they do wait.
    """

    __slots__ = ("_before", "_disk", "_thread")

    def __init__(self, disk: IDisk, on: bool = True) -> None:
        self._disk = disk
        self._thread = get_ident() if on else 0

    def __enter__(self) -> None:
        self._before = self._disk.cached_only
        self._disk.cached_only = self._thread

    def __exit__(self, *_: object) -> None:
        self._disk.cached_only = self._before

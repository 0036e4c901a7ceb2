"""
Whether the disk of a test's broker is full. Pure.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from threading import Lock
from typing import Self

from attrs import define, field

from logbus.testing.errors import is_closed


class DiskFilling:
    """
    Whether the disk of a broker is full; in a ``with`` block, until its end.

    It is filled and freed in any thread, and asked in those of the broker.
    """

    def __init__(self) -> None:
        self.changed: Callable[[], object] = lambda: None
        """Is called when it was filled or freed; returns once that is so."""
        self._fillers = 0
        self._closed = False
        self._lock = Lock()

    @property
    def is_full(self) -> bool:
        """Whether writes are refused."""
        return self._fillers > 0

    def fill(self) -> FullDisk:
        """
        Fill it, until the handle that is returned frees it.

        :raise BrokerFailed: the broker is closed.
        """
        with self._lock:
            if self._closed:
                raise is_closed("fill_disk")
            self._fillers += 1
        self.changed()
        return FullDisk(self._free)

    def close(self) -> None:
        """The broker is closed, and has no disk any more."""
        self._closed = True

    def _free(self) -> None:
        with self._lock:
            self._fillers -= 1
        self.changed()

    def refuse(self) -> None:
        """
        Raise what the system does, if it is full.

        :raise OSError: ENOSPC.
        """
        if self._fillers > 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@define(eq=False)
class FullDisk:
    """A disk that is full, until :meth:`free`, or the end of a ``with`` block."""

    _on_free: Callable[[], None]
    _freed: bool = field(default=False, init=False)

    def free(self) -> None:
        """Let it have space again. A second time it does nothing."""
        if not self._freed:
            self._freed = True
            self._on_free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

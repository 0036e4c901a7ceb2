"""
Looks at a metadata store in memory, and waits for changes there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from logbus.metastore.memory_store import MemoryEnsemble
from logbus.metastore.operations import NoNode
from logbus.metastore.tree import Applied
from logbus.testing.reactor_thread import ReactorThread
from logbus.testing.waiting import WaitTimedOut

T = TypeVar("T")


class StoreView(Protocol):
    """Reads a metadata store."""

    def get(self, path: str) -> bytes | None:
        """What a node holds; None: it is not there."""

    def read(self, path: str) -> tuple[bytes, Any] | None:
        """What a node holds, and its stat; None: it is not there."""

    def children(self, path: str) -> list[str]:
        """Names of a node's children; none if it does not exist."""

    def wait_for(self, condition: Callable[[], T | None], what: str, timeout: float | None = None) -> T:
        """
        The result of ``condition`` as soon as it is true; it is called again when the store changes.

        :raise WaitTimedOut: it did not become true; ``what`` is what the message says.
        """


class MemoryView:
    """
    A view of a :class:`~logbus.metastore.memory_store.MemoryEnsemble`, from any thread but its own.

    :param thread: where the ensemble lives.
    :param timeout: seconds that a wait takes at most, unless it says otherwise.
    """

    def __init__(self, ensemble: MemoryEnsemble, thread: ReactorThread, timeout: float) -> None:
        self._ensemble = ensemble
        self._thread = thread
        self._timeout = timeout
        self._condition = threading.Condition()
        self._changes = 0
        ensemble.clients.append(self)

    def hear(self, applied: Applied) -> None:
        """Called by the ensemble after each change."""
        with self._condition:
            self._changes += 1
            self._condition.notify_all()

    def get(self, path: str) -> bytes | None:
        found = self.read(path)
        return None if found is None else found[0]

    def read(self, path: str) -> tuple[bytes, Any] | None:
        return self._read(lambda: self._ensemble.tree.get(path), None)

    def children(self, path: str) -> list[str]:
        return self._read(lambda: self._ensemble.tree.children(path), [])

    def wait_for(self, condition: Callable[[], T | None], what: str, timeout: float | None = None) -> T:
        seconds = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        while True:
            seen = self._changes
            if found := condition():
                return found
            with self._condition:
                changed = self._condition.wait_for(lambda: self._changes != seen, max(0.0, deadline - time.monotonic()))  # noqa: B023
            if not changed:
                raise WaitTimedOut(f"{what} did not come about within {seconds:g} s")

    def _read(self, read: Callable[[], T], missing: T) -> T:
        async def reading() -> T:
            try:
                return read()
            except NoNode:
                return missing

        return self._thread.run(reading, self._timeout)

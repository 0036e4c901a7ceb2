"""
Base classes of the metadata stores: one for all, and one for those with the tree in this process.

:class:`BaseStore` makes one request of all changes, keeps the order in which answers and watches are delivered, and
calls the listeners of the state. :class:`TreeStore` turns the remaining methods of
:class:`~logbus.metastore.imetastore.IMetadataStore` into two: looking at the tree and changing it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.coroutines import returns_deferred
from logbus.metastore.operations import (
    ANY_VERSION,
    Create,
    Delete,
    MultiFailed,
    Op,
    OpResult,
    SessionListener,
    SessionState,
    Set,
    Stat,
    Watcher,
)
from logbus.metastore.tree import Applied, Tree
from logbus.metastore.watches import Watches

T = TypeVar("T")


@define(eq=False)
class BaseStore:
    """
    Base of all stores; they implement :meth:`_commit`.

    Deliveries never nest: a request made in a callback is answered after all answers due before it, so answers always
    come in the order of the requests.
    """

    state: SessionState = field(default=SessionState.SUSPENDED, init=False)
    session_id: int = field(default=0, init=False)
    generation: int = field(default=0, init=False)
    _watches: Watches = field(factory=Watches, init=False)
    _listeners: list[SessionListener] = field(factory=list, init=False)
    _due: deque[tuple[Callable[..., object], tuple[Any, ...]]] = field(factory=deque, init=False)
    _delivering: bool = field(default=False, init=False)
    _log = Logger()

    def _commit(self, ops: Sequence[Op]) -> Deferred[list[OpResult]]:
        """Fires once all of ``ops`` are applied for good; fails with MultiFailed."""
        raise NotImplementedError

    # IMetadataStore.

    def subscribe(self, listener: SessionListener) -> Callable[[], None]:
        """Call ``listener`` at every later change of the session's state."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Deferred[str]:
        """Create a node; return its path."""
        return self._one(Create(path, data, ephemeral, sequence), str)

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Deferred[Stat]:
        """Replace a node's data."""
        return self._one(Set(path, data, version), Stat)

    def delete(self, path: str, version: int = ANY_VERSION) -> Deferred[None]:
        """Remove a node."""
        return self._one(Delete(path, version), NoneType)

    def multi(self, ops: Sequence[Op]) -> Deferred[list[OpResult]]:
        """Apply all operations or none."""
        return self._commit(tuple(ops))

    @returns_deferred
    async def _one(self, op: Op, kind: type[T]) -> T:
        try:
            [result] = await self._commit((op,))
        except MultiFailed as failed:
            raise failed.error from None
        assert isinstance(result, kind)
        return result

    # Delivering, in order and without nesting.

    def _deliver(self, what: Callable[..., object], *args: Any) -> None:
        self._due.append((what, args))
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._due:
                what, args = self._due.popleft()
                what(*args)
        finally:
            self._delivering = False

    def _move(self, state: SessionState) -> None:
        """Enter ``state``, and call the listeners in their turn."""
        self.state = state
        if state is not SessionState.CONNECTED:
            self._watches.clear()
        self._deliver(self._tell_listeners, state)

    def _tell_listeners(self, state: SessionState) -> None:
        for listener in list(self._listeners):
            try:
                listener(state)
            except Exception:
                self._log.failure("a listener to the metadata session failed")


@define(eq=False)
class TreeStore(BaseStore):
    """Base of the stores that hold the tree in memory; they implement :meth:`_read_tree` and :meth:`_change`."""

    # Implemented by the stores.

    def _read_tree(self, read: Callable[[Tree], T]) -> Deferred[T]:
        """Fires with what ``read`` returns or raises when it is this request's turn."""
        raise NotImplementedError

    def _change(self, ops: Sequence[Op]) -> Deferred[Applied]:
        """Fires once ``ops`` are applied for good; fails with MultiFailed."""
        raise NotImplementedError

    # IMetadataStore.

    def get(self, path: str, watch: Watcher | None = None) -> Deferred[tuple[bytes, Stat]]:
        """Data and stat of a node."""
        return self._read(Tree.get, path, self._watches.on_data, watch)

    def exists(self, path: str, watch: Watcher | None = None) -> Deferred[Stat | None]:
        """Stat of a node, or None."""
        return self._read(Tree.exists, path, self._watches.on_data, watch)

    def children(self, path: str, watch: Watcher | None = None) -> Deferred[list[str]]:
        """Names of a node's children, sorted."""
        return self._read(Tree.children, path, self._watches.on_children, watch)

    def _read(
        self, read: Callable[[Tree, str], T], path: str, leave: Callable[[str, Watcher], None], watch: Watcher | None
    ) -> Deferred[T]:
        def read_and_watch(tree: Tree) -> T:
            found = read(tree, path)
            if watch is not None:
                leave(path, watch)
            return found

        return self._read_tree(read_and_watch)

    def sync(self) -> Deferred[None]:
        """There is one tree, so being next in order is enough."""
        return self._read_tree(lambda tree: None)

    @returns_deferred
    async def _commit(self, ops: Sequence[Op]) -> list[OpResult]:
        return (await self._change(ops)).results


def attempt(run: Callable[[], T]) -> T | Failure:
    """The result of ``run``, or the failure that it raises."""
    try:
        return run()
    except Exception:
        return Failure()


def settle(waiting: Deferred[T], outcome: T | Failure) -> None:
    """Fire a Deferred with what :func:`attempt` returned."""
    if isinstance(outcome, Failure):
        waiting.errback(outcome)
    else:
        waiting.callback(outcome)

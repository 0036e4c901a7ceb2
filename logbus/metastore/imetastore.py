"""
The interface of the metadata store: a tree of versioned nodes, an exact subset of ZooKeeper's operations.

Its users (registration, controller, topics, producer ids) know only :class:`IMetadataStore`; it is implemented by
ZooKeeper, one SQLite file, or memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from logbus.metastore.operations import ANY_VERSION, Op, OpResult, SessionListener, SessionState, Stat, Watcher


class IMetadataStore(Interface):
    """
    A tree of nodes. Requests are served in order, and their Deferreds fire in that order. A watch fires before the
    answer to any later request that shows the change. All calls are made on the reactor thread.

    Every request may fail with :class:`.ConnectionLost` or :class:`.SessionLost`.
    """

    state: SessionState = Attribute("""The session's :class:`.SessionState`.""")
    session_id: int = Attribute("""Owner of the ephemerals made by this session.""")
    generation: int = Attribute("""Grows by one with each new session.""")

    def open() -> Deferred[None]:
        """
        Begin the first session.

        :raise StoreUnusable: there is no usable store; the message names it and the reason.
        """

    def close() -> Deferred[None]:
        """End the session; its ephemerals are deleted at once. Earlier requests are served, later ones fail."""

    def subscribe(listener: SessionListener) -> Callable[[], None]:
        """Call ``listener`` at every later change of the state; the returned function ends that."""

    def get(path: str, watch: Watcher | None = None) -> Deferred[tuple[bytes, Stat]]:
        """
        Data and stat of a node. ``watch`` fires once: when it is changed or deleted.

        :raise NoNode: and no watch is left.
        """

    def exists(path: str, watch: Watcher | None = None) -> Deferred[Stat | None]:
        """Stat of a node, or None. ``watch`` fires once: when it is created, changed or deleted."""

    def children(path: str, watch: Watcher | None = None) -> Deferred[list[str]]:
        """
        Names of a node's children, sorted. ``watch`` fires once: when one is added or removed, or the node is deleted.

        :raise NoNode: and no watch is left.
        """

    def create(path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Deferred[str]:
        """
        Create a node; return its path (see :class:`.Create`).

        :raise NodeExists:
        :raise NoNode: the parent does not exist.
        :raise NoChildrenForEphemerals:
        """

    def set(path: str, data: bytes, version: int = ANY_VERSION) -> Deferred[Stat]:
        """
        Replace a node's data.

        :raise NoNode:
        :raise BadVersion:
        """

    def delete(path: str, version: int = ANY_VERSION) -> Deferred[None]:
        """
        Remove a node.

        :raise NoNode:
        :raise BadVersion:
        :raise NotEmpty:
        """

    def multi(ops: Sequence[Op]) -> Deferred[list[OpResult]]:
        """
        Apply all of ``ops`` in order, each seeing those before it, or none.

        :raise MultiFailed:
        """

    def sync() -> Deferred[None]:
        """Fires once later reads show all writes made by any client before this call."""

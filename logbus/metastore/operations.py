"""
The metadata store's operations, results, events and errors. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from attrs import frozen

from logbus.errors import LogbusError

ANY_VERSION = -1
ROOT = "/"


class Stat(NamedTuple):
    """
    The versions, times and owner of a node (ZooKeeper: Stat).

    :ivar czxid: the transaction that created the node; grows from creation to creation in the whole store.
    :ivar mzxid: the transaction that last changed its data (or created it).
    :ivar ctime: when it was created, in milliseconds since 1970; ``mtime``: when its data last changed.
    :ivar version: how often its data changed.
    :ivar ephemeral_owner: id of the session it goes away with, or 0.
    """

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    ephemeral_owner: int
    num_children: int


@frozen
class Create:
    """
    Make a node.

    :ivar ephemeral: it goes away with the session, and can have no children.
    :ivar sequence: ten digits, growing with each creation under the same parent, are added to the path.
    """

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@frozen
class Set:
    """Replace a node's data, if its version is ``version`` (−1: whatever it is)."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@frozen
class Delete:
    """Remove a node without children, if its version is ``version`` (−1: whatever it is)."""

    path: str
    version: int = ANY_VERSION


@frozen
class Check:
    """Change nothing, but fail the whole transaction unless the node exists with this version."""

    path: str
    version: int = ANY_VERSION


class NodeAccess(Enum):
    """
    The access that a client without credentials has to a node (Kafka: ZkData.defaultAcls).

    OPEN: everything. READABLE: read it; only those with the credentials of its creator may do more. SECRET: nothing.
    OTHER: what the node's ACL says, which is none that a broker sets.
    """

    OPEN = "open"
    READABLE = "readable"
    SECRET = "secret"
    OTHER = "other"


Op = Create | Set | Delete | Check
OpResult = str | Stat | None
"""Create: the path made. Set: the new :class:`Stat`. Delete and Check: None."""


class EventKind(Enum):
    """The kind of change that fired a watch."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchedEvent(NamedTuple):
    """A watch fired for ``path``; read the node for its present state."""

    kind: EventKind
    path: str


Watcher = Callable[[WatchedEvent], None]


class SessionState(Enum):
    """
    CONNECTED: requests are served. SUSPENDED: disconnected; requests in flight may or may not have been applied,
    watches are gone, new requests fail. LOST: the session expired and its ephemerals are deleted; a CONNECTED with a
    new generation follows. CLOSED: for good.
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"
    CLOSED = "closed"


SessionListener = Callable[[SessionState], None]


class MetastoreError(LogbusError):
    """Base of the metadata store's errors."""


class NodeError(MetastoreError):
    """An operation does not fit the present tree; nothing was changed."""

    def __init__(self, path: str, particulars: str = "") -> None:
        super().__init__(f"{path}: {particulars or type(self).__doc__}")
        self.path = path


class NoNode(NodeError):
    """The node (or the parent of the node to be created) does not exist."""


class NodeExists(NodeError):
    """The node exists already."""


class BadVersion(NodeError):
    """The node's version is not the expected one."""


class NotEmpty(NodeError):
    """The node has children."""


class NoChildrenForEphemerals(NodeError):
    """An ephemeral node can have no children."""


class BadPath(NodeError):
    """The path is not absolute and clean."""


class MultiFailed(MetastoreError):
    """
    One operation of a transaction failed, so none was applied.

    :ivar index: of the operation, from 0; ``op`` and ``error``: the operation and its error.
    """

    def __init__(self, index: int, op: Op, error: NodeError) -> None:
        super().__init__(f"operation {index} of the transaction failed: {error}")
        self.index = index
        self.op = op
        self.error = error


class ConnectionLost(MetastoreError):
    """The store is out of reach; a write under way may or may not have been applied."""


class SessionLost(MetastoreError):
    """The session has expired, and the request with it."""


class StoreUnusable(MetastoreError):
    """The store's file is damaged, of a newer version, held by another process, or failed a write."""


class DatabaseFull(StoreUnusable):
    """There is no room for the transaction; it was rolled back, and later ones may succeed."""


class NotAllowed(StoreUnusable):
    """ZooKeeper does not let this client do it."""

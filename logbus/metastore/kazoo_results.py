"""
Translates what kazoo returns: results and events to those of :mod:`logbus.metastore.operations`, its exceptions to
:class:`.MetastoreError`, and ACLs to :class:`.NodeAccess` and back.

Import it only where ZooKeeper is used: kazoo is an extra (``zookeeper``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions
from kazoo.protocol.states import EventType
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Permissions

from logbus.metastore.operations import (
    BadVersion,
    ConnectionLost,
    Create,
    EventKind,
    MetastoreError,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeAccess,
    NodeError,
    NodeExists,
    NoNode,
    NotAllowed,
    NotEmpty,
    Op,
    OpResult,
    SessionLost,
    Set,
    Stat,
    StoreUnusable,
    WatchedEvent,
)

_NODE_ERRORS: dict[type[Exception], type[NodeError]] = {
    exceptions.BadVersionError: BadVersion,
    exceptions.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    exceptions.NodeExistsError: NodeExists,
    exceptions.NoNodeError: NoNode,
    exceptions.NotEmptyError: NotEmpty,
}
_EVENTS = {
    EventType.CREATED: EventKind.CREATED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.CHILD: EventKind.CHILDREN,
}
ACLS = {
    NodeAccess.OPEN: OPEN_ACL_UNSAFE,
    NodeAccess.READABLE: CREATOR_ALL_ACL + READ_ACL_UNSAFE,
    NodeAccess.SECRET: CREATOR_ALL_ACL,
}
_WHO_WE_ARE = "zookeeper.digest.username or the certificate in zookeeper.ssl.keystore.location"
# The errors of a transaction's operations that failed because another one did.
_ROLLED_BACK = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)


def outcome(path: str, read: Callable[[Any], Any], error: Exception | None, value: Any) -> Any:
    """
    The result of a request, or the :class:`.MetastoreError` instead of it.

    :param read: makes the result of kazoo's.
    :param error: kazoo's, if the request failed; ``value``: kazoo's result otherwise.
    """
    if error is not None:
        return error_of(path, error)
    try:
        return read(value)
    except Exception as e:
        return StoreUnusable(f"{path}: ZooKeeper's answer {value!r:.200} cannot be read: {e}")


def error_of(path: str, error: Exception) -> MetastoreError:
    """Our error for kazoo's, of a request about a path."""
    kind = _NODE_ERRORS.get(type(error))
    if kind is not None:
        return kind(path)
    if isinstance(error, exceptions.SessionExpiredError):
        return SessionLost("the session with ZooKeeper is over")
    if isinstance(
        error,
        exceptions.ConnectionLoss
        | exceptions.ConnectionClosedError
        | exceptions.OperationTimeoutError
        | exceptions.SessionMovedError,
    ):
        return ConnectionLost("the connection to ZooKeeper was lost while a request was out")
    if isinstance(error, exceptions.NoAuthError):
        return NotAllowed(f"{path}: ZooKeeper does not allow it: the node belongs to others; check {_WHO_WE_ARE}")
    if isinstance(error, exceptions.InvalidACLError):
        return NotAllowed(f"{path}: ZooKeeper does not know who we are: it takes neither {_WHO_WE_ARE}")
    return StoreUnusable(f"{path}: ZooKeeper refused: {type(error).__name__} {error}".rstrip())


def transaction_results(ops: Sequence[Op], found: Sequence[Any]) -> list[OpResult] | MetastoreError:
    """The results of a transaction's operations; or the error for which none was applied."""
    for index, (op, one) in enumerate(zip(ops, found, strict=True)):
        if isinstance(one, Exception) and not isinstance(one, _ROLLED_BACK):
            error = error_of(op.path, one)
            return MultiFailed(index, op, error) if isinstance(error, NodeError) else error
    return [
        str(one) if isinstance(op, Create) else stat_from(one) if isinstance(op, Set) else None
        for op, one in zip(ops, found, strict=True)
    ]


def access_from(acls: Sequence[Any]) -> NodeAccess:
    """The access that ACLs give."""
    world = {acl.perms for acl in acls if acl.id.scheme == "world"}
    owners = {acl.perms for acl in acls if acl.id.scheme != "world"}
    if world == {Permissions.ALL}:
        return NodeAccess.OPEN
    if owners == {Permissions.ALL} and world <= {Permissions.READ}:
        return NodeAccess.READABLE if world else NodeAccess.SECRET
    return NodeAccess.OTHER


def watched_event(event: Any) -> WatchedEvent | None:
    """The event of a watch; None: it is about the session, of which kazoo tells all watches."""
    kind = _EVENTS.get(event.type)
    return None if kind is None else WatchedEvent(kind, event.path)


def stat_from(found: Any) -> Stat:
    """A node's :class:`.Stat`."""
    return Stat(
        found.czxid, found.mzxid, found.ctime, found.mtime, found.version, found.ephemeralOwner, found.numChildren
    )

"""What kazoo returns, in our words."""

from __future__ import annotations

from kazoo import exceptions
from kazoo.protocol.states import EventType, KeeperState
from kazoo.protocol.states import WatchedEvent as KazooEvent
from kazoo.security import READ_ACL_UNSAFE
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore import kazoo_results
from logbus.metastore.operations import (
    Check,
    ConnectionLost,
    Create,
    Delete,
    EventKind,
    MultiFailed,
    NodeAccess,
    NoNode,
    NotAllowed,
    SessionLost,
    StoreUnusable,
    WatchedEvent,
)


class OutcomeTests(SynchronousTestCase):
    """Results and errors of single requests."""

    def test_errors(self) -> None:
        """Errors of a node, of the session and of the connection are told apart; any other makes the store unusable."""
        for error, kind in (
            (exceptions.NoNodeError(), NoNode),
            (exceptions.SessionExpiredError(), SessionLost),
            (exceptions.ConnectionLoss(), ConnectionLost),
            (exceptions.NoAuthError(), NotAllowed),
            (exceptions.InvalidACLError(), NotAllowed),
            (exceptions.MarshallingError(), StoreUnusable),
        ):
            self.assertIs(type(kazoo_results.outcome("/a", str, error, None)), kind)

    def test_results(self) -> None:
        """A result is read; one that cannot be read is an error that quotes it."""
        self.assertEqual(kazoo_results.outcome("/a", sorted, None, ["c", "b"]), ["b", "c"])
        failed = kazoo_results.outcome("/a", len, None, 5)
        self.assertIsInstance(failed, StoreUnusable)
        self.assertIn("/a: ZooKeeper's answer 5 cannot be read", str(failed))


class TransactionTests(SynchronousTestCase):
    """Results of several operations."""

    OPS = (Create("/a", b""), Delete("/b"), Check("/c", 1))

    def test_applied(self) -> None:
        """A created node has its path, which may have a number at its end; others have nothing to say."""
        self.assertEqual(kazoo_results.transaction_results(self.OPS, ["/a7", True, True]), ["/a7", None, None])

    def test_refused(self) -> None:
        """The operation that failed is named, not those that failed with it."""
        found = [exceptions.RolledBackError(), exceptions.NoNodeError(), exceptions.RuntimeInconsistency()]
        failed = kazoo_results.transaction_results(self.OPS, found)
        assert isinstance(failed, MultiFailed)
        self.assertEqual((failed.index, failed.op), (1, self.OPS[1]))
        self.assertIsInstance(failed.error, NoNode)


class AccessTests(SynchronousTestCase):
    """ACLs."""

    def test_ours_are_recognized(self) -> None:
        """What is set is what is read, and the rest is of others."""
        for access, acls in kazoo_results.ACLS.items():
            self.assertEqual(kazoo_results.access_from(acls), access)
        self.assertEqual(kazoo_results.access_from(READ_ACL_UNSAFE), NodeAccess.OTHER)


class EventTests(SynchronousTestCase):
    """Watches."""

    def test_events(self) -> None:
        """Changes of nodes are events; those of the connection, of which kazoo tells every watch, are none."""
        changed = KazooEvent(EventType.CHILD, KeeperState.CONNECTED, "/a")
        self.assertEqual(kazoo_results.watched_event(changed), WatchedEvent(EventKind.CHILDREN, "/a"))
        self.assertIsNone(kazoo_results.watched_event(KazooEvent("NONE", KeeperState.CONNECTING, None)))

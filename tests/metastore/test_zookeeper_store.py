"""The ZooKeeper store with a fake session; tests with a real ZooKeeper are in ``tests/zookeeper``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore import kazoo_session
from logbus.metastore.connect_string import ConnectString
from logbus.metastore.operations import NoNode, Op, SessionState, StoreUnusable
from logbus.metastore.zookeeper_store import ZooKeeperStore
from tests.hostile.log_capture import logged


@define
class FakeLink:
    """
    A link that is connected at once.

    :ivar answer: to each transaction.
    :ivar stat: of each node that is asked about.
    """

    answer: Any
    stat: Any = None
    below: str = ""
    complaint: str = ""
    asked: list[Sequence[Op]] = field(factory=list)
    seen: list[str] = field(factory=list)

    def start(self) -> None:
        """The test says when it is connected."""

    def enter_chroot(self, chroot: str) -> None:
        self.below = chroot

    def exists(self, path: str, watch: bool, answer: Callable[[Any], None]) -> None:
        self.seen.append(path)
        answer(self.stat)

    def multi(self, ops: Sequence[Op], answer: Callable[[Any], None]) -> None:
        self.asked.append(ops)
        answer(self.answer)


class Reactor(Clock):
    """A clock whose threads are one."""

    def callFromThread(self, call: Callable[..., object], *args: object) -> None:
        call(*args)


class ChrootTests(SynchronousTestCase):
    """ZooKeeper is there, and does not let the chroot be made."""

    def setUp(self) -> None:
        self.clock = Reactor()
        self.link = FakeLink(StoreUnusable("refused"))
        self.patch(kazoo_session, "KazooSession", lambda *_: self.link)
        self.store = ZooKeeperStore(ConnectString.parse("zk:1/logbus"), self.clock)
        self.opening = self.store.open()

    def test_at_the_start(self) -> None:
        """Whoever opens the store is told."""
        self.store.linked(self.link, 7)
        self.failureResultOf(self.opening, StoreUnusable)

    def test_later(self) -> None:
        """A link that was made anew says so in the log, and tries again until it is let in."""
        self.store.linked(self.link, 7)
        self.failureResultOf(self.opening, StoreUnusable)
        with logged() as lines:
            self.store.linked(self.link, 7)
            self.clock.advance(self.store.complain_seconds)
        self.assertEqual(len([line for line in lines if "does not let us in: refused" in line]), 2)
        self.link.answer = ["/logbus"]
        self.clock.advance(self.store.complain_seconds)
        self.assertEqual((self.store.state, self.link.below), (SessionState.CONNECTED, "/logbus"))
        self.assertEqual(self.clock.getDelayedCalls(), [])


class NoChrootTests(SynchronousTestCase):
    """A client that may not begin a cluster."""

    def test_missing_chroot(self) -> None:
        """It is told, and nothing is made; a chroot that exists is entered."""
        for stat in (None, object()):
            link = FakeLink([], stat=stat)
            self.patch(kazoo_session, "KazooSession", lambda *_, link=link: link)
            store = ZooKeeperStore(ConnectString.parse("zk:1/a/b"), Reactor(), makes_chroot=False)
            opening = store.open()
            store.linked(link, 7)
            if stat is None:
                self.assertEqual(self.failureResultOf(opening, NoNode).value.path, "/a/b")
            else:
                self.successResultOf(opening)
                self.assertEqual(link.below, "/a/b")
            self.assertEqual((link.seen, link.asked), (["/a/b"], []))


class AdviceTests(SynchronousTestCase):
    """What is said about a connection that fails."""

    def test_keys_to_look_at(self) -> None:
        """The line names the key of our certificate where ZooKeeper refuses it, and that of what we trust."""
        begin = "Connection dropped: socket connection error: "
        refused = kazoo_session.with_advice(f"{begin}[SSL: SSLV3_ALERT_CERTIFICATE_UNKNOWN] (_ssl.c:1006)")
        self.assertIn("; see zookeeper.ssl.keystore.location: it refuses that certificate", refused)
        strange = kazoo_session.with_advice(f"{begin}[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
        self.assertTrue(strange.endswith("; see zookeeper.ssl.truststore.location"), strange)
        other = kazoo_session.with_advice(f"{begin}[SSL: CERTIFICATE_VERIFY_FAILED] Hostname mismatch, 'a'")
        self.assertTrue(other.endswith("; zookeeper.connect must have a name that the certificate is for"), other)
        old = f"{begin}[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired"
        self.assertEqual(kazoo_session.with_advice(old), old)
        plain = kazoo_session.with_advice(f"{begin}[SSL: WRONG_VERSION_NUMBER] wrong version number")
        self.assertTrue(plain.endswith("; it speaks no TLS at this port"), plain)
        self.assertEqual(kazoo_session.with_advice(f"{begin}Connection refused"), f"{begin}Connection refused")

    def test_hung_up(self) -> None:
        """A ZooKeeper that was set back hangs up on who has read newer data, as one without a quorum on everybody."""
        told = kazoo_session.with_advice("Connection dropped: socket connection broken")
        self.assertIn("; it hangs up: it is starting, has no quorum, wants TLS at this port, if there is none", told)
        self.assertIn("(zookeeper.ssl.client.enable), or was set back to older data than this broker has read", told)

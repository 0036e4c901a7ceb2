"""Registration, and the cluster's id."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.membership import (
    RETRY_SECONDS,
    Membership,
    ensure_cluster,
    ensure_cluster_id,
    ensure_paths,
)
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.memory_store import MemoryEnsemble, MemoryStore
from logbus.metastore.operations import DatabaseFull, Op, OpResult, SessionLost
from logbus.metastore.znodes import BrokerIdZnode, Registration
from logbus.model import Endpoint


class MembershipTests(SynchronousTestCase):
    """Two processes on one store."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.ensemble = MemoryEnsemble(self.clock.seconds)
        self.failures: list[Failure] = []
        self.store, self.other = self.opened(), self.opened()
        self.successResultOf(ensure_paths(self.store))

    def opened(self) -> MemoryStore:
        """A client of its own."""
        client = self.ensemble.client()
        self.successResultOf(client.open())
        return client

    def member(self, store: MemoryStore, incarnation: int = 1) -> Membership:
        """Broker 4, as a process with this incarnation."""
        registration = Registration(4, {"P": Endpoint("P", "h", 9092)}, UUID(int=incarnation), 0)
        return Membership(store, registration, self.clock, self.clock.seconds, 6.0, self.failures.append)

    def test_registration(self) -> None:
        """The node says who we are; its czxid is the epoch; leaving removes it."""
        self.clock.advance(2)
        member = self.member(self.store)
        epoch = self.successResultOf(member.register())
        data, stat = self.ensemble.tree.get("/brokers/ids/4")
        self.assertEqual((epoch, member.epoch), (stat.czxid, stat.czxid))
        self.assertEqual(stat.ephemeral_owner, self.store.session_id)
        self.assertEqual(BrokerIdZnode.decode(4, data).timestamp, 2000)
        self.successResultOf(member.unregister())
        self.assertIsNone(self.ensemble.tree.exists("/brokers/ids/4"))
        self.store.expire()
        self.assertIsNone(self.ensemble.tree.exists("/brokers/ids/4"))

    def test_clocks(self) -> None:
        """A clock that differs from the store's is told with its side, and a little does not matter."""
        self.clock.advance(10_000)
        for by, side in ((3600, "is 3600 s ahead of"), (-3600, "is 3600 s behind"), (50, ""), (-50, "")):
            with self.subTest(by), capturedLogs() as events:
                member = self.member(self.store)
                now = self.clock.seconds() + by
                member.wall_clock = lambda now=now: now  # type: ignore[misc]
                self.successResultOf(member.register())
                self.successResultOf(member.unregister())
                said = " ".join(map(str, map(formatEvent, events)))
                self.assertEqual("clock" in said, bool(side))
                self.assertIn(side, said)

    def test_waits_for_the_former_session(self) -> None:
        """A node of another session is not deleted; the broker registers when it has expired."""
        self.successResultOf(self.member(self.other).register())
        self.other.suspend()
        waiting = self.member(self.store, 2).register()
        self.clock.advance(8)
        self.assertNoResult(waiting)
        self.other.expire()
        epoch = self.successResultOf(waiting)
        data, stat = self.ensemble.tree.get("/brokers/ids/4")
        self.assertEqual((stat.czxid, BrokerIdZnode.decode(4, data).incarnation), (epoch, UUID(int=2)))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_another_broker_with_the_same_id(self) -> None:
        """After two session timeouts the id is refused, with the other's address; the other is left alone."""
        self.successResultOf(self.member(self.other).register())
        waiting = self.member(self.store, 2).register()
        self.clock.advance(11.9)
        self.assertNoResult(waiting)
        self.clock.advance(0.2)
        failure = self.failureResultOf(waiting, ApiError)
        self.assertEqual(failure.value.code, ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        self.assertIn("broker.id 4 is taken by a broker at h:9092", str(failure.value))
        self.assertIsNotNone(self.ensemble.tree.exists("/brokers/ids/4"))

    def test_a_new_session(self) -> None:
        """After an expiry we register again, once, with a greater epoch."""
        member = self.member(self.store)
        before = self.successResultOf(member.register())
        self.store.suspend()
        self.store.expire()
        self.store.resume()
        self.assertGreater(member.epoch, before)
        self.assertEqual(self.ensemble.tree.get("/brokers/ids/4")[1].czxid, member.epoch)

    def test_renewed(self) -> None:
        """On request it registers again within its session, with a greater epoch, also if the store was away."""
        member = self.member(self.store)
        self.successResultOf(member.renew())
        self.assertIsNone(self.ensemble.tree.exists("/brokers/ids/4"))
        before = self.successResultOf(member.register())
        self.successResultOf(member.renew())
        self.assertGreater(member.epoch, before)
        self.assertEqual(self.ensemble.tree.get("/brokers/ids/4")[1].czxid, member.epoch)
        self.assertEqual(self.ensemble.tree.get("/brokers/ids/4")[1].ephemeral_owner, self.store.session_id)
        before = member.epoch
        self.store.suspend()
        renewing = member.renew()
        self.assertNoResult(renewing)
        self.store.resume()
        self.successResultOf(renewing)
        self.assertGreater(member.epoch, before)
        self.assertEqual(self.ensemble.tree.get("/brokers/ids/4")[1].czxid, member.epoch)

    def test_not_renewed_with_another_session(self) -> None:
        """The session ends meanwhile, or the broker stops: it registers once more for that, or not at all."""
        member = self.member(self.store)
        self.successResultOf(member.register())
        self.store.suspend()
        renewing = member.renew()
        self.store.expire()
        self.store.resume()
        self.successResultOf(renewing)
        self.assertEqual(self.ensemble.tree.get("/brokers/ids/4")[1].czxid, member.epoch)
        self.successResultOf(member.unregister())
        self.successResultOf(member.renew())
        self.assertIsNone(self.ensemble.tree.exists("/brokers/ids/4"))

    def test_a_new_session_finds_the_id_taken(self) -> None:
        """Then we give up, and say so."""
        member = self.member(self.store)
        self.successResultOf(member.register())
        self.store.suspend()
        self.store.expire()
        self.successResultOf(self.member(self.other, 2).register())
        self.store.resume()
        self.assertEqual(member.epoch, -1)
        self.clock.advance(12.1)
        self.assertEqual(len(self.failures), 1)
        self.assertEqual(len(self.flushLoggedErrors(ApiError)), 1)

    def fill(self) -> None:
        """Refuse changes, until the next patch."""

        def full(_: MemoryStore, __: Sequence[Op]) -> Deferred[list[OpResult]]:
            return fail(DatabaseFull("there is no room"))

        self.room = self.patch(MemoryStore, "_commit", full)

    def test_closed_meanwhile(self) -> None:
        """A store that is closed while the broker registers anew is no defect to log: we give up."""
        member = self.member(self.store)
        self.successResultOf(member.register())
        waiting: list[Deferred[None]] = []

        def held(_: MemoryStore, __: str) -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        self.patch(MemoryStore, "get", held)
        self.store.expire()
        self.store.close()
        waiting[-1].errback(SessionLost("the metadata store is closed"))
        self.assertEqual([each.type for each in self.failures], [SessionLost])

    def test_a_full_store(self) -> None:
        """It registers as soon as there is room, the first time and after its session was replaced."""
        member = self.member(self.store)
        self.fill()
        first = member.register()
        self.clock.advance(RETRY_SECONDS)
        self.assertNoResult(first)
        self.room.restore()
        self.clock.advance(RETRY_SECONDS)
        epoch = self.successResultOf(first)
        self.fill()
        self.store.expire()
        self.assertEqual(member.epoch, -1)
        self.room.restore()
        self.clock.advance(RETRY_SECONDS)
        self.assertGreater(member.epoch, epoch)
        self.assertEqual(self.failures, [])

    def test_a_full_store_that_cannot_end_the_former_session(self) -> None:
        """As long as it is full, the former session is waited for, and nobody is said to have the id."""
        self.successResultOf(self.member(self.other).register())
        waiting = self.member(self.store, 2).register()
        self.fill()
        with capturedLogs() as events:
            self.clock.pump([12.1, *(30 * [RETRY_SECONDS])])
        self.assertNoResult(waiting)
        self.assertIn("broker 4 cannot register yet: there is no room", [formatEvent(each) for each in events])
        self.room.restore()
        self.clock.advance(RETRY_SECONDS)
        self.other.expire()
        self.successResultOf(waiting)
        self.assertIsNone(self.ensemble.tree.exists("/room-for-4"))

    def test_renewed_in_a_full_store(self) -> None:
        """That waits for room, too."""
        member = self.member(self.store)
        before = self.successResultOf(member.register())
        self.fill()
        renewing = member.renew()
        self.assertNoResult(renewing)
        self.room.restore()
        self.clock.advance(RETRY_SECONDS)
        self.successResultOf(renewing)
        self.assertGreater(member.epoch, before)

    def test_leaves_a_full_store(self) -> None:
        """A broker that stops does not try again."""
        member = self.member(self.store)
        self.fill()
        self.assertNoResult(member.register())
        self.successResultOf(member.unregister())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_lost_answer(self) -> None:
        """When the connection breaks during the registration, it is done once, whether it got through or not."""
        for applied in (False, True):
            self.ensemble = MemoryEnsemble(self.clock.seconds)
            store = self.opened()
            self.successResultOf(ensure_paths(store))
            self.ensemble.clock, self.ensemble.latency = self.clock, 0.1
            waiting = self.member(store).register()
            store.suspend(applied=applied)
            self.clock.advance(1)
            self.assertNoResult(waiting)
            store.resume()
            self.clock.pump([0.1] * 4)
            epoch = self.successResultOf(waiting)
            self.assertEqual(self.ensemble.tree.get("/brokers/ids/4")[1].czxid, epoch)

    def test_unreachable_store_during_the_wait(self) -> None:
        """While the store is unreachable nothing is known of the former session: the broker asks again later."""
        self.successResultOf(self.member(self.other).register())
        waiting = self.member(self.store, 2).register()
        self.clock.advance(5)
        self.store.suspend()
        self.other.suspend()
        self.other.expire()
        self.clock.advance(20)
        self.assertNoResult(waiting)
        self.store.resume()
        self.successResultOf(waiting)

    def test_cut_off_while_waiting(self) -> None:
        """The watch that went with the connection is made up for, and the overtaken attempt stays silent."""
        self.successResultOf(self.member(self.other).register())
        waiting = self.member(self.store, 2).register()
        self.store.suspend()
        self.other.suspend()
        self.other.expire()
        self.store.resume()
        self.successResultOf(waiting)
        self.clock.advance(60)
        self.assertEqual(self.failures, [])

    def test_cluster_id(self) -> None:
        """The first one makes it, everyone reads the same; it is 22 URL-safe characters."""
        first = self.successResultOf(ensure_cluster_id(self.store, lambda: UUID(int=2**127 + 1)))
        second = self.successResultOf(ensure_cluster_id(self.other, lambda: UUID(int=5)))
        self.assertEqual(first, second)
        self.assertRegex(first, r"\A[A-Za-z0-9_-]{22}\Z")

    def test_paths_are_made_once(self) -> None:
        """What is there is left alone."""
        before = self.ensemble.tree.exists("/brokers/ids")
        self.successResultOf(ensure_paths(self.other))
        self.assertEqual(self.ensemble.tree.exists("/brokers/ids"), before)


class BrokenConnections(SynchronousTestCase):
    """A start during which the connection to the store breaks, after each number of requests in turn."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.ensemble = MemoryEnsemble(self.clock.seconds, self.clock, 1.0)
        self.store = self.ensemble.client()
        self.successResultOf(self.store.open())

    def rest(self) -> None:
        while self.clock.getDelayedCalls():
            self.clock.advance(1)

    def test_interrupted_registration(self) -> None:
        """
        Nodes and the cluster's id are created, whenever the connection breaks, whether the write took effect or not.
        """
        for applied in (False, True):
            for after in range(6):
                self.setUp()
                found = Deferred.fromCoroutine(ensure_cluster(self.store, lambda: UUID(int=7)))
                for _ in range(after):
                    self.clock.advance(1)
                self.store.suspend(applied=applied)
                self.rest()
                if after < 4:
                    self.assertNoResult(found)
                self.store.resume()
                self.rest()
                self.assertEqual(self.successResultOf(found), "AAAAAAAAAAAAAAAAAAAABw")
                self.assertIn("/brokers/ids", self.ensemble.tree.nodes)

    def test_closed_store(self) -> None:
        """Waiting for a store that is closed ends."""
        found = Deferred.fromCoroutine(ensure_cluster(self.store, lambda: UUID(int=7)))
        self.store.suspend()
        self.store.close()
        self.failureResultOf(found, SessionLost)

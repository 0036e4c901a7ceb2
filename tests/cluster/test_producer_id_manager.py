"""Allocation of producer ids."""

from __future__ import annotations

from twisted.internet.defer import fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.producer_id_manager import BLOCK_SIZE, LAST_ID, ProducerIdManager
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.cluster_znodes import ProducerIdBlock, ProducerIdBlockZnode
from logbus.metastore.memory_store import MemoryEnsemble, MemoryStore
from logbus.metastore.operations import DatabaseFull
from logbus.metastore.znodes import PRODUCER_ID_BLOCK


class ProducerIdTests(SynchronousTestCase):
    """Brokers on one store that takes its time."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.ensemble = MemoryEnsemble(self.clock.seconds, self.clock, 0.1)
        self.brokers = [self.broker(number) for number in range(2)]

    def broker(self, number: int) -> ProducerIdManager:
        """One broker's allocator."""
        store = self.ensemble.client()
        self.successResultOf(store.open())
        return ProducerIdManager(store, number)

    def settle(self) -> None:
        """Let the store answer."""
        self.clock.pump([0.1] * 12)

    def test_no_id_is_given_twice(self) -> None:
        """Two brokers that claim at the same time get different blocks, and each uses its own up."""
        waiting = [broker.allocate() for _ in range(BLOCK_SIZE + 5) for broker in self.brokers]
        self.settle()
        self.settle()
        given = [self.successResultOf(one) for one in waiting]
        self.assertEqual(len(set(given)), len(given))
        self.assertEqual(sorted(given[::2])[:3], [0, 1, 2])
        block = ProducerIdBlockZnode.decode(self.ensemble.tree.get(PRODUCER_ID_BLOCK)[0])
        self.assertEqual(block.last, 4 * BLOCK_SIZE - 1)

    def test_restart_skips_the_claimed_block(self) -> None:
        """After a restart the next block is used."""
        self.brokers[0].allocate()
        self.settle()
        waiting = self.broker(0).allocate()
        self.settle()
        self.assertEqual(self.successResultOf(waiting), BLOCK_SIZE)

    def test_out_of_reach(self) -> None:
        """Who waits is told to try again, and can."""
        broker = self.brokers[0]
        waiting = [broker.allocate(), broker.allocate()]
        broker.store.suspend()  # type: ignore[attr-defined]
        for one in waiting:
            failure = self.failureResultOf(one, ApiError)
            self.assertEqual(failure.value.code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        broker.store.resume()  # type: ignore[attr-defined]
        again = broker.allocate()
        self.settle()
        self.assertEqual(self.successResultOf(again), 0)

    def test_a_full_store(self) -> None:
        """So it is while there is no room for another block."""
        broker = self.brokers[0]
        room = self.patch(MemoryStore, "_commit", lambda store, ops: fail(DatabaseFull("there is no room")))
        waiting = broker.allocate()
        self.settle()
        self.assertEqual(self.failureResultOf(waiting, ApiError).value.code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        room.restore()
        waiting = broker.allocate()
        self.settle()
        self.assertEqual(self.successResultOf(waiting), 0)

    def test_cancelled_request(self) -> None:
        """A cancelled request does not affect the others."""
        broker = self.brokers[0]
        first, second = broker.allocate(), broker.allocate()
        first.addErrback(lambda _: None)
        first.cancel()
        self.settle()
        self.assertIsInstance(self.successResultOf(second), int)

    def test_the_end(self) -> None:
        """When all ids are used up, that is said."""
        last = ProducerIdBlock(0, LAST_ID - 5, LAST_ID)
        self.brokers[0].store.create(PRODUCER_ID_BLOCK, ProducerIdBlockZnode.encode(last))
        waiting = self.brokers[0].allocate()
        self.settle()
        self.assertIn("handed out", str(self.failureResultOf(waiting, ApiError).value))

"""The transaction coordinator on a whole broker: time, limits, starts, and disks that fail."""

from __future__ import annotations

from typing import Any
from unittest import mock

from attrs import evolve
from twisted.internet.defer import Deferred, fail

from logbus.coordination.state_log import StateLog
from logbus.coordination.transactions.marker_channel_manager import MarkerChannelManager
from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.errors import ApiError, ErrorCode
from logbus.model import TRANSACTIONS_TOPIC, TopicPartition
from logbus.records.batch import Record, encode_batch
from logbus.records.control_records import ControlType
from logbus.testing.simulation.environment.memory_disk import no_space
from tests.handlers.kit import MemoryBroker
from tests.handlers.test_transactions import OK, TransactionCase, wish

OLD, NEW = 3, 5


class OneShardCase(TransactionCase):
    """All ids are in one partition."""

    config = {**TransactionCase.config, "transaction.state.log.num.partitions": "1"}

    @property
    def shard(self) -> Any:
        return self.server.broker.coordinators.transactions.shards[0]

    @property
    def log(self) -> Any:
        return self.server.broker.replication.replicas.get(TRANSACTIONS_TOPIC, 0).log

    def start_again(self) -> None:
        """The same broker, on the same disk."""
        self.server.stop()
        self.server = MemoryBroker(self.config, disks=self.server.disks, ensemble=self.server.ensemble).start()
        self.addCleanup(self.server.close)
        self.client = self.server.connect()
        self.client.turn()


class TimeTests(OneShardCase):
    """Timeouts and expiration."""

    config = {
        **OneShardCase.config,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "60000",
        "transactional.id.expiration.ms": "600000",
    }

    def test_too_long(self) -> None:
        """A transaction is aborted when its time is up, and not before; its producer is fenced."""
        producer = self.begin(timeout_ms=5000)
        self.add(producer, {"t": [0]})
        self.write(producer)
        self.client.turn(4.9)
        self.assertIs(self.now().state, TransactionState.ONGOING)
        self.client.turn(1.2)
        self.client.turn()
        self.assertIs(self.now().state, TransactionState.COMPLETE_ABORT)
        self.assertEqual(self.markers(), [ControlType.ABORT])
        self.assertEqual(self.end(producer).error_code, ErrorCode.PRODUCER_FENCED)
        self.assertEqual(self.server.broker.coordinators.transactions.metrics.timed_out, 1)

    def test_too_long_for_a_new_client(self) -> None:
        """A commit is refused; after an abort the producer goes on with the next epoch."""
        producer = self.begin(timeout_ms=5000, version=NEW)
        self.add_as_broker(wish(producer, {"t": [0]}))
        self.client.turn(7)
        self.client.turn()
        self.assertEqual(self.end(producer, version=NEW).error_code, ErrorCode.INVALID_TXN_STATE)
        response = self.end(producer, commit=False, version=NEW)
        self.assertEqual((response.error_code, response.producer_epoch), (OK, producer.epoch + 1))

    def test_unused(self) -> None:
        """An unused id expires, also in the log; one with a transaction does not."""
        self.begin("idle")
        busy = self.begin("busy", timeout_ms=900_000)
        self.add(busy, {"t": [0]}, name="busy")
        for _ in range(12):
            self.client.turn(60)
        self.assertEqual(set(self.shard.entries), {"busy"})
        self.assertEqual(self.server.broker.coordinators.transactions.metrics.expired, 1)
        self.start_again()
        self.assertEqual(set(self.shard.entries), {"busy"})

    def test_expiration_without_disk_space(self) -> None:
        """If a tombstone cannot be written, the id stays until a later scan."""
        self.begin("idle")
        self.disk.faults = lambda op, path: no_space() if op in ("create", "make", "replace", "write") else None
        for _ in range(12):
            self.client.turn(60)
        self.assertEqual(set(self.shard.entries), {"idle"})
        self.disk.faults = lambda op, path: None
        self.client.turn(120)
        self.client.turn(60)
        self.assertEqual(set(self.shard.entries), set())


class LimitTests(OneShardCase):
    """Limits of ids and partitions."""

    config = {
        **OneShardCase.config,
        "transactional.id.max.count": "2",
        "transaction.max.partitions": "2",
        "transaction.max.open.partitions": "3",
    }

    def test_ids(self) -> None:
        """Above the limit new ids are refused; existing ones go on."""
        for name in ("a", "b"):
            self.begin(name)
        self.assertEqual(self.init("c").error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.begin("a")

    def test_partitions(self) -> None:
        """Limits of partitions, in one transaction and in all."""
        self.server.create("many", 3)
        one, other = self.begin("a"), self.begin("b")
        found = self.add(one, {"many": [0, 1, 2]}, name="a")
        self.assertEqual(set(found.values()), {ErrorCode.POLICY_VIOLATION})
        self.assertEqual(set(self.add(one, {"many": [0, 1]}, name="a").values()), {OK})
        found = self.add(other, {"many": [0, 1]}, name="b")
        self.assertEqual(set(found.values()), {ErrorCode.COORDINATOR_NOT_AVAILABLE})
        self.assertEqual(set(self.add(other, {"many": [0]}, name="b").values()), {OK})
        self.end(one, name="a")
        self.assertEqual(set(self.add(other, {"many": [1]}, name="b").values()), {OK})

    def test_names(self) -> None:
        """A name may be as long as a record can hold: longer ones cannot even be sent."""
        self.assertEqual(self.init("x" * 32_767, version=1).error_code, OK)


class StartTests(OneShardCase):
    """Loads of the log by a starting broker."""

    def test_state_after_a_restart(self) -> None:
        """Ids, epochs, and open transactions, which continue."""
        producer = self.begin()
        self.add(producer, {"t": [0]})
        self.write(producer)
        self.begin("other")
        self.start_again()
        self.assertEqual(self.now().partitions, {("t", 0)})
        self.assertEqual(self.end(producer).error_code, OK)
        self.assertEqual(self.markers(), [ControlType.COMMIT])
        self.assertEqual(self.begin("other").epoch, 1)

    def test_a_decision_is_carried_out(self) -> None:
        """The broker ended between the decision and the markers."""
        producer = self.begin()
        self.add(producer, {"t": [0]})
        self.write(producer)
        with mock.patch.object(MarkerChannelManager, "send"):
            self.assertEqual(self.end(producer).error_code, OK)
        self.assertEqual(self.markers(), [])
        self.assertIs(self.now().state, TransactionState.PREPARE_COMMIT)
        self.start_again()
        self.client.turn(1)
        self.assertEqual(self.markers(), [ControlType.COMMIT])
        self.assertIs(self.now().state, TransactionState.COMPLETE_COMMIT)

    def test_damage(self) -> None:
        """Records that make no sense are passed over; all others count."""
        self.begin()
        shard = self.shard
        for key, value in ((b"\0\7?", b"x"), (b"", b""), (b"\0\0\0\1x", b"\0\1")):
            batch = encode_batch([Record(0, 0, key, value)])
            shard.log.replica.append(batch, 0, all_in_sync=True)
        self.start_again()
        self.assertEqual(set(self.shard.entries), {"tx"})
        self.assertEqual(self.server.broker.coordinators.transactions.metrics.damaged, 3)

    def test_uncommitted_state_has_no_effect(self) -> None:
        """Loaded records have no effect before all in-sync replicas have them."""
        producer = self.begin()
        self.add(producer, {"t": [0]})
        with mock.patch.object(MarkerChannelManager, "send"):
            self.end(producer)
        not_now = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "followers are away")
        with mock.patch.object(StateLog, "durable", side_effect=lambda *args: fail(not_now)):
            self.start_again()
            self.client.turn(3)
            self.assertEqual(self.init().error_code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self.assertEqual(self.markers(), [])
        self.client.turn(1)
        self.client.turn(1)
        self.assertEqual(self.markers(), [ControlType.COMMIT])

    def test_requests_during_a_load(self) -> None:
        """They must be retried."""
        producer = self.begin()
        self.shard.loading = True
        self.assertEqual(self.init().error_code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.assertEqual(self.end(producer).error_code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.assertTrue(self.server.broker.coordinators.transactions.loading)


class FailureTests(OneShardCase):
    """Failed writes have no effect, and can be retried."""

    def test_no_space(self) -> None:
        """Without disk space each kind of request gets an error, and succeeds afterwards."""
        producer = self.begin()
        full = lambda op, path: no_space() if op in ("create", "make", "replace", "write") else None  # noqa: E731
        self.disk.faults = full
        self.assertEqual(self.init("new").error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(self.add(producer, {"t": [0]}), {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE})
        self.assertNotIn("new", self.shard.entries)
        self.disk.faults = lambda op, path: None
        self.add(producer, {"t": [0]})
        self.write(producer)
        self.disk.faults = full
        self.assertEqual(self.end(producer).error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertIs(self.now().state, TransactionState.ONGOING)
        self.disk.faults = lambda op, path: None
        self.assertEqual(self.end(producer).error_code, OK)
        self.assertIs(self.now().state, TransactionState.COMPLETE_COMMIT)

    def test_no_space_for_markers(self) -> None:
        """They are written as soon as there is."""
        producer = self.begin()
        self.add(producer, {"t": [0]})
        self.write(producer)
        self.disk.faults = lambda op, path: no_space() if "t-0" in str(path) and op == "write" else None
        self.assertEqual(self.end(producer).error_code, OK)
        self.client.turn(3)
        self.assertIs(self.now().state, TransactionState.PREPARE_COMMIT)
        self.assertEqual(self.add(producer, {"t": [1]}), {("t", 1): ErrorCode.CONCURRENT_TRANSACTIONS})
        self.disk.faults = lambda op, path: None
        self.client.turn(2)
        self.client.turn()
        self.assertIs(self.now().state, TransactionState.COMPLETE_COMMIT)
        self.assertEqual(self.markers(), [ControlType.COMMIT])

    def test_no_space_for_the_completion(self) -> None:
        """The completion is written when there is space; until then the next transaction waits."""
        producer = self.begin()
        self.add(producer, {"t": [0]})
        self.write(producer)
        putting = type(self.shard).put
        refused: list[int] = []

        def put(shard: Any, transaction: Any) -> Any:
            if transaction.state is TransactionState.COMPLETE_COMMIT and len(refused) < 3:
                refused.append(1)
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no space")
            return putting(shard, transaction)

        self.patch(type(self.shard), "put", put)
        self.assertEqual(self.end(producer).error_code, OK)
        self.assertIs(self.now().state, TransactionState.PREPARE_COMMIT)
        self.client.turn(1)
        for _ in range(10):
            self.client.turn(1)
        self.assertIs(self.now().state, TransactionState.COMPLETE_COMMIT)
        self.assertEqual(len(refused), 3)

    def test_former_coordinator(self) -> None:
        """After a failover the former coordinator sends and writes nothing."""
        producer = self.begin()
        self.add(producer, {"t": [0]})
        coordinator = self.server.broker.coordinators.transactions
        ended = Deferred.fromCoroutine(coordinator.end("tx", producer, True))
        coordinator.leads_no_more(self.shard.log.replica.topic_partition)
        self.client.turn(2)
        self.assertEqual(self.markers(), [])
        self.assertEqual(coordinator.markers.transactions, 0)
        self.assertEqual(self.successResultOf(ended), producer)
        self.assertEqual(self.init().error_code, ErrorCode.NOT_COORDINATOR)

    def test_one_write_at_a_time(self) -> None:
        """While a write is pending, other requests for the id must be retried."""
        producer = self.begin()
        self.shard.entries["tx"].pending = self.now()
        self.assertEqual(self.init().error_code, ErrorCode.CONCURRENT_TRANSACTIONS)
        self.assertEqual(self.end(producer).error_code, ErrorCode.CONCURRENT_TRANSACTIONS)
        self.assertEqual(self.add(producer, {"t": [0]}), {("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS})

    def test_leaders_wait_a_little(self) -> None:
        """Partitions that a broker adds wait a short time for a pending write."""
        producer = self.begin(version=NEW)
        coordinator = self.server.broker.coordinators.transactions
        entry = self.shard.entries["tx"]
        entry.pending = self.now()

        def add(partition: int) -> Deferred[None]:
            some = [TopicPartition("t", partition)]
            return Deferred.fromCoroutine(coordinator.add_partitions("tx", producer, some, 2))

        adding = [add(0) for _ in range(2)]
        self.assertNoResult(adding[0])
        adding[1].addErrback(lambda _: None)
        adding[1].cancel()
        entry.pending = None
        self.shard._settled(entry.waiting, None)
        entry.waiting.clear()
        self.client.turn()
        self.successResultOf(adding[0])
        entry.pending = self.now()
        late = add(1)
        self.client.turn(0.2)
        self.failureResultOf(late)
        self.assertEqual(entry.waiting, [])


class ExhaustedTests(OneShardCase):
    """A producer id whose epochs are used up."""

    def wear_out(self) -> ProducerIdAndEpoch:
        """A producer with the last epoch that a producer may have."""
        self.begin()
        entry = self.shard.entries["tx"]
        entry.current = evolve(entry.current, producer_epoch=32_766)
        return ProducerIdAndEpoch(entry.current.producer_id, 32_766)

    def test_new_clients(self) -> None:
        """The end of the last transaction gives the next id."""
        producer = self.wear_out()
        self.add_as_broker(wish(producer, {"t": [0]}))
        response = self.end(producer, version=NEW)
        self.assertEqual((response.error_code, response.producer_epoch), (OK, 0))
        self.assertNotEqual(response.producer_id, producer.producer_id)
        again = self.end(producer, version=NEW)
        self.assertEqual((again.error_code, again.producer_id, again.producer_epoch), (OK, response.producer_id, 0))
        self.assertEqual(self.markers(), [ControlType.COMMIT])

    def test_old_clients(self) -> None:
        """The next beginning gives it."""
        producer = self.wear_out()
        self.add(producer, {"t": [0]})
        self.assertEqual(self.init().error_code, ErrorCode.CONCURRENT_TRANSACTIONS)
        self.client.turn()
        after = self.begin()
        self.assertEqual(after.epoch, 0)
        self.assertNotEqual(after.producer_id, producer.producer_id)

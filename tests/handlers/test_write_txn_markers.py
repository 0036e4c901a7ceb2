"""WriteTxnMarkers, from brokers, and from clients that abort hanging transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from logbus.coordination.transactions import hanging_transactions
from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.records.batch import Marker
from logbus.records.control_records import ControlType
from logbus.wire.messages.partitions import TopicPartitionIndexes
from logbus.wire.messages.transactions import WritableTxnMarker, WriteTxnMarkersRequest
from tests.handlers.kit import NOW_MS, Client, a_batch
from tests.handlers.test_transactions import OK, OLD_EPOCH, TransactionCase

T0 = ("t", 0)
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NOBODY = ProducerIdAndEpoch(4711, 3)


class MarkerCase(TransactionCase):
    def setUp(self) -> None:
        super().setUp()
        self.peer = self.server.connect()
        self.peer.protocol.context.broker = 1

    def request(
        self,
        producer: ProducerIdAndEpoch,
        topics: Mapping[str, Sequence[int]],
        *,
        committed: bool = False,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> WriteTxnMarkersRequest:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=committed,
            topics=[TopicPartitionIndexes(name=name, partition_indexes=list(some)) for name, some in topics.items()],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def mark(
        self,
        producer: ProducerIdAndEpoch,
        topics: Mapping[str, Sequence[int]],
        *,
        version: int = 1,
        by: Client | None = None,
        **given: Any,
    ) -> dict[tuple[str, int], int]:
        """
        Ask for markers.

        :param by: who asks; by default a client.
        """
        (found,) = (by or self.client).ask(self.request(producer, topics, **given), version).markers
        return {(topic.name, one.partition_index): one.error_code for topic in found.topics for one in topic.partitions}

    def end_offsets(self) -> list[int]:
        return [replica.log.log_end_offset for replica in self.server.broker.replication.replicas]

    def hang(self, producer: ProducerIdAndEpoch = NOBODY, sequence: int = 0) -> None:
        """Write a record of a transaction past its coordinator."""
        batch = a_batch(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        self.server.broker.replication.replicas.get("t", 0).append(batch, NOW_MS)

    @property
    def stable(self) -> int:
        return self.server.broker.replication.replicas.get("t", 0).last_stable_offset


class RemoteCoordinatorTests(MarkerCase):
    """Coordinators on other brokers."""

    def test_markers(self) -> None:
        """Each partition has its outcome."""
        producer = self.begin()
        self.add(producer, {"t": [0]})
        self.write(producer)
        for version in (1, 2):
            found = self.mark(producer, {"t": [0, 7], "nothing": [0]}, version=version, by=self.peer)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.assertEqual(found, {T0: OK, ("t", 7): unknown, ("nothing", 0): unknown})
        self.assertEqual(self.markers(), [ControlType.ABORT] * 2)

    def test_offsets(self) -> None:
        """Offsets that are committed in a transaction are in an internal topic."""
        found = self.mark(ProducerIdAndEpoch(5, 0), {"__consumer_offsets": [0]}, committed=True, by=self.peer)
        self.assertEqual(found, {("__consumer_offsets", 0): OK})

    def test_invalid_producers(self) -> None:
        """Negative producer ids and epochs are refused from any sender."""
        before = self.end_offsets()
        for by in (self.peer, self.client):
            found = self.mark(ProducerIdAndEpoch(-1, 0), {"t": [0]}, by=by)
            self.assertEqual(found, {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING})
            self.assertEqual(self.mark(ProducerIdAndEpoch(7, -1), {"t": [0]}, by=by), {T0: OLD_EPOCH})
        self.assertEqual(self.end_offsets(), before)


class RefusedMarkerTests(MarkerCase):
    """Refused requests of clients."""

    def test_known_transaction(self) -> None:
        """A client cannot end a transaction that its coordinator knows."""
        producer = self.begin()
        self.add(producer, {"t": [0]})
        self.write(producer)
        before = self.end_offsets()
        for committed in (True, False):
            for version in (1, 2):
                found = self.mark(producer, {"t": [0]}, committed=committed, version=version)
                self.assertEqual(found, {T0: REFUSED})
        self.assertEqual(self.mark(ProducerIdAndEpoch(producer.producer_id, 32767), {"t": [0]}), {T0: OLD_EPOCH})
        following = ProducerIdAndEpoch(producer.producer_id, producer.epoch + 1)
        self.assertEqual(
            self.mark(following, {"t": [0]}, version=2, transaction_version=2),
            {T0: OLD_EPOCH},
        )
        self.assertEqual(self.mark(producer, {"t": [0]}, coordinator_epoch=9), {T0: ErrorCode.INVALID_REQUEST})
        self.assertEqual(self.end_offsets(), before)
        self.write(producer, 1)
        self.assertEqual(self.end(producer, True).error_code, OK)
        self.client.turn()
        self.assertEqual(self.markers(), [ControlType.COMMIT])

    def test_of_a_producer_without_a_transaction(self) -> None:
        """An idempotent producer, and one between transactions, are not fenced."""
        batch = a_batch(producer_id=9, producer_epoch=0, base_sequence=0)
        self.assertEqual(self.client.produce(batch).error_code, OK)
        before = self.end_offsets()
        self.assertEqual(self.mark(ProducerIdAndEpoch(9, 32767), {"t": [0]}), {T0: OLD_EPOCH})
        self.assertEqual(self.mark(ProducerIdAndEpoch(9, 0), {"t": [0]}, committed=True), {T0: REFUSED})
        self.assertEqual(self.mark(ProducerIdAndEpoch(9, 0), {"t": [0]}), {T0: OK})
        self.assertEqual(self.end_offsets(), before)

    def test_of_unknown_producers(self) -> None:
        """A partition does not come to know producers by markers of clients."""
        before = self.end_offsets()
        self.assertEqual(self.mark(NOBODY, {"t": [0]}), {T0: ErrorCode.UNKNOWN_PRODUCER_ID})
        self.assertEqual(self.end_offsets(), before)
        self.assertIsNone(self.server.broker.replication.replicas.get("t", 0).log.producers.get(NOBODY.producer_id))

    def test_internal_topics(self) -> None:
        """Neither offsets nor the state of transactions."""
        before = self.end_offsets()
        found = self.mark(NOBODY, {"__consumer_offsets": [0], "__transaction_state": [0]})
        self.assertEqual(set(found.values()), {ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        self.assertEqual(self.end_offsets(), before)

    def test_too_many(self) -> None:
        """A request of a client is bounded."""
        with patch.object(hanging_transactions, "MAX_PARTITIONS", 3):
            self.hang()
            found = self.mark(NOBODY, {"t": [0, 1, 2, 3]})
            self.assertEqual(set(found.values()), {ErrorCode.INVALID_REQUEST})


class HangingTransactionTests(MarkerCase):
    """Hanging transactions, which clients may abort."""

    def test_hanging_transaction(self) -> None:
        """A client can abort a transaction of a producer without coordinator; a second request has nothing to do."""
        self.hang()
        self.assertEqual(self.stable, 0)
        for _ in range(2):
            self.assertEqual(self.mark(NOBODY, {"t": [0]}), {T0: OK})
            self.assertEqual((self.markers(), self.stable), ([ControlType.ABORT], 2))

    def test_no_commit_by_clients(self) -> None:
        """A client cannot commit a hanging transaction."""
        self.hang()
        self.assertEqual(self.mark(NOBODY, {"t": [0]}, committed=True), {T0: REFUSED})
        self.assertEqual(self.stable, 0)

    def test_unknown_partition_of_a_known_producer(self) -> None:
        """The coordinator knows the producer, but not that it wrote to the partition."""
        producer = self.begin()
        self.hang(producer)
        self.assertEqual(self.mark(producer, {"t": [0]}), {T0: OK})
        self.assertEqual(self.markers(), [ControlType.ABORT])

    def test_coordinator_epoch(self) -> None:
        """The epoch of the last marker's coordinator is accepted, and no higher one."""
        replica = self.server.broker.replication.replicas.get("t", 0)
        self.hang()
        replica.append_marker(*NOBODY, Marker(ControlType.COMMIT, 9), NOW_MS, 0)
        self.hang(sequence=1)
        for epoch, code in ((10, ErrorCode.INVALID_REQUEST), (8, ErrorCode.TRANSACTION_COORDINATOR_FENCED), (9, OK)):
            self.assertEqual(self.mark(NOBODY, {"t": [0]}, coordinator_epoch=epoch), {T0: code})

    def test_loading_coordinators(self) -> None:
        """While a coordinator loads its state, the client has to retry."""
        self.hang()
        shard = next(iter(self.server.broker.coordinators.transactions.shards.values()))
        shard.loading = True
        self.assertEqual(self.mark(NOBODY, {"t": [0]}), {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
        self.assertEqual(self.markers(), [])
        shard.loading = False
        self.assertEqual(self.mark(NOBODY, {"t": [0]}), {T0: OK})

    def test_transaction_ends_during_the_check(self) -> None:
        """If the transaction ends and the next one begins during the check, that one is not aborted."""
        self.hang()
        answer: Deferred[Any] = Deferred()
        self.patch(hanging_transactions.TransactionLookup, "partitions_to_end", lambda lookup, ids: answer)
        self.client.send(self.request(NOBODY, {"t": [0]}), 1)
        self.server.broker.replication.replicas.get("t", 0).append_marker(
            *NOBODY, Marker(ControlType.COMMIT, 0), NOW_MS, 0
        )
        self.hang(sequence=1)
        before = self.end_offsets()
        answer.callback({})
        self.client.turn()
        self.assertEqual(len(self.client.frames()), 1)
        self.assertEqual(self.end_offsets(), before)

    def test_outcome_per_partition(self) -> None:
        """Each has its own outcome."""
        self.hang()
        found = self.mark(NOBODY, {"t": [0, 1, 9]})
        self.assertEqual(
            found,
            {T0: OK, ("t", 1): ErrorCode.UNKNOWN_PRODUCER_ID, ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        )

    def test_no_internal_topic(self) -> None:
        """Without the internal topic no transaction has a coordinator."""
        self.hang()
        image = self.server.broker.member.metadata
        with image.changing():
            image.remove_topic("__transaction_state")
        self.assertEqual(self.mark(NOBODY, {"t": [0]}), {T0: OK})
        self.assertEqual(self.server.broker.member.metadata.partition(TopicPartition("__transaction_state", 0)), None)

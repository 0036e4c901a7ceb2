"""Leaders of partitions ask the coordinator of a transaction, wherever it is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from logbus.coordination.transactions.add_partitions_to_txn_manager import (
    CONNECTIONS_PER_COORDINATOR,
    MAX_TRANSACTIONS_PER_REQUEST,
)
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from tests.cluster.test_transaction_coordinators import CoordinatorCase

P = [TopicPartition("t", number) for number in range(3)]
OK, NOT_IN_IT = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE


class ParticipationTests(CoordinatorCase):
    """Three brokers, one of which coordinates."""

    def add_or_verify(
        self, broker_id: int, partitions: Collection[TopicPartition], add: bool, epoch: int | None = None, **given: Any
    ) -> Any:
        """A Deferred."""
        producer = given.get("producer_id", self.producer.producer_id)
        return self.cluster[broker_id].broker.coordinators.add_partitions_manager.add_or_verify(
            given.get("name", "tx"), producer, self.producer.epoch if epoch is None else epoch, partitions, add
        )

    def asked(self, *given: Any, **others: Any) -> Any:
        return self.cluster.now(self.add_or_verify(*given, **others), 20)

    def test_from_anywhere(self) -> None:
        """Any broker returns the same outcome."""
        for broker_id in range(3):
            self.assertEqual(self.asked(broker_id, [P[broker_id]], add=False), {P[broker_id]: NOT_IN_IT})
            self.assertEqual(self.asked(broker_id, [P[broker_id]], add=True), {P[broker_id]: OK})
            self.assertEqual(
                self.asked(broker_id, P[: broker_id + 1], add=False), dict.fromkeys(P[: broker_id + 1], OK)
            )
        known = self.cluster[self.coordinator].broker.coordinators.transactions.describe("tx")
        self.assertEqual(known.partitions, set(P))

    def test_refusals(self) -> None:
        """In words that Produce has: fenced is INVALID_PRODUCER_EPOCH."""
        for broker_id in range(3):
            for add in (True, False):
                for given, code in (
                    ({"epoch": 7}, ErrorCode.INVALID_PRODUCER_EPOCH),
                    ({"producer_id": 77}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
                    ({"name": "new"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
                    ({"name": ""}, ErrorCode.INVALID_REQUEST),
                ):
                    self.assertEqual(self.asked(broker_id, [P[0]], add, **given), {P[0]: code}, (broker_id, given))

    def test_all_at_once(self) -> None:
        """Leaders that ask at the same time for one transaction all get their partition in."""
        asked = [self.add_or_verify(n % 3, [P[n % 3]], True) for n in range(9)]
        for n, waiting in enumerate(asked):
            self.assertEqual(self.cluster.now(waiting), {P[n % 3]: OK})

    def test_many(self) -> None:
        """Questions for one broker go together, and each finds its answer."""
        coordinator = self.coordinator
        other = next(number for number in range(3) if number != coordinator)
        asked = [
            self.add_or_verify(other, [P[0]], False, name=f"nobody-{n}")
            for n in range(3 * CONNECTIONS_PER_COORDINATOR * MAX_TRANSACTIONS_PER_REQUEST)
        ]
        asked[5].cancel()
        self.failureResultOf(asked.pop(5))
        before = self.cluster[coordinator].broker.kafka_server.router.counts[24]
        for waiting in asked:
            self.assertEqual(self.cluster.now(waiting, 20), {P[0]: ErrorCode.INVALID_PRODUCER_ID_MAPPING})
        self.assertLess(self.cluster[coordinator].broker.kafka_server.router.counts[24] - before, 40)

    def test_out_of_reach(self) -> None:
        """An answer comes all the same, and says to try again."""
        coordinator = self.coordinator
        other = next(number for number in range(3) if number != coordinator)
        self.asked(other, [P[0]], False)
        self.cluster.cut(other, coordinator)
        (code,) = self.cluster.now(self.add_or_verify(other, [P[0]], False), 60).values()
        self.assertIn(
            code, (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        )
        self.cluster.mend()
        self.cluster.settle(2)
        self.assertEqual(self.asked(other, [P[0]], True), {P[0]: OK})

    def test_unknown_partition(self) -> None:
        """The coordinator adds none that its metadata do not show yet: it would send no marker there."""
        unknown = TopicPartition("new", 0)
        for broker_id in range(3):
            (code,) = self.asked(broker_id, [unknown], True).values()
            self.assertEqual(code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, broker_id)

    def test_no_coordinator(self) -> None:
        """While the coordinator's partition has no leader."""
        others = [number for number in range(3) if number != self.coordinator]
        left = others[0]
        image = self.cluster.metadata(left)
        with image.changing():
            image.remove_topic("__transaction_state")
        self.assertEqual(self.asked(left, [P[0]], True), {P[0]: ErrorCode.COORDINATOR_NOT_AVAILABLE})

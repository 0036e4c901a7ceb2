"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn on a complete broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch, TransactionMetadata
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.errors import ErrorCode
from logbus.records.batch import decode_batch, iter_batches
from logbus.records.control_records import ControlType, decode_control_key
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.partitions import NamedTopicPartitions
from logbus.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tests.handlers.kit import HandlerCase, a_batch

OK, FENCED, OLD_EPOCH = 0, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH


class TransactionCase(HandlerCase):
    """A broker that coordinates transactions, and the words of a producer."""

    config: Mapping[str, str] = {
        "transaction.state.log.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
    }

    def setUp(self) -> None:
        super().setUp()
        self.client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 4)
        self.client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)

    def init(
        self, name: str = "tx", version: int = 4, timeout_ms: int = 60_000, expected: ProducerIdAndEpoch | None = None
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
        if expected is not None:
            request.producer_id, request.producer_epoch = expected
        response: InitProducerIdResponse = self.client.ask(request, version)
        return response

    def begin(self, name: str = "tx", **given: Any) -> ProducerIdAndEpoch:
        """A producer that has begun."""
        response = self.init(name, **given)
        self.assertEqual(response.error_code, OK)
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    def add(
        self, producer: ProducerIdAndEpoch, topics: Mapping[str, Sequence[int]], version: int = 3, name: str = "tx"
    ) -> dict[tuple[str, int], int]:
        """As a client asks."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=spelled(topics),
        )
        return outcomes(self.client.ask(request, version).results_by_topic_v3_and_below)

    def add_as_broker(self, *wishes: AddPartitionsToTxnTransaction, version: int = 5) -> dict[str, dict[Any, int]]:
        """As brokers ask for their producers."""
        response = self.client.ask(AddPartitionsToTxnRequest(transactions=list(wishes)), version)
        self.assertEqual(response.error_code, OK)
        return {one.transactional_id: outcomes(one.topic_results) for one in response.results_by_transaction}

    def end(
        self, producer: ProducerIdAndEpoch, commit: bool = True, version: int = 3, name: str = "tx"
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        response: EndTxnResponse = self.client.ask(request, version)
        self.client.turn()  # The markers are written after the answer.
        return response

    def write(self, producer: ProducerIdAndEpoch, sequence: int = 0, partition: int = 0, name: str = "tx") -> int:
        batch = a_batch(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return self.client.produce(batch, partition=partition, acks=-1, transactional_id=name).error_code

    def now(self, name: str = "tx") -> TransactionMetadata:
        """The coordinator's state of the transaction."""
        return self.server.broker.coordinators.transactions.describe(name)

    def markers(self, topic: str = "t", partition: int = 0) -> list[ControlType | None]:
        """The ends of transactions in a partition."""
        replica = self.server.broker.replication.replicas.get(topic, partition)
        found = replica.log.read(0, 1 << 20, replica.log.log_end_offset).data
        data = b"" if found is None else found.read()
        return [
            decode_control_key(record.key)
            for position, header in iter_batches(data)
            if header.control
            for record in decode_batch(data, position, header=header)
        ]


def spelled(topics: Mapping[str, Sequence[int]]) -> list[NamedTopicPartitions]:
    return [NamedTopicPartitions(name=name, partitions=list(numbers)) for name, numbers in topics.items()]


def outcomes(topics: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, one.partition_index): one.partition_error_code
        for topic in topics
        for one in topic.results_by_partition
    }


def wish(
    producer: ProducerIdAndEpoch, topics: Mapping[str, Sequence[int]], name: str = "tx", verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=spelled(topics),
    )


class HappyTests(TransactionCase):
    """Transactions without failures."""

    def test_as_old_clients_do(self) -> None:
        """Partitions take part by request; the epoch stays; markers are where the producer wrote, and nowhere else."""
        for version in range(4):
            producer = self.begin(f"v{version}", version=version)
            for commit in (True, False):
                self.assertEqual(self.add(producer, {"t": [0]}, version, f"v{version}"), {("t", 0): OK})
                self.assertEqual(self.write(producer, 0 if commit else 1, name=f"v{version}"), OK)
                self.assertIs(self.now(f"v{version}").state, TransactionState.ONGOING)
                self.assertEqual(self.end(producer, commit, version, f"v{version}").error_code, OK)
                done = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
                self.assertIs(self.now(f"v{version}").state, done)
        self.assertEqual(self.markers(), [ControlType.COMMIT, ControlType.ABORT] * 4)
        self.assertEqual(self.markers(partition=1), [])

    def test_as_new_clients_do(self) -> None:
        """Partitions take part by being written to, which their leaders tell; the epoch grows with each transaction."""
        producer = self.begin(version=5)
        for number in range(3):
            answer = self.add_as_broker(wish(producer, {"t": [0, 1]}))
            self.assertEqual(answer, {"tx": {("t", 0): OK, ("t", 1): OK}})
            response = self.end(producer, number != 1, version=5)
            self.assertEqual(
                (response.error_code, response.producer_id, response.producer_epoch),
                (OK, producer.producer_id, producer.epoch + 1),
            )
            producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        self.assertEqual(self.markers(), [ControlType.COMMIT, ControlType.ABORT, ControlType.COMMIT])

    def test_offsets(self) -> None:
        """A group's offsets take part as the partition that holds them, which gets a marker, too."""
        producer = self.begin()
        for version in range(5):
            request = AddOffsetsToTxnRequest(
                transactional_id="tx",
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                group_id="g",
            )
            self.assertEqual(self.client.ask(request, version).error_code, OK)
        number = self.server.broker.coordinators.groups.partition_of("g")
        self.assertEqual(self.now().partitions, {("__consumer_offsets", number)})
        self.assertEqual(self.end(producer).error_code, OK)
        self.assertEqual(self.markers("__consumer_offsets", number), [ControlType.COMMIT])


class RefusalTests(TransactionCase):
    """Error codes depend on the request's version."""

    def test_fenced(self) -> None:
        """PRODUCER_FENCED where it is known, else INVALID_PRODUCER_EPOCH."""
        zombie = self.begin()
        self.begin()
        for version in range(4):
            said = FENCED if version >= 2 else OLD_EPOCH
            self.assertEqual(self.add(zombie, {"t": [0]}, version), {("t", 0): said})
            self.assertEqual(self.end(zombie, version=version).error_code, said)
            request = AddOffsetsToTxnRequest(
                transactional_id="tx", producer_id=zombie.producer_id, producer_epoch=zombie.epoch, group_id="g"
            )
            self.assertEqual(self.client.ask(request, version).error_code, said)
        self.begin()
        self.assertEqual(self.init(version=3, expected=zombie).error_code, OLD_EPOCH)
        self.assertEqual(self.init(version=4, expected=zombie).error_code, FENCED)

    def test_init(self) -> None:
        """No id, half an identity, a timeout beyond what is allowed."""
        self.assertEqual(self.init("").error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.init(expected=ProducerIdAndEpoch(1, -1)).error_code, ErrorCode.INVALID_REQUEST)
        for timeout_ms in (0, -1, 900_001):
            response = self.init(timeout_ms=timeout_ms)
            self.assertEqual(response.error_code, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        self.assertEqual(self.init(timeout_ms=900_000).error_code, OK)

    def test_all_or_none(self) -> None:
        """One partition that is not there, or only brokers write to, keeps the others out."""
        producer = self.begin()
        found = self.add(producer, {"t": [0, 7], "nothing": [0], "__consumer_offsets": [1]})
        self.assertEqual(
            found,
            {
                ("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
                ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("__consumer_offsets", 1): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            },
        )
        self.assertIs(self.now().state, TransactionState.EMPTY)

    def test_internal_topics(self) -> None:
        """A client cannot have markers written to them, by a request for brokers, or with a record."""
        producer = self.begin()
        topics = {"__consumer_offsets": [0], "__transaction_state": [0]}
        found = self.add_as_broker(wish(producer, topics))["tx"]
        self.assertEqual(set(found.values()), {ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        for topic in topics:
            batch = a_batch(
                producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0, transactional=True
            )
            answer = self.client.produce(batch, version=12, topic=topic, acks=-1, transactional_id="tx")
            self.assertEqual(answer.error_code, ErrorCode.INVALID_TOPIC_EXCEPTION)
        self.assertIs(self.now().state, TransactionState.EMPTY)

    def test_ends_without_a_transaction(self) -> None:
        """INVALID_TXN_STATE; a client of the second version may abort before it knows whether it has begun."""
        producer = self.begin()
        self.assertEqual(self.end(producer).error_code, ErrorCode.INVALID_TXN_STATE)
        self.assertEqual(self.end(producer, commit=False).error_code, ErrorCode.INVALID_TXN_STATE)
        self.assertEqual(self.end(producer, version=5).error_code, ErrorCode.INVALID_TXN_STATE)
        response = self.end(producer, commit=False, version=5)
        self.assertEqual((response.error_code, response.producer_epoch), (OK, producer.epoch + 1))

    def test_unknown_ids(self) -> None:
        """An unknown transactional id, and one of another producer."""
        nobody = ProducerIdAndEpoch(12345, 0)
        for name in ("new", "tx"):
            if name == "tx":
                self.begin()
            self.assertEqual(self.end(nobody, name=name).error_code, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            found = self.add(nobody, {"t": [0]}, name=name)
            self.assertEqual(found, {("t", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING})

    def test_verification(self) -> None:
        """A partition that is not added: TRANSACTION_ABORTABLE, or INVALID_TXN_STATE in older versions."""
        producer = self.begin()
        self.add(producer, {"t": [0]})
        asked = wish(producer, {"t": [0, 1]}, verify_only=True)
        expected = {("t", 0): OK, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE}
        self.assertEqual(self.add_as_broker(asked), {"tx": expected})
        expected[("t", 1)] = ErrorCode.INVALID_TXN_STATE
        self.assertEqual(self.add_as_broker(asked, version=4), {"tx": expected})
        self.assertEqual(self.now().partitions, {("t", 0)})

    def test_several_transactions(self) -> None:
        """One request for several: what is wrong with one does not concern the others."""
        one, other = self.begin("one"), self.begin("other")
        found = self.add_as_broker(
            wish(one, {"t": [0]}, "one"), wish(one, {"t": [0]}, "other"), wish(other, {"t": [9]}, "new")
        )
        self.assertEqual(
            found,
            {
                "one": {("t", 0): OK},
                "other": {("t", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING},
                "new": {("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
            },
        )

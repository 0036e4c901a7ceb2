"""Transaction coordinators on several brokers: killed at every step, cut off, moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logbus.coordination.transactions.transaction_metadata import ProducerIdAndEpoch
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.coordination.transactions.transition import ENDING, IDLE
from logbus.errors import ErrorCode
from logbus.model import TRANSACTIONS_TOPIC, TopicPartition
from logbus.records.batch import decode_batch, iter_batches
from logbus.records.control_records import ControlType, decode_control_key
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.partitions import NamedTopicPartitions
from logbus.wire.messages.topics import DeleteTopicsRequest, DeleteTopicState
from logbus.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from tests.cluster.test_leader import LeaderCase
from tests.handlers.kit import a_batch, produce_request

TRY_AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


MOST_STEPS = 400


class CoordinatorCase(LeaderCase):
    """Topic ``t`` with three partitions, which brokers 0, 1 and 2 lead, and a producer with a transaction in each."""

    config = {
        **LeaderCase.config,
        "transaction.state.log.num.partitions": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }

    def setUp(self) -> None:
        super().setUp()
        self.begin_with("tx")

    def begin_with(self, name: str) -> None:
        self.name = name
        if self.cluster.metadata(0).topic("t") is None:
            self.create(partitions=3)
        self.producer = self.init()

    @property
    def coordinator(self) -> int:
        """The broker that a client would ask."""
        for _ in range(100):
            broker_id = self.cluster.alive[0]
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name])
            (found,) = self.ask(broker_id, request, 4).coordinators
            if found.error_code == 0 and found.node_id in self.cluster.alive:
                return int(found.node_id)
            self.cluster.settle(0.1)
        raise AssertionError("nobody coordinates")

    def until_done(self, message: Any, version: int) -> Any:
        """Ask the coordinator, as often as it takes, and whoever it is."""
        for _ in range(200):
            response = self.ask(self.coordinator, message, version, 20)
            code = getattr(response, "error_code", 0)
            if isinstance(message, AddPartitionsToTxnRequest):
                results = response.results_by_topic_v3_and_below
                code = max(one.partition_error_code for topic in results for one in topic.results_by_partition)
            if code not in TRY_AGAIN:
                return response
            self.cluster.settle(0.1)
        raise AssertionError(f"still {response}")

    def init(self, timeout_ms: int = 60_000) -> ProducerIdAndEpoch:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
        response = self.until_done(request, 4)
        self.assertEqual(response.error_code, 0)
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    def add(self, partitions: Sequence[int] = (0, 1, 2)) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[NamedTopicPartitions(name="t", partitions=list(partitions))],
        )
        response = self.until_done(request, 3)
        self.assertEqual(
            {one.partition_error_code for one in response.results_by_topic_v3_and_below[0].results_by_partition}, {0}
        )

    def write(self, sequence: int = 0, partitions: Sequence[int] = (0, 1, 2)) -> None:
        """One record in each partition, which take part already."""
        for partition in partitions:
            batch = a_batch(
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                base_sequence=sequence,
                transactional=True,
            )
            request = produce_request(batch, "t", partition, -1, transactional_id=self.name)
            answer = self.ask(partition, request, 9).responses[0].partition_responses[0]
            self.assertEqual(answer.error_code, 0)

    def end_request(self, commit: bool = True) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=commit,
        )

    def leader_of(self, name: TopicPartition) -> Any:
        """The replica that leads a partition."""
        for broker_id in self.cluster.alive:
            image = self.cluster.metadata(broker_id).partition(name)
            assert image is not None
            if image.leader == broker_id:
                return self.cluster[broker_id].broker.replication.replicas.get(*name)
        raise AssertionError(f"{name} has no leader")

    def markers(self, partition: int) -> list[ControlType | None]:
        """The ends of transactions in a partition."""
        log = self.leader_of(TopicPartition("t", partition)).log
        found = log.read(0, 1 << 20, log.log_end_offset).data
        data = b"" if found is None else found.read()
        return [
            decode_control_key(record.key)
            for position, header in iter_batches(data)
            if header.control
            for record in decode_batch(data, position, header=header)
        ]

    def check_over(self, ends: ControlType) -> None:
        """All partitions say that the transaction ended so, and readers are not held back."""
        for _ in range(200):
            if self.state in IDLE:
                break
            self.cluster.settle(0.1)
        self.assertIn(self.state, IDLE)
        for partition in range(3):
            self.assertEqual(set(self.markers(partition)), {ends})
            replica = self.leader_of(TopicPartition("t", partition))
            self.cluster.settle(1)
            self.assertEqual(replica.last_stable_offset, replica.high_watermark)
            self.assertEqual(replica.high_watermark, replica.log.log_end_offset)

    @property
    def state(self) -> TransactionState | None:
        """As the coordinator has it."""
        return self.state_at(self.coordinator)

    def state_at(self, broker_id: int) -> TransactionState | None:
        shard = self.cluster[broker_id].broker.coordinators.transactions.shards.get(0)
        entry = None if shard is None else shard.entries.get(self.name)
        return None if entry is None or entry.current is None else entry.current.state


class KilledTests(CoordinatorCase):
    """The coordinator is killed after so many steps of a commit or an abort."""

    def step(self) -> None:
        """The next thing that any broker does."""
        clock: Any = self.cluster.clock
        first = min(clock.getDelayedCalls(), key=lambda call: float(call.getTime()))
        clock.rightNow = max(clock.rightNow, first.getTime())
        clock.calls.remove(first)
        first.called = 1
        first.func(*first.args, **first.kw)

    def kill_at(self, steps: int, commit: bool, version: int) -> bool:
        """
        One cluster, one transaction, one kill.

        :return: whether the transaction was over by then.
        """
        self.add()
        self.write()
        coordinator = self.coordinator
        client = self.client(coordinator)
        client.send(self.end_request(commit), version)
        for _ in range(steps):
            self.step()
        answered = client.answers()
        state = self.state_at(coordinator)
        self.cluster.kill(coordinator)
        self.cluster.settle(1)
        response = self.until_done(self.end_request(commit), version)
        self.assertEqual(response.error_code, 0)
        if version >= 5:
            after = (self.producer.producer_id, self.producer.epoch + 1)
            self.assertEqual((response.producer_id, response.producer_epoch), after)
            for answer in answered:
                self.assertEqual((answer.producer_id, answer.producer_epoch), after)
        self.check_over(ControlType.COMMIT if commit else ControlType.ABORT)
        return state in IDLE

    def at_every_step(self, commit: bool, version: int) -> None:
        for steps in range(0, MOST_STEPS, 3):
            over = self.kill_at(steps, commit, version)
            self.cluster.close()
            if over:
                break
            self.cluster = type(self.cluster)(self.config)
            for broker_id in range(self.brokers):
                self.cluster.boot(broker_id)
            self.cluster.settle()
            self.begin_with("tx")
        else:
            self.fail("the transaction never was over")
        self.assertGreater(steps, 20)

    def test_commit_by_old_clients(self) -> None:
        """The retry is well, and all partitions have the transaction."""
        self.at_every_step(True, 3)

    def test_commit_by_new_clients(self) -> None:
        """The retry gives the same next epoch, however far the first attempt came."""
        self.at_every_step(True, 5)

    def test_abort_by_new_clients(self) -> None:
        """The same for an abort."""
        self.at_every_step(False, 5)


class TemporaryFailureTests(CoordinatorCase):
    """What fails for a while succeeds later."""

    def test_participant_without_a_leader(self) -> None:
        """The commit is answered; the marker is written when the partition has a leader again."""
        self.add()
        self.write()
        away = next(number for number in range(3) if number != self.coordinator and number != self.cluster.controller)
        self.create("alone")  # Led by somebody; the partitions of t that are left have other leaders soon.
        for other in range(3):
            if other != away:
                self.cluster.cut(away, other)
        self.assertEqual(self.until_done(self.end_request(), 3).error_code, 0)
        self.cluster.settle(1)
        self.assertIn(self.state, ENDING)
        self.cluster.mend()
        self.cluster.settle(15)
        self.check_over(ControlType.COMMIT)

    def test_a_deleted_topic(self) -> None:
        """Nobody waits for a partition that is gone."""
        self.add()
        self.write()
        response = self.ask(0, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
        self.assertEqual(response.responses[0].error_code, 0)
        self.cluster.settle(1)
        self.assertEqual(self.until_done(self.end_request(), 3).error_code, 0)
        self.cluster.settle(1)
        self.assertIs(self.state, TransactionState.COMPLETE_COMMIT)

    def test_timeout_at_the_next_coordinator(self) -> None:
        """When producer and coordinator are gone, the next coordinator aborts the transaction after its timeout."""
        self.producer = self.init(timeout_ms=3000)
        self.add()
        self.write()
        self.cluster.kill(self.coordinator)
        self.cluster.settle(1)
        self.assertIs(self.state, TransactionState.ONGOING)
        self.cluster.settle(5)
        self.check_over(ControlType.ABORT)
        response = self.until_done(self.end_request(), 3)
        self.assertEqual(response.error_code, ErrorCode.PRODUCER_FENCED)

    def test_restart_of_all_brokers(self) -> None:
        """A decided transaction is completed by the brokers that lead its partitions after a restart of all."""
        self.add()
        self.write()
        coordinator = self.coordinator
        others = [number for number in range(3) if number != coordinator]
        client = self.client(coordinator)
        for number in others:
            self.cluster.cut(coordinator, number, both=False)  # Followers fetch, markers do not get out.
        client.send(self.end_request(), 3)
        self.cluster.settle(0.5)
        for number in range(3):
            self.cluster.kill(number)
        self.cluster.mend()
        for number in range(3):
            self.cluster.boot(number, wait=False)
        self.cluster.settle(10)
        self.assertEqual(self.until_done(self.end_request(), 3).error_code, 0)
        self.check_over(ControlType.COMMIT)

    def test_transaction_state_topic(self) -> None:
        """The state is in the topic __transaction_state, replicated as configured."""
        topic = self.cluster.metadata(0).topic(TRANSACTIONS_TOPIC)
        assert topic is not None
        self.assertEqual([len(partition.replicas) for partition in topic.partitions], [3])

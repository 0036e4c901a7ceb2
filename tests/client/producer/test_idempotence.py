"""
Sequence numbers, checked against a model of a partition's log, over a network that loses, delays and repeats requests.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.producer.idempotence import (
    LAST_EPOCH,
    BatchSequence,
    FailureResolution,
    NotSent,
    PartitionSequences,
    ProducerId,
    may_be_written,
    next_sequence,
    resolve_failure,
)
from logbus.client.producer.partition_queue import BatchOutcome, BatchWritten, PartitionQueue, ProducerBatch
from logbus.client.retry import Unreachable
from logbus.errors import ApiError, Disconnected, ErrorCode
from logbus.model import TopicPartition
from logbus.records.batch import BatchBuilder, decode_batch

P0 = TopicPartition("t", 0)
ME = ProducerId(7, 0)


@define
class ModelLog:
    """
    A partition as brokers keep it: what each record is, and the last five batches of the producer.

    :ivar largest: records in the largest batch it takes.
    """

    largest: int = 100
    values: list[int] = field(factory=list)
    epoch: int = -1
    recent: list[tuple[int, int, int]] = field(factory=list)

    def append(self, numbers: BatchSequence, values: list[int]) -> int:
        """The base offset, or the negative of an error's code."""
        (_, epoch), sequence = numbers
        if len(values) > self.largest:
            return -ErrorCode.MESSAGE_TOO_LARGE
        if epoch < self.epoch:
            return -ErrorCode.INVALID_PRODUCER_EPOCH
        for first, count, offset in self.recent if epoch == self.epoch else ():
            if (first, count) == (sequence, len(values)):
                return offset
        if epoch > self.epoch:
            # Of whom it knows nothing it takes anything.
            expected = sequence if self.epoch < 0 else 0
        else:
            first, count, _ = self.recent[-1]
            expected = next_sequence(first, count)
        if sequence != expected:
            return -ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if epoch > self.epoch:
            self.epoch, self.recent = epoch, []
        offset = len(self.values)
        self.recent = [*self.recent[-4:], (sequence, len(values), offset)]
        self.values += values
        return offset


@define
class Sent:
    batch: ProducerBatch
    numbers: BatchSequence
    values: list[int]


class World:
    """A queue, the network, and the log."""

    def __init__(self, data: Any, largest: int) -> None:
        self.data = data
        self.queue = PartitionQueue(P0)
        self.log = ModelLog(largest)
        self.network: list[Sent] = []
        self.late: list[Sent] = []
        self.outcomes: dict[int, BatchOutcome] = {}
        self.value = 0

    def begin(self, count: int) -> None:
        builder = BatchBuilder()
        values = list(range(self.value, self.value + count))
        self.value += count
        for value in values:
            builder.append(5, None, b"%d" % value)
        batch = self.queue.begin(builder, 0.0)
        batch.settle = self.settle
        for index, value in enumerate(values):
            batch.wait_for(index, 5, value)
        self.queue.seal()

    def settle(self, batch: ProducerBatch, outcome: BatchOutcome) -> None:
        for index, value in enumerate(batch.sends):
            assert value not in self.outcomes, "an outcome came twice"
            self.outcomes[value] = outcome
            if isinstance(outcome, BatchWritten) and outcome.base_offset >= 0:
                assert self.log.values[outcome.base_offset + index] == value
        batch.sends = []

    def depart(self) -> bool:
        queue = self.queue
        if not queue.waiting or not queue.may_send(1, idempotent=True):
            return False
        assert not queue.has_exhausted(ME)
        batch = queue.take_next(1, ME)
        assert batch.numbers is not None
        values = [int(each.value or b"") for each in decode_batch(batch.builder.build())]
        self.network.append(Sent(batch, batch.numbers, values))
        return True

    def answer(self, fault: ErrorCode | None = None) -> None:
        """The oldest request is served and answered."""
        if not self.network:
            return
        sent = self.network.pop(0)
        if fault in BEFORE:
            self.returned(sent.batch, ApiError(fault))
            return
        offset = self.log.append(sent.numbers, sent.values)
        if offset < 0:
            self.returned(sent.batch, ApiError(ErrorCode(-offset)))
        else:
            self.returned(sent.batch, BatchWritten(offset, -1) if fault is None else ApiError(fault))

    def disconnect(self) -> None:
        """Nothing that is under way is answered; what is not served yet may be so any time later."""
        network, self.network = self.network, []
        for sent in network:
            self.late.append(sent)
        for sent in network:
            self.returned(sent.batch, Disconnected("gone"))

    def arrive(self) -> None:
        """Something comes late."""
        if self.late:
            sent = self.late.pop(self.data.draw(st.integers(0, len(self.late) - 1)))
            self.log.append(sent.numbers, sent.values)

    def expire(self) -> None:
        """The oldest batch is given up."""
        queue = self.queue
        for batch in sorted((*queue.in_flight, *queue.waiting), key=lambda each: each.place)[:1]:
            if batch in queue.waiting:
                queue.give_up(batch)
            batch.finish(Disconnected("time is up"))

    def returned(self, batch: ProducerBatch, outcome: BatchOutcome) -> None:
        for each, known in self.queue.handle_result(batch, outcome):
            each.finish(known)

    def check(self) -> None:
        written = self.log.values
        assert written == sorted(set(written)), f"doubled or out of order: {written}"
        for value, outcome in self.outcomes.items():
            if isinstance(outcome, BatchWritten):
                assert value in written, f"{value} is lost"


BEFORE = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_RECORD)
"""Faults that are found before anything is appended."""
ACTIONS = (
    *["begin"] * 4,
    *["depart"] * 6,
    *["answer"] * 5,
    "disconnect",
    "arrive",
    "expire",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_LEADER_OR_FOLLOWER",
    "INVALID_RECORD",
    "not sent",
)


class ModelTests(SynchronousTestCase):
    @settings(max_examples=400, deadline=None)
    @given(st.data(), st.integers(1, 4))
    def test_records_once_and_in_order(self, data: Any, largest: int) -> None:
        """
        Whatever is lost, late, refused or given up: what is in the log is in the order of sending and there once, and
        what was acknowledged is there. When all goes well again, all has an outcome.
        """
        world = World(data, largest)
        for action in data.draw(st.lists(st.sampled_from(ACTIONS), max_size=60)):
            if action == "begin":
                world.begin(data.draw(st.integers(1, 3)))
            elif action in ("depart", "answer", "disconnect", "arrive", "expire"):
                getattr(world, action)()
            elif action == "not sent":
                if world.network:
                    world.returned(world.network.pop().batch, NotSent(Unreachable("nobody there")))
            else:
                world.answer(ErrorCode[action])
            world.check()
        for _ in range(4 * world.value + 20):
            world.depart()
            world.answer()
        world.check()
        self.assertEqual((world.queue.waiting, world.queue.in_flight), ([], []))
        self.assertEqual(sorted(world.outcomes), list(range(world.value)))
        while world.late:
            world.arrive()
            world.check()

    @given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
    def test_all_records_are_acknowledged_without_timeouts(self, counts: list[int]) -> None:
        """
        All batches lost once, and sent again: all are acknowledged.
        """
        world = World(None, 100)
        for count in counts:
            world.begin(count)
        for lose in [True, False] * (len(counts) + 1):
            while world.depart():
                pass
            if lose:
                for sent in world.network:
                    world.log.append(sent.numbers, sent.values)
                world.disconnect()
            else:
                while world.network:
                    world.answer()
        self.assertEqual(world.log.values, list(range(world.value)))
        self.assertTrue(all(isinstance(each, BatchWritten) for each in world.outcomes.values()))


class QueueTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(None, 100)
        self.queue = self.world.queue

    def test_one_batch_until_the_first_response(self) -> None:
        """Then five; and one again as soon as a batch is returned."""
        for _ in range(9):
            self.world.begin(1)
        self.assertEqual([self.world.depart() for _ in range(2)], [True, False])
        self.world.answer()
        self.assertEqual([self.world.depart() for _ in range(6)], [True] * 5 + [False])
        self.world.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.assertFalse(self.world.depart())
        for _ in range(4):
            self.world.answer()
        self.assertEqual([self.world.depart() for _ in range(2)], [True, False])
        for _ in range(20):
            self.world.answer()
            self.world.depart()
        self.assertEqual(self.world.log.values, list(range(9)))
        self.assertEqual(self.world.log.epoch, 0)

    def test_no_idempotence_one_batch_at_a_time(self) -> None:
        """
        Order is kept by waiting; another broker is waited for, too.
        """
        for _ in range(2):
            self.world.begin(1)
        self.queue.take_next(1, None)
        self.assertFalse(self.queue.may_send(1, idempotent=False))
        self.queue.sequences.accepted = True
        self.assertTrue(self.queue.may_send(1, idempotent=True))
        self.assertFalse(self.queue.may_send(2, idempotent=True))

    def test_abandoned_batch_leaves_no_gap(self) -> None:
        """Its sequence numbers are given to the next batch; if others followed it, there is a new epoch."""
        for _ in range(4):
            self.world.begin(2)
        self.world.depart()
        self.world.answer()
        self.world.depart()
        self.world.answer(ErrorCode.INVALID_RECORD)
        self.world.depart()
        self.assertEqual(self.world.network[0].numbers, BatchSequence(ME, 2))
        self.world.depart()
        self.world.answer(ErrorCode.INVALID_RECORD)
        self.world.answer()
        self.world.depart()
        self.assertEqual(self.world.network[0].numbers, BatchSequence(ProducerId(7, 1), 0))
        self.world.answer()
        self.assertEqual(self.world.log.values, [0, 1, 6, 7])

    def test_batch_with_unknown_outcome_keeps_its_sequence(self) -> None:
        """Even if others need a new epoch: it may be in the log."""
        for _ in range(5):
            self.world.begin(1)
        self.world.depart()
        self.world.answer()
        while self.world.depart():
            pass
        self.world.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.world.answer(ErrorCode.INVALID_RECORD)
        self.world.answer()
        self.world.answer()
        self.assertTrue(self.queue.sequences.lost)
        self.world.depart()
        self.assertEqual(self.world.network[0].numbers, BatchSequence(ME, 1))
        for _ in range(8):
            self.world.answer()
            self.world.depart()
        self.assertEqual(self.world.log.values, [0, 1, 3, 4])

    def test_the_last_epoch(self) -> None:
        """
        After it only another producer id helps.
        """
        self.world.begin(1)
        self.queue.sequences = PartitionSequences(ProducerId(7, LAST_EPOCH), 5, True, True)
        self.assertTrue(self.queue.has_exhausted(ProducerId(7, 0)))
        self.assertFalse(self.queue.has_exhausted(ProducerId(8, 0)))
        self.assertEqual(self.queue.take_next(1, ProducerId(8, 0)).numbers, BatchSequence(ProducerId(8, 0), 0))
        self.assertFalse(self.queue.has_exhausted(ProducerId(8, 0)))

    def test_an_epoch_from_a_coordinator(self) -> None:
        """
        With the epoch that a transaction's end gives, counting begins anew.
        """
        for _ in range(3):
            self.world.begin(3)
        self.assertEqual(self.queue.take_next(1, ME).numbers, BatchSequence(ME, 0))
        self.queue.handle_result(self.queue.in_flight[0], BatchWritten(0, -1))
        self.assertEqual(self.queue.take_next(1, ME).numbers, BatchSequence(ME, 3))
        self.queue.handle_result(self.queue.in_flight[0], BatchWritten(3, -1))
        later = ProducerId(7, 1)
        self.assertEqual(self.queue.take_next(1, later).numbers, BatchSequence(later, 0))

    def test_the_parts_of_a_batch(self) -> None:
        """Two halves have the records, sequences and Deferreds; the batch is finished when both are."""
        self.world.log.largest = 2
        self.world.begin(5)
        (whole,) = self.queue.waiting
        accepted: list[BatchOutcome] = []
        whole.when_done(accepted.append)
        for _ in range(8):
            self.world.depart()
            self.world.answer()
        self.assertEqual(self.world.log.values, [0, 1, 2, 3, 4])
        self.assertEqual(accepted, [BatchWritten(0, -1)])
        self.assertEqual((whole.waiters, len(self.world.outcomes)), (5, 5))


class FailureResolutionTests(SynchronousTestCase):
    def judged(self, error: Exception, **given: bool) -> FailureResolution:
        given = {
            "numbered": True,
            "in_doubt": False,
            "first": True,
            "splittable": True,
            "transactional": False,
            **given,
        }
        return resolve_failure(error, **given)

    def test_by_code(self) -> None:
        """Error codes about sequences, and their resolution."""
        out_of_order = ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        too_large = ApiError(ErrorCode.MESSAGE_TOO_LARGE)
        for error, of, verdict in [
            (ApiError(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), {}, FailureResolution.WRITTEN),
            (out_of_order, {}, FailureResolution.RENUMBER),
            (out_of_order, {"first": False}, FailureResolution.AGAIN),
            (out_of_order, {"in_doubt": True}, FailureResolution.FAIL),
            (out_of_order, {"transactional": True}, FailureResolution.FAIL),
            (out_of_order, {"numbered": False}, FailureResolution.FAIL),
            (ApiError(ErrorCode.UNKNOWN_PRODUCER_ID), {}, FailureResolution.RENUMBER),
            (ApiError(ErrorCode.INVALID_PRODUCER_EPOCH), {"in_doubt": True}, FailureResolution.FAIL),
            (too_large, {}, FailureResolution.SPLIT),
            (too_large, {"splittable": False}, FailureResolution.FAIL),
            (too_large, {"in_doubt": True}, FailureResolution.FAIL),
            (ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER), {}, FailureResolution.AGAIN),
            (ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), {}, FailureResolution.FAIL),
            (Disconnected("x"), {}, FailureResolution.AGAIN),
            (NotSent(Unreachable("x")), {}, FailureResolution.AGAIN),
            (NotSent(ApiError(ErrorCode.UNSUPPORTED_VERSION)), {}, FailureResolution.FAIL),
            (ValueError(), {}, FailureResolution.FAIL),
        ]:
            self.assertIs(self.judged(error, **of), verdict, (error, of))

    def test_doubt(self) -> None:
        """
        Only what is checked before anything is appended leaves none.
        """
        for error in (Disconnected("x"), ValueError(), ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)):
            self.assertTrue(may_be_written(error))
        for certain in (NotSent(Unreachable("x")), ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)):
            self.assertFalse(may_be_written(certain))

    def test_sequences_begin_anew_at_the_end(self) -> None:
        """
        Behind 2³¹ − 1 comes 0.
        """
        self.assertEqual([next_sequence(2**31 - 1, 1), next_sequence(2**31 - 2, 5), next_sequence(0, 3)], [0, 3, 3])

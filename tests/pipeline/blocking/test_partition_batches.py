"""Tests a partition's batches against a leader that loses, delays and rejects requests."""

from __future__ import annotations

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.producer.idempotence import MAX_IN_FLIGHT
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking.partition_batches import PartitionBatches, ProducerBatch, RetryDecision, decide_retry
from logbus.pipeline.errors import Disconnected
from logbus.records.batch import BatchBuilder, decode_batch, read_header

PARTITION = TopicPartition("orders", 0)
TOO_LARGE = 4


def a_body(first: int, count: int) -> BatchBuilder:
    """Records that are numbered from ``first`` on."""
    body = BatchBuilder()
    for number in range(first, first + count):
        body.append(1000, None, b"%d" % number)
    return body


@define
class Leader:
    """
    A leader as brokers are: it knows again the last five batches of a producer, and refuses what leaves a gap; of a
    producer that it does not know it takes whatever comes first.

    :ivar log: the records.
    """

    log: list[bytes] = field(factory=list)
    _expected: int | None = None
    _last: list[tuple[int, int]] = field(factory=list)

    def append(self, data: bytes) -> ErrorCode:
        header = read_header(data)
        sequence, count = header.base_sequence, header.record_count
        if count > TOO_LARGE:
            return ErrorCode.MESSAGE_TOO_LARGE
        if (sequence, count) in self._last:
            return ErrorCode.NONE
        if self._expected is not None and sequence != self._expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._expected = sequence + count
        self._last = [*self._last, (sequence, count)][-MAX_IN_FLIGHT:]
        self.log += [record.value or b"" for record in decode_batch(data)]
        return ErrorCode.NONE


def outcome_of(code: ErrorCode) -> Exception | None:
    return ApiError(code) if code else None


class PartitionBatchesTests(SynchronousTestCase):
    @given(st.data())
    def test_records_once_and_in_order(self, data: st.DataObject) -> None:
        """Whatever is lost on the way, there or back, or comes late: records are in the log once, in order."""
        leader, queue = Leader(), PartitionBatches(PARTITION)
        wire: list[tuple[ProducerBatch, bytes]] = []
        late: list[bytes] = []
        added, now, last_error = 0, 0.0, 0
        left = data.draw(st.integers(1, 12), label="batches")
        while left or not queue.idle:
            choices = []
            if left:
                choices.append("add")
            if queue.may_send(0, now):
                choices.append("send")
            if wire:
                choices += ["serve", "serve"]
                if last_error < 6:
                    choices += ["refuse", "cut", "cut late"]
            if late:
                choices.append("late")
            if not choices:
                now = queue.not_before
                continue
            action = data.draw(st.sampled_from(choices))
            if action == "add":
                count = data.draw(st.integers(1, 6))
                queue.add(a_body(added, count), now)
                added += count
                left -= 1
            elif action == "send":
                batch = queue.send_next(0)
                wire.append((batch, batch.body.build(producer_id=1, producer_epoch=0, base_sequence=batch.sequence)))
            elif action == "late":
                leader.append(late.pop(0))
            elif action in ("serve", "refuse"):
                batch, sent = wire.pop(0)
                code = leader.append(sent) if action == "serve" else ErrorCode.NOT_ENOUGH_REPLICAS
                last_error += action == "refuse"
                self.assertIsNot(queue.handle_result(batch, outcome_of(code), 0.1, now), RetryDecision.FAIL)
            else:
                last_error += 1
                served = data.draw(st.integers(0, len(wire)))
                for _, sent in wire[:served]:
                    leader.append(sent)
                if action == "cut late":
                    late += [sent for _, sent in wire[served:]]
                for batch, _ in wire:
                    self.assertIsNot(queue.handle_result(batch, Disconnected("cut"), 0.1, now), RetryDecision.FAIL)
                wire.clear()
        self.assertEqual(leader.log, [b"%d" % number for number in range(added)])

    def test_one_batch_until_the_first_response(self) -> None:
        """A second batch that came before the first would be taken for the first of an unknown producer."""
        queue = PartitionBatches(PARTITION)
        for first in range(7):
            queue.add(a_body(first, 1), 0.0)
        first = queue.send_next(0)
        self.assertFalse(queue.may_send(0, 0.0))
        queue.handle_result(first, None, 0.1, 0.0)
        for _ in range(MAX_IN_FLIGHT):
            self.assertTrue(queue.may_send(0, 0.0))
            queue.send_next(0)
        self.assertFalse(queue.may_send(0, 0.0))

    def test_one_broker_at_a_time(self) -> None:
        """The old leader may still have what the new one is to follow on."""
        queue = PartitionBatches(PARTITION)
        for first in range(3):
            queue.add(a_body(first, 1), 0.0)
        queue.handle_result(queue.send_next(0), None, 0.1, 0.0)
        queue.send_next(0)
        self.assertTrue(queue.may_send(0, 0.0))
        self.assertFalse(queue.may_send(1, 0.0))

    def test_no_idempotence_one_batch_at_a_time(self) -> None:
        """Nothing else keeps the order."""
        queue = PartitionBatches(PARTITION, idempotent=False)
        for first in range(3):
            queue.add(a_body(first, 1), 0.0)
        queue.handle_result(queue.send_next(0), None, 0.1, 0.0)
        batch = queue.send_next(0)
        self.assertFalse(queue.may_send(0, 0.0))
        self.assertEqual(batch.sequence, -1)

    def test_a_pause_follows_on_a_failure(self) -> None:
        """A leader that cannot serve is not asked at once."""
        queue = PartitionBatches(PARTITION)
        queue.add(a_body(0, 1), 0.0)
        queue.handle_result(queue.send_next(0), Disconnected("gone"), 0.5, 1.0)
        self.assertFalse(queue.may_send(0, 1.4))
        self.assertTrue(queue.may_send(0, 1.5))

    def test_split_batch_keeps_its_sequence(self) -> None:
        """What follows keeps its own: nothing else changes."""
        queue = PartitionBatches(PARTITION)
        queue.add(a_body(0, 5), 0.0)
        queue.add(a_body(5, 2), 0.0)
        batch = queue.send_next(0)
        self.assertIs(queue.handle_result(batch, ApiError(ErrorCode.MESSAGE_TOO_LARGE), 0.1, 0.0), RetryDecision.SPLIT)
        self.assertEqual([(each.sequence, each.body.count) for each in queue.waiting], [(0, 2), (2, 3), (5, 2)])

    def test_batch_with_unknown_outcome_is_not_split(self) -> None:
        """Half of a batch that is in the log would be taken for something new, where nothing is numbered."""
        error = ApiError(ErrorCode.MESSAGE_TOO_LARGE)
        for idempotent, in_doubt, splittable, verdict in (
            (False, False, True, RetryDecision.SPLIT),
            (False, True, True, RetryDecision.FAIL),
            (True, True, True, RetryDecision.SPLIT),
            (True, False, False, RetryDecision.FAIL),
        ):
            found = decide_retry(error, idempotent=idempotent, in_doubt=in_doubt, first=True, splittable=splittable)
            self.assertIs(found, verdict)

    def test_a_gap_is_an_error_only_for_the_first(self) -> None:
        """Those behind one that comes again are refused until it is there."""
        error = ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        for first, verdict in ((False, RetryDecision.AGAIN), (True, RetryDecision.FAIL)):
            found = decide_retry(error, idempotent=True, in_doubt=False, first=first, splittable=True)
            self.assertIs(found, verdict)

    def test_sequences_wrap(self) -> None:
        """Behind the highest number comes 0."""
        queue = PartitionBatches(PARTITION)
        queue._next = 2**31 - 2
        queue.add(a_body(0, 3), 0.0)
        self.assertEqual(queue.add(a_body(3, 1), 0.0).sequence, 1)

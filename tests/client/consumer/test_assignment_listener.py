"""Consumers as group members, at a real broker in memory."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import capturedLogs, formatEvent

from logbus.client import CommittedOffset, Consumer, Producer
from logbus.client.admin.admin_client import AdminClient
from logbus.client.interceptors import ConsumerInterceptor
from logbus.client.membership import CommitFailed, GroupListener
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from tests.client.client_warnings import client_warnings
from tests.client.membership_kit import MembershipCase, RecordingListener
from tests.handlers.kit import a_batch

T = TypeVar("T")
ALL = frozenset(TopicPartition("t", number) for number in range(6))
P0 = TopicPartition("t", 0)


class AssignmentListenerTests(MembershipCase):
    """Consumers of a topic of six partitions with two records each, one batch apiece."""

    def setUp(self) -> None:
        super().setUp()
        self.wire = self.cluster[0].connect()
        for number in range(6):
            self.put(number, b"a", b"b")

    def put(self, partition: int, *values: bytes) -> None:
        for value in values:
            self.wire.produce(a_batch(value), "t", partition)

    def consumer(self, *topics: str, listener: GroupListener | None = None, **options: Any) -> Consumer:
        options = {"auto_offset_reset": "earliest", "request_timeout": 5.0, **options}
        consumer = Consumer(self.a_client(), "g", group_protocol=self.protocol, **options)
        if topics:
            consumer.subscribe(topics, listener)

        def close() -> None:
            self.finished(consumer.close())

        self.addCleanup(close)
        return consumer

    def start(self, waiting: Awaitable[T]) -> Deferred[T]:
        async def wait() -> T:
            return await waiting

        return Deferred.fromCoroutine(wait())

    def finished(self, waiting: Awaitable[T], seconds: float = 30.0) -> T:
        started = self.start(waiting)
        for _ in range(round(seconds / 0.05)):
            if started.called:
                break
            self.cluster.settle(0.05)
        return self.successResultOf(started)

    def read(self, consumer: Consumer, count: int) -> list[tuple[int, int]]:
        """The next records: partition and offset."""
        found = []
        for _ in range(count):
            record = self.finished(consumer.__anext__())
            found.append((record.partition, record.offset))
        return found

    def everything(self, *offsets: int) -> list[tuple[int, int]]:
        return [(number, offset) for number in range(6) for offset in offsets]

    def committed(self) -> dict[int, int]:
        """The group's committed offsets, by partition."""
        found = self.finished(AdminClient(self.a_client()).list_group_offsets(["g"]))["g"]
        assert not isinstance(found, ApiError)
        return {each.partition: at.offset for each, at in found.items() if isinstance(at, CommittedOffset)}

    def test_next_consumer_continues(self) -> None:
        """A consumer commits and leaves when it closes; the next one continues there at once."""
        consumer = self.consumer("t")
        self.assertEqual(sorted(self.read(consumer, 12)), self.everything(0, 1))
        self.assertTrue(consumer.group_metadata().is_member)
        self.finished(consumer.close())
        self.assertEqual(self.committed(), dict.fromkeys(range(6), 2))
        for number in range(6):
            self.put(number, b"c")
        self.assertEqual(sorted(self.read(self.consumer("t"), 6)), self.everything(2))

    def test_partitions_move(self) -> None:
        """
        When another joins, each record goes to one of them, and none is left out or read twice: what was done is
        committed before a partition moves.
        """
        first = self.consumer("t")
        found = self.read(first, 12)
        second = self.consumer("t")
        for _ in range(60):
            polls = [self.start(each.poll(0.5)) for each in (first, second)]
            for _ in range(14):
                self.cluster.settle(0.05)
            for each in polls:
                got = self.successResultOf(each)
                found += [(place.partition, record.offset) for place, records in got.items() for record in records]
            if len(first.assignment) == len(second.assignment) == 3:
                break
        self.assertEqual(first.assignment | second.assignment, ALL)
        for number in range(6):
            self.put(number, b"c")
        for each in (first, second):
            found += self.read(each, 3)
        self.assertEqual(sorted(found), sorted(self.everything(0, 1, 2)))

    def test_current_record_is_not_committed(self) -> None:
        """Automatic commits leave out the current record of a loop, and the records of the last poll."""
        self.put(0, b"c", b"d")
        consumer = self.consumer("t", auto_commit_interval=1.0)
        self.finished(consumer.poll(0))
        consumer.subscribe(["t"])
        while not consumer.assignment:
            self.finished(consumer.poll(0.1))
        consumer.seek(P0, 0)
        consumer.pause(*ALL - {P0})
        self.read(consumer, 3)
        self.cluster.settle(3)
        self.assertEqual(self.committed()[0], 2)
        self.read(consumer, 1)
        self.cluster.settle(3)
        self.assertEqual(self.committed()[0], 3)
        self.finished(consumer.close(done=False))
        self.assertEqual(self.committed()[0], 3)

    def test_commit(self) -> None:
        """A commit without offsets includes all delivered records; interceptors get the offsets."""
        heard: list[dict[Any, Any]] = []

        class Hearing(ConsumerInterceptor):
            def on_commit(self, offsets: Any) -> None:
                heard.append(dict(offsets))

        consumer = self.consumer("t", enable_auto_commit=False, interceptors=[Hearing()])
        (number, _), *_ = self.read(consumer, 1)
        self.finished(consumer.commit())
        self.assertEqual(self.committed()[number], 1)
        self.finished(consumer.commit({P0: 2}))
        self.assertEqual(heard[-1], {P0: CommittedOffset(2)})
        self.assertEqual(self.finished(consumer.committed([P0])), {P0: CommittedOffset(2)})
        consumer.commit_nowait({P0: 1})
        self.cluster.settle(1)
        self.assertEqual(self.committed()[0], 1)
        self.finished(consumer.close())
        self.assertEqual(self.committed()[0], 1)

    def test_listeners(self) -> None:
        """Partitions can be sought in when they are assigned, and committed when they are revoked."""
        listener = RecordingListener()
        consumer = self.consumer(listener=listener, enable_auto_commit=False)
        listener.does["assigned"] = lambda partitions: [consumer.seek(each, 1) for each in partitions] and None
        listener.does["revoked"] = lambda partitions: consumer.commit(dict.fromkeys(partitions, 2))
        consumer.subscribe(["t"], listener)
        self.assertEqual(sorted(self.read(consumer, 6)), self.everything(1))
        self.finished(consumer.close())
        self.assertEqual(listener.heard("revoked"), ALL)
        self.assertEqual(self.committed(), dict.fromkeys(range(6), 2))

    def test_assigned_partitions_begin_where_the_group_left_off(self) -> None:
        """
        Without a membership: a consumer of chosen partitions begins at the group's offsets, and commits them.
        """
        place = {P0: CommittedOffset(1)}
        self.finished(AdminClient(self.a_client()).alter_group_offsets("g", place))
        consumer = self.consumer()
        consumer.assign([P0])
        self.assertEqual(self.read(consumer, 1), [(0, 1)])
        self.finished(consumer.close())
        self.assertEqual(self.committed()[0], 2)

    def test_unawaited_commits_are_combined(self) -> None:
        """While there is no coordinator, one commit of the last offsets waits, however many were requested."""
        heard: list[object] = []

        class Hearing(ConsumerInterceptor):
            def on_commit(self, offsets: Any) -> None:
                heard.append(offsets)

        consumer = self.consumer(enable_auto_commit=False, interceptors=[Hearing()])
        consumer.assign({P0: 0})
        self.read(consumer, 1)
        self.finished(consumer.commit())
        self.read(consumer, 1)
        self.cluster.kill(0)
        heard.clear()
        for number in range(3000):
            consumer.commit_nowait({P0: number % 2, TopicPartition("t", 1): number} if number % 3 else None)
        consumer.commit_nowait()
        self.cluster.settle(1)
        self.cluster.boot(0)
        self.cluster.settle(10)
        self.assertEqual(self.committed(), {0: 2, 1: 2999})
        self.assertLess(len(heard), 4)

    def test_whatever_is_cancelled(self) -> None:
        """
        Each Deferred that is cancelled, whenever, fires at once and once; the consumer goes on, and can be closed.
        """
        consumer = self.consumer("t", enable_auto_commit=False)
        (number, _), *_ = self.read(consumer, 1)
        admin = AdminClient(self.a_client())
        for turns in range(12):
            for begin in (
                consumer.commit,
                lambda: consumer.commit({P0: 1}),
                lambda: consumer.committed([P0]),
                lambda: consumer.end_offsets([P0]),
                lambda: consumer.poll(max_records=1),
                lambda: admin.list_group_offsets(["g"]),
            ):
                heard: list[object] = []
                asked: Deferred[Any] = begin()
                asked.addBoth(heard.append)
                for _ in range(turns):
                    self.cluster.clock.advance(0)
                asked.cancel()
                self.assertEqual(len(heard), 1)
                self.cluster.settle(0.05)
                self.assertEqual(len(heard), 1)
        self.finished(consumer.commit({TopicPartition("t", number): 1}))
        self.assertEqual(self.committed()[number], 1)
        for turns in (0, 1, 5):
            for end in (Consumer.unsubscribe, Consumer.close):
                leaving = self.consumer("t")
                self.read_on(leaving)
                ending = end(leaving)
                for _ in range(turns):
                    self.cluster.clock.advance(0)
                ending.cancel()
                ending.addErrback(lambda failure: failure.trap(CancelledError) and None)
                self.cluster.settle(1)
                self.finished(leaving.close())

    def read_on(self, consumer: Consumer) -> None:
        """Wait until it is a member."""
        polling = consumer.poll()
        for _ in range(200):
            if consumer.assignment:
                break
            self.cluster.settle(0.05)
        self.assertTrue(consumer.assignment)
        polling.cancel()
        polling.addErrback(lambda failure: failure.trap(CancelledError) and None)

    def test_committed_offsets_of_open_transactions_are_waited_for(self) -> None:
        """
        A read_committed consumer starts at the offsets of a transaction that is being committed, also without being a
        member.
        """
        producer = Producer(self.a_client(), wall_clock=lambda: 1.5, random=Random(1), transactional_id="tx")
        for ends, begin in (([], 0), ([1], 1), ([2], 2)):
            consumer = self.consumer(isolation_level="read_committed", enable_auto_commit=False)
            for end in ends:
                transaction = producer.transaction()
                self.finished(transaction.__aenter__())
                self.finished(transaction.send_offsets({P0: end}, "g"))
                waiting = consumer.committed([P0])
                consumer.assign([P0])
                self.cluster.settle(1)
                self.assertNoResult(waiting)
                self.assertEqual(self.finished(consumer.poll(0)), {})
                self.finished(transaction.__aexit__(None, None, None))
                self.assertEqual(self.finished(waiting), {P0: CommittedOffset(end)})
            if begin < 2:
                consumer.assign([P0])
                self.assertEqual(self.read(consumer, 1), [(0, begin)])
        self.finished(producer.close())

    def test_no_offset_until_one_is_committed(self) -> None:
        """Without a reset policy the error is raised again, until there is an offset; then the partition is read."""
        for subscribes in (False, True):
            consumer = self.consumer(auto_offset_reset="none")
            if subscribes:
                self.finished(AdminClient(self.a_client()).delete_group_offsets("g", sorted(ALL)))
                consumer.subscribe(["t"])
            else:
                consumer.assign(ALL)
            for _ in range(3):
                waiting = consumer.poll(30)
                for _ in range(100):
                    if not waiting.called:
                        self.cluster.settle(0.05)
                self.assertIn("no offset was committed", str(self.failureResultOf(waiting, ApiError).value))
            self.finished(consumer.commit(dict.fromkeys(ALL, 1)))
            self.assertEqual(sorted(self.read(consumer, 6)), [(each.partition, 1) for each in sorted(ALL)])
            self.finished(consumer.close())

    def test_reset_none(self) -> None:
        """Without a committed offset and with reset none, waiting for records fails."""
        consumer = self.consumer(auto_offset_reset="none")
        consumer.assign([P0])
        waiting = consumer.poll()
        self.cluster.settle(2)
        self.assertIn("t-0: no offset was committed", str(self.failureResultOf(waiting, ApiError).value))

    def test_a_pattern(self) -> None:
        """
        Topics whose names match are read, also those made later.
        """
        consumer = self.consumer(metadata_max_age=2.0)
        consumer.subscribe(re.compile("(t|u.*)"))
        self.read(consumer, 12)
        self.cluster[0].create("unter", 1)
        self.wire.produce(a_batch(b"new"), "unter", 0)
        self.assertEqual(self.finished(consumer.__anext__()).topic, "unter")

    def test_waiting_consumer_stays_a_member(self) -> None:
        """
        A consumer that waits for records for longer than ``max_poll_interval`` asks for them all the time; one that
        does not ask leaves the group, and comes back when it does.
        """
        consumer = self.consumer("t", max_poll_interval=3.0)
        self.read(consumer, 12)
        waiting = self.start(consumer.__anext__())
        for _ in range(100):
            self.cluster.settle(0.1)
        before = consumer.group_metadata()
        self.assertTrue(before.is_member)
        self.assertEqual(consumer.assignment, ALL)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        for _ in range(100):
            self.cluster.settle(0.1)
        self.assertEqual(consumer.group_metadata(), before)
        self.assertEqual(consumer.assignment, frozenset())
        self.put(0, b"c")
        self.assertIn((0, 2), self.read(consumer, 1))

    def test_unsubscribing(self) -> None:
        """
        It leaves the group, and then partitions can be assigned.
        """
        consumer = self.consumer("t")
        self.read(consumer, 12)
        with self.assertRaisesRegex(LogbusError, "unsubscribe"):
            consumer.assign([P0])
        self.finished(consumer.unsubscribe())
        self.assertEqual(consumer.assignment, frozenset())
        self.assertTrue(consumer.group_metadata().is_member, "for what was read as a member")
        consumer.assign({P0: 0})
        self.assertEqual(self.read(consumer, 1), [(0, 0)])
        self.assertFalse(consumer.group_metadata().is_member)

    def test_unsubscribe_and_subscribe(self) -> None:
        """A new subscription begins when the former membership has ended, with its commit."""
        self.cluster[0].create("u", 1)
        consumer = self.consumer("t")
        self.read(consumer, 12)
        unsubscribing = consumer.unsubscribe()
        consumer.subscribe(["u"])
        self.finished(unsubscribing)
        self.wire.produce(a_batch(b"new"), "u", 0)
        self.assertEqual(self.finished(consumer.__anext__()).topic, "u")
        # The last of the twelve was not done.
        self.assertEqual(sorted(self.committed().values()), [1, 2, 2, 2, 2, 2])

    def test_lost_partitions_cannot_be_committed(self) -> None:
        """
        A commit after partitions were lost fails, with and without offsets; assigned partitions are committed, and the
        next commit succeeds.
        """
        consumer = self.consumer("t", max_poll_interval=3.0, enable_auto_commit=False)
        records = self.read(consumer, 3)
        number = records[-1][0]
        self.cluster.settle(10)
        self.assertEqual(consumer.assignment, frozenset())
        for commit in (lambda: consumer.commit({TopicPartition("t", number): 1}), consumer.commit):
            committing = commit()
            self.cluster.settle(1)
            error = self.failureResultOf(committing, CommitFailed).value
            self.assertIs(error.code, ErrorCode.UNKNOWN_MEMBER_ID)
            self.assertIn(TopicPartition("t", number), error.errors)
            self.assertIn("raise max_poll_interval", str(error))
        self.finished(consumer.commit())
        self.assertEqual(self.committed(), {})

    def test_partitions_of_others_cannot_be_committed(self) -> None:
        """
        Nor is the offset put back of a partition that went to another member meanwhile, or was never assigned.
        """
        first = self.consumer("t", enable_auto_commit=False)
        records = self.read(first, 12)
        second = self.consumer("t", enable_auto_commit=False)
        polls = [first.poll(), second.poll()]
        for _ in range(600):
            if len(first.assignment) == len(second.assignment) == 3:
                break
            self.cluster.settle(0.05)
        self.finished(second.commit(dict.fromkeys(second.assignment, 2)))
        self.finished(first.commit(dict.fromkeys(first.assignment, 2)))
        foreign = min(second.assignment)
        self.assertIn((foreign.partition, 0), records)
        committing = first.commit({foreign: 1, min(first.assignment): 1})
        self.cluster.settle(1)
        error = self.failureResultOf(committing, CommitFailed).value
        self.assertEqual((error.code, set(error.errors)), (ErrorCode.ILLEGAL_GENERATION, {foreign}))
        self.assertEqual(self.committed()[foreign.partition], 2)
        self.assertEqual(self.committed()[min(first.assignment).partition], 1)
        for each in polls:
            each.addErrback(lambda _: None)
            each.cancel()

    def test_revocation_waits_for_the_current_record(self) -> None:
        """
        A partition is not revoked while its record is being processed, until the next is asked for: commits succeed,
        and the listener is told afterwards; then another member has the partition.
        """
        listener = RecordingListener()
        first = self.consumer("t", listener=listener, enable_auto_commit=False)
        self.take_all(first)
        second = self.consumer("t", enable_auto_commit=False, max_poll_interval=60.0)
        waiting = second.poll()
        self.cluster.settle(20)
        self.assertEqual((first.assignment, second.assignment), (ALL, frozenset()))
        self.assertEqual(listener.heard("revoked"), frozenset())
        self.finished(first.commit())
        self.assertEqual(self.committed(), dict.fromkeys(range(6), 2))
        following = self.start(first.__anext__())
        self.cluster.settle(5)
        self.assertEqual(len(second.assignment), 3)
        self.assertLessEqual(second.assignment, listener.heard("revoked"))
        for number in range(6):
            self.put(number, b"c")
        self.finished(waiting)
        following.addErrback(lambda _: None)
        following.cancel()

    def test_revocation_wait_is_limited(self) -> None:
        """
        An application that asks for nothing more loses its partitions after ``max_poll_interval``, and one that closes
        the consumer or unsubscribes while it is at a record does so at once.
        """
        for number, end in enumerate((None, Consumer.close, Consumer.unsubscribe)):
            first = self.consumer("t", max_poll_interval=30.0)
            self.take_all(first)
            second = self.consumer("t")
            waiting = second.poll()
            self.cluster.settle(5)
            self.assertNoResult(waiting)
            if end is not None:
                end(first)
            self.put(number, b"more")
            for _ in range(60 if end is None else 12):
                self.cluster.settle(1)
            self.assertEqual(second.assignment, ALL)
            self.successResultOf(waiting)
            for each in (first, second):
                self.finished(each.close())

    def take_all(self, consumer: Consumer) -> None:
        """Have records of all partitions in hand."""
        while not consumer.assignment:
            self.assertEqual(self.finished(consumer.poll(0)), {})
            self.cluster.settle(0.05)
        consumer.seek_to_beginning()
        self.cluster.settle(2)
        self.assertEqual(self.finished(consumer.poll(0)).keys(), ALL)

    def test_missing_topic_is_logged(self) -> None:
        """The log warns once a minute, and says when the topic exists; other topics are read meanwhile."""
        with capturedLogs() as captured:
            consumer = self.consumer("t", "misspelt")
            self.read(consumer, 12)
            waiting = consumer.poll()
            self.cluster.settle(100)
            self.cluster[0].create("misspelt", 1)
            self.cluster.settle(10)
        warned = client_warnings(captured)
        line = "nothing is read of topic misspelt, which the consumer subscribes to: there is no topic 'misspelt'"
        self.assertEqual(warned, [f"group g: {line}"] * 2)
        self.assertIn("group g: topic misspelt is there now", [formatEvent(each) for each in captured])
        waiting.addErrback(lambda _: None)
        waiting.cancel()

    def test_missing_partition_is_an_error(self) -> None:
        """
        Waiting for records fails after some seconds, each time, with a group and without; other partitions are read.
        """
        for missing, said in (
            (TopicPartition("t", 99), "topic 't' has no partition 99; it has 0 to 5"),
            (TopicPartition("misspelt", 0), "there is no topic 'misspelt'"),
        ):
            for consumer in (self.consumer(), Consumer(self.a_client())):
                consumer.assign({missing: 0, P0: 0})
                self.assertEqual(self.read(consumer, 2), [(0, 0), (0, 1)])
                for _ in range(2):
                    waiting = consumer.poll()
                    self.cluster.settle(10)
                    self.assertEqual(str(self.failureResultOf(waiting, ApiError).value), said)
                self.finished(consumer.close())

    def test_one_poll_at_a_time(self) -> None:
        """
        A second poll while one waits for records is refused, and the first one goes on.
        """
        consumer = self.consumer()
        consumer.assign({P0: 2})
        waiting = consumer.poll()
        for second in (consumer.poll(), self.start(consumer.__anext__()), self.start(consumer.batches().__anext__())):
            self.assertIn("one loop reads a consumer", str(self.failureResultOf(second, LogbusError).value))
        self.put(0, b"c")
        self.assertEqual([each.offset for each in self.finished(waiting)[P0]], [2])
        waiting = consumer.poll()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.finished(consumer.poll(0)), {})


class ConsumerProtocolTests(AssignmentListenerTests):
    """The same with KIP-848's protocol."""

    protocol = "consumer"

"""A producer's transactions, at whole brokers in memory."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.client.cluster.cluster import Cluster
from logbus.client.group_metadata import GroupMetadata
from logbus.client.producer import transaction_manager
from logbus.client.producer.producer import Producer
from logbus.client.producer.transaction_errors import (
    Fenced,
    OutcomeUnknown,
    ProducerUnusable,
    TransactionAborted,
    TransactionError,
)
from logbus.errors import ApiError, Disconnected, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.net.channel import Channel
from logbus.records.read_committed import committed_records
from logbus.wire.connection import api_key_of
from tests.cluster.memory_cluster import PORT, Several, host_of
from tests.handlers.kit import NOW_S, content

INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 22, 24, 25, 26, 28
PRODUCE = 0
P0 = TopicPartition("t", 0)
STEP = 1
CLIENT = 100


class TransactionalCase(SynchronousTestCase):
    """
    Brokers with a topic ``t`` of two partitions, and clients.

    What becomes of the next requests of an API is in ``fates``: "lost" (it does not arrive), "unanswered" (it arrives),
    or an error that it fails with.
    """

    brokers = 1
    by_v2 = True

    def setUp(self) -> None:
        count = str(self.brokers)
        self.several = Several(
            {
                "default.replication.factor": count,
                "offsets.topic.replication.factor": count,
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.replication.factor": count,
                "transaction.state.log.num.partitions": "2",
                "transaction.state.log.min.isr": str(min(2, self.brokers)),
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            }
        )
        self.addCleanup(self.several.close)
        for broker_id in range(self.brokers):
            self.several.boot(broker_id)
        self.several.settle()
        self.fates: dict[int, list[Any]] = {}
        self.asked: list[int] = []
        self.patch(Channel, "request", self.request(Channel.request))
        if not self.by_v2:
            self.patch(transaction_manager, "_FEATURE", "a feature that brokers do not have")
        self.cluster = self.client()
        self.now(AdminClient(self.cluster).create_topics([NewTopic("t", partitions=2)]))
        self.several.settle(1)
        self.asked.clear()

    def request(self, original: Any) -> Any:
        def request(channel: Channel, message: Any, version: int | None = None, timeout: float | None = None) -> Any:
            key = api_key_of(message)
            if getattr(channel.transport, "mine", CLIENT) != CLIENT:
                return original(channel, message, version, timeout)
            self.asked.append(key)
            fate = self.fates[key].pop(0) if self.fates.get(key) else None
            if fate == "lost":
                return Deferred.fromCoroutine(self.silence())
            answer = original(channel, message, version, timeout)
            if fate == "unanswered":
                answer.addBoth(lambda _: Deferred.fromCoroutine(self.silence()))
            elif fate is not None:
                answer.addBoth(fate)
            return answer

        return request

    async def silence(self) -> None:
        raise Disconnected("no answer came")

    def client(self) -> Cluster:
        cluster = Cluster(
            self.several.clock, f"{host_of(0)}:{PORT}", endpoint=self.several.network.from_machine(CLIENT)
        )
        self.addCleanup(lambda: self.now(cluster.close()))
        return cluster

    def producer(self, transactional_id: str | None = "x", **options: Any) -> Producer:
        options = {"linger": 0.01, "transaction_timeout": 10.0, **options}
        producer = Producer(
            self.cluster,
            wall_clock=lambda: NOW_S + self.several.clock.seconds(),
            random=Random(1),
            transactional_id=transactional_id,
            **options,
        )
        self.addCleanup(producer.abort)
        return producer

    def now(self, work: Any, seconds: float = 30.0) -> Any:
        if not isinstance(work, Deferred):
            work = Deferred.fromCoroutine(work)
        return self.several.now(work, seconds)

    async def write(self, producer: Producer, *values: bytes, fail: Exception | None = None) -> None:
        async with producer.transaction():
            for value in values:
                await producer.send("t", value, partition=0)
            if fail is not None:
                raise fail

    def committed(self, name: str = "t") -> list[bytes | None]:
        """The records that read_committed consumers see in both partitions, once no transaction is open."""
        self.several.settle(1)
        found: list[bytes | None] = []
        image = self.several.metadata(self.several.alive[0]).topic(name)
        assert image is not None
        for index, server in enumerate(each.leader for each in image.partitions):
            answer = self.several[server].connect().fetch(0, name, index, isolation_level=1)
            self.assertEqual(answer.last_stable_offset, answer.high_watermark, "a transaction is open")
            aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
            found += [each.value for each in committed_records(content(answer), aborted)]
        return found

    def offsets(self, group: str = "g") -> dict[TopicPartition, int]:
        listed = self.now(AdminClient(self.cluster).list_group_offsets([group]))[group]
        return {partition: each.offset for partition, each in listed.items()}


class TransactionTests(TransactionalCase):
    def test_commit_and_abort(self) -> None:
        """
        A block that ends well is committed; one that an error leaves is aborted, and the error goes on.
        """
        producer = self.producer()
        self.now(self.write(producer, b"a", b"b"))
        with self.assertRaises(ZeroDivisionError):
            self.now(self.write(producer, b"c", fail=ZeroDivisionError()))
        self.now(self.write(producer, b"d"))
        self.assertEqual(self.committed(), [b"a", b"b", b"d"])

    def test_offsets_in_a_transaction(self) -> None:
        """
        Offsets of a group are committed with the transaction, and not at all with one that is aborted.
        """
        producer = self.producer()

        async def copy(offset: int, fail: bool) -> None:
            async with producer.transaction() as transaction:
                await producer.send("t", b"%d" % offset)
                await transaction.send_offsets({P0: offset}, GroupMetadata("g"))
                if fail:
                    raise ZeroDivisionError

        self.now(copy(5, False))
        self.assertEqual(self.offsets(), {P0: 5})
        with self.assertRaises(ZeroDivisionError):
            self.now(copy(7, True))
        self.assertEqual(self.offsets(), {P0: 5})

    def test_protocol_versions(self) -> None:
        """
        Partitions and groups are added first where the cluster runs at V1, and only there.
        """
        producer = self.producer()

        async def work() -> None:
            async with producer.transaction() as transaction:
                await producer.send("t", b"x")
                await transaction.send_offsets({P0: 1}, "g")

        self.now(work())
        self.assertEqual([key for key in (ADD_PARTITIONS, ADD_OFFSETS) if key in self.asked],
                         [] if self.by_v2 else [ADD_PARTITIONS, ADD_OFFSETS])  # fmt: skip
        self.assertEqual(self.asked.count(INIT), 1)

    def test_unawaited_records(self) -> None:
        """
        The end of the block sends what was not sent yet; a record that failed aborts the transaction.
        """
        producer = self.producer(linger=1000)

        async def work(partition: int) -> None:
            async with producer.transaction():
                producer.send("t", b"a", partition=0).addErrback(lambda _: None)
                producer.send("t", b"b", partition=partition).addErrback(lambda _: None)

        self.now(work(1))
        with self.assertRaises(TransactionAborted) as caught:
            self.now(work(9))
        self.assertIsInstance(caught.exception.__cause__, ApiError)
        self.assertEqual(sorted(self.committed()), [b"a", b"b"])

    def test_abort_with_a_full_buffer(self) -> None:
        """
        An abort drops the records that wait for room as well; none of them takes the room of those that are dropped.
        """
        producer = self.producer(batch_bytes=100, buffer_bytes=3000)
        failed: list[Exception] = []

        async def work() -> None:
            async with producer.transaction():
                await producer.send("t", b"first", partition=0)
                for _ in range(8):
                    producer.send("t", bytes(90), partition=0).addErrback(lambda failure: failed.append(failure.value))
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            self.now(work())
        self.assertEqual({type(each) for each in failed}, {TransactionAborted})
        self.assertEqual(producer.buffered, 0)
        self.now(self.write(producer, b"next"))
        self.assertEqual(self.committed(), [b"next"])

    def test_abort_by_a_record_of_an_unknown_topic(self) -> None:
        """
        If the first of the records that wait for a topic's metadata is refused, the others are refused with it.
        """
        producer = self.producer()
        failed: list[Exception] = []

        async def work() -> None:
            async with producer.transaction():
                producer.send("t", b"a", partition=9).addErrback(lambda failure: failed.append(failure.value))
                producer.send("t", b"b", partition=0).addErrback(lambda failure: failed.append(failure.value))

        with self.assertRaises(TransactionAborted):
            self.now(work())
        self.assertEqual([type(each) for each in failed], [ApiError, TransactionAborted])
        self.assertEqual(producer.buffered, 0)
        self.now(self.write(producer, b"next"))
        self.assertEqual(self.committed(), [b"next"])

    def test_empty_transaction(self) -> None:
        """No request is sent."""
        producer = self.producer()
        self.now(self.write(producer))
        self.now(self.write(producer))
        self.assertNotIn(END, self.asked)

    def test_outside_of_a_transaction(self) -> None:
        """
        Records are refused that would belong to none, and so is a second transaction beside the first.
        """
        producer = self.producer()
        self.failureResultOf(producer.send("t", b"x"), TransactionError)

        async def work() -> None:
            async with producer.transaction():
                with self.assertRaises(TransactionError):
                    async with producer.transaction():
                        pass
                await producer.send("t", b"x")

        self.now(work())
        with self.assertRaises(ValueError):
            self.producer(None).transaction()
        self.assertEqual(self.committed(), [b"x"])

    def test_fenced(self) -> None:
        """
        Once another producer has the id, everything fails, for good.
        """
        for act in ("send", "offsets", "commit", "abort"):
            first, second = self.producer(act), self.producer(act)

            async def work(producer: Producer = first, other: Producer = second, act: str = act) -> None:
                async with producer.transaction() as transaction:
                    await producer.send("t", b"lost")
                    await self.write(other, act.encode())
                    if act == "send":
                        await producer.send("t", b"lost")
                    elif act == "offsets":
                        await transaction.send_offsets({P0: 1}, "g")
                    elif act == "abort":
                        raise ZeroDivisionError

            with self.assertRaises(ZeroDivisionError if act == "abort" else Fenced):
                self.now(work())
            with self.assertRaises(Fenced):
                self.now(self.write(first, b"never"))
            self.failureResultOf(first.send("t", b"x"), Fenced)
        self.assertEqual(self.committed(), [b"send", b"offsets", b"commit", b"abort"])

    def test_left_open_for_too_long(self) -> None:
        """The coordinator has aborted it; the producer gets an error."""
        producer = self.producer(transaction_timeout=2.0)

        async def work() -> None:
            async with producer.transaction():
                await producer.send("t", b"a")
                await sleep(self.several.clock, 5)

        with self.assertRaises(TransactionError):
            self.now(work())
        self.assertEqual(self.committed(), [])

    def test_lost_requests(self) -> None:
        """
        Each request is lost once, arriving or not: the transaction is committed, once.
        """
        producer = self.producer()
        expected = []
        for key in (INIT, ADD_PARTITIONS, ADD_OFFSETS, COMMIT_OFFSETS, PRODUCE, END):
            for fate in ("lost", "unanswered"):
                value = b"%d %s" % (key, fate.encode())
                expected.append(value)
                self.fates = {key: [fate]}

                async def work(value: bytes = value) -> None:
                    async with producer.transaction() as transaction:
                        await producer.send("t", value, partition=0)
                        await transaction.send_offsets({P0: len(expected)}, "g")

                self.now(work())
        self.assertEqual(self.committed(), expected)
        self.assertEqual(self.offsets(), {P0: len(expected)})

    def test_unanswered_end(self) -> None:
        """
        EndTxn is repeated until the transaction's timeout; then the outcome is unknown, and the next transaction
        works.
        """
        producer = self.producer(transaction_timeout=3.0)
        self.fates = {END: ["unanswered"] * 100}
        with self.assertRaises(OutcomeUnknown):
            self.now(self.write(producer, b"a"))
        self.assertGreater(self.asked.count(END), 3)
        self.fates.clear()
        self.now(self.write(producer, b"b"))
        self.assertEqual(self.committed(), [b"a", b"b"])

    def test_cancelled_anywhere(self) -> None:
        """
        A block whose Deferred is cancelled, whenever, leaves nothing behind or is committed; the next one works.
        """
        producer = self.producer(transaction_timeout=5.0)
        self.now(self.write(producer, b"first"))
        told: list[bytes] = []
        cancelled = 0
        for turns in range(0, 40, STEP):
            value = b"%d" % turns

            async def work(value: bytes = value) -> None:
                async with producer.transaction() as transaction:
                    producer.send("t", value + b"-", partition=0).addErrback(lambda _: None)
                    await producer.send("t", value, partition=0)
                    await transaction.send_offsets({P0: 1}, "g")

            working = Deferred.fromCoroutine(work())
            self.turns(turns)
            working.cancel()
            failed: list[Any] = []
            working.addErrback(failed.append)
            self.several.settle(0.5)
            self.assertTrue(working.called)
            if failed:
                failed[0].trap(CancelledError)
                cancelled += 1
            else:
                told += [value + b"-", value]
            self.now(self.write(producer, value + b"+"))
            told.append(value + b"+")
        self.assertGreater(cancelled, 5)
        found = self.committed()
        self.assertLessEqual(set(told), set(found))
        self.assertEqual(len(found), len(set(found)))
        for turns in range(0, 40, STEP):
            self.assertEqual(b"%d" % turns in found, b"%d-" % turns in found)

    def turns(self, count: int) -> None:
        """So many things happen."""
        clock = self.several.clock
        for _ in range(count):
            first = min(clock.calls, key=lambda call: call.getTime())
            clock.rightNow = max(clock.rightNow, first.getTime())
            clock.calls.remove(first)
            first.called = 1
            first.func(*first.args, **first.kw)

    def test_closed_coroutine(self) -> None:
        """A coroutine that is closed in the middle aborts its transaction without waiting."""
        producer = self.producer()

        async def work() -> None:
            async with producer.transaction():
                await producer.send("t", b"a")
                await Deferred()

        coroutine = work()
        waiting = coroutine.send(None)
        waiting.addCallback(lambda _: None)
        self.several.settle(1)
        coroutine.close()
        self.now(self.write(producer, b"b"))
        self.assertEqual(self.committed(), [b"b"])

    def test_closing_in_the_middle(self) -> None:
        """
        A transaction that is open is aborted; nothing more is taken.
        """
        producer = self.producer()

        async def work() -> None:
            async with producer.transaction():
                await producer.send("t", b"a")
                await producer.close()

        with self.assertRaises(LogbusError):
            self.now(work())
        with self.assertRaises(LogbusError):
            self.now(self.write(producer, b"b"))
        self.assertEqual(self.committed(), [])

    def test_a_refusal_for_good(self) -> None:
        """
        A timeout that brokers do not take makes the producer unusable, and is said.
        """
        producer = self.producer(transaction_timeout=1e6)
        with self.assertRaises(ProducerUnusable) as caught:
            self.now(self.write(producer, b"a"))
        self.assertIs(caught.exception.__cause__.code, ErrorCode.INVALID_TRANSACTION_TIMEOUT)  # type: ignore[union-attr]

    def test_unawaited_offsets(self) -> None:
        """
        The end of the block waits for offsets that nobody waits for; an abort gives them up, and no later transaction
        hears of them.
        """
        producer = self.producer()
        outcomes: list[Any] = []

        async def work(value: bytes, offset: int, fail: bool) -> None:
            async with producer.transaction() as transaction:
                await producer.send("t", value, partition=0)
                transaction.send_offsets({P0: offset}, "g").addBoth(outcomes.append)
                if fail:
                    raise ZeroDivisionError

        self.fates[COMMIT_OFFSETS] = ["lost"] * 2
        self.now(work(b"a", 5, False))
        self.assertEqual((outcomes, self.offsets()), ([None], {P0: 5}))
        self.fates[COMMIT_OFFSETS] = ["lost"] * 4
        with self.assertRaises(ZeroDivisionError):
            self.now(work(b"b", 6, True))
        self.assertIsInstance(outcomes.pop().value, TransactionAborted)
        self.fates.clear()

        async def later() -> None:
            async with producer.transaction():
                await sleep(self.several.clock, 2)
                await producer.send("t", b"c", partition=0)

        self.now(later())
        self.assertEqual((self.committed(), self.offsets()), ([b"a", b"c"], {P0: 5}))

    def test_offsets_of_a_former_member(self) -> None:
        """
        Offsets of a member that is none abort the transaction; another one may be tried.
        """
        producer = self.producer()

        async def work() -> None:
            async with producer.transaction() as transaction:
                await producer.send("t", b"a")
                await transaction.send_offsets({P0: 1}, GroupMetadata("g", 3, "nobody"))

        with self.assertRaises(TransactionAborted) as caught:
            self.now(work())
        self.assertIsInstance(caught.exception.__cause__, ApiError)
        self.now(self.write(producer, b"b"))
        self.assertEqual(self.committed(), [b"b"])


class OldTransactionTests(TransactionTests):
    """The same by V1."""

    by_v2 = False

    def test_abort_while_partitions_are_added(self) -> None:
        """
        A partition that could not be added yet is not added after the abort: the next transaction has another epoch.
        """
        producer = self.producer()
        self.now(self.write(producer, b"a"))
        self.fates[ADD_PARTITIONS] = ["lost"] * 6

        async def work() -> None:
            async with producer.transaction():
                producer.send("t", b"b").addErrback(lambda _: None)
                await sleep(self.several.clock, 1)
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            self.now(work())
        self.fates.clear()

        async def later() -> None:
            async with producer.transaction():
                await sleep(self.several.clock, 2)
                await producer.send("t", b"c")

        self.now(later())
        self.assertEqual(self.committed(), [b"a", b"c"])


async def sleep(clock: Any, seconds: float) -> None:
    slept: Deferred[None] = Deferred()
    clock.callLater(seconds, slept.callback, None)
    await slept

"""
Exactly once from topic to topic with the client's consumer and producer, while members come, go, are late or cut off.

Copiers read ``t`` as members of one group and write what they read to ``out`` in transactions that commit the offsets.
Whatever happens, readers of committed records find each record in ``out`` once.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.task import deferLater

from logbus.client import Consumer, OutcomeUnknown, Producer, TransactionAborted
from logbus.client.membership.group_offsets import GroupOffsets
from logbus.client.producer.transaction import Transaction
from logbus.client.producer.transaction_manager import TransactionManager
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.records.batch import iter_batches
from logbus.records.read_committed import committed_records
from tests.client.membership_kit import CLIENTS, MembershipCase
from tests.handlers.kit import a_batch, content

EACH = 150
"""Records in each of the six partitions."""


class Copier:
    """
    One process of the application.

    :ivar polls: how often it polls for one transaction.
    :ivar work: seconds that it takes for one poll's records.
    :ivar gives_consumer: its transactions find the offsets themselves, and have the consumer go back after an abort.
    :ivar aborted: why transactions were aborted.
    """

    def __init__(
        self, clock: Any, consumer: Consumer, producer: Producer, polls: int, work: float, gives_consumer: bool
    ) -> None:
        self.clock, self.consumer, self.producer = clock, consumer, producer
        self.polls, self.work, self.gives_consumer = polls, work, gives_consumer
        self.aborted: list[LogbusError] = []
        self.copied = 0
        self.over = False
        self.ended: Deferred[None] | None = None

    async def run(self) -> None:
        while not self.over:
            try:
                await self.copy()
            except (TransactionAborted, OutcomeUnknown) as e:
                self.aborted.append(e)
                if not self.gives_consumer:
                    await self.consumer.seek_to_committed()
        await self.consumer.close()
        await self.producer.close()

    async def copy(self) -> None:
        positions: dict[TopicPartition, int] = {}
        consumer = self.consumer if self.gives_consumer else None
        async with self.producer.transaction(consumer) as transaction:
            for _ in range(self.polls):
                found = await self.consumer.poll(0.3, max_records=7)
                for partition, records in found.items():
                    for each in records:
                        self.producer.send("out", each.value).addErrback(lambda _: None)
                    positions[partition] = records[-1].offset + 1
                if found and self.work:
                    await deferLater(self.clock, self.work)
            if self.gives_consumer:
                await transaction.send_offsets(self.consumer)
            else:
                await transaction.send_offsets(positions, self.consumer.group_metadata())
        self.copied += len(positions)


class CopyingCase(MembershipCase):
    """Copiers and their topics."""

    options: dict[str, Any] = {}
    gives_consumer = True

    def setUp(self) -> None:
        super().setUp()
        self.cluster[0].create("out", 1)
        self.wire = self.cluster[0].connect()
        self.put(0, EACH)
        self.copiers: list[Copier] = []
        self.found: Counter[bytes] = Counter()
        self.read_to = 0

    def put(self, first: int, end: int) -> None:
        for number in range(6):
            for index in range(first, end, 5):
                values = [b"%d-%d" % (number, each) for each in range(index, min(index + 5, end))]
                self.wire.produce(a_batch(*values), "t", number)

    def consumer(self, client: Any = None, **options: Any) -> Consumer:
        settings = {"request_timeout": 5.0, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        settings |= {
            "isolation_level": "read_committed",
            "group_protocol": self.protocol,
            "heartbeat_interval": 1.0,
            **self.options,
            **options,
        }
        consumer = Consumer(client or self.a_client(), "g", **settings)

        def close() -> None:
            consumer.close()
            self.cluster.settle(6)

        self.addCleanup(close)
        return consumer

    def copier(self, *, polls: int = 1, work: float = 0.2, **options: Any) -> Copier:
        client = self.a_client()
        consumer = self.consumer(client, **options)
        consumer.subscribe(["t"])
        producer = Producer(
            client,
            wall_clock=self.cluster.clock.seconds,
            random=Random(1),
            transactional_id=f"copier-{len(self.copiers)}",
            transaction_timeout=100.0,
        )
        self.addCleanup(producer.abort)
        copier = Copier(self.cluster.clock, consumer, producer, polls, work, self.gives_consumer)
        self.copiers.append(copier)
        copier.ended = Deferred.fromCoroutine(copier.run())
        # One that works to the end of the test fails as its producer is closed.
        self.addCleanup(copier.ended.addErrback, lambda failure: failure.trap(LogbusError, CancelledError))
        return copier

    def stop(self, copier: Copier) -> None:
        copier.over = True
        assert copier.ended is not None
        self.cluster.now(copier.ended, 60)

    def out(self) -> Counter[bytes]:
        """The records that read_committed consumers see in the destination."""
        while True:
            answer = self.wire.fetch(self.read_to, "out", 0, isolation_level=1)
            data = content(answer)
            if not data:
                return self.found
            aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
            self.found.update(each.value or b"" for each in committed_records(data, aborted))
            self.read_to = [header.next_offset for _, header in iter_batches(data)][-1]

    def wait_for(self, condition: Any, seconds: float = 120.0) -> None:
        for _ in range(round(seconds / 0.05)):
            if condition():
                return
            self.cluster.settle(0.05)
        copiers = [(each.ended, each.copied, each.aborted) for each in self.copiers]
        self.fail(f"not in time: {copiers}; {len(self.out())} of {self.out().total()}")

    def check(self, each: int = EACH) -> None:
        """Each record is there once."""
        wanted = Counter(b"%d-%d" % (number, index) for number in range(6) for index in range(each))
        self.wait_for(lambda: sum(self.out().values()) >= sum(wanted.values()), 300)
        self.cluster.settle(10)
        found = self.out()
        self.assertEqual((found - wanted, wanted - found), (Counter(), Counter()))


class RangeTests(CopyingCase):
    """The classic protocol, in which members give up everything in each rebalance."""

    options = {"assignors": ["range"]}

    def test_members_join_and_leave(self) -> None:
        """
        Rebalances while records are processed: each waits until what the member has in hand is committed, so no
        transaction is aborted, and nothing is copied twice.
        """
        first = self.copier()
        self.wait_for(lambda: first.copied)
        second = self.copier()
        self.wait_for(lambda: second.copied)
        third = self.copier()
        self.wait_for(lambda: third.copied)
        self.stop(first)
        self.cluster.settle(1)
        self.stop(second)
        self.check()
        self.assertEqual([each for copier in self.copiers for each in copier.aborted], [])

    def test_transactions_of_several_polls(self) -> None:
        """
        A transaction with records of partitions that went meanwhile cannot be committed, be they this member's again
        or another's; one without is.
        """
        first = self.copier(polls=5)
        self.cluster.settle(2)
        second = self.copier(polls=4)
        self.cluster.settle(3)
        third = self.copier(polls=3)
        self.cluster.settle(2)
        self.stop(second)
        self.put(EACH, EACH + 20)
        self.cluster.settle(1)
        self.stop(first)
        self.wait_for(lambda: third.copied)
        self.check(EACH + 20)

    def test_slow_member(self) -> None:
        """A member that is removed while it processes cannot commit after its successor, and goes on afterwards."""
        slow = self.copier(work=30.0, max_poll_interval=10.0)
        self.wait_for(lambda: slow.consumer.assignment)
        self.cluster.settle(3)
        fast = self.copier()
        self.wait_for(lambda: fast.copied)
        slow.work = 0.1
        self.check()
        self.assertEqual(len(slow.aborted), 1)
        self.assertIn("seek_to_committed", str(slow.aborted[0]))
        self.put(EACH, EACH + 20)
        self.wait_for(lambda: slow.copied)
        self.check(EACH + 20)

    def test_disconnected_member(self) -> None:
        """A member that was cut off until its session ended cannot commit either."""
        zombie = self.copier(work=40.0, session_timeout=6.0)
        self.wait_for(lambda: zombie.consumer.assignment)
        self.cluster.settle(3)
        self.cluster.cut(self.clients - 1, 0)
        self.assertGreater(self.clients, CLIENTS)
        other = self.copier()
        self.wait_for(lambda: other.copied)
        zombie.work = 0.1
        self.cluster.mend()
        self.check()
        self.assertEqual(len(zombie.aborted), 1)

    def test_coordinator_that_is_away_after_an_abort(self) -> None:
        """A consumer that cannot go back at once delivers nothing until it can."""
        copier = self.copier(polls=2)
        self.wait_for(lambda: copier.copied > 5)
        away = True
        fetch, send_offsets = GroupOffsets.fetch, Transaction.send_offsets

        def fetch_later(offsets: GroupOffsets, *partitions: Any, **options: Any) -> Any:
            if away:
                return fail(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return fetch(offsets, *partitions, **options)

        def refuse(*_: Any) -> Any:
            self.patch(Transaction, "send_offsets", send_offsets)
            return fail(TransactionAborted("the coordinator is away"))

        self.patch(GroupOffsets, "fetch", fetch_later)
        self.patch(Transaction, "send_offsets", refuse)
        self.wait_for(lambda: copier.aborted)
        self.cluster.settle(5)
        away = False
        self.check()

    def test_partition_that_is_paused(self) -> None:
        """It is paused still when its offset is found later."""
        consumer = self.consumer()
        consumer.subscribe(["t"])
        self.addCleanup(consumer.poll(60).addErrback, lambda _: None)
        self.wait_for(lambda: len(consumer.assignment) == 6)
        paused, other = TopicPartition("t", 0), TopicPartition("t", 1)
        consumer.pause(paused)
        fetch = GroupOffsets.fetch
        self.patch(GroupOffsets, "fetch", lambda *_, **__: fail(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)))
        self.failureResultOf(consumer.seek_to_committed(paused, other), ApiError)
        self.assertEqual(len(consumer.assignment), 4)
        self.patch(GroupOffsets, "fetch", fetch)
        self.wait_for(lambda: len(consumer.assignment) == 6)
        self.assertEqual(consumer.paused(), {paused})

    def test_cancelled_while_it_commits(self) -> None:
        """A consumer goes back also if nobody waits for the end of the transaction any more."""
        copier = self.copier(polls=2)
        self.wait_for(lambda: copier.copied > 5)
        end = TransactionManager.end

        def cancel(manager: TransactionManager, *, commit: bool) -> Any:
            self.patch(TransactionManager, "end", end)
            assert copier.ended is not None
            clock, flush = self.cluster.clock, manager._flush
            self.patch(manager, "_flush", lambda: deferLater(clock, 0.1).addCallback(lambda _: flush()))
            clock.callLater(0, copier.ended.cancel)
            return end(manager, commit=commit)

        self.patch(TransactionManager, "end", cancel)
        self.wait_for(lambda: copier.ended.called)
        copier.ended = Deferred.fromCoroutine(copier.run())
        self.addCleanup(copier.ended.addErrback, lambda failure: failure.trap(LogbusError))
        self.check()


class CooperativeTests(RangeTests):
    """The classic protocol, in which members keep what they go on to read."""

    gives_consumer = False
    options = {"assignors": ["cooperative-sticky"]}
    # These copiers go back by themselves.
    test_coordinator_that_is_away_after_an_abort = None
    test_cancelled_while_it_commits = None


class ConsumerProtocolTests(RangeTests):
    """KIP-848's protocol."""

    protocol = "consumer"
    options = {}
    config = {
        **CopyingCase.config,
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }

    def copier(self, **options: Any) -> Copier:
        options.pop("session_timeout", None)
        return super().copier(**options)


del CopyingCase

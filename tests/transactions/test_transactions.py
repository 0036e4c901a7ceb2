"""Complete transactions of V1 and V2 producers, with readers."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.coordinator_partition import partition_for
from logbus.testing.simulation.checks.history import FAIL, INFO, OK
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from logbus.testing.simulation.workloads.transactional_producer import (
    SessionFenced,
    TransactionalProducer,
    TransactionBroken,
)
from logbus.wire.messages.transactions import EndTxnRequest
from tests.transactions.kit import TIMEOUT_MS, Bank


class TransactionCase(SynchronousTestCase):
    """A cluster, and everything that is wrong in the end."""

    brokers = 1
    config: dict[str, str] = {}

    def setUp(self) -> None:
        self.bank = self.open()

    def open(self) -> Bank:
        bank = Bank.open(self.brokers, **self.config)
        self.addCleanup(self.flushLoggedErrors)
        self.addCleanup(bank.close)
        return bank

    def now(self, work: Any) -> Any:
        return self.bank.now(work)

    def begun(self, transactional_id: str = "x", *, by_v2: bool = True, **given: Any) -> TransactionalProducer:
        """A producer whose transaction is open."""
        producer = self.bank.producer(transactional_id, by_v2=by_v2, **given)
        self.now(producer.begin_session())
        producer.begin()
        return producer

    def write(self, producer: TransactionalProducer, *partitions: int) -> list[int]:
        """A value into each of these partitions."""
        values = []
        for partition in partitions:
            (value,) = self.bank.job.values(1)
            self.now(producer.produce(partition, [value]))
            values.append(value)
        return values

    def assertFine(self, *ids: str) -> None:
        found = self.bank.anomalies(ids)
        self.assertEqual([str(each) for each in found], [])

    def seen(self, partition: int = 0, name: str = "final") -> list[int]:
        """The committed records in order, after :meth:`assertFine`."""
        name = f"{name} {partition}"
        return [value for poll in self.bank.job.history.polls if poll.consumer == name for _, value in poll.records]


class TransactionTests(TransactionCase):
    """One broker."""

    def both_ways(self) -> Any:
        for by_v2 in (False, True):
            with self.subTest(by_v2=by_v2):
                self.bank = self.open()
                yield by_v2

    def test_commit_and_abort(self) -> None:
        """Committed records and offsets are visible in all partitions; aborted ones are not."""
        for by_v2 in self.both_ways():
            producer = self.begun(by_v2=by_v2)
            kept = self.write(producer, 0, 1, 0)
            self.now(producer.send_offsets({0: producer.transaction.number}))
            self.now(producer.end(commit=True))
            producer.begin()
            self.write(producer, 0, 1)
            self.now(producer.send_offsets({0: producer.transaction.number}))
            self.now(producer.end(commit=False))
            producer.begin()
            kept += self.write(producer, 1)
            self.now(producer.end(commit=True))
            self.assertFine("x")
            self.assertEqual((self.seen(0), self.seen(1)), ([kept[0], kept[2]], [kept[1], kept[3]]))
            self.assertEqual([each.outcome for each in self.bank.ledger.transactions], [OK, FAIL, OK])

    def test_open_transaction_hides_later_records(self) -> None:
        """Readers of committed records wait for the oldest open transaction; others do not."""
        first, second = self.begun("x"), self.begun("y", by_v2=False)
        open_value, (value,) = self.write(first, 0), self.write(second, 0)
        self.now(second.end(commit=True))
        reader = self.bank.reader("early", 0)
        self.bank.start(reader.run())
        self.bank.cluster.settle(1)
        self.assertEqual((reader.position, self.seen(0, "early")), (0, []))
        self.now(first.end(commit=True))
        self.assertFine()
        self.assertEqual(self.seen(), [*open_value, value])

    def test_a_zombie_is_fenced(self) -> None:
        """A producer is fenced after another one has started with its id, in any transaction."""
        for by_v2 in self.both_ways():
            for act in ("write", "write elsewhere", "offsets", "commit", "abort"):
                zombie = self.begun(act, by_v2=by_v2)
                self.write(zombie, 0)
                successor = self.begun(act, by_v2=by_v2)
                value = self.write(successor, 1)
                work = {
                    "write": lambda z=zombie: z.produce(0, self.bank.job.values(1)),
                    "write elsewhere": lambda z=zombie: z.produce(1, self.bank.job.values(1)),
                    "offsets": lambda z=zombie: z.send_offsets({0: z.transaction.number}),
                    "commit": lambda z=zombie: z.end(commit=True),
                    "abort": lambda z=zombie: z.end(commit=False),
                }[act]
                with self.assertRaises((SessionFenced, TransactionBroken)):
                    self.now(work())
                self.now(successor.end(commit=True))
                self.bank.read_all(name=act)
                self.assertIn(value[0], self.seen(1, act))
            self.assertFine("offsets")

    def test_left_open(self) -> None:
        """An abandoned transaction is aborted by its timeout, and its producer is fenced."""
        for by_v2 in self.both_ways():
            producer = self.begun(by_v2=by_v2)
            self.write(producer, 0, 1)
            self.bank.cluster.settle(TIMEOUT_MS / 1000 + 1.5)
            reader = self.bank.reader("late", 0)
            self.bank.start(reader.run())
            self.bank.cluster.settle(1)
            self.assertTrue(reader.is_stable)
            with self.assertRaises((SessionFenced, TransactionBroken)):
                self.now(producer.produce(0, self.bank.job.values(1)))
            self.assertFine("x")

    def test_late_requests_of_version_2(self) -> None:
        """By V2 no request of a transaction does anything to the next one."""
        producer = self.begun()
        self.write(producer, 0)
        self.now(producer.send_offsets({0: producer.transaction.number}))
        router: Any = producer.router
        old = EndTxnRequest(
            transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=True
        )
        router.fates.append("twice")
        write = producer.produce(1, self.bank.job.values(1))
        self.now(write)
        router.fates.append("twice")
        self.now(producer.end(commit=False))
        producer.begin()
        self.write(producer, 0)
        for held in self.bank.held:
            held.arrive()
        self.now(router.ask_coordinator(1, "x", old, 5))
        self.bank.cluster.settle(1)
        self.write(producer, 1)
        self.now(producer.end(commit=True))
        self.assertFine("x")
        self.assertEqual([each.outcome for each in self.bank.ledger.transactions], [FAIL, OK])

    def test_late_requests_of_version_1(self) -> None:
        """In V1 a write after the end of its transaction is refused, since it would hang."""
        for by_v2 in self.both_ways():
            producer = self.begun(by_v2=by_v2, patience=0.5)
            self.write(producer, 1)
            # Those that add the partition arrive; those that write to it do not, one of them until later.
            producer.router.fates.extend([] if by_v2 else ["ok"])
            producer.router.fates.extend(["late", *["lost"] * 9])
            with self.assertRaises(TransactionBroken):
                self.now(producer.produce(0, self.bank.job.values(1)))
            producer.router.fates.clear()
            self.now(producer.end(commit=False))
            (held,) = self.bank.held
            held.arrive()
            self.bank.cluster.settle(0.5)
            reader = self.bank.reader("after", 0)
            self.bank.start(reader.run())
            self.bank.cluster.settle(0.5)
            self.assertTrue(reader.is_stable)
            producer.begin()
            self.write(producer, 0, 1)
            self.now(producer.end(commit=True))
            self.assertFine("x")


class StepTests(TransactionCase):
    """The coordinator is killed after each turn of a commit: the transaction is whole, and none is left open."""

    def run_until_killed(self, turns: int, by_v2: bool, power: str | None = None) -> bool:
        """A commit, the broker's death after so many turns, and its return; whether the commit was answered first."""
        bank = self.bank = self.open()
        cluster = bank.cluster
        producer = self.begun(by_v2=by_v2)
        self.write(producer, 0, 1)
        self.now(producer.send_offsets({0: producer.transaction.number}))
        coordinator = self.coordinator("x")
        answered: list[Any] = []
        bank.start(producer.end(commit=True)).addCallback(answered.append)
        bank.turns(turns)
        was_answered = bool(answered)
        cluster.kill(coordinator, power=None if power is None else PowerCutOutcome(power))
        cluster.settle(1)
        cluster.boot(coordinator)
        bank.until(lambda: answered, 30)
        self.assertTrue(answered)
        self.assertFine("x")
        (transaction,) = bank.ledger.transactions
        self.assertNotEqual(transaction.outcome, INFO)
        self.assertEqual(sorted(self.seen(0) + self.seen(1)), transaction.values if transaction.outcome == OK else [])
        return was_answered

    def coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates an id."""
        topic = self.bank.cluster.metadata(0).topic("__transaction_state")
        assert topic is not None
        return int(topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader)

    def run_all(self, by_v2: bool, power: str | None = None, stride: int = 1) -> None:
        turns = after = 0
        # Also after the answer: markers are still to be written then.
        while after < 6:
            with self.subTest(by_v2=by_v2, power=power, turns=turns):
                after += self.run_until_killed(turns, by_v2, power)
            turns += stride
        self.assertGreater(turns, 8)

    def test_killed(self) -> None:
        """One broker's process ends."""
        for by_v2 in (False, True):
            self.run_all(by_v2)

    def test_power_cut(self) -> None:
        """Unsynced writes are lost by a power cut."""
        for by_v2 in (False, True):
            self.run_all(by_v2, "lose")

    def test_moved(self) -> None:
        """Another broker of three takes over."""
        self.brokers = 3
        self.run_all(True, stride=4)
        self.run_all(False, "lose", stride=4)

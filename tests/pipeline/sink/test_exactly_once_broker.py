"""Tests the transactions of tasks and driver against a real broker, without Spark, with deaths at chosen moments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
from attrs import evolve
from twisted.trial.unittest import TestCase

from logbus.pipeline.blocking import transactions
from logbus.pipeline.blocking.list_offsets import list_offsets
from logbus.pipeline.errors import ColumnError, NotRepeatable, OptionError, ProducerFenced, TransactionLost
from logbus.pipeline.sink import exactly_once, options
from logbus.pipeline.sink.columns import SinkColumns
from logbus.pipeline.sink.exactly_once import BatchIdentity, TaskOutcome
from logbus.testing import Broker
from tests.pipeline.committed_messages import client, committed_messages, create_topic

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
from logbus.pipeline.sink.writers import _write_once  # noqa: E402 (it needs what may be missing)

TOPIC = "orders"


class DriverDied(Exception):
    """The driver did, in the middle."""


class ExactlyOnceTests(TestCase):
    """By the second protocol of transactions; see below for the first."""

    transaction_v2 = True

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = Broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}).start()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.broker.close()

    def setUp(self) -> None:
        self.topic = f"{TOPIC}-{self.id().rpartition('.')[2]}-{self.transaction_v2}"
        create_topic(self.broker.bootstrap, self.topic, 2)
        self.brokers = client(self.broker.bootstrap)
        self.addCleanup(self.brokers.close)
        self.options = options.read_sink_options(
            {
                "kafka.bootstrap.servers": self.broker.bootstrap,
                "topic": self.topic,
                "deliveryGuarantee": "exactly-once",
            },
            streaming=True,
        )
        if not self.transaction_v2:
            patch = mock.patch.object(transactions, "_TV2", 99)
            patch.start()
            self.addCleanup(patch.stop)

    def run_of(self, number: int) -> BatchIdentity:
        return BatchIdentity(self.topic, number)

    def task(self, number: int, task: int, values: Sequence[bytes | None], size: int = 3) -> TaskOutcome:
        """A task of a batch; its rows come some at a time."""

        def batches() -> Iterator[Any]:
            for at in range(0, len(values), size):
                yield pa.RecordBatch.from_arrays([pa.array(values[at : at + size], pa.binary())], ["value"])

        return _write_once(self.brokers, self.options, SinkColumns(), self.run_of(number), task, batches())

    def commit(self, number: int, *outcomes: TaskOutcome) -> None:
        exactly_once.commit(self.brokers, self.run_of(number), outcomes)

    def abort(self, number: int, outcomes: Sequence[TaskOutcome | None]) -> None:
        exactly_once.abort(self.brokers, outcomes, self.run_of(number), self.options.prefix, 60.0)

    def there(self) -> list[bytes]:
        return sorted(each.value() for each in committed_messages(self.broker.bootstrap, self.topic))

    def test_batches(self) -> None:
        """Rows of one batch after the other, from tasks that had some and one that had none."""
        for number in range(3):
            first = self.task(number, 0, [b"%d-a%d" % (number, each) for each in range(7)])
            second = self.task(number, 1, [b"%d-b" % number])
            third = self.task(number, 2, [])
            self.assertEqual([each.rows for each in (first, second, third)], [7, 1, 0])
            self.commit(number, first, second, third)
        self.assertEqual(len(self.there()), 24)
        self.assertEqual(len(set(self.there())), 24)

    def test_invisible_before_the_commit(self) -> None:
        """Even when all tasks are done."""
        outcomes = [self.task(0, 0, [b"a"]), self.task(0, 1, [b"b"])]
        before = list_offsets(self.brokers, dict.fromkeys(self.partitions(), -1), committed=True)
        self.assertEqual({each.offset for each in before.values()}, {0})
        self.commit(0, *outcomes)
        self.assertEqual(self.there(), [b"a", b"b"])

    def partitions(self) -> list[Any]:
        return [transactions.TopicPartition(self.topic, index) for index in (0, 1)]

    def test_repeated_batch(self) -> None:
        """It is skipped: Spark died before it recorded that the batch was done."""
        for _ in range(3):
            outcomes = [self.task(0, 0, [b"a", b"b"]), self.task(0, 1, [b"c"])]
            self.commit(0, *outcomes)
        self.assertEqual(self.there(), [b"a", b"b", b"c"])
        self.assertEqual([each.prepared for each in outcomes], [None, None])

    def test_the_driver_dies_between_two_commits(self) -> None:
        """What was committed is passed over the next time, and what was not is written anew."""
        outcomes = [self.task(0, each, [b"%d" % each]) for each in range(4)]
        real = transactions.end_txn
        ended = []

        def end(brokers: Any, identity: Any, *, commit: bool, seconds: float | None = None) -> None:
            if len(ended) == 2:
                raise DriverDied
            ended.append(identity)
            real(brokers, identity, commit=commit, seconds=seconds)

        with mock.patch.object(transactions, "end_txn", end), mock.patch.object(exactly_once, "_AT_ONCE", 1):
            self.assertRaises(DriverDied, self.commit, 0, *outcomes)
        again = [self.task(0, each, [b"%d" % each]) for each in range(4)]
        self.assertEqual([each.prepared is None for each in again], [True, True, False, False])
        self.commit(0, *again)
        self.assertEqual(self.there(), [b"0", b"1", b"2", b"3"])

    def test_the_first_task_is_the_first(self) -> None:
        """It is committed before all others, also without rows: else fewer tasks might not see that any was."""
        outcomes = [self.task(0, each, [b"%d" % each] if each else []) for each in range(4)]
        real = transactions.end_txn

        def end(brokers: Any, identity: Any, *, commit: bool, seconds: float | None = None) -> None:
            real(brokers, identity, commit=commit, seconds=seconds)
            raise DriverDied

        with mock.patch.object(transactions, "end_txn", end):
            self.assertRaises(DriverDied, self.commit, 0, *outcomes)
        again = [self.task(0, 0, []), self.task(0, 1, [b"1", b"2", b"3"])]
        self.assertRaises(NotRepeatable, self.commit, 0, *again)
        again = [self.task(0, each, [b"%d" % each] if each else []) for each in range(4)]
        self.assertEqual([each.prepared is None for each in again], [True, False, False, False])
        self.commit(0, *again)
        self.assertEqual(self.there(), [b"1", b"2", b"3"])

    def test_a_batch_without_rows(self) -> None:
        """Is nothing to commit."""
        for number in range(2):
            self.commit(number, self.task(number, 0, []), self.task(number, 1, []))
        self.commit(2, self.task(2, 0, [b"a"]))
        self.assertEqual(self.there(), [b"a"])

    def part_of_a_batch(self) -> None:
        outcomes = [self.task(0, 0, [b"a", b"b"]), self.task(0, 1, [b"c"])]
        self.abort(0, outcomes[1:])
        real = transactions.end_txn

        def end(brokers: Any, identity: Any, *, commit: bool, seconds: float | None = None) -> None:
            real(brokers, identity, commit=commit, seconds=seconds)
            raise DriverDied

        first = exactly_once.TaskOutcome(0, 2, outcomes[0].prepared)
        with mock.patch.object(transactions, "end_txn", end):
            self.assertRaises(DriverDied, self.commit, 0, first, TaskOutcome(1, 0))

    def test_another_number_of_tasks(self) -> None:
        """Nothing more is committed: rows may have changed their tasks."""
        self.part_of_a_batch()
        again = [self.task(0, 0, [b"a", b"b"]), self.task(0, 1, []), self.task(0, 2, [b"c"])]
        error = self.assertRaises(NotRepeatable, self.commit, 0, *again)
        self.assertRegex(str(error), "had 2 tasks and has 3")
        self.abort(0, again)
        self.assertEqual(self.there(), [b"a", b"b"])

    def test_other_rows(self) -> None:
        """Nothing more is committed."""
        self.part_of_a_batch()
        again = [self.task(0, 0, [b"a"]), self.task(0, 1, [b"b", b"c"])]
        error = self.assertRaises(NotRepeatable, self.commit, 0, *again)
        self.assertRegex(str(error), "task 0 had 2 rows and has 1")
        self.abort(0, again)
        self.assertEqual(self.there(), [b"a", b"b"])

    def test_a_zombie_task(self) -> None:
        """An attempt that goes on after another has begun is told so, and what it wrote does not count."""

        def batches() -> Iterator[Any]:
            yield pa.RecordBatch.from_arrays([pa.array([b"zombie"])], ["value"])
            # In a thread, as it would be in another process: connections belong to one.
            with ThreadPoolExecutor(1) as elsewhere:
                outcomes.append(elsewhere.submit(self.task, 0, 0, [b"a"]).result())
            for number in range(3):
                yield pa.RecordBatch.from_arrays([pa.array([b"late %d" % number])], ["value"])

        outcomes: list[TaskOutcome] = []
        run = self.run_of(0)
        self.assertRaises(ProducerFenced, _write_once, self.brokers, self.options, SinkColumns(), run, 0, batches())
        self.commit(0, *outcomes)
        self.assertEqual(self.there(), [b"a"])

    def test_a_zombie_driver(self) -> None:
        """A driver that goes on after its query was started elsewhere commits nothing that the other one writes."""
        old = [self.task(0, 0, [b"a"]), self.task(0, 1, [b"b"])]
        new = [self.task(0, 0, [b"a"]), self.task(0, 1, [b"b"])]
        self.assertRaises(ProducerFenced, self.commit, 0, *old)
        self.commit(0, *new)
        self.assertEqual(self.there(), [b"a", b"b"])

    def test_zombie_driver_commits_first(self) -> None:
        """It commits before tasks begin anew: they pass over what it wrote."""
        old = [self.task(0, 0, [b"a"]), self.task(0, 1, [b"b"])]
        self.commit(0, *old)
        new = [self.task(0, 0, [b"a"]), self.task(0, 1, [b"b"])]
        self.commit(0, *new)
        self.assertEqual(self.there(), [b"a", b"b"])

    def test_failing_task(self) -> None:
        """Its rows are aborted at once, so that readers do not wait for them."""

        def batches() -> Iterator[Any]:
            yield pa.RecordBatch.from_arrays([pa.array([b"a"])], ["value"])
            raise ColumnError("wrong")

        run = self.run_of(0)
        self.assertRaises(ColumnError, _write_once, self.brokers, self.options, SinkColumns(), run, 0, batches())
        self.assertEqual(self.there(), [])

    def test_abandoned_batch(self) -> None:
        """The tasks that were done have written nothing."""
        outcomes = [self.task(0, 0, [b"a"]), None]
        self.abort(0, outcomes)
        self.assertEqual(self.there(), [])

    def test_given_up_task(self) -> None:
        """Spark has lost what it said when it was done, so only its number is known: its rows are aborted at once."""
        done = self.task(0, 0, [b"a"])
        self.abort(0, [None, self.task(0, 1, [b"b"])])
        self.assertRaises(ProducerFenced, self.commit, 0, done)
        self.assertEqual(self.there(), [])

    def test_an_older_batch(self) -> None:
        """A checkpoint that was set back is noticed."""
        self.commit(1, self.task(1, 0, [b"a"]))
        self.assertRaises(NotRepeatable, self.task, 0, 0, [b"b"])
        self.assertEqual(self.there(), [b"a"])

    def test_transaction_timeout(self) -> None:
        """The brokers end it, and the commit says so."""
        for seconds in (0.001, 0.5, 10.0):
            self.options = evolve(self.options, transaction_timeout=seconds)
            try:
                outcome = self.task(0, 0, [b"a"])
                break
            except (TransactionLost, ProducerFenced):
                pass  # It was over before the task was: on a slow machine it has to have more time.
        # It is there to be read that nothing is: the transaction is over.
        self.assertEqual(self.there(), [])
        self.assertRaises((TransactionLost, ProducerFenced), self.commit, 0, outcome)
        self.assertEqual(self.there(), [])

    def test_more_time_than_brokers_give(self) -> None:
        """Which option that is about is said."""
        self.options = evolve(self.options, transaction_timeout=86400.0)
        error = self.assertRaises(OptionError, self.task, 0, 0, [b"a"])
        self.assertRegex(str(error), "'kafka.transaction.timeout.ms'.*transaction.max.timeout.ms")

    def test_single_write_leaves_no_group(self) -> None:
        """It leaves no group behind."""
        run = BatchIdentity("once", None)
        batches = [pa.RecordBatch.from_arrays([pa.array([b"a"])], ["value"])]
        outcome = _write_once(self.brokers, self.options, SinkColumns(), run, 0, iter(batches))
        exactly_once.commit(self.brokers, run, [outcome])
        self.assertEqual(transactions.committed_offsets(self.brokers, run.transactional_id(self.options.prefix, 0)), [])
        self.assertEqual(self.there(), [b"a"])


class FirstProtocolTests(ExactlyOnceTests):
    """By the first protocol, as brokers before Kafka 4 have it."""

    transaction_v2 = False

    def test_the_protocol(self) -> None:
        """It is the first, so that these tests are about what they say."""
        outcome = self.task(0, 0, [b"a"])
        assert outcome.prepared is not None
        self.assertFalse(outcome.prepared.identity.transaction_v2)
        self.assertTrue(evolve(outcome.prepared.identity, transaction_v2=True).transaction_v2)

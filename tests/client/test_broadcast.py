"""One consumer's records for many readers: :mod:`logbus.client.broadcast`."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given
from twisted.internet.defer import CancelledError
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import EARLIEST, Broadcast, Consumer, ConsumerRecord, InvalidOption, Producer, ReaderTooSlow
from logbus.client.reader_backlog import ReaderBacklog
from logbus.model import TopicPartition
from logbus.testing.memory import MemoryCluster


def record(number: int, size: int = 1) -> ConsumerRecord:
    return ConsumerRecord("t", 0, number, -1, None, b"%d" % number * size, ())


def text(record: ConsumerRecord) -> bytes | None:
    return None if record.value is None else record.value + b";"


class ReaderBacklogTests(SynchronousTestCase):
    @given(
        st.lists(st.one_of(st.none(), st.integers(0, 20))),
        st.integers(1, 5),
        st.integers(1, 40),
        st.sampled_from(["drop", "skip"]),
    )
    def test_any_course(self, steps: list[int | None], records: int, size: int, when_behind: Any) -> None:
        """It is within its bounds; what is taken is in order, and each gap in it is counted."""
        backlog = ReaderBacklog(records, size, when_behind)
        put: list[bytes] = []
        at = 0
        for number, step in enumerate(steps):
            if step is not None:
                put.append(b"%d" % number + b"." * step)
                if not backlog.put(put[-1]):
                    self.assertEqual(when_behind, "drop")
                    self.assertTrue(len(backlog) > records or backlog.size > size)
                    return
            elif (found := backlog.take()) is not None:
                at += found[0]
                self.assertEqual(found[1], put[at])
                at += 1
            self.assertEqual(len(put) - at - backlog.skipped, len(backlog))
            self.assertEqual(backlog.size, sum(map(len, put[at + backlog.skipped :])))
            self.assertTrue(len(backlog) <= 1 or (len(backlog) <= records and backlog.size <= size))
        if when_behind == "drop":
            self.assertEqual(backlog.skipped, 0)


class BroadcastTests(SynchronousTestCase):
    def test_all_readers(self) -> None:
        """Each reader gets what is published from then on, encoded once."""
        encoded: list[int] = []

        def encode(record: ConsumerRecord) -> bytes | None:
            encoded.append(record.offset)
            return text(record)

        broadcast = Broadcast(encode)
        one, other = StringTransport(), StringTransport()
        broadcast.add(one)
        broadcast.publish(record(0))
        gone = broadcast.add(other)
        broadcast.publish(record(1))
        broadcast.publish(record(2)._replace(value=None))
        self.assertEqual((one.value(), other.value(), encoded), (b"0;1;", b"1;", [0, 1, 2]))
        other.producer.stopProducing()
        self.assertIsNone(self.successResultOf(gone))
        broadcast.publish(record(3))
        self.assertEqual((one.value(), other.value(), broadcast.readers), (b"0;1;3;", b"1;", 1))
        self.assertIsNone(other.producer)

    def test_paused(self) -> None:
        """Records wait for a reader that is paused, while others go on."""
        broadcast: Broadcast = Broadcast(text)
        slow, fast = StringTransport(), StringTransport()
        broadcast.add(slow)
        broadcast.add(fast)
        slow.producer.pauseProducing()
        for number in range(3):
            broadcast.publish(record(number))
        self.assertEqual((slow.value(), fast.value()), (b"", b"0;1;2;"))
        slow.producer.resumeProducing()
        self.assertEqual(slow.value(), b"0;1;2;")

    def test_paused_by_writing(self) -> None:
        """What fills a connection pauses its reader in the middle."""

        class Narrow(StringTransport):
            def write(self, data: bytes) -> None:
                super().write(data)
                self.producer.pauseProducing()

        broadcast: Broadcast = Broadcast(text)
        reader = Narrow()
        broadcast.add(reader)
        for number in range(3):
            broadcast.publish(record(number))
        self.assertEqual(reader.value(), b"0;")
        reader.producer.resumeProducing()
        self.assertEqual(reader.value(), b"0;1;")

    def test_dropped(self) -> None:
        """A reader that lags too much is dropped with the reason, in records or in bytes."""
        for options, sizes, message in (
            ({"max_records": 3}, [1, 1, 1, 1], "4 records of 8 bytes waited for it"),
            ({"max_bytes": 20}, [1, 1, 30], "3 records of 35 bytes waited for it"),
        ):
            broadcast: Broadcast = Broadcast(text, **options)
            reader = StringTransport()
            gone = broadcast.add(reader)
            reader.producer.pauseProducing()
            for number, size in enumerate(sizes):
                self.assertNoResult(gone)
                broadcast.publish(record(number, size))
            self.assertIn(message, str(self.failureResultOf(gone, ReaderTooSlow).value))
            self.assertEqual((broadcast.readers, reader.producer, reader.value()), (0, None, b""))

    def test_skipped(self) -> None:
        """Or it misses the oldest, and is told how many."""
        broadcast: Broadcast = Broadcast(text, max_records=2, when_behind="skip", skipped=lambda n: b"[%d missed]" % n)
        reader = StringTransport()
        broadcast.add(reader)
        broadcast.publish(record(0))
        reader.producer.pauseProducing()
        for number in range(1, 6):
            broadcast.publish(record(number))
        reader.producer.resumeProducing()
        self.assertEqual(reader.value(), b"0;[3 missed]4;5;")

    def test_broken_reader(self) -> None:
        """A reader that raises is dropped, and the others get the record."""

        class Broken(StringTransport):
            def write(self, data: bytes) -> None:
                raise OSError("no")

        broadcast: Broadcast = Broadcast(text)
        gone, reader = broadcast.add(Broken()), StringTransport()
        broadcast.add(reader)
        broadcast.publish(record(0))
        self.failureResultOf(gone, OSError)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertEqual(reader.value(), b"0;")

    def test_cancel(self) -> None:
        """A cancellation ends a reader."""
        broadcast: Broadcast = Broadcast(text)
        gone = broadcast.add(StringTransport())
        gone.cancel()
        gone.addErrback(lambda failure: failure.trap(CancelledError) and None)
        self.successResultOf(gone)
        self.assertEqual(broadcast.readers, 0)

    def test_mistakes(self) -> None:
        """Wrong options and readers are refused."""
        for options in ({"max_records": 0}, {"max_bytes": 0}, {"when_behind": "wait"}, {"skipped": lambda n: b""}):
            wrong: Any = options
            with self.assertRaisesRegex(InvalidOption, next(iter(options))):
                Broadcast(text, **wrong)
        with self.assertRaisesRegex(InvalidOption, "a reader is 3; give an IConsumer"):
            Broadcast(text).add(3)


class ConsumerTests(SynchronousTestCase):
    def test_of_a_consumer(self) -> None:
        """It reads until the consumer is closed, and then its readers end."""
        brokers = MemoryCluster.started()
        self.addCleanup(brokers.close)
        cluster = brokers.client()
        producer = Producer(cluster, create_topics=True)
        for number in range(3):
            brokers.result(producer.send("t", b"%d" % number))
        consumer: Consumer = Consumer(cluster)
        consumer.assign({TopicPartition("t", 0): EARLIEST})
        broadcast: Broadcast = Broadcast(text)
        reader = StringTransport()
        gone = broadcast.add(reader)
        running = broadcast.run(consumer)
        brokers.settle(1)
        self.assertEqual(reader.value(), b"0;1;2;")
        brokers.result(consumer.close())
        self.assertIsNone(self.successResultOf(running))
        self.assertIsNone(self.successResultOf(gone))
        brokers.result(producer.close())

"""The client's pure parts: addresses, partitions, batches, errors."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.accumulator import Accumulator, Delivered
from logbus.client.addresses import parse_bootstrap
from logbus.client.partitioner import StickyPartitions, murmur2, partition_for_key
from logbus.client.retry import Backoff, Unreachable, api_error, is_retriable
from logbus.errors import ApiError, ConfigError, ErrorCode
from logbus.model import TopicPartition
from logbus.net.channel import Disconnected
from logbus.records.batch import decode_batch

P0 = TopicPartition("t", 0)


class AddressTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """
        Hosts with and without ports, several of them, and IPv6 in brackets.
        """
        self.assertEqual(parse_bootstrap("a:1, b,[::1]:3,[::1]"), [("a", 1), ("b", 9092), ("::1", 3), ("::1", 9092)])

    def test_what_is_no_address_is_named(self) -> None:
        """
        The part that cannot be read is in the message.
        """
        for wrong in ("a:b", "a:0", "a:70000", ":9092", "::1", "::1:9092", "a:-1"):
            self.assertIn(repr(wrong), str(self.assertRaises(ConfigError, parse_bootstrap, f"ok:1,{wrong}")))
        self.assertRaises(ConfigError, parse_bootstrap, " , ")


class PartitionTests(SynchronousTestCase):
    def test_murmur2_as_java_has_it(self) -> None:
        """
        The hashes are those that Kafka's own tests expect, as signed numbers.
        """
        for data, signed in {
            b"21": -973932308,
            b"foobar": -790332482,
            b"a-little-bit-long-string": -985981536,
            b"a-little-bit-longer-string": -1486304829,
            b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
            b"abc": 479470107,
        }.items():
            self.assertEqual(murmur2(data), signed & 0xFFFFFFFF, data)

    @given(st.binary(max_size=40), st.integers(min_value=1, max_value=50))
    def test_keys_stay_in_range(self, key: bytes, count: int) -> None:
        """
        Every key has a partition, always the same.
        """
        self.assertTrue(0 <= partition_for_key(key, count) < count)
        self.assertEqual(partition_for_key(key, count), partition_for_key(key, count))

    def test_without_a_key_one_partition_until_the_batch_is_full(self) -> None:
        """
        The partition stays until it is told to change, and then is another one.
        """
        sticky = StickyPartitions(Random(3))
        first = sticky.partition("t", [0, 1, 2])
        self.assertEqual({sticky.partition("t", [0, 1, 2]) for _ in range(10)}, {first})
        sticky.next("t", [0, 1, 2])
        self.assertNotEqual(sticky.partition("t", [0, 1, 2]), first)
        sticky.next("t", [7])
        self.assertEqual(sticky.partition("t", [7]), 7)
        sticky.next("t", [7])
        self.assertEqual(sticky.partition("t", [7]), 7)


class AccumulatorTests(SynchronousTestCase):
    def test_batches_fill_and_leave_in_order(self) -> None:
        """
        A record that does not fit begins the next batch; batches leave oldest first.
        """
        accumulator = Accumulator(batch_bytes=250)
        places = [accumulator.append(P0, 1.0, 5, None, b"x" * 50) for _ in range(4)]
        self.assertEqual(
            [(index, filled) for _, index, filled in places], [(0, False), (1, False), (0, True), (1, False)]
        )
        self.assertEqual(accumulator.ready(), [P0])
        self.assertIs(accumulator.take(P0), places[0][0])
        self.assertEqual(accumulator.ready(), [])
        self.assertTrue(accumulator.seal_all())
        self.assertFalse(accumulator.seal_all())
        self.assertIs(accumulator.first(P0), places[3][0])
        accumulator.put_back(places[0][0])
        self.assertIs(accumulator.take(P0), places[0][0])

    def test_a_record_larger_than_a_batch(self) -> None:
        """
        It has a batch of its own; whether it is too large is for the broker to say.
        """
        accumulator = Accumulator(batch_bytes=100)
        batch, index, _ = accumulator.append(P0, 1.0, 5, b"k", b"x" * 5000)
        self.assertEqual(index, 0)
        self.assertEqual(decode_batch(batch.builder.build())[0].value, b"x" * 5000)

    def test_linger(self) -> None:
        """
        Batches begun by a time are complete; the oldest of the others is told.
        """
        accumulator = Accumulator(batch_bytes=100)
        for partition, created in ((P0, 1.0), (TopicPartition("t", 1), 2.0)):
            accumulator.append(partition, created, 5, None, b"x")
        self.assertEqual(accumulator.seal_older(1.5), 2.0)
        self.assertEqual(accumulator.ready(), [P0])
        self.assertIsNone(accumulator.seal_older(2.0))

    def test_outcomes_are_told_to_early_and_late_listeners(self) -> None:
        """
        Who asks after the fact is told at once.
        """
        batch, _, _ = Accumulator(batch_bytes=100).append(P0, 1.0, 5, None, b"x")
        heard: list[object] = []
        batch.when_done(heard.append)
        batch.finish(Delivered(7, -1))
        batch.when_done(heard.append)
        self.assertEqual(heard, [Delivered(7, -1)] * 2)


class ErrorTests(SynchronousTestCase):
    def test_sentences(self) -> None:
        """
        The broker's words are kept; the thing is named once; an unknown code is told as a number.
        """
        self.assertEqual(str(api_error(36, "topic a", "topic 'a' exists already")), "topic 'a' exists already")
        self.assertEqual(str(api_error(36, "topic a", "no")), "topic a: no")
        self.assertIn("(LEADER_NOT_AVAILABLE)", str(api_error(5, "a-0")))
        self.assertIn("999", str(api_error(999, "a-0")))
        self.assertIs(api_error(999, "a-0").code, ErrorCode.UNKNOWN_SERVER_ERROR)

    def test_what_may_be_tried_again(self) -> None:
        """
        Lost connections and Kafka's retriable codes are; refusals and bugs are not.
        """
        for error in (Disconnected(), Unreachable(), ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)):
            self.assertTrue(is_retriable(error))
        for error in (ApiError(ErrorCode.MESSAGE_TOO_LARGE), ValueError()):
            self.assertFalse(is_retriable(error))

    def test_backoff_doubles_up_to_a_limit(self) -> None:
        """
        0.1, 0.2, 0.4, 0.8, 1, 1, … seconds, however many attempts there were.
        """
        waits = [Backoff().before(attempt) for attempt in (1, 2, 3, 4, 5, 10_000)]
        self.assertEqual(waits, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


class PackageTests(SynchronousTestCase):
    def test_every_public_name_is_there(self) -> None:
        """
        The package's names are imported when they are asked for, and others are refused as usual.
        """
        import logbus.client

        for name in logbus.client.__all__:
            self.assertIsNotNone(getattr(logbus.client, name))
        self.assertRaises(AttributeError, getattr, logbus.client, "nonsense")

"""ConsumerConnector without faults."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred

from logbus.client.connector import BlackList, ConsumerConnector, RebalanceFailed, WhiteList
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.interceptors import ConsumerInterceptor
from logbus.errors import ApiError, ConfigError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from tests.client.connector.kit import GroupCase


class MembersTests(GroupCase):
    def test_single_member(self) -> None:
        """A single member registers, owns every partition, and gets all records in the order of each partition."""
        for partition in range(4):
            self.put(b"a%d" % partition, b"b%d" % partition, partition=partition)
        a = self.group.reader("a").read({"t": 2})
        self.group.settle(2)
        self.assertEqual(a.errors, [])
        self.assertEqual(sorted(a.values), [b"a0", b"a1", b"a2", b"a3", b"b0", b"b1", b"b2", b"b3"])
        self.assertLess(a.values.index(b"a3"), a.values.index(b"b3"))
        self.assertEqual(
            json.loads(self.group.data("/consumers/g/ids/g_a") or b""),
            {"version": 1, "subscription": {"t": 2}, "pattern": "static", "timestamp": "1700000000000"},
        )
        self.assertEqual(self.group.data("/consumers/g/owners/t/1"), b"g_a-0")
        self.assertEqual(self.group.data("/consumers/g/owners/t/2"), b"g_a-1")
        self.assertEqual(self.group.data("/consumers/g/offsets/t/3"), b"2")
        self.group.check_balanced("t")

    def test_members_join_and_leave(self) -> None:
        """Partitions move to members that join, and back from those that leave; each record is delivered once."""
        a = self.group.reader("a").read({"t": 1})
        self.group.settle(1)
        for partition in range(4):
            self.put(b"1", b"2", partition=partition)
        self.group.settle(1)
        b = self.group.reader("b").read({"t": 1})
        self.group.settle(1)
        self.assertEqual(self.group.owners("t"), {0: "g_a", 1: "g_a", 2: "g_b", 3: "g_b"})
        self.group.check_balanced("t")
        for partition in range(4):
            self.put(b"3", partition=partition)
        self.group.settle(1)
        self.assertEqual({(each.partition, each.value) for each in b.done}, {(2, b"3"), (3, b"3")})
        self.group.now(a.connector.shutdown())
        self.group.settle(1)
        self.assertEqual(self.group.owners("t"), dict.fromkeys(range(4), "g_b"))
        self.assertEqual(self.group.names("/consumers/g/ids"), ["g_b"])
        for partition in range(4):
            self.put(b"4", partition=partition)
        self.group.settle(1)
        every = [(each.partition, each.value) for each in a.done + b.done]
        self.assertEqual(sorted(every), [(p, v) for p in range(4) for v in (b"1", b"2", b"3", b"4")])

    def test_interceptors(self) -> None:
        """They get each record once, when it is delivered, and committed offsets; their exceptions have no effect."""
        seen: list[tuple[int, int]] = []
        committed: dict[TopicPartition, int] = {}

        class Hears(ConsumerInterceptor):
            def on_consume(self, records: Any) -> None:
                seen.extend((each.partition, each.offset) for each in records)

            def on_commit(self, offsets: Any) -> None:
                committed.update((each, at.offset) for each, at in offsets.items())
                raise ZeroDivisionError

        hears = Hears()
        for partition in range(4):
            self.put(b"1", b"2", partition=partition)
        a = self.group.reader("a", interceptors=[hears]).read({"t": 1})
        self.group.settle(0.2)
        b = self.group.reader("b", interceptors=[hears]).read({"t": 1})
        self.group.settle(2)
        for partition in range(4):
            self.put(b"3", partition=partition)
        self.group.settle(2)
        for each in (a, b):
            self.group.now(each.connector.shutdown())
        self.assertEqual(sorted(seen), [(partition, offset) for partition in range(4) for offset in range(3)])
        self.assertEqual(committed, {TopicPartition("t", partition): 3 for partition in range(4)})
        self.assertGreater(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_kept_partitions_are_read_without_a_pause(self) -> None:
        """A rebalance does not interrupt partitions that stay: no record of them is read twice, or waits."""
        a = self.group.reader("a").read({"t": 1})
        self.group.settle(1)
        self.group.reader("b").read({"t": 1})
        for number in range(50):
            self.put(b"%d" % number)
            self.group.settle(0.02)
        self.group.settle(1)
        self.assertEqual([each.offset for each in a.done if each.partition == 0], list(range(50)))

    def test_more_streams_than_partitions(self) -> None:
        """Streams without partitions wait, and end with the others."""
        a = self.group.reader("a").read({"t": 6})
        self.put(b"x")
        self.group.settle(1)
        self.assertEqual(a.values, [b"x"])
        self.assertEqual(len(a.loops), 6)
        self.group.now(a.connector.shutdown())
        self.assertTrue(all(each.called for each in a.loops))
        self.assertEqual((a.errors, self.group.names("/consumers/g/owners/t")), ([], []))

    def test_topic_created_later(self) -> None:
        """
        A named topic may be created later, and get more partitions; the partitions of a deleted topic are released.
        """
        a = self.group.reader("a").read({"t": 1, "later": 1})
        self.group.settle(1)
        self.group.topic("later", 1)
        self.put(b"1", topic="later")
        self.group.settle(1)
        self.group.topic("later", 3)
        self.put(b"2", topic="later", partition=2)
        self.group.settle(2)
        self.assertEqual(a.values, [b"1", b"2"])
        self.group.check_balanced("t", "later")
        self.group.drop_topic("later")
        self.group.settle(1)
        self.put(b"3")
        self.group.settle(1)
        self.assertEqual((a.values[-1], a.errors), (b"3", []))
        self.group.check_balanced("t")
        self.assertEqual(self.group.names("/consumers/g/owners/later"), [])

    def test_different_topics_in_one_group(self) -> None:
        """A topic is divided among the members that read it."""
        self.group.topic("u", 2)
        a = self.group.reader("a").read({"t": 1})
        b = self.group.reader("b").read({"t": 1, "u": 1})
        self.group.settle(2)
        self.group.check_balanced("t", "u")
        self.assertEqual({each.topic for each in a.connector.owned}, {"t"})
        self.assertEqual(len(b.connector.owned), 4)


class FilterTests(GroupCase):
    def test_a_white_list(self) -> None:
        """All topics that match are read, with those that come later, and no others."""
        self.group.topic("u", 1)
        a = self.group.reader("a").read(WhiteList("t|n.*"), 2)
        self.group.settle(1)
        self.assertEqual(
            json.loads(self.group.data("/consumers/g/ids/g_a") or b"")["subscription"],
            {"t|n.*": 2},
        )
        self.group.topic("new", 2)
        self.put(b"1", topic="new", partition=1)
        self.put(b"2")
        self.put(b"3", topic="u")
        self.group.settle(2)
        self.assertEqual(sorted(a.values), [b"1", b"2"])
        self.group.check_balanced("t", "new")

    def test_a_black_list(self) -> None:
        """All topics but those that match are read, and not the brokers' own."""
        self.group.topic("u", 1)
        self.group.topic("__consumer_offsets", 1)
        a = self.group.reader("a").read(BlackList("u"))
        self.group.settle(1)
        self.assertEqual({each.topic for each in a.connector.owned}, {"t"})

    def test_filters_and_topic_names_in_one_group(self) -> None:
        """Each member knows which topics the filters of the others match."""
        self.group.reader("a").read(WhiteList("t"))
        self.group.reader("b").read({"t": 1})
        self.group.settle(2)
        self.group.check_balanced("t")
        self.assertEqual(self.group.owners("t"), {0: "g_a", 1: "g_a", 2: "g_b", 3: "g_b"})

    def test_unreadable_member(self) -> None:
        """The unreadable registration of another consumer is ignored."""
        self.group.write("/consumers/g/ids/g_0", b"{")
        node = {"version": 1, "subscription": {"(?=t).*": 1}, "pattern": "white_list", "timestamp": "1"}
        self.group.write("/consumers/g/ids/g_1", json.dumps(node).encode())
        self.group.reader("a").read({"t": 1})
        self.group.settle(1)
        self.group.check_balanced("t")


class OffsetsTests(GroupCase):
    def test_where_to_begin(self) -> None:
        """Without a committed offset a partition begins at the end or at the beginning; that is committed, too."""
        self.put(b"old")
        for name, reset, expected in (("x", "latest", [b"new"]), ("y", "earliest", [b"old", b"new"])):
            self.group.name = name
            reader = self.group.reader("a", auto_offset_reset=reset).read({"t": 1})
            self.group.settle(2)
            self.assertEqual(self.group.committed("t", 0), {"latest": 1, "earliest": 2}[reset])
            if reset == "latest":
                self.put(b"new")
            self.group.settle(2)
            self.assertEqual(reader.values, expected)

    def test_start_offset_is_committed(self) -> None:
        """If a partition started at its end, the next owner starts there, even if no record has come."""
        a = self.group.reader("a", auto_offset_reset="latest").read({"t": 1})
        self.group.settle(1)
        self.group.now(a.connector.shutdown())
        self.put(b"between")
        b = self.group.reader("b", auto_offset_reset="latest").read({"t": 1})
        self.group.settle(1)
        self.assertEqual(b.values, [b"between"])

    def test_no_offset_is_an_error(self) -> None:
        """With reset none, a partition without a committed offset raises an error that names it."""
        a = self.group.reader("a", auto_offset_reset="none").read({"t": 1})
        self.group.settle(1)
        error = a.errors[0].value
        self.assertIsInstance(error, ApiError)
        self.assertIs(error.code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertIn("no offset was committed", str(error))

    def test_current_record_is_not_committed(self) -> None:
        """A record is processed when the next is asked for; another member gets unprocessed records again."""
        self.put(b"1", b"2", b"3")
        a = self.group.reader("a", seconds=100.0).read({"t": 1})
        self.group.settle(3)
        self.assertEqual([each.value for each in a.taken], [b"1"])
        self.assertEqual(self.group.committed("t", 0), 0)
        self.group.now(a.connector.shutdown())
        self.assertEqual(self.group.committed("t", 0), 0)
        b = self.group.reader("b").read({"t": 1})
        self.group.settle(1)
        self.assertEqual(b.values, [b"1", b"2", b"3"])

    def test_release_waits_for_the_current_record(self) -> None:
        """A partition is released when its current record is done, which then does not come twice."""
        self.put(b"1", b"2", b"3", partition=3)
        a = self.group.reader("a", seconds=0.6).read({"t": 1})
        self.group.settle(0.3)
        self.assertEqual([each.value for each in a.taken], [b"1"])
        b = self.group.reader("b").read({"t": 1})
        self.group.settle(3)
        self.assertEqual((a.values, b.values), ([b"1"], [b"2", b"3"]))

    def test_manual_commit(self) -> None:
        """Without auto-commit only ``commit_offsets`` commits; it includes the current record."""
        self.put(b"1", b"2")
        a = self.group.reader("a", auto_commit=False, seconds=100.0).read({"t": 1})
        self.group.settle(3)
        self.assertIsNone(self.group.committed("t", 0))
        self.group.now(a.connector.commit_offsets())
        self.assertEqual(self.group.committed("t", 0), 1)
        self.group.now(a.connector.shutdown())
        self.assertEqual(self.group.committed("t", 0), 1)

    def test_manual_commit_of_one_stream(self) -> None:
        """The current record of the named stream is included; those of other streams are not."""
        self.put(b"1", b"2", partition=0)
        self.put(b"1", b"2", partition=3)
        a = self.group.reader("a", auto_commit=False)
        made: list[Any] = []
        a.connector.create_message_streams({"t": 2}).addCallback(made.append)
        self.group.settle(1)
        one, other = made[0]["t"]
        for stream in (one, other):
            self.group.now(Deferred.fromCoroutine(stream.__anext__()))
        self.group.now(a.connector.commit_offsets(one))
        self.assertEqual((self.group.committed("t", 0), self.group.committed("t", 3)), (1, 0))

    def test_streams_are_independent(self) -> None:
        """A slow stream does not delay the others."""
        for _ in range(20):
            self.put(b"x" * 1000, partition=0)
            self.put(b"y", partition=3)
        a = self.group.reader("a", queue_bytes=2000)
        made: list[Any] = []
        a.connector.create_message_streams({"t": 2}).addCallback(made.append)
        self.group.settle(1)
        _, other = made[0]["t"]
        found: list[ConsumerRecord] = []

        async def loop() -> None:
            async for record in other:
                found.append(record)  # noqa: PERF401 - one after the other, as they come

        Deferred.fromCoroutine(loop())
        self.group.settle(20)
        self.assertEqual(len(found), 20)


class StreamsTests(GroupCase):
    def streams(self, **options: Any) -> Any:
        a = self.group.reader("a", **options)
        made: list[Any] = []
        a.connector.create_message_streams({"t": 1}).addCallback(made.append)
        self.group.settle(1)
        return a.connector, made[0]["t"][0]

    def test_one_loop_per_stream(self) -> None:
        """A second loop over a stream is refused: it would be unclear which record is done."""
        _, stream = self.streams()
        first = Deferred.fromCoroutine(stream.__anext__())
        self.failureResultOf(Deferred.fromCoroutine(stream.__anext__()), LogbusError)
        self.put(b"1")
        self.group.settle(1)
        self.assertEqual(self.successResultOf(first).value, b"1")

    def test_waiting_can_be_cancelled(self) -> None:
        """Cancelling a wait loses no record."""
        _, stream = self.streams()
        waiting = Deferred.fromCoroutine(stream.__anext__())
        waiting.cancel()
        self.failureResultOf(waiting)
        self.put(b"1")
        self.assertEqual(self.group.now(Deferred.fromCoroutine(stream.__anext__())).value, b"1")

    def test_a_damaged_batch(self) -> None:
        """The loop gets an error; when asked again, the stream goes on with the same record."""
        _, stream = self.streams()
        self.put(b"1")
        log = self.logs[0]
        good, log.batches[0] = log.batches[0], log.batches[0][:-1] + b"?"
        waiting = Deferred.fromCoroutine(stream.__anext__())
        self.group.settle(1)
        self.assertIs(self.failureResultOf(waiting, ApiError).value.code, ErrorCode.CORRUPT_MESSAGE)
        log.batches[0] = good
        self.assertEqual(self.group.now(Deferred.fromCoroutine(stream.__anext__())).value, b"1")

    def test_leader_change(self) -> None:
        """The stream goes on when a broker closes the connection and comes back."""
        _, stream = self.streams()
        self.put(b"1")
        self.assertEqual(self.group.now(Deferred.fromCoroutine(stream.__anext__())).value, b"1")
        self.group.brokers.nodes.clear()
        self.group.brokers.drop(1)
        waiting = Deferred.fromCoroutine(stream.__anext__())
        self.group.settle(5)
        self.assertNoResult(waiting)
        self.group.brokers.nodes.add(1)
        self.put(b"2")
        self.group.settle(5)
        self.assertEqual(self.successResultOf(waiting).value, b"2")


class UseTests(GroupCase):
    def connector(self, **options: Any) -> ConsumerConnector:
        return self.group.reader("a", **options).connector

    def test_invalid_options(self) -> None:
        """The error names the option, and what would be valid."""
        for options in (
            {"consumer_id": "a/b"},
            {"offsets_storage": "redis"},
            {"auto_offset_reset": "smallest"},
            {"rebalance_max_retries": -1},
            {"rebalance_backoff": 0},
            {"auto_commit_interval": 0.0},
            {"offsets_timeout": float("nan")},
        ):
            with self.assertRaises(ConfigError) as caught:
                self.connector(**options)
            self.assertRegex(str(caught.exception), rf"^{next(iter(options))} .*(expected|it can be|it is) ")
        self.assertRaises(TypeError, self.connector, max_weight=1)
        self.group.name = "a/b"
        self.assertRaises(ConfigError, self.connector)

    def test_default_consumer_id(self) -> None:
        """Default consumer ids have the host name, the time and a random number."""
        first, second = self.connector(consumer_id=None), self.connector(consumer_id=None)
        self.assertRegex(first.consumer_id, r"^g_[a-zA-Z0-9._-]+-1700000000000-[0-9a-f]{8}$")
        self.assertNotEqual(first.consumer_id, second.consumer_id)

    def test_once(self) -> None:
        """A connector has streams once; after its end, none."""
        connector = self.connector()
        self.assertRaises(ConfigError, connector.create_message_streams, {})
        self.assertRaises(ConfigError, connector.create_message_streams, {"a/b": 1})
        self.assertRaises(ConfigError, connector.create_message_streams, {"t": 0})
        self.assertRaises(ConfigError, connector.create_message_streams_by_filter, WhiteList("t"), 0)
        self.group.now(connector.create_message_streams({"t": 1}))
        self.assertRaises(LogbusError, connector.create_message_streams, {"t": 1})
        self.group.now(connector.shutdown())
        self.group.now(connector.shutdown())
        self.assertRaises(LogbusError, connector.create_message_streams_by_filter, WhiteList("t"))
        self.assertEqual(connector.owned, frozenset())

    def test_shutdown_before_the_start(self) -> None:
        """There is nothing to do, and nothing to commit."""
        connector = self.connector()
        self.group.now(connector.commit_offsets())
        self.group.now(connector.shutdown())

    def test_shut_down_while_joining(self) -> None:
        """The Deferred of the streams fails, and nothing is left behind."""
        connector = self.connector()
        joining = connector.create_message_streams({"t": 1})
        self.group.now(connector.shutdown())
        self.failureResultOf(joining, LogbusError)
        self.group.settle(1)
        self.assertEqual((self.group.names("/consumers/g/ids"), self.group.names("/consumers/g/owners/t")), ([], []))

    def test_shut_down_by_the_loop(self) -> None:
        """A loop may end its own connector, and says before that its record is done."""
        self.put(b"1", b"2")
        connector = self.connector()
        seen: list[bytes | None] = []

        async def run() -> None:
            (stream,) = (await connector.create_message_streams({"t": 1}))["t"]
            async for record in stream:
                seen.append(record.value)
                await connector.commit_offsets()
                await connector.shutdown()

        self.group.now(Deferred.fromCoroutine(run()))
        self.assertEqual((seen, self.group.committed("t", 0)), ([b"1"], 1))

    def test_no_leftovers(self) -> None:
        """After the shutdown no timer runs, and no connection is open."""
        reader = self.group.reader("a").read({"t": 2})
        self.put(b"1")
        self.group.settle(1)
        self.group.now(reader.connector.shutdown())
        self.group.now(reader.cluster.close())
        self.group.settle(2)
        self.assertEqual((self.group.clock.getDelayedCalls(), self.group.brokers.connections), ([], []))


class FailureTests(GroupCase):
    def test_partition_is_never_released(self) -> None:
        """After the retries joining fails with the owner's name, and the member has left again."""
        self.group.write("/consumers/g/owners/t/1", b"g_zombie-0")
        joining = self.group.reader("a", rebalance_max_retries=4).connector.create_message_streams({"t": 1})
        self.group.settle(1.9)
        self.assertNoResult(joining)
        self.group.settle(1)
        error = str(self.failureResultOf(joining, RebalanceFailed).value)
        self.assertIn("t-1 is still owned by g_zombie-0", error)
        self.assertIn("after 5 attempts", error)
        self.assertEqual((self.group.names("/consumers/g/ids"), self.group.names("/consumers/g/owners/t")), ([], ["1"]))

    def test_partition_is_released_late(self) -> None:
        """A partition's release is noticed by a watch, not only by the timer; the others are read meanwhile."""
        self.group.write("/consumers/g/owners/t/1", b"g_zombie-0")
        self.put(b"0", partition=0)
        self.put(b"1", partition=1)
        a = self.group.reader("a", rebalance_backoff=30.0).read({"t": 1})
        self.group.settle(1)
        self.assertEqual(len(a.connector.owned), 3)
        self.group.now(self.group.admin.delete("/consumers/g/owners/t/1"))
        self.group.settle(1)
        self.assertEqual(a.values, [b"0", b"1"])
        self.group.check_balanced("t")

    def test_our_node_is_removed(self) -> None:
        """An owner's or a member's node that an operator deleted is made again."""
        a = self.group.reader("a").read({"t": 1})
        self.group.settle(1)
        self.group.now(self.group.admin.delete("/consumers/g/owners/t/1"))
        self.group.now(self.group.admin.delete("/consumers/g/ids/g_a"))
        self.group.settle(1)
        self.group.check_balanced("t")
        self.assertEqual(self.group.names("/consumers/g/ids"), ["g_a"])
        self.assertEqual(a.errors, [])

    def test_our_node_is_taken(self) -> None:
        """A partition that another consumer owns now is not delivered or committed any more."""
        a = self.group.reader("a").read({"t": 1})
        self.group.settle(1)
        self.group.now(self.group.admin.set("/consumers/g/owners/t/1", b"g_other-0"))
        self.group.settle(1)
        self.put(b"x", partition=1)
        self.group.settle(2)
        self.assertNotIn(TopicPartition("t", 1), a.connector.owned)
        self.assertEqual((a.values, self.group.committed("t", 1)), ([], 0))

    def test_unreadable_offsets(self) -> None:
        """A partition whose offset is not a number is not read from anywhere else; the error names the node."""
        self.group.write("/consumers/g/offsets/t/1", b"many")
        joining = self.group.reader("a", rebalance_max_retries=4).connector.create_message_streams({"t": 1})
        self.group.settle(4)
        self.assertIn("/consumers/g/offsets/t/1", str(self.failureResultOf(joining, RebalanceFailed).value))

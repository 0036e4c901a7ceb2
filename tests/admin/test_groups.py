"""Tests of the views and metrics of groups."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.json_chunks import ROWS_A_TURN, json_stream
from logbus.admin.json_schema import schema_errors
from logbus.coordination.classic.classic_group import ClassicGroup
from logbus.coordination.classic.requests import ClassicGroupSettings
from logbus.coordination.consumer.consumer_group import ConsumerGroup
from logbus.coordination.group_offsets import CommittedOffset
from logbus.coordination.streams.heartbeat import StreamsHeartbeat
from logbus.coordination.streams.streams_group import StreamsGroup
from logbus.coordination.streams.streams_group_settings import StreamsGroupSettings
from logbus.coordination.streams.tasks import NO_TASK_SETS
from logbus.coordination.streams.topology import Subtopology, Topology
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages import group_log
from logbus.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from logbus.wire.messages.partitions import TopicPartitions
from logbus.wire.schema import encode_versioned
from tests.admin.harness import ORDERS, Answered, World
from tests.coordination.consumer.kit import Cluster, Log

O0, O1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def classic(group_id: str, *members: tuple[str, list[int]], protocol_type: str = "consumer") -> ClassicGroup:
    """A classic group; its members with the partitions of orders they read."""
    value = group_log.GroupMetadataValue(
        protocol_type=protocol_type,
        generation=3,
        protocol="range" if members else None,
        leader=members[0][0] if members else None,
        members=[
            group_log.GroupMemberMetadata(
                member_id=name,
                client_id="app",
                client_host="/10.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=b"\0\0\0\0\0\0\xff\xff\xff\xff",
                assignment=encode_versioned(
                    ConsumerProtocolAssignment(
                        assigned_partitions=[TopicPartitions(topic="orders", partitions=partitions)]
                    ),
                    0,
                ),
            )
            for name, partitions in members
        ],
    )
    settings = ClassicGroupSettings(0, 0, 100_000, 100)
    zero = partial(int, 0)
    group = ClassicGroup(group_id, lambda: settings, lambda change, done: done(None), lambda name: name, zero, zero)
    group.load(0.0, value)
    return group


def consumer() -> ConsumerGroup:
    """A group of the newer protocol. Its one member reads a partition of orders, and one of a topic that is gone."""
    group = Log(Cluster()).group
    group_id = group.group_id
    member = group_log.ConsumerGroupMemberMetadataValue(
        instance_id="i",
        rack_id=None,
        client_id="app",
        client_host="10.0.0.1",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex=None,
        server_assignor=None,
        classic_member_metadata=None,
    )
    owned = [
        group_log.OwnedTopicPartitions(topic_id=ORDERS.bytes, partitions=[2]),
        group_log.OwnedTopicPartitions(topic_id=b"gone" * 4, partitions=[0]),
    ]
    position = group_log.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=4,
        previous_member_epoch=3,
        state=0,
        assigned_partitions=owned,
        partitions_pending_revocation=[],
    )
    for change in (
        (group_log.ConsumerGroupMetadataKey(group_id=group_id), group_log.ConsumerGroupMetadataValue(epoch=4)),
        (group_log.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id="m"), member),
        (group_log.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id="m"), position),
    ):
        group.apply(change)
    return group


def streams() -> StreamsGroup:
    """A streams group, and its one member. The second of its tasks reads one topic only."""
    cluster = Cluster()
    cluster.create("orders", 2)
    cluster.create("prices", 1)
    settings = StreamsGroupSettings(initial_rebalance_delay_ms=0)
    group = StreamsGroup("group", lambda: settings, cluster, lambda changes, done: None)
    group.heartbeat(
        0.0,
        StreamsHeartbeat(
            "m",
            0,
            rebalance_timeout_ms=60_000,
            topology=Topology(1, (Subtopology("0", ("orders", "prices")),)),
            owned=NO_TASK_SETS,
            process_id="p",
        ),
    )
    return group


class GroupViewTests(SynchronousTestCase):
    """The world has orders-0, whose high watermark is 9, and no other partition."""

    def setUp(self) -> None:
        self.world = World()

    def ask(self, target: str, status: int = 200) -> Any:
        answered: Answered = self.world.ask("GET", target)
        self.assertEqual(answered.status, status, answered.body)
        if status == 200:
            route = self.world.site.router.find(target.partition("?")[0])[0]["GET"]
            assert route.answer is not None
            self.assertEqual(list(schema_errors(route.answer, answered.json)), [])
            self.assertEqual(answered.headers["Content-Type"], "application/json")
        return answered.json

    def test_groups(self) -> None:
        """
        Each with its state, how many members it has and how much it has still to read.
        """
        self.world.groups.add(classic("billing", ("m", [0, 1])), {O0: CommittedOffset(4), O1: CommittedOffset(1)})
        self.world.groups.add(classic("audit"))
        self.world.groups.add(consumer(), {O1: CommittedOffset(1)})
        told = self.ask("/api/v1/groups")
        self.assertEqual((told["next"], told["loading"]), (None, False))
        self.assertEqual(
            [(each["id"], each["type"], each["members"], each["partitions"], each["lag"]) for each in told["items"]],
            [("audit", "classic", 0, 0, 0), ("billing", "classic", 1, 2, 5), ("group", "consumer", 1, 1, None)],
        )
        self.assertEqual([each["state"] for each in told["items"]][:2], ["Empty", "Stable"])

    def test_pages(self) -> None:
        """
        The pages together have all groups by id, each once, and tell that others are still being loaded.
        """
        names = sorted(["b", "a/b", "ü", "a b", "%2F"])
        for name in names:
            self.world.groups.add(classic(name))
        self.world.groups.loading = True
        found: list[str] = []
        target = "/api/v1/groups?limit=2"
        for _ in range(3):
            page = self.ask(target)
            self.assertTrue(page["loading"])
            found += [each["id"] for each in page["items"]]
            target = f"/api/v1/groups?limit=2&after={quote(page['next'] or '', safe='')}"
        self.assertIsNone(page["next"])
        self.assertEqual(found, names)

    def test_one_group_with_members_and_offsets(self) -> None:
        """A group has its members with their partitions, and its offsets with their lag."""
        offsets = {O1: CommittedOffset(1), O0: CommittedOffset(4, 2, "note", 1000)}
        self.world.groups.add(classic("billing", ("m", [1, 0])), offsets)
        told = self.ask("/api/v1/groups/billing")
        self.assertEqual((told["state"], told["assignor"], told["lag"]), ("Stable", "range", 5))
        self.assertEqual(
            told["members"],
            [
                {
                    "id": "m",
                    "instance": None,
                    "client": "app",
                    "host": "10.0.0.1",
                    "epoch": None,
                    "assignment": {"orders": [0, 1]},
                }
            ],
        )
        first, second = told["offsets"]
        self.assertEqual(
            first,
            {
                "topic": "orders",
                "partition": 0,
                "offset": 4,
                "end_offset": 9,
                "lag": 5,
                "leader_epoch": 2,
                "metadata": "note",
                "committed_at": 1000,
            },
        )
        self.assertEqual((second["partition"], second["end_offset"], second["lag"]), (1, None, None))

    def test_lag_over_time(self) -> None:
        """Samples with the partitions farthest behind; none before the first one is taken."""
        self.world.groups.add(classic("billing"), {O0: CommittedOffset(4), O1: CommittedOffset(1)})
        self.assertEqual(self.ask("/api/v1/groups/billing/lag"), {"interval_seconds": 60, "items": []})
        self.world.site.lag_history.start()
        self.world.clock.pump([1] * 70)
        self.world.site.lag_history.stop()
        items = self.ask("/api/v1/groups/billing/lag")["items"]
        self.assertEqual(
            [(each["lag"], each["partitions"]) for each in items],
            [(5, [{"topic": "orders", "partition": 0, "lag": 5}])] * 2,
        )
        self.ask("/api/v1/groups/nope/lag", 404)

    def test_a_group_of_the_newer_protocol(self) -> None:
        """
        Assignments have topic names, as far as the topics still exist.
        """
        self.world.groups.add(consumer())
        (member,) = self.ask("/api/v1/groups/group")["members"]
        self.assertEqual((member["instance"], member["epoch"]), ("i", 4))
        self.assertEqual(member["assignment"], {"orders": [2]})

    def test_a_streams_group(self) -> None:
        """
        The assignment of a member is what its active tasks read.
        """
        self.world.groups.add(streams())
        told = self.ask("/api/v1/groups/group")
        self.assertEqual((told["type"], told["assignor"]), ("streams", "sticky"))
        (member,) = told["members"]
        self.assertEqual((member["epoch"], member["assignment"]), (2, {"orders": [0, 1], "prices": [0]}))

    def test_other_protocol_types(self) -> None:
        """
        The bytes of other protocol types are not parsed as partitions.
        """
        self.world.groups.add(classic("connect", ("m", [0]), protocol_type="connect"))
        (member,) = self.ask("/api/v1/groups/connect")["members"]
        self.assertEqual(member["assignment"], {})

    @given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
    def test_any_name(self, name: str) -> None:
        """
        A group's id may be any text: percent-encoded, it finds its group.
        """
        self.world.groups.shard.groups.clear()
        self.world.groups.add(classic(name))
        self.assertEqual(self.ask(f"/api/v1/groups/{quote(name, safe='')}")["id"], name)

    def test_missing_groups(self) -> None:
        """
        A missing group, and one of another coordinator, is not found; one that is being loaded gives a retriable
        error.
        """
        self.assertIn("no group 'nope'", self.ask("/api/v1/groups/nope", 404)["detail"])
        self.world.groups.problem = ApiError(ErrorCode.NOT_COORDINATOR)
        self.assertIn("no group 'nope'", self.ask("/api/v1/groups/nope", 404)["detail"])
        self.world.groups.problem = ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.assertTrue(self.ask("/api/v1/groups/nope", 503)["retriable"])

    def test_an_offset_behind_the_end(self) -> None:
        """
        Of a topic that was made anew there is nothing to read, not less than nothing.
        """
        self.world.groups.add(classic("g"), {O0: CommittedOffset(400)})
        self.assertEqual(self.ask("/api/v1/groups/g")["lag"], 0)

    def test_many_rows(self) -> None:
        """
        Ten thousand partitions are told in turns of the reactor, of which none has much to do.
        """
        partitions = {TopicPartition("orders", n): CommittedOffset(n) for n in range(10_000)}
        self.world.groups.add(classic("g"), partitions)
        self.assertEqual(len(self.ask("/api/v1/groups/g")["offsets"]), 10_000)


class PieceTests(SynchronousTestCase):
    def test_pauses(self) -> None:
        """
        A pause ends a turn as a row does, and shows nothing.
        """
        made: list[int] = []

        def items() -> Any:
            for number in range(3 * ROWS_A_TURN):
                made.append(number)
                yield number if number % 2 else None

        body = json_stream({"a": "x", "items": items, "b": None}).body
        assert callable(body)
        pieces = body()
        text = next(pieces)
        self.assertEqual(len(made), ROWS_A_TURN)
        text += b"".join(pieces)
        self.assertEqual(
            text.decode(), '{"a":"x","items":[' + ",".join(map(str, range(1, 3 * ROWS_A_TURN, 2))) + '],"b":null}\n'
        )

    def test_empty_list(self) -> None:
        """A list without rows is valid."""
        body = json_stream({"items": lambda: iter([None])}).body
        assert callable(body)
        self.assertEqual(b"".join(body()), b'{"items":[]}\n')

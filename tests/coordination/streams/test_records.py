"""Tests of :mod:`logbus.coordination.streams.records` and what a group reads from them."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.group import Change
from logbus.coordination.group_records import decode_change, encode_change
from logbus.coordination.streams import records
from logbus.coordination.streams.recorded_state import RecordedState
from logbus.coordination.streams.records import GroupEpoch
from logbus.coordination.streams.streams_group_member import MemberState, StreamsGroupMember, StreamsPosition
from logbus.coordination.streams.tasks import TaskSets
from logbus.coordination.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from logbus.errors import DecodeError
from logbus.wire.messages.streams_group_log import StreamsGroupTopologyKey, StreamsGroupTopologyValue
from logbus.wire.messages.streams_groups import CopartitionGroupIds, SubtopologyInfo

MEMBER = StreamsGroupMember("m", "r", "c", "/h", 5000, 3, "p", ("here", 65_535), (("zone", "a"),))
POSITION = StreamsPosition(
    7,
    6,
    MemberState.UNREVOKED_TASKS,
    TaskSets({"0": frozenset({0, 2})}, {"1": frozenset({1})}),
    TaskSets({"0": frozenset({1})}),
    {("0", 0): 3, ("0", 2): 7, ("0", 1): 5},
)
EPOCH = GroupEpoch(9, -5, 3, (("num.standby.replicas", "1"),))
TOPOLOGY = Topology(
    3,
    (
        Subtopology(
            "0", ("a", "b"), repartition_sink_topics=("r",), copartition_groups=(CopartitionGroup(("a", "b")),)
        ),
        Subtopology(
            "1",
            ("c",),
            state_changelog_topics=(InternalTopic("s", configs=(("cleanup.policy", "compact"),)),),
            repartition_source_topics=(InternalTopic("q", 4, 2), InternalTopic("r")),
            copartition_groups=(CopartitionGroup(("c",), (), ("r",)),),
        ),
    ),
)

#: Records as Kafka 4.3.1 writes them: key and value.
KAFKA = (
    (
        records.position("g", "m", POSITION),
        "001600016700016d",
        (
            "000000000007000000060202023003000000000000000201000903000000030000000702023102000000010001020230"
            "02000000010100050200000005010100"
        ),
    ),
    (
        records.group_epoch("g", EPOCH),
        "0011000167",
        "000000000009fffffffffffffffb02000400000003011902156e756d2e7374616e6462792e7265706c69636173023100",
    ),
    (
        records.member("g", "m", MEMBER),
        "001300016700016d",
        "00000002720263032f6800001388000000030270010568657265ffff0002057a6f6e6502610000",
    ),
    (
        records.target_epoch("g", 8),
        "0014000167",
        "00000000000800",
    ),
    (
        records.target("g", "m", TaskSets({"0": frozenset({0})})),
        "001500016700016d",
        "0000020230020000000000010100",
    ),
    (
        records.topology("g", TOPOLOGY),
        "0017000167",
        (
            "000000000003030230030261026201010202720102030000000101010000023102026301020273000000000000020f63"
            "6c65616e75702e706f6c69637908636f6d70616374000001030271000000040002010002720000000000000100020200"
            "0001020001000000"
        ),
    ),
)


def read_back(change: Change) -> Change:
    """A change as it is read from the log."""
    found: Any = decode_change(*encode_change(change))
    return found


class RecordTests(SynchronousTestCase):
    """Records are read back as they were."""

    def test_everything(self) -> None:
        recorded = RecordedState("g")
        target = TaskSets({"0": frozenset({0})}, {"1": frozenset({1})}, {"2": frozenset({2})})
        for change in (
            records.group_epoch("g", EPOCH),
            records.topology("g", TOPOLOGY),
            records.target_epoch("g", 8),
            records.target("g", "m", target),
            records.member("g", "m", MEMBER),
            records.position("g", "m", POSITION),
        ):
            recorded.apply(read_back(change))
        self.assertEqual(recorded.epoch, EPOCH)
        self.assertEqual(recorded.topology, TOPOLOGY)
        self.assertEqual(recorded.target_epoch, 8)
        self.assertEqual(recorded.targets, {"m": target})
        self.assertEqual(recorded.members, {"m": MEMBER})
        self.assertEqual(recorded.positions, {"m": POSITION})
        self.assertEqual(recorded.owners, {("0", 0): "m", ("0", 1): "m", ("0", 2): "m"})
        self.assertEqual(recorded.copies, {("1", 1): {"m"}})
        self.assertEqual(recorded.subtopology_of, {"a": "0", "b": "0", "c": "1", "q": "1", "r": "1"})
        for change in recorded.tombstones():
            recorded.apply(read_back(change))
        self.assertIsNone(recorded.epoch)
        self.assertIsNone(recorded.topology)
        self.assertFalse(recorded.members or recorded.positions or recorded.targets)
        self.assertFalse(recorded.owners or recorded.copies or recorded.subtopology_of)

    def test_kafka_writes_the_same(self) -> None:
        """Byte for byte, so that each reads the other's files."""
        for change, key, value in KAFKA:
            encoded_key, encoded_value = encode_change(change)
            assert encoded_value is not None
            self.assertEqual((encoded_key.hex(), encoded_value.hex()), (key, value))

    def test_smallest_member(self) -> None:
        """Without what it may leave out."""
        smallest = StreamsGroupMember("m")
        recorded = RecordedState("g")
        recorded.apply(read_back(records.member("g", "m", smallest)))
        self.assertEqual(recorded.members["m"], smallest)

    def test_older_records_of_kafka(self) -> None:
        """Tasks without epochs are accepted, and a state of a later release is known as such."""
        _, value = records.position("g", "m", POSITION)
        value.active_tasks[0].assignment_epochs = None
        value.active_tasks_pending_revocation[0].assignment_epochs = [1, 2]
        value.state = 99
        read = records.read_position(value)
        self.assertEqual(read.since, {("0", 0): 7, ("0", 1): 7, ("0", 2): 7}, "the epoch of the member")
        self.assertEqual(read, evolve(POSITION, state=MemberState.UNKNOWN, since=read.since))

    def test_damaged_topology(self) -> None:
        wrong = SubtopologyInfo(
            subtopology_id="0",
            source_topics=["a"],
            source_topic_regex=[],
            state_changelog_topics=[],
            repartition_sink_topics=[],
            repartition_source_topics=[],
            copartition_groups=[
                CopartitionGroupIds(source_topics=[-1], source_topic_regex=[], repartition_source_topics=[])
            ],
        )
        value = StreamsGroupTopologyValue(epoch=0, subtopologies=[wrong])
        with self.assertRaises(DecodeError):
            RecordedState("g").apply((StreamsGroupTopologyKey(group_id="g"), value))

"""The admin client's part for groups."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.group_results import ListedGroup
from logbus.client.cluster.cluster import Cluster, Node
from logbus.client.group_metadata import CommittedOffset
from logbus.client.retry import Unreachable
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.member_metadata import read_assignment, read_subscription
from logbus.wire.messages import consumer_groups, groups, offsets, share_groups, streams_groups
from logbus.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from logbus.wire.messages.partitions import PartitionErrorCode, TopicErrorCodes, TopicPartitions
from logbus.wire.schema import encode_versioned
from tests.client.memory_cluster import MemoryCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
COMMIT, FETCH, FIND, DESCRIBE, LIST, DELETE, FORGET, NEWER, SHARE, STREAMS = 8, 9, 10, 15, 16, 42, 47, 69, 77, 89
SERVED = {
    COMMIT: (2, 10),
    FETCH: (1, 10),
    FIND: (0, 6),
    DESCRIBE: (0, 6),
    LIST: (0, 5),
    DELETE: (0, 2),
    FORGET: (0, 0),
    NEWER: (0, 1),
}


def nth(*answers: Callable[[Any], Any]) -> Callable[[int, Any], Any]:
    """Answers in turn; the last for all that follow."""
    left = list(answers)
    return lambda node, message: (left.pop(0) if len(left) > 1 else left[0])(message)


class GroupTests(SynchronousTestCase):
    """
    :ivar places: which broker coordinates a group; 1 all others.
    """

    def setUp(self) -> None:
        self.brokers = MemoryCluster(nodes={1, 2})
        self.brokers.served.update(SERVED)
        self.brokers.answers[FIND] = self.find
        self.places: dict[str, int] = {}
        self.admin = AdminClient(Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint))

    def find(self, node: int, message: Any) -> Any:
        if not message.coordinator_keys:
            place = self.places.get(message.key, 1)
            return groups.FindCoordinatorResponse(node_id=place, host=f"b{place}", port=9092)
        return groups.FindCoordinatorResponse(
            coordinators=[
                groups.Coordinator(key=key, node_id=place, host=f"b{place}", port=9092)
                for key in message.coordinator_keys
                for place in [self.places.get(key, 1)]
            ]
        )

    def done(self, waiting: Deferred[Any], seconds: float = 0.0) -> Any:
        self.brokers.settle()
        for _ in range(round(seconds * 10)):
            self.brokers.settle(0.1)
        return self.successResultOf(waiting)

    def code(self, error: object) -> ErrorCode:
        assert isinstance(error, ApiError), error
        return error.code

    # Coordinators.

    def deleted(self, message: Any) -> Any:
        return groups.DeleteGroupsResponse(
            results=[groups.DeletableGroupResult(group_id=each) for each in message.groups_names]
        )

    def test_one_request_per_coordinator(self) -> None:
        """
        Groups are found by one request, and each broker is asked for all of its own.
        """
        self.places = {"b": 2, "d": 2}
        self.brokers.answers[DELETE] = nth(self.deleted)
        self.assertEqual(self.done(self.admin.delete_groups(["d", "a", "b", "a"])), {"d": None, "a": None, "b": None})
        self.assertEqual(len(self.brokers.requests("FindCoordinator")), 1)
        self.assertEqual([each.groups_names for each in self.brokers.requests("DeleteGroups")], [["d", "b"], ["a"]])

    def test_older_brokers_find_coordinators_singly(self) -> None:
        """Before FindCoordinator 4 each group's coordinator is looked up in a request of its own."""
        self.brokers.served[FIND] = (0, 3)
        self.places = {"b": 2}
        self.brokers.answers[DELETE] = nth(self.deleted)
        self.done(self.admin.delete_groups(["a", "b"]))
        self.assertEqual([each.key for each in self.brokers.requests("FindCoordinator")], ["a", "b"])
        self.assertEqual([node for node, name, _ in self.brokers.seen if name == "DeleteGroups"], [1, 2])

    def test_moved_coordinator(self) -> None:
        """
        Those the broker does not coordinate (any more, or yet) are asked for again, and only those.
        """
        for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            self.brokers.seen.clear()

            def moved(message: Any, code: int = code) -> Any:
                answer = self.deleted(message)
                answer.results[-1].error_code = code
                self.places["b"] = 2
                return answer

            self.places = {}
            self.brokers.answers[DELETE] = nth(moved, self.deleted)
            self.assertEqual(self.done(self.admin.delete_groups(["a", "b"]), 0.2), {"a": None, "b": None})
            asked = [(node, each.groups_names) for node, name, each in self.brokers.seen if name == "DeleteGroups"]
            self.assertEqual(asked, [(1, ["a", "b"]), (2, ["b"])])

    def test_patience_has_an_end(self) -> None:
        """
        A coordinator that does not come about is the group's error in the end, and no timer is left.
        """
        self.brokers.answers[FIND] = lambda node, message: groups.FindCoordinatorResponse(
            coordinators=[groups.Coordinator(key="a", node_id=-1, host="", port=-1, error_code=15)]
        )
        answers = self.done(self.admin.describe_groups(["a"]), 31)
        self.assertEqual(self.code(answers["a"]), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertIn("'a'", answers["a"].message)
        self.assertGreater(len(self.brokers.requests("FindCoordinator")), 10)

    def test_a_broken_connection(self) -> None:
        """
        One that broke is made anew.
        """
        self.places = {"a": 2}
        dropped: list[int] = []

        def drop_once(node: int, message: Any) -> Any:
            if not dropped:
                dropped.append(node)
                self.brokers.drop(node)
                return Deferred()
            return self.deleted(message)

        self.brokers.answers[DELETE] = drop_once
        self.assertEqual(self.done(self.admin.delete_groups(["a"]), 0.2), {"a": None})

    def test_lost_coordinator(self) -> None:
        """Another broker may take over; if none does, its groups have an error, and the others their results."""
        self.places = {"a": 2}
        self.brokers.answers[DELETE] = nth(self.deleted)
        self.done(self.admin.delete_groups(["a", "b"]))
        self.brokers.drop(2)
        self.brokers.nodes.discard(2)
        waiting = self.admin.delete_groups(["a", "b"])
        self.brokers.settle(0.1)
        self.assertNoResult(waiting)
        self.places = {}
        self.assertEqual(self.done(waiting, 1), {"a": None, "b": None})
        self.places = {"a": 2}
        answers = self.done(self.admin.delete_groups(["a", "b"]), 31)
        self.assertIsNone(answers["b"])
        self.assertEqual(self.code(answers["a"]), ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def test_no_reachable_broker(self) -> None:
        """The error comes at once."""
        self.brokers.nodes.clear()
        self.failureResultOf(self.admin.delete_groups(["a"]), Unreachable)

    def test_missing_group_in_a_response(self) -> None:
        """It is an error of that group."""
        self.brokers.answers[DELETE] = nth(lambda message: groups.DeleteGroupsResponse(results=[]))
        answers = self.done(self.admin.delete_groups(["a"]))
        self.assertEqual(self.code(answers["a"]), ErrorCode.UNKNOWN_SERVER_ERROR)

    def test_errors_name_the_group(self) -> None:
        """Errors for a missing group, and for one with members, name the group."""
        self.brokers.answers[DELETE] = nth(
            lambda message: groups.DeleteGroupsResponse(
                results=[
                    groups.DeletableGroupResult(group_id="a", error_code=69),
                    groups.DeletableGroupResult(group_id="b", error_code=68),
                ]
            )
        )
        answers = self.done(self.admin.delete_groups(["a", "b"]))
        self.assertEqual(
            [each.message for each in answers.values()],
            ["there is no group 'a'", "group 'b' has members; stop its consumers first"],
        )

    # Lists.

    def test_groups_of_all_brokers(self) -> None:
        """
        Each broker lists its own; together they are in order. One that is loading is asked again.
        """
        loading = [groups.ListGroupsResponse(error_code=14, groups=[])]

        def listed(node: int, message: Any) -> Any:
            if node == 2 and loading:
                return loading.pop()
            self.assertEqual((message.states_filter, message.types_filter), (["Stable"], ["classic"]))
            name = {1: "b", 2: "a"}[node]
            found = groups.ListedGroup(
                group_id=name, protocol_type="consumer", group_state="Stable", group_type="classic"
            )
            return groups.ListGroupsResponse(groups=[found])

        self.brokers.answers[LIST] = listed
        found = self.done(self.admin.list_groups(states=["Stable"], types=["classic"]), 0.2)
        self.assertEqual(
            found,
            [
                ListedGroup("a", "consumer", "Stable", "classic", 2),
                ListedGroup("b", "consumer", "Stable", "classic", 1),
            ],
        )

    def test_unsupported_type_filter(self) -> None:
        """A filter that a broker does not support is an error: it would return all groups."""
        self.brokers.served[LIST] = (0, 4)
        for version, refused in ((4, {"types": ["classic"]}), (3, {"states": ["Stable"]})):
            self.brokers.served[LIST] = (0, version)
            waiting = AdminClient(Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint)).list_groups(
                **refused
            )
            self.brokers.settle()
            error = self.failureResultOf(waiting, ApiError).value
            self.assertIn(f"{next(iter(refused))} of groups: it speaks ListGroups {version}", error.message)

    # Descriptions.

    def describe(self, *described: Any) -> None:
        self.brokers.answers[DESCRIBE] = lambda node, message: groups.DescribeGroupsResponse(
            groups=[each for each in described if each.group_id in message.groups]
        )

    def test_both_protocols(self) -> None:
        """
        A group is described by the protocol it speaks, with what its members read, in the same words.
        """
        own = consumer_groups.DescribedAssignment(
            topic_partitions=[
                consumer_groups.DescribedTopicPartitions(topic_id=bytes(16), topic_name="t", partitions=[1, 0])
            ]
        )
        nothing = consumer_groups.DescribedAssignment(topic_partitions=[])

        def newer(node: int, message: Any) -> Any:
            described = [consumer_groups.DescribedConsumerGroup(group_id="classic", error_code=69)]
            member = {
                "member_id": "m",
                "instance_id": "i",
                "member_epoch": 5,
                "client_id": "c",
                "client_host": "/1.2.3.4",
                "subscribed_topic_names": ["t"],
                "assignment": own,
                "target_assignment": nothing,
            }
            members = [dict(member, member_id="n", client_host="1.2.3.4"), member]
            described.append(
                consumer_groups.DescribedConsumerGroup(
                    group_id="newer",
                    group_state="Stable",
                    group_epoch=6,
                    assignment_epoch=5,
                    assignor_name="uniform",
                    members=[consumer_groups.DescribedConsumer(**each) for each in members],
                )
            )
            return consumer_groups.ConsumerGroupDescribeResponse(groups=described)

        self.brokers.answers[NEWER] = newer
        assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic="t", partitions=[1, 0])])
        self.describe(
            groups.DescribedGroup(
                group_id="classic",
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="range",
                members=[
                    groups.DescribedGroupMember(
                        member_id="x",
                        client_id="c",
                        client_host="/5.6.7.8",
                        member_assignment=encode_versioned(assignment, 1),
                    )
                ],
            )
        )
        answers = self.done(self.admin.describe_groups(["classic", "newer"]))
        self.assertEqual(self.brokers.requests("DescribeGroups")[0].groups, ["classic"])
        classic, described = answers["classic"], answers["newer"]
        self.assertEqual((classic.type, classic.assignor, classic.epoch), ("classic", "range", -1))
        (member,) = classic.members
        self.assertEqual((member.assignment, member.host, member.target, member.epoch), ((P0, P1), "5.6.7.8", None, -1))
        self.assertEqual((described.type, described.assignor, described.epoch), ("consumer", "uniform", 6))
        self.assertEqual((described.assignment_epoch, described.coordinator), (5, Node(1, "b1", 9092)))
        first, second = described.members
        self.assertEqual((first.member_id, first.assignment, first.target, first.epoch), ("m", (P0, P1), (), 5))
        self.assertEqual((first.instance_id, first.subscription, second.host), ("i", ("t",), "1.2.3.4"))
        self.assertTrue(classic.is_active)

    def test_share_groups(self) -> None:
        """They are neither of both protocols; a group that is no share group either is missing."""
        own = consumer_groups.DescribedAssignment(
            topic_partitions=[
                consumer_groups.DescribedTopicPartitions(topic_id=bytes(16), topic_name="t", partitions=[1, 0])
            ]
        )
        member = share_groups.DescribedShareMember(
            member_id="m",
            member_epoch=5,
            client_id="c",
            client_host="/1.2.3.4",
            subscribed_topic_names=["t"],
            assignment=own,
        )
        shared = share_groups.DescribedShareGroup(
            group_id="shared",
            group_state="Stable",
            group_epoch=6,
            assignment_epoch=5,
            assignor_name="simple",
            members=[member],
        )
        missing = share_groups.DescribedShareGroup(group_id="none", error_code=69, error_message="not a share group")
        self.brokers.served[SHARE] = (1, 1)
        self.brokers.answers[SHARE] = lambda node, message: share_groups.ShareGroupDescribeResponse(
            groups=[shared, missing]
        )
        self.brokers.answers[NEWER] = lambda node, message: consumer_groups.ConsumerGroupDescribeResponse(
            groups=[consumer_groups.DescribedConsumerGroup(group_id=name, error_code=69) for name in message.group_ids]
        )
        self.describe(*(groups.DescribedGroup(group_id=name, error_code=69) for name in ("shared", "none")))
        answers = self.done(self.admin.describe_groups(["shared", "none"]))
        described = answers["shared"]
        self.assertEqual((described.type, described.protocol_type, described.assignor), ("share", "share", "simple"))
        self.assertEqual((described.state, described.epoch, described.assignment_epoch), ("Stable", 6, 5))
        (only,) = described.members
        self.assertEqual((only.member_id, only.assignment, only.host, only.epoch), ("m", (P0, P1), "1.2.3.4", 5))
        self.assertEqual(answers["none"].message, "there is no group 'none'")

    def test_streams_groups(self) -> None:
        """They are of none of the other types; a task stands for partitions of all that its subtopology reads."""
        tasks = streams_groups.TaskIds(subtopology_id="0", partitions=[1, 0])
        none = streams_groups.DescribedTasks(active_tasks=[], standby_tasks=[tasks], warmup_tasks=[])
        member = streams_groups.DescribedStreamsMember(
            member_id="m",
            member_epoch=5,
            client_id="c",
            client_host="/1.2.3.4",
            topology_epoch=0,
            process_id="p",
            client_tags=[],
            assignment=streams_groups.DescribedTasks(active_tasks=[tasks], standby_tasks=[], warmup_tasks=[]),
            target_assignment=none,
        )
        repartition = streams_groups.TopicInfo(name="r", partitions=2, replication_factor=0, topic_configs=[])
        subtopology = streams_groups.DescribedSubtopology(
            subtopology_id="0",
            source_topics=["t"],
            repartition_sink_topics=[],
            state_changelog_topics=[],
            repartition_source_topics=[repartition],
        )
        streaming = streams_groups.DescribedStreamsGroup(
            group_id="streaming",
            group_state="Reconciling",
            group_epoch=6,
            assignment_epoch=5,
            topology=streams_groups.DescribedTopology(epoch=0, subtopologies=[subtopology]),
            members=[member],
        )
        unready = streams_groups.DescribedStreamsGroup(group_id="unready", group_state="NotReady", members=[member])
        self.brokers.served[STREAMS] = (0, 0)
        self.brokers.answers[STREAMS] = lambda node, message: streams_groups.StreamsGroupDescribeResponse(
            groups=[streaming, unready]
        )
        self.brokers.answers[NEWER] = lambda node, message: consumer_groups.ConsumerGroupDescribeResponse(
            groups=[consumer_groups.DescribedConsumerGroup(group_id=name, error_code=69) for name in message.group_ids]
        )
        self.describe(*(groups.DescribedGroup(group_id=name, error_code=69) for name in ("streaming", "unready")))
        answers = self.done(self.admin.describe_groups(["streaming", "unready"]))
        described = answers["streaming"]
        self.assertEqual(
            (described.type, described.protocol_type, described.assignor), ("streams", "streams", "sticky")
        )
        self.assertEqual((described.state, described.epoch, described.assignment_epoch), ("Reconciling", 6, 5))
        (only,) = described.members
        read = (TopicPartition("r", 0), TopicPartition("r", 1), P0, P1)
        self.assertEqual((only.assignment, only.target, only.subscription), (read, (), ("r", "t")))
        self.assertEqual((only.member_id, only.host, only.epoch), ("m", "1.2.3.4", 5))
        (waiting,) = answers["unready"].members
        self.assertEqual(waiting.assignment, (), "nobody knows what it reads")

    def test_missing_groups(self) -> None:
        """Groups that brokers call Dead, as before Kafka 4, or unknown, are missing."""
        del self.brokers.served[NEWER]
        self.describe(
            groups.DescribedGroup(group_id="a", group_state="Dead"),
            groups.DescribedGroup(group_id="b", error_code=69, error_message="Group b not found."),
            groups.DescribedGroup(group_id="c", group_state="Empty"),
        )
        answers = self.done(self.admin.describe_groups(["a", "b", "c"]))
        for name in ("a", "b"):
            self.assertEqual(answers[name].message, f"there is no group {name!r}")
        self.assertFalse(answers["c"].is_active)

    def test_other_protocol_types(self) -> None:
        """Metadata of other protocol types is returned as bytes."""
        del self.brokers.served[NEWER]
        member = groups.DescribedGroupMember(
            member_id="x", client_id="c", client_host="/h", member_metadata=b"\0\1", member_assignment=b"\0\0\0\0"
        )
        self.describe(
            groups.DescribedGroup(group_id="a", group_state="Stable", protocol_type="connect", members=[member])
        )
        (found,) = self.done(self.admin.describe_groups(["a"]))["a"].members
        self.assertEqual((found.assignment, found.subscription), ((), ()))
        self.assertEqual((found.metadata_bytes, found.assignment_bytes), (b"\0\1", b"\0\0\0\0"))

    # Offsets.

    def test_offsets_of_several_groups(self) -> None:
        """
        All that was committed, by one request to newer brokers, and one for each group to older ones; partitions
        without a commit are not there.
        """

        def partitions(group_id: str) -> Any:
            values = [(1, 7, 0), (0, 5, 0), (2, -1, 0), (3, -1, 88)] if group_id == "a" else []
            return [
                offsets.OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=offset, error_code=code, metadata="note"
                )
                for index, offset, code in values
            ]

        def fetched(node: int, message: Any) -> Any:
            if message.groups:
                return offsets.OffsetFetchResponse(
                    groups=[
                        offsets.OffsetFetchResponseGroup(
                            group_id=each.group_id,
                            topics=[offsets.OffsetFetchResponseTopics(name="t", partitions=partitions(each.group_id))],
                        )
                        for each in message.groups
                    ]
                )
            found = [offsets.OffsetFetchResponseTopic(name="t", partitions=partitions(message.group_id))]
            return offsets.OffsetFetchResponse(topics=found)

        self.brokers.answers[FETCH] = fetched
        for version, requests in ((10, 1), (7, 2)):
            self.brokers.served[FETCH] = (1, version)
            self.brokers.seen.clear()
            admin = AdminClient(Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint))
            answers = self.done(admin.list_group_offsets(["a", "b"]))
            self.assertEqual(len(self.brokers.requests("OffsetFetch")), requests)
            self.assertEqual(answers["b"], {})
            unstable = answers["a"].pop(TopicPartition("t", 3))
            self.assertEqual(self.code(unstable), ErrorCode.UNSTABLE_OFFSET_COMMIT)
            self.assertEqual(
                answers["a"], {P0: CommittedOffset(5, metadata="note"), P1: CommittedOffset(7, metadata="note")}
            )

    def committed(self, *codes: int) -> Callable[[Any], Any]:
        return lambda message: offsets.OffsetCommitResponse(
            topics=[
                offsets.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        PartitionErrorCode(partition_index=each.partition_index, error_code=code)
                        for each, code in zip(topic.partitions, codes, strict=True)
                    ],
                )
                for topic in message.topics
            ]
        )

    def test_commits_in_the_place_of_a_group(self) -> None:
        """
        They are those of a simple consumer, name topics, and are sent again to a coordinator that moved.
        """
        self.brokers.answers[COMMIT] = nth(self.committed(16, 16), self.committed(0, 3))
        wanted = {P0: CommittedOffset(4, 2, "note"), TopicPartition("t", 9): CommittedOffset(1)}
        answers = self.done(self.admin.alter_group_offsets("a", wanted), 0.2)
        self.assertIsNone(answers[P0])
        self.assertIn("topic 't' has no partition 9", answers[TopicPartition("t", 9)].message)
        first, second = self.brokers.requests("OffsetCommit")
        self.assertEqual(first, second)
        self.assertEqual((second.generation_id_or_member_epoch, second.member_id), (-1, ""))
        told = second.topics[0].partitions[0]
        self.assertEqual(
            (second.topics[0].name, told.committed_offset, told.committed_leader_epoch, told.committed_metadata),
            ("t", 4, 2, "note"),
        )

    def test_many_commits(self) -> None:
        """
        They are spread over requests, each small enough for a batch of records; all are answered.
        """
        wanted = {TopicPartition("t", n): CommittedOffset(n) for n in range(2500)}
        self.brokers.answers[COMMIT] = lambda node, message: self.committed(*[0] * len(message.topics[0].partitions))(
            message
        )
        answers = self.done(self.admin.alter_group_offsets("a", wanted))
        self.assertEqual((list(answers), set(answers.values())), (list(wanted), {None}))
        sizes = [len(each.topics[0].partitions) for each in self.brokers.requests("OffsetCommit")]
        self.assertEqual(sizes, [1000, 1000, 500])

    def test_commits_for_a_group_in_use(self) -> None:
        """
        The refusal says what to do.
        """
        self.brokers.answers[COMMIT] = nth(self.committed(25))
        answers = self.done(self.admin.alter_group_offsets("a", {P0: CommittedOffset(4)}))
        self.assertEqual(answers[P0].message, "group 'a' has members; stop its consumers first")

    def test_offsets_are_forgotten(self) -> None:
        """
        Each partition has its own answer; what concerns the whole group is the answer for each.
        """
        self.brokers.answers[FORGET] = nth(
            lambda message: offsets.OffsetDeleteResponse(
                topics=[
                    TopicErrorCodes(
                        name="t",
                        partitions=[
                            PartitionErrorCode(partition_index=0),
                            PartitionErrorCode(partition_index=1, error_code=86),
                        ],
                    )
                ]
            ),
            lambda message: offsets.OffsetDeleteResponse(error_code=69),
        )
        answers = self.done(self.admin.delete_group_offsets("a", [P0, P1]))
        self.assertIsNone(answers[P0])
        self.assertIn("reading topic 't'", answers[P1].message)
        answers = self.done(self.admin.delete_group_offsets("a", [P0, P1]))
        self.assertEqual([each.message for each in answers.values()], ["there is no group 'a'"] * 2)


class MemberBytesTests(SynchronousTestCase):
    """Encoded subscriptions and assignments may come from any client."""

    @given(st.binary(max_size=60))
    def test_any_bytes(self, data: bytes) -> None:
        """
        Bytes that spell no assignment are none.
        """
        for found in (read_assignment(data), read_subscription(data)):
            self.assertIsInstance(found, tuple)

    def test_wrong_length(self) -> None:
        """A count of two thousand million partitions in twenty bytes gives none."""
        self.assertEqual(read_assignment(struct.pack(">hi", 1, 2**31 - 1) + bytes(14)), ())

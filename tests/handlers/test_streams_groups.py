"""StreamsGroupHeartbeat and StreamsGroupDescribe on a complete broker."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from logbus.errors import ErrorCode
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from logbus.wire.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from logbus.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from logbus.wire.messages.streams_groups import (
    CopartitionGroupIds,
    KeyValue,
    StreamsEndpoint,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    SubtopologyInfo,
    TaskIds,
    TopicInfo,
    TopologyInfo,
)
from logbus.wire.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic, DeleteTopicsRequest
from tests.handlers.group_kit import GroupCase, Member, commit
from tests.handlers.kit import Client

GROUP_RESOURCE = 32
STALE, MISSING_SOURCE, WRONG_PARTITIONS, MISSING_INTERNAL, SHUTDOWN, DELAYED = range(6)

Owned = dict[str, list[int]]


def topic_info(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    return TopicInfo(
        name=name,
        partitions=partitions,
        # As Kafka Streams has it.
        replication_factor=-1,
        topic_configs=[KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def subtopology(subtopology_id: str = "0", **given: Any) -> SubtopologyInfo:
    fields: dict[str, Any] = {
        "subtopology_id": subtopology_id,
        "source_topics": ["t"],
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    return SubtopologyInfo(**{**fields, **given})


def topology(*subtopologies: SubtopologyInfo, epoch: int = 0) -> TopologyInfo:
    return TopologyInfo(epoch=epoch, subtopologies=list(subtopologies or [subtopology()]))


#: Words are counted: read from ``t``, shuffled, and kept in a store.
WORD_COUNT = topology(
    subtopology("0", repartition_sink_topics=["app-words-repartition"]),
    subtopology(
        "1",
        source_topics=[],
        repartition_source_topics=[topic_info("app-words-repartition", segment_bytes="52428800")],
        state_changelog_topics=[topic_info("app-counts-changelog", cleanup_policy="compact")],
    ),
)


def task_ids(tasks: Owned) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=numbers) for each, numbers in tasks.items()]


@define(eq=False)
class Thread:
    """
    A member of a streams group, which follows the protocol.

    :ivar active: its active tasks; None before it was told.
    :ivar standby: its standby tasks.
    """

    client: Client
    member_id: str
    group_id: str = "g"
    process_id: str = ""
    topology: TopologyInfo = field(factory=topology)
    epoch: int = 0
    active: Owned | None = None
    standby: Owned | None = None

    def send(self, **given: Any) -> Any:
        """One heartbeat; the answer."""
        request: dict[str, Any] = {"group_id": self.group_id, "member_id": self.member_id, "member_epoch": self.epoch}
        owned: dict[str, Any] = {
            "active_tasks": task_ids(self.active or {}),
            "standby_tasks": task_ids(self.standby or {}),
            "warmup_tasks": [],
        }
        if given.get("member_epoch", self.epoch) == 0:
            owned = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            request |= {
                "rebalance_timeout_ms": 60_000,
                "topology": self.topology,
                "process_id": self.process_id or self.member_id,
                "client_tags": [],
            }
        return self.client.ask(StreamsGroupHeartbeatRequest(**{**request, **owned, **given}), 0)

    def heard(self, answer: Any) -> Any:
        """Go by an answer that must be well."""
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.active = {each.subtopology_id: each.partitions for each in answer.active_tasks}
            self.standby = {each.subtopology_id: each.partitions for each in answer.standby_tasks}
        return answer

    def beat(self, **given: Any) -> Any:
        """One heartbeat that must be well."""
        return self.heard(self.send(**given))


class StreamsGroupCase(GroupCase):
    """A broker, and members of streams groups."""

    config = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.max.size": "3"}

    def thread(self, member_id: str = "m1", **given: Any) -> Thread:
        return Thread(self.server.connect(), member_id, **given)

    def described(self, group_id: str = "g", **given: Any) -> Any:
        (found,) = self.client.ask(StreamsGroupDescribeRequest(group_ids=[group_id], **given), 0).groups
        return found

    def set(self, name: str, value: str) -> None:
        """Set a dynamic setting of the group."""
        resource = IncrementalAlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name="g",
            configs=[IncrementalAlterableConfig(name=name, config_operation=0, value=value)],
        )
        (found,) = self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        self.assertEqual(found.error_code, 0, found)

    def codes(self, answer: Any) -> list[int]:
        return [each.status_code for each in answer.status]

    def restart(self) -> None:
        before = self.server
        before.stop()
        self.server = type(before)(self.config, disks=before.disks, ensemble=before.ensemble)
        self.server.start()
        self.addCleanup(self.server.close)
        self.client = self.server.connect()


class HeartbeatTests(StreamsGroupCase):
    """Members come, stay and go."""

    def test_join(self) -> None:
        """Who joins alone has all tasks."""
        one = self.thread(process_id="p")
        answer = one.beat(
            user_endpoint=StreamsEndpoint(host="here", port=9000), client_tags=[KeyValue(key="zone", value="a")]
        )
        self.assertEqual((answer.member_id, answer.heartbeat_interval_ms, answer.status), ("m1", 5000, []))
        self.assertEqual((one.active, one.standby), ({"0": [0, 1]}, {}))
        (endpoint,) = answer.partitions_by_user_endpoint
        self.assertEqual((endpoint.user_endpoint.host, endpoint.user_endpoint.port), ("here", 9000))
        self.assertEqual([(each.topic, each.partitions) for each in endpoint.active_partitions], [("t", [0, 1])])
        again = one.beat(endpoint_information_epoch=answer.endpoint_information_epoch)
        self.assertIsNone(again.active_tasks)
        self.assertIsNone(again.partitions_by_user_endpoint)
        described = self.described(include_authorized_operations=True)
        self.assertEqual((described.group_state, described.group_epoch, described.assignment_epoch), ("Stable", 2, 2))
        (member,) = described.members
        self.assertEqual((member.member_id, member.member_epoch, member.process_id), ("m1", 2, "p"))
        self.assertEqual([(tag.key, tag.value) for tag in member.client_tags], [("zone", "a")])
        self.assertEqual(member.assignment.active_tasks, [TaskIds(subtopology_id="0", partitions=[0, 1])])
        self.assertEqual(member.target_assignment, member.assignment)
        self.assertEqual([each.source_topics for each in described.topology.subtopologies], [["t"]])
        self.assertEqual(
            [(each.group_id, each.group_type, each.protocol_type) for each in self.listed()],
            [("g", "streams", "streams")],
        )

    def listed(self) -> Any:
        return self.client.ask(ListGroupsRequest(types_filter=["streams"]), 5).groups

    def test_tasks_move(self) -> None:
        """A second member gets a task when the first has given it up; when one leaves, the other has all."""
        one, two = self.thread("m1"), self.thread("m2")
        one.beat()
        two.beat()
        self.assertEqual(two.active, {})
        one.send()
        self.assertEqual(self.described().group_state, "Reconciling")
        self.assertEqual(one.beat().active_tasks, task_ids({"0": [0]}))
        two.beat()
        self.assertEqual(two.active, {})
        one.beat()
        two.beat()
        self.assertEqual((one.active, two.active), ({"0": [0]}, {"0": [1]}))
        self.assertEqual(self.described().group_state, "Stable")
        two.beat(member_epoch=-1)
        one.beat()
        self.assertEqual(one.active, {"0": [0, 1]})
        self.assertEqual(two.send().error_code, ErrorCode.UNKNOWN_MEMBER_ID)

    def test_initial_delay(self) -> None:
        """A new group waits for more members before it assigns tasks."""
        self.set("streams.initial.rebalance.delay.ms", "3000")
        one, two = self.thread("m1"), self.thread("m2")
        answer = one.beat()
        self.assertEqual((self.codes(answer), one.active, one.epoch), ([DELAYED], {}, 1))
        self.assertEqual(self.codes(two.beat()), [DELAYED])
        self.assertEqual(self.described().group_state, "Assigning")
        self.client.turn(3)
        for each in (one, two):
            self.assertEqual(self.codes(each.beat()), [])
        self.assertEqual([one.active, two.active], [{"0": [0]}, {"0": [1]}])

    def test_late_member_is_removed(self) -> None:
        """A member that does not give up a task in its rebalance timeout is removed."""
        one, two = self.thread("m1"), self.thread("m2")
        one.beat(rebalance_timeout_ms=10_000)
        two.beat()
        one.send()
        for _ in range(3):
            self.client.turn(4)
            two.beat()
            one.send()
        two.beat()
        self.assertEqual(one.send().error_code, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(two.active, {"0": [0, 1]})

    def test_silent_member_is_removed(self) -> None:
        self.thread().beat()
        self.client.turn(46)
        self.assertEqual(self.described().group_state, "Empty")

    def test_shutdown(self) -> None:
        """What one member asks for, all are told until the group is empty."""
        one, two = self.thread("m1"), self.thread("m2")
        one.beat()
        two.beat()
        one.beat(member_epoch=-1, shutdown_application=True)
        answer = two.beat()
        self.assertEqual(self.codes(answer), [SHUTDOWN])
        self.assertIn("m1", answer.status[0].status_detail)
        two.beat(member_epoch=-1)
        again = self.thread("m3")
        self.assertEqual(self.codes(again.beat()), [])

    def test_restart(self) -> None:
        """All is as before after a fail-over."""
        one = self.thread(topology=WORD_COUNT)
        one.beat()
        one.client.turn(1)
        one.beat()
        before = self.described()
        self.assertEqual(before.group_state, "Stable")
        self.restart()
        self.assertEqual(self.described(), before)
        one.client = self.server.connect()
        self.assertIsNone(one.beat().active_tasks)
        self.assertEqual(self.described(), before)

    def test_standby_tasks(self) -> None:
        """Tasks with state have a copy in another process."""
        self.set("streams.num.standby.replicas", "1")
        self.client.create("app-counts-changelog", partitions=2)
        stateful = topology(subtopology(state_changelog_topics=[topic_info("app-counts-changelog")]))
        one, two = self.thread("m1", topology=stateful), self.thread("m2", topology=stateful)
        for each in (one, two, one):
            each.beat()
        one.active = {"0": [number for number in (0, 1) if number in (one.active or {})["0"]]}
        for _ in range(3):
            for each in (one, two):
                each.beat()
        self.assertEqual(sorted([*one.active["0"], *(two.active or {})["0"]]), [0, 1])
        self.assertEqual(one.standby, two.active)
        self.assertEqual(two.standby, one.active)


class TopicTests(StreamsGroupCase):
    """Topics of the user, and those that are created."""

    def test_internal_topics_are_created(self) -> None:
        one = self.thread(topology=WORD_COUNT)
        answer = one.beat()
        self.assertEqual(self.codes(answer), [MISSING_INTERNAL])
        self.assertIn("app-words-repartition", answer.status[0].status_detail)
        self.assertEqual(self.described().group_state, "NotReady")
        self.assertEqual(one.active, {})
        one.client.turn(1)
        self.assertEqual(self.codes(one.beat()), [])
        self.assertEqual(one.active, {"0": [0, 1], "1": [0, 1]})
        (found,) = self.client.metadata("app-counts-changelog").topics
        self.assertEqual(len(found.partitions), 2)
        shown = {each.subtopology_id: each for each in self.described().topology.subtopologies}
        self.assertEqual([each.partitions for each in shown["1"].repartition_source_topics], [2])

    def test_internal_topics_cannot_be_created(self) -> None:
        """The status says why, and it is tried again later."""
        wrong = topology(subtopology(state_changelog_topics=[topic_info("app-changelog", no_such_setting="1")]))
        one = self.thread(topology=wrong)
        one.beat()
        one.client.turn(1)
        answer = one.beat()
        self.assertEqual(self.codes(answer), [MISSING_INTERNAL])
        self.assertIn("no.such.setting", answer.status[0].status_detail)

    def test_source_topics_come_and_go(self) -> None:
        one = self.thread(topology=topology(subtopology(source_topics=["late"])))
        answer = one.beat()
        self.assertEqual((self.codes(answer), one.active), ([MISSING_SOURCE], {}))
        self.assertIn("late", answer.status[0].status_detail)
        self.client.create("late", partitions=3)
        self.assertEqual(self.codes(one.beat()), [])
        self.assertEqual(one.active, {"0": [0, 1, 2]})
        growth = CreatePartitionsTopic(name="late", count=4)
        self.client.ask(CreatePartitionsRequest(topics=[growth], timeout_ms=1000), 3)
        one.beat()
        self.assertEqual(one.active, {"0": [0, 1, 2, 3]})
        self.client.ask(DeleteTopicsRequest(topic_names=["late"], timeout_ms=1000), 5)
        self.client.turn(1)
        self.assertEqual(self.codes(one.beat()), [MISSING_SOURCE])
        self.assertEqual(one.active, {"0": [0, 1, 2, 3]} if one.active else {})

    def test_copartitioned_topics(self) -> None:
        self.client.create("three", partitions=3)
        joined = subtopology(
            source_topics=["t", "three"],
            copartition_groups=[
                CopartitionGroupIds(source_topics=[0, 1], source_topic_regex=[], repartition_source_topics=[])
            ],
        )
        self.assertEqual(self.codes(self.thread(topology=topology(joined)).beat()), [WRONG_PARTITIONS])


class RefusalTests(StreamsGroupCase):
    """Heartbeats that are refused."""

    def test_invalid(self) -> None:
        one = self.thread()
        for given, code in (
            ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
            ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
            ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
            ({"instance_id": "i"}, ErrorCode.INVALID_REQUEST),
            ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
            ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
            ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
            ({"topology": None}, ErrorCode.INVALID_REQUEST),
            ({"active_tasks": None}, ErrorCode.INVALID_REQUEST),
            ({"active_tasks": task_ids({"0": [0]})}, ErrorCode.INVALID_REQUEST),
            ({"task_offsets": []}, ErrorCode.INVALID_REQUEST),
            ({"warmup_tasks": task_ids({"0": [0]})}, ErrorCode.INVALID_REQUEST),
            ({"topology": topology(subtopology(source_topic_regex=["a.*"]))}, ErrorCode.INVALID_REQUEST),
            ({"topology": topology(subtopology(source_topics=["a b"]))}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
            (
                {"topology": topology(subtopology(source_topics=["__consumer_offsets"]))},
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
            ),
            (
                {"topology": topology(subtopology(state_changelog_topics=[topic_info("c", 3)]))},
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
            ),
            (
                {
                    "topology": topology(
                        subtopology(
                            copartition_groups=[
                                CopartitionGroupIds(
                                    source_topics=[7], source_topic_regex=[], repartition_source_topics=[]
                                )
                            ]
                        )
                    )
                },
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
            ),
            ({"member_epoch": 5, "topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
            ({"member_epoch": -1, "topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
        ):
            answer = one.send(**given)
            self.assertEqual(answer.error_code, code, (given, answer))
            self.assertTrue(answer.error_message)
        self.assertEqual(self.described().error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        one.beat()
        self.assertEqual(one.send(topology=topology()).error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(one.send(active_tasks=task_ids({"0": [9]})).error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(one.send(active_tasks=task_ids({"9": [0]})).error_code, ErrorCode.INVALID_REQUEST)

    def test_fencing(self) -> None:
        """Only the present epoch is accepted, and the one before of a member that has missed the response."""
        one = self.thread()
        one.beat()
        self.assertEqual(one.send(member_epoch=one.epoch + 1).error_code, ErrorCode.FENCED_MEMBER_EPOCH)
        two = self.thread("m2")
        two.beat()
        one.active = {"0": [0]}
        before = one.epoch
        one.beat()
        again = one.send(member_epoch=before)
        self.assertEqual((again.error_code, again.member_epoch), (0, one.epoch))
        self.assertIsNone(again.active_tasks)
        again = one.send(member_epoch=before, active_tasks=[])
        self.assertEqual(again.active_tasks, task_ids({"0": [0]}))
        self.assertEqual(
            one.send(member_epoch=before, active_tasks=task_ids({"0": [0, 1]})).error_code,
            ErrorCode.FENCED_MEMBER_EPOCH,
        )
        # It gives up everything, and joins again.
        one.epoch = 0
        one.beat()
        self.assertEqual(one.active, {"0": [0]})

    def test_other_topology(self) -> None:
        """The topology of a group with members cannot change; members with an older one are told."""
        self.thread("m1", topology=topology(epoch=3)).beat()
        other = self.thread("m2", topology=topology(subtopology(source_topics=["other"]), epoch=3))
        self.assertEqual(other.send().error_code, ErrorCode.INVALID_REQUEST)
        old = self.thread("m3", topology=topology(subtopology(source_topics=["other"]), epoch=2))
        self.assertEqual(self.codes(old.beat()), [STALE])

    def test_new_version_after_all_have_left(self) -> None:
        """The first member brings the topology of its version, even if it has the same epoch."""
        one = self.thread("m1")
        one.beat()
        one.send(member_epoch=-1)
        self.assertEqual(self.described().topology.subtopologies[0].source_topics, ["t"])
        self.client.create("other", partitions=1)
        new = self.thread("m2", topology=topology(subtopology(source_topics=["other"])))
        new.beat()
        self.assertEqual(new.active, {"0": [0]})
        self.assertEqual(self.described().topology.subtopologies[0].source_topics, ["other"])
        self.assertEqual(self.thread("m3").send().error_code, ErrorCode.INVALID_REQUEST)

    def test_huge_topologies(self) -> None:
        """Nobody keeps the broker busy with a topology of thousands of parts."""
        many = self.thread(topology=topology(*(subtopology(str(number)) for number in range(1001))))
        answer = many.send()
        self.assertEqual(answer.error_code, ErrorCode.STREAMS_INVALID_TOPOLOGY)
        self.assertEqual(answer.error_message, "the topology has 1001 subtopologies: 1000 are allowed")
        names = [f"t{number}" for number in range(10_001)]
        answer = self.thread(topology=topology(subtopology(source_topics=names))).send()
        self.assertEqual(answer.error_code, ErrorCode.STREAMS_INVALID_TOPOLOGY)
        self.assertEqual(answer.error_message, "the topology names 10001 topics: 10000 are allowed")
        answer = self.thread(topology=topology(subtopology(source_topics=[], source_topic_regex=names))).send()
        self.assertEqual(answer.error_message, "the topology names 10001 topics: 10000 are allowed")
        groups = [CopartitionGroupIds(source_topics=[0], source_topic_regex=[], repartition_source_topics=[])] * 5001
        # A long text, since a message may have so many elements only for its bytes.
        answer = self.thread(topology=topology(subtopology(copartition_groups=groups))).send(rack_id="r" * 30_000)
        self.assertEqual(answer.error_code, ErrorCode.STREAMS_INVALID_TOPOLOGY)
        self.assertEqual(
            answer.error_message, "the topology has 10002 copartition groups and topics in them: 10000 are allowed"
        )

    def test_more_tasks_than_there_can_be(self) -> None:
        """Lists of tasks that no member can have are refused unread."""
        one = self.thread()
        one.beat()
        for owned in ({"0": list(range(20_001))}, {str(number): [0] for number in range(3001)}):
            answer = one.send(active_tasks=task_ids(owned))
            self.assertEqual(answer.error_code, ErrorCode.INVALID_REQUEST)
            self.assertIn("a group has at most 20000 tasks of 1000 subtopologies", answer.error_message)
        one.beat()

    def test_full_group(self) -> None:
        one, two, three = (self.thread(f"m{number}") for number in (1, 2, 3))
        for each in (one, two, three):
            each.beat()
        self.assertEqual(self.thread("m4").send().error_code, ErrorCode.GROUP_MAX_SIZE_REACHED)
        one.epoch = 0
        one.beat()


class OffsetTests(StreamsGroupCase):
    """Committed offsets of streams groups."""

    def test_commits(self) -> None:
        """Members commit in their epoch; an earlier one is accepted for tasks that they have had in it."""
        one = self.thread()
        one.beat()
        self.assertEqual(commit(self.client, {("t", 0): 1}), {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID})

        def commits(partition: int, epoch: int, **given: Any) -> int:
            found = commit(self.client, {("t", partition): 1}, generation=epoch, member_id="m1", **given)
            return found["t", partition]

        self.assertEqual(commits(0, one.epoch), ErrorCode.NONE)
        self.assertEqual(commits(0, one.epoch, version=8), ErrorCode.UNSUPPORTED_VERSION)
        self.assertEqual(commits(0, one.epoch + 1), ErrorCode.STALE_MEMBER_EPOCH)
        two = self.thread("m2")
        two.beat()
        one.beat()
        before = one.epoch
        one.active = {"0": [0]}
        one.beat()
        self.assertGreater(one.epoch, before)
        self.assertEqual(commits(0, before), ErrorCode.NONE)
        self.assertEqual(commits(0, before - 1), ErrorCode.STALE_MEMBER_EPOCH)
        self.assertEqual(commits(1, before), ErrorCode.STALE_MEMBER_EPOCH)

        def fetches(member_id: str | None, epoch: int) -> int:
            asked = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
            (found,) = self.client.ask(OffsetFetchRequest(groups=[asked]), 9).groups
            return int(found.error_code)

        self.assertEqual(fetches("m1", one.epoch), ErrorCode.NONE)
        self.assertEqual(fetches("m1", before), ErrorCode.STALE_MEMBER_EPOCH)
        self.assertEqual(fetches("m9", one.epoch), ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(fetches(None, -1), ErrorCode.NONE)
        self.assertEqual(fetches("", -1), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_deletion(self) -> None:
        """Offsets of topics that are read cannot be deleted, and a group with members neither."""
        one = self.thread()
        one.beat()
        commit(self.client, {("t", 0): 1}, generation=one.epoch, member_id="m1")

        def deletes(topic: str) -> Any:
            request = OffsetDeleteRequest(
                group_id="g",
                topics=[
                    OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
                ],
            )
            answer = self.client.ask(request, 0)
            return answer.error_code or answer.topics[0].partitions[0].error_code

        self.client.create("other")
        self.assertEqual(deletes("t"), ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        self.assertEqual(deletes("other"), ErrorCode.NONE)

        def delete_group() -> int:
            return int(self.client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code)

        self.assertEqual(delete_group(), ErrorCode.NON_EMPTY_GROUP)
        one.beat(member_epoch=-1)
        self.assertEqual(deletes("t"), ErrorCode.NONE)
        self.assertEqual(delete_group(), ErrorCode.NONE)
        self.restart()
        self.assertEqual(self.described().error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        other = self.thread(topology=topology(subtopology(source_topics=["other"])))
        other.beat()
        self.assertEqual(other.active, {"0": [0]})

    def test_other_kinds_of_groups(self) -> None:
        """Empty classic groups and streams groups become each other; no group has members of two kinds."""
        commit(self.client, {("t", 0): 5}, group="g")
        one = self.thread()
        one.beat()
        self.assertEqual(one.active, {"0": [0, 1]})
        classic = Member(self.client)
        classic.send_join()
        self.assertEqual(classic.joined().error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        joins = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        self.assertEqual(self.client.ask(joins, 1).error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        one.beat(member_epoch=-1)
        classic.get_id()
        self.assertEqual(self.described().error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        self.restart()
        self.assertEqual(self.described().error_code, ErrorCode.GROUP_ID_NOT_FOUND)

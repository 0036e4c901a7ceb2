"""ShareGroupHeartbeat and ShareGroupDescribe on a complete broker, with a fake share coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed

from logbus.coordination.share_state.share_state import SharePartitionKey, ShareState, StateBatch
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from logbus.wire.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from logbus.wire.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from logbus.wire.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic, DeleteTopicsRequest
from tests.handlers.group_kit import GroupCase, commit
from tests.handlers.kit import Client


@define(eq=False)
class FakePersister:
    """
    The states of share partitions in memory.

    :ivar broken: calls fail with this.
    :ivar held: calls that wait, if it is a list.
    """

    states: dict[tuple[str, int], ShareState] = field(factory=dict)
    broken: ApiError | None = None
    held: list[Deferred[None]] | None = None

    def _at(self, key: SharePartitionKey) -> tuple[str, int]:
        return key.group_id, key.partition

    def _done(self) -> Deferred[None]:
        if self.held is None:
            return succeed(None)
        self.held.append(Deferred())
        return self.held[-1]

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Deferred[None]:
        former = self.states.get(self._at(key))
        if self.broken is not None:
            return fail(self.broken)
        if former is not None and former.state_epoch > state_epoch:
            return fail(ApiError(ErrorCode.FENCED_STATE_EPOCH))
        self.states[self._at(key)] = ShareState(state_epoch, 0, start_offset)
        return self._done()

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Deferred[None]:
        self.states[self._at(key)] = ShareState(
            state_epoch, leader_epoch, start_offset, tuple(batches), delivery_complete_count
        )
        return self._done()

    def summary(self, key: SharePartitionKey) -> Deferred[ShareState]:
        if self.broken is not None:
            return fail(self.broken)
        return succeed(self.states[self._at(key)])

    def delete(self, key: SharePartitionKey) -> Deferred[None]:
        if self.broken is not None:
            return fail(self.broken)
        self.states.pop(self._at(key), None)
        return self._done()


@define(eq=False)
class Consumer:
    """
    A member of a share group.

    :ivar assigned: the partitions of ``t`` that it has; None before it was told.
    """

    client: Client
    member_id: str
    group_id: str = "g"
    epoch: int = 0
    assigned: list[int] | None = None

    def send(self, **given: Any) -> Any:
        """One heartbeat; the answer."""
        request: dict[str, Any] = {"group_id": self.group_id, "member_id": self.member_id, "member_epoch": self.epoch}
        if self.epoch == 0:
            request |= {"subscribed_topic_names": ["t"]}
        return self.client.ask(ShareGroupHeartbeatRequest(**{**request, **given}), 1)

    def heard(self, answer: Any) -> Any:
        """Go by an answer that must be well."""
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = sorted(p for topic in answer.assignment.topic_partitions for p in topic.partitions)
        return answer

    def beat(self, **given: Any) -> Any:
        """One heartbeat that must be well."""
        return self.heard(self.send(**given))


class ShareGroupCase(GroupCase):
    """A broker, and members of share groups."""

    def setUp(self) -> None:
        super().setUp()
        self.persister: Any = FakePersister()
        self.plant()

    def plant(self) -> None:
        self.server.broker.coordinators.share_groups.states.persister = self.persister

    def consumer(self, member_id: str = "m1", **given: Any) -> Consumer:
        return Consumer(self.server.connect(), member_id, **given)

    def described(self, group_id: str = "g", **given: Any) -> Any:
        (found,) = self.client.ask(ShareGroupDescribeRequest(group_ids=[group_id], **given), 1).groups
        return found

    def restart(self) -> None:
        before = self.server
        before.stop()
        self.server = type(before)(self.config, disks=before.disks, ensemble=before.ensemble)
        self.plant()
        self.server.start()
        self.addCleanup(self.server.close)
        self.client = self.server.connect()


class HeartbeatTests(ShareGroupCase):
    """Members come, stay and go."""

    def test_many_partitions(self) -> None:
        """Their states are made some at a time, also where the share coordinator answers at once."""
        self.client.ask(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="t", count=500, assignments=None)], timeout_ms=1000
            ),
            2,
        )
        coordinator = self.server.broker.coordinators.groups
        before = coordinator.slices.slices
        consumer = self.consumer()
        consumer.beat()
        self.assertEqual(len(consumer.assigned or ()), 500)
        self.assertGreaterEqual(coordinator.slices.slices - before, 3)

    def test_join(self) -> None:
        """Who joins has its partitions at once, whose states are there then."""
        one = self.consumer()
        answer = one.beat()
        self.assertEqual((answer.member_id, answer.heartbeat_interval_ms), ("m1", 5000))
        self.assertEqual(one.assigned, [0, 1])
        self.assertEqual(sorted(self.persister.states), [("g", 0), ("g", 1)])
        self.assertEqual({state.start_offset for state in self.persister.states.values()}, {-1})
        self.assertIsNone(one.beat().assignment)
        described = self.described()
        self.assertEqual((described.group_state, described.assignor_name), ("Stable", "simple"))
        (member,) = described.members
        self.assertEqual((member.member_id, member.subscribed_topic_names), ("m1", ["t"]))
        self.assertEqual(
            [(topic.topic_name, topic.partitions) for topic in member.assignment.topic_partitions], [("t", [0, 1])]
        )

    def test_partitions_are_shared(self) -> None:
        """With two members each has one, with three two have the same; one that leaves is not needed for that."""
        one, two, three = (self.consumer(f"m{number}") for number in (1, 2, 3))
        for each in (one, two, one, two):
            each.beat()
        self.assertEqual([one.assigned, two.assigned], [[0], [1]])
        for each in (three, one, two):
            each.beat()
        self.assertEqual(sorted(len(each.assigned or ()) for each in (one, two, three)), [1, 1, 2])
        three.beat(member_epoch=-1)
        for each in (one, two):
            each.beat()
        self.assertEqual([one.assigned, two.assigned], [[0], [1]])
        self.assertEqual(two.send(member_epoch=one.epoch - 1).error_code, ErrorCode.NONE)
        self.assertEqual(two.send(member_epoch=one.epoch - 2).error_code, ErrorCode.FENCED_MEMBER_EPOCH)
        self.assertEqual(two.send(member_epoch=one.epoch + 1).error_code, ErrorCode.FENCED_MEMBER_EPOCH)
        self.assertEqual(three.send(member_epoch=one.epoch).error_code, ErrorCode.UNKNOWN_MEMBER_ID)

    def test_lost_response(self) -> None:
        """Who comes with its previous epoch is told its assignment again."""
        one, two = self.consumer("m1"), self.consumer("m2")
        one.beat()
        two.beat()
        before = one.epoch
        one.beat()
        self.assertEqual(one.assigned, [0])
        again = one.send(member_epoch=before)
        self.assertEqual((again.error_code, again.member_epoch), (0, one.epoch))
        self.assertEqual([topic.partitions for topic in again.assignment.topic_partitions], [[0]])

    def test_states_take_long(self) -> None:
        """The response does not wait for long; the partitions are assigned when their states are there."""
        self.persister.held = []
        one = self.consumer()
        one.client.send(
            ShareGroupHeartbeatRequest(group_id="g", member_id="m1", member_epoch=0, subscribed_topic_names=["t"]),
            1,
        )
        one.client.turn()
        self.assertEqual(one.client.answers(), [])
        self.client.turn(2)
        (answer,) = one.client.answers()
        one.heard(answer)
        self.assertEqual(one.assigned, [])
        one.beat()
        self.assertEqual(one.assigned, [])
        for held in self.persister.held:
            held.callback(None)
        one.client.turn()
        one.beat()
        self.assertEqual(one.assigned, [0, 1])

    def test_join_within_the_interval(self) -> None:
        """Who joins soon after an assignment is answered when there may be another, with its partitions."""
        self.client.turn(10)
        one, two, three = (self.consumer(f"m{number}") for number in (1, 2, 3))
        one.beat()
        for number, each in enumerate((two, three)):
            self.client.turn(0.3)
            each.client.send(
                ShareGroupHeartbeatRequest(
                    group_id="g", member_id=each.member_id, member_epoch=0, subscribed_topic_names=["t"]
                ),
                1,
            )
            self.assertEqual(len(self.described().members), 2 + number)
        self.client.turn(0.3)
        self.assertEqual([*two.client.answers(), *three.client.answers()], [])
        slices = self.server.broker.coordinators.groups.slices
        before = slices.slices
        self.client.turn(0.2)
        for each in (two, three):
            each.heard(*each.client.answers())
        self.assertEqual(slices.slices - before, 2, "each in a turn of its own: there may be hundreds")
        one.beat()
        self.assertEqual(sorted(len(each.assigned or ()) for each in (one, two, three)), [1, 1, 2])
        self.assertEqual(len({each.epoch for each in (one, two, three)}), 1, "one assignment for both")

    def test_long_interval(self) -> None:
        """Nobody waits for it: who joins gets its partitions with a later heartbeat, as in Kafka."""
        changes = [IncrementalAlterableConfig(name="share.assignment.interval.ms", config_operation=0, value="10000")]
        resource = IncrementalAlterConfigsResource(resource_type=32, resource_name="g", configs=changes)
        self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        self.client.turn(10)
        one, two = self.consumer("m1"), self.consumer("m2")
        one.beat()
        two.beat()
        self.assertEqual(two.assigned, [])
        self.client.turn(10)
        two.beat()
        self.assertEqual(two.assigned, [1])

    def test_states_cannot_be_made(self) -> None:
        """The next heartbeat tries again, and so does another broker."""
        self.persister.broken = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody is there")
        one = self.consumer()
        one.beat()
        self.assertEqual(one.assigned, [])
        self.restart()
        self.persister.broken = None
        one.client = self.server.connect()
        one.beat()
        one.beat()
        self.assertEqual(one.assigned, [0, 1])

    def test_states_are_left(self) -> None:
        """States of a former group of the name, whose deletion failed, are replaced; others are not touched."""
        self.persister.states["g", 0] = ShareState(50, 3, 7)
        one = self.consumer()
        one.beat()
        self.assertEqual(one.assigned, [0, 1])
        state = self.persister.states["g", 0]
        self.assertEqual((state.state_epoch, state.start_offset), (51, -1))
        one.beat()
        self.assertGreaterEqual(self.described().group_epoch, 51)

    def test_restart(self) -> None:
        """All is as before after a fail-over, and no state is made anew."""
        one = self.consumer()
        one.beat()
        self.persister.states.clear()
        before = self.described()
        self.restart()
        self.assertEqual(self.described(), before)
        one.client = self.server.connect()
        self.assertIsNone(one.beat().assignment)
        self.assertEqual(self.persister.states, {})

    def test_more_partitions(self) -> None:
        """They are assigned once they have states."""
        one = self.consumer()
        one.beat()
        more = [CreatePartitionsTopic(name="t", count=4, assignments=None)]
        self.client.ask(CreatePartitionsRequest(topics=more, timeout_ms=10, validate_only=False), 3)
        one.beat()
        one.beat()
        self.assertEqual(one.assigned, [0, 1, 2, 3])

    def test_session(self) -> None:
        """Who is silent for the session timeout is removed."""
        one = self.consumer()
        one.beat()
        self.client.turn(44)
        one.beat()
        self.client.turn(44)
        self.assertEqual(len(self.described().members), 1)
        self.client.turn(2)
        self.assertEqual((self.described().members, self.described().group_state), ([], "Empty"))
        self.assertEqual(one.send().error_code, ErrorCode.UNKNOWN_MEMBER_ID)

    def test_invalid(self) -> None:
        """What is wrong whatever the group."""
        one = self.consumer()
        wrong: list[dict[str, Any]] = [
            {"member_id": ""},
            {"member_id": "m" * 37},
            {"group_id": " "},
            {"subscribed_topic_names": None},
            {"subscribed_topic_names": []},
            {"rack_id": ""},
            {"member_epoch": -2},
        ]
        for given in wrong:
            self.assertEqual(one.send(**given).error_code, ErrorCode.INVALID_REQUEST, given)
        self.assertEqual(one.send(member_epoch=1).error_code, ErrorCode.GROUP_ID_NOT_FOUND)

    def test_length_of_a_member_id(self) -> None:
        """Up to 36 characters, whatever their bytes."""
        longest = "\u00fc" * 36
        self.assertEqual(self.consumer().send(member_id=longest).error_code, 0)
        self.assertEqual([member.member_id for member in self.described().members], [longest])


class OtherTypesTests(ShareGroupCase):
    """Groups of other types, and their requests."""

    def test_the_id_of_another_group(self) -> None:
        """A share group does not replace a group, even an empty one, and is not replaced."""
        commit(self.client, {("t", 0): 1}, "classic")
        one = self.consumer(group_id="classic")
        self.assertEqual(one.send().error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        self.assertEqual(self.described("classic").error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        two = self.consumer()
        two.beat()
        for leaves in (False, True):
            if leaves:
                two.beat(member_epoch=-1)
            joining = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="c",
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            self.assertEqual(self.client.ask(joining, 1).error_code, ErrorCode.GROUP_ID_NOT_FOUND)
            (found,) = self.client.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
            self.assertEqual(found.error_code, ErrorCode.GROUP_ID_NOT_FOUND)
            for member_id in ("", "x"):
                member = self.member(member_id=member_id)
                member.send_join()
                self.assertEqual(member.answer().error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            self.assertEqual(self.member(member_id="x").heartbeat(), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_leave_by_the_other_protocol(self) -> None:
        """LeaveGroup does not know the members; from version 3 on that is said for each."""
        self.consumer().beat()
        member = self.member(member_id="m1")
        self.assertEqual(member.leave(2).error_code, ErrorCode.UNKNOWN_MEMBER_ID)
        for version in (3, 4, 5):
            answer = member.leave(version)
            self.assertEqual((answer.error_code, len(answer.members)), (0, 1))
            self.assertEqual(answer.members[0].error_code, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(len(self.described().members), 1)

    def test_list(self) -> None:
        """ListGroups shows and filters them."""
        self.consumer().beat()
        (listed,) = self.listed(types_filter=["Share"])
        self.assertEqual(
            (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type),
            ("g", "share", "Stable", "share"),
        )
        self.assertEqual(self.listed(types_filter=["consumer"]), [])
        self.assertEqual(self.client.ask(ListGroupsRequest(states_filter=["Empty"]), 5).groups, [])

    def test_delete(self) -> None:
        """A group without members can be deleted, with the states of its partitions."""
        one = self.consumer()
        one.beat()

        def delete() -> int:
            (result,) = self.client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
            return int(result.error_code)

        self.assertEqual(delete(), ErrorCode.NON_EMPTY_GROUP)
        self.assertEqual(len(self.persister.states), 2)
        one.beat(member_epoch=-1)
        self.persister.broken = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody is there")
        self.assertEqual(delete(), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(self.described().group_state, "Empty")
        self.persister.broken = None
        self.assertEqual(delete(), 0)
        self.assertEqual(self.persister.states, {})
        self.assertEqual(self.described().error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        self.restart()
        self.assertEqual(self.described().error_code, ErrorCode.GROUP_ID_NOT_FOUND)


class OffsetsTests(ShareGroupCase):
    """Where groups are, and where they are to go on."""

    def offsets(
        self, group_id: str = "g", version: int = 1, **topics: list[int]
    ) -> dict[tuple[str, int], tuple[int, int, int]]:
        """Start offset, lag and error by topic and partition; without topics, all."""
        asked = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
            for name, numbers in topics.items()
        ]
        group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=asked or None)
        (found,) = self.client.ask(DescribeShareGroupOffsetsRequest(groups=[group]), version).groups
        assert found.error_code == 0, found
        return {
            (topic.topic_name, each.partition_index): (each.start_offset, each.lag, each.error_code)
            for topic in found.topics
            for each in topic.partitions
        }

    def alter(self, group_id: str = "g", /, **topics: dict[int, int]) -> Any:
        """Set start offsets; the error of the group, or those of the partitions."""
        asked = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
                    for number, offset in starts.items()
                ],
            )
            for name, starts in topics.items()
        ]
        answer = self.client.ask(AlterShareGroupOffsetsRequest(group_id=group_id, topics=asked), 0)
        return answer.error_code or {
            (topic.topic_name, each.partition_index): each.error_code
            for topic in answer.responses
            for each in topic.partitions
        }

    def delete(self, *topics: str, group_id: str = "g") -> Any:
        """Delete offsets; the error of the group, or those of the topics."""
        asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
        answer = self.client.ask(DeleteShareGroupOffsetsRequest(group_id=group_id, topics=asked), 0)
        return answer.error_code or {topic.topic_name: topic.error_code for topic in answer.responses}

    def test_describe(self) -> None:
        """Start offsets and lags, with none of what has no state."""
        for _ in range(3):
            self.client.produce()
        self.consumer().beat()
        self.persister.states["g", 0] = ShareState(1, 0, 1, (), 1)
        self.assertEqual(self.offsets(), {("t", 0): (1, 1, 0), ("t", 1): (-1, -1, 0)})
        self.assertEqual(self.offsets(version=0), {("t", 0): (1, -1, 0), ("t", 1): (-1, -1, 0)})
        self.assertEqual(
            self.offsets(t=[0, 7], none=[0]), {("none", 0): (-1, -1, 0), ("t", 0): (1, 1, 0), ("t", 7): (-1, -1, 0)}
        )
        self.assertEqual(self.offsets("none"), {})
        self.assertEqual(self.offsets("none", t=[0]), {("t", 0): (-1, -1, 0)})
        self.persister.broken = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(self.offsets(t=[0]), {("t", 0): (-1, -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)})

    def test_alter(self) -> None:
        """Only of a group without members; with a higher state epoch, so that leaders notice."""
        one = self.consumer()
        one.beat()
        before = self.persister.states["g", 0].state_epoch
        self.assertEqual(self.alter(t={0: 5}), ErrorCode.NON_EMPTY_GROUP)
        one.beat(member_epoch=-1)
        for start in (5, 6):
            self.assertEqual(
                self.alter(t={0: start, 1: -7, 9: 1}, none={0: 1}),
                {
                    ("t", 0): 0,
                    ("t", 1): ErrorCode.INVALID_REQUEST,
                    ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                },
            )
            state = self.persister.states["g", 0]
            self.assertEqual(state.start_offset, start)
            self.assertGreater(state.state_epoch, before)
            before = state.state_epoch
        self.assertEqual(self.alter(""), ErrorCode.INVALID_GROUP_ID)

    def test_alter_a_new_group(self) -> None:
        """It is made, and begins there when members come."""
        arrivals = self.server.broker.coordinators.groups.arrivals
        for _ in range(2):
            self.assertEqual(self.alter(t={0: 5}), {("t", 0): 0})
            self.assertEqual(arrivals.since_start, 1)
        self.assertEqual(self.described().group_state, "Empty")
        self.assertEqual(self.offsets(), {("t", 0): (5, -1, 0)})
        self.restart()
        one = self.consumer()
        one.beat()
        self.assertEqual(one.assigned, [0, 1])
        self.assertEqual([self.persister.states["g", number].start_offset for number in (0, 1)], [5, -1])

    def test_alter_another_group(self) -> None:
        """Groups of other types have other offsets."""
        commit(self.client, {("t", 0): 1}, "classic")
        self.assertEqual(self.alter("classic", t={0: 5}), ErrorCode.GROUP_ID_NOT_FOUND)
        self.assertEqual(self.delete("t", group_id="classic"), ErrorCode.GROUP_ID_NOT_FOUND)
        self.assertEqual(self.delete("t", group_id="none"), ErrorCode.GROUP_ID_NOT_FOUND)

    def test_delete(self) -> None:
        """The states are gone; members that come begin anew."""
        one = self.consumer()
        one.beat()
        self.assertEqual(self.delete("t"), ErrorCode.NON_EMPTY_GROUP)
        one.beat(member_epoch=-1)
        self.assertEqual(self.delete("t", "none"), {"t": 0, "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        self.assertEqual((self.persister.states, self.offsets()), ({}, {}))
        self.assertEqual(self.delete("t"), {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        two = self.consumer("m2")
        two.beat()
        self.assertEqual((two.assigned, len(self.persister.states)), ([0, 1], 2))

    def test_interrupted_deletion(self) -> None:
        """The partitions are not assigned until it is over; heartbeats go on with it."""
        one = self.consumer()
        one.beat()
        one.beat(member_epoch=-1)
        self.persister.broken = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(self.delete("t"), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        two = self.consumer("m2")
        two.beat()
        self.assertEqual(two.assigned, [])
        self.persister.broken = None
        two.beat()
        two.beat()
        two.beat()
        self.assertEqual(two.assigned, [0, 1])

    def test_deletion_by_the_next_broker(self) -> None:
        """It goes on with it as soon as it has loaded the group."""
        one = self.consumer()
        one.beat()
        one.beat(member_epoch=-1)
        self.persister.broken = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(self.delete("t"), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.persister.broken = None
        self.restart()
        self.assertEqual((self.persister.states, self.offsets()), ({}, {}))

    def test_deleted_topic(self) -> None:
        """Its states go with it; a new one of its name is another one."""
        one = self.consumer()
        one.beat()
        self.client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=10), 5)
        self.client.turn()
        self.assertEqual(self.persister.states, {})
        one.beat()
        self.assertEqual(one.assigned, [])
        self.server.create("t", 1)
        one.beat()
        one.beat()
        self.assertEqual((one.assigned, sorted(self.persister.states)), ([0], [("g", 0)]))

"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on a complete broker."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from logbus.errors import ErrorCode
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from logbus.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from logbus.wire.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from logbus.wire.messages.partitions import TopicIdPartitions, TopicPartitions
from logbus.wire.schema import decode_versioned, encode_versioned
from tests.handlers.group_kit import GroupCase, Member, commit
from tests.handlers.kit import Client

SUBSCRIPTION = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 1)


@define(eq=False)
class Consumer:
    """
    A member of the consumer protocol that does at once what it is told.

    :ivar assigned: the partitions of ``t`` it reads; None before it was told.
    """

    client: Client
    member_id: str
    group_id: str = "g"
    epoch: int = 0
    assigned: list[int] | None = None
    topic_id: bytes = field(default=b"")

    def send(self, **given: Any) -> Any:
        """One heartbeat; the answer."""
        request: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
        }
        if self.epoch == 0:
            request |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        elif self.assigned:
            owned = TopicIdPartitions(topic_id=self.topic_id, partitions=self.assigned)
            request["topic_partitions"] = [owned]
        else:
            request["topic_partitions"] = []
        return self.client.ask(ConsumerGroupHeartbeatRequest(**{**request, **given}), 1)

    def beat(self, **given: Any) -> Any:
        """One heartbeat that must be well."""
        answer = self.send(**given)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = sorted(p for topic in answer.assignment.topic_partitions for p in topic.partitions)
            for topic in answer.assignment.topic_partitions:
                self.topic_id = topic.topic_id
        return answer


class ConsumerGroupCase(GroupCase):
    """A broker, and members of both protocols."""

    def consumer(self, member_id: str = "m1", **given: Any) -> Consumer:
        return Consumer(self.server.connect(), member_id, **given)

    def described(self, group_id: str = "g", version: int = 1, **given: Any) -> Any:
        (found,) = self.client.ask(ConsumerGroupDescribeRequest(group_ids=[group_id], **given), version).groups
        return found

    def type_of(self, group_id: str = "g") -> tuple[str, str]:
        groups = self.client.ask(ListGroupsRequest(), 5).groups
        return next((group.group_type, group.group_state) for group in groups if group.group_id == group_id)

    def classic(self, **given: Any) -> Member:
        """A consumer of the classic protocol that has joined; it is to sync."""
        member = self.member(**given)
        self.rejoin(member)
        return member

    def rejoin(self, member: Member) -> Any:
        if not member.member_id:
            member.send_join(protocols={"range": SUBSCRIPTION})
            assert member.joined().error_code == ErrorCode.MEMBER_ID_REQUIRED
        member.send_join(protocols={"range": SUBSCRIPTION})
        joined = member.joined()
        assert joined.error_code == 0, joined
        return joined

    def assignment(self, member: Member) -> list[int]:
        """The assignment of a classic member, by SyncGroup."""
        member.send_sync()
        answer = member.answer()
        assert answer.error_code == 0, answer
        assigned, _ = decode_versioned(ConsumerProtocolAssignment, answer.assignment)
        return [p for topic in assigned.assigned_partitions for p in topic.partitions]


class HeartbeatTests(ConsumerGroupCase):
    """Members join, share partitions, and leave."""

    def test_two_members(self) -> None:
        """Each has its half, and commits with an epoch since which it has had that."""
        a, b = self.consumer("a"), self.consumer("b")
        a.beat()
        self.assertEqual(a.assigned, [0, 1])
        b.beat()
        for _ in range(3):
            a.beat()
            b.beat()
        self.assertEqual((a.assigned, b.assigned), ([0], [1]))
        self.assertEqual(commit(a.client, {("t", 0): 5}, generation=a.epoch, member_id="a"), {("t", 0): 0})
        before = {"generation": a.epoch - 1, "member_id": "a"}
        self.assertEqual(commit(a.client, {("t", 0): 6}, **before), {("t", 0): 0})
        self.assertEqual(commit(a.client, {("t", 1): 6}, **before), {("t", 1): ErrorCode.STALE_MEMBER_EPOCH})
        both = commit(a.client, {("t", 0): 7, ("t", 1): 7}, **before)
        self.assertEqual(set(both.values()), {ErrorCode.STALE_MEMBER_EPOCH}, "all or none")
        self.assertEqual(self.type_of(), ("consumer", "Stable"))

    def test_settings_of_a_group(self) -> None:
        """A group's settings take effect with the next heartbeats of its members, and only in this group."""
        a, other = self.consumer("a"), self.consumer("b", group_id="other")
        self.assertEqual((a.beat().heartbeat_interval_ms, other.beat().heartbeat_interval_ms), (5000, 5000))
        given = {"consumer.heartbeat.interval.ms": "9000", "consumer.session.timeout.ms": "60000"}
        changes = [IncrementalAlterableConfig(name=k, config_operation=0, value=v) for k, v in given.items()]
        resource = IncrementalAlterConfigsResource(resource_type=32, resource_name="g", configs=changes)
        self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        self.assertEqual((a.beat().heartbeat_interval_ms, other.beat().heartbeat_interval_ms), (9000, 5000))
        self.client.turn(50)
        # The other group's member was silent for more than 45 s.
        self.assertEqual(a.beat().error_code, 0)
        self.assertEqual(other.send().error_code, ErrorCode.UNKNOWN_MEMBER_ID)
        self.client.turn(61)
        self.assertEqual(a.send().error_code, ErrorCode.UNKNOWN_MEMBER_ID)

    def test_refusals(self) -> None:
        """Wrong requests are answered with an error and a sentence."""
        for group_id, given, code in (
            ("", {}, ErrorCode.INVALID_REQUEST),
            ("g", {"member_epoch": 3}, ErrorCode.GROUP_ID_NOT_FOUND),
            ("g", {"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
            ("g", {"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
            ("g", {"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ):
            answer = self.consumer(group_id=group_id).send(**given)
            self.assertEqual(answer.error_code, code, answer)
            self.assertTrue(answer.error_message)
        self.assertEqual(self.client.ask(ListGroupsRequest(), 5).groups, [])

    def test_expiration_and_deletion(self) -> None:
        """A silent member is removed after its session timeout; then the group can be deleted."""
        self.consumer().beat()
        delete = DeleteGroupsRequest(groups_names=["g"])
        self.assertEqual(self.client.ask(delete, 2).results[0].error_code, ErrorCode.NON_EMPTY_GROUP)
        self.client.turn(46)
        self.assertEqual(self.type_of(), ("consumer", "Empty"))
        self.assertEqual(self.client.ask(delete, 2).results[0].error_code, 0)
        self.assertEqual(self.described().error_code, ErrorCode.GROUP_ID_NOT_FOUND)

    def test_described(self) -> None:
        """Subscriptions, assignments and targets of members are described."""
        self.consumer("a").beat()
        self.consumer("b").beat(rack_id="r")
        found = self.described(include_authorized_operations=True)
        self.assertEqual((found.error_code, found.group_state, found.group_epoch), (0, "Reconciling", 2))
        self.assertEqual((found.assignment_epoch, found.assignor_name), (2, "uniform"))
        a, b = found.members
        self.assertEqual((a.member_epoch, b.member_epoch, b.rack_id, b.member_type), (1, 2, "r", 1))
        self.assertEqual([(p.topic_name, p.partitions) for p in a.assignment.topic_partitions], [("t", [0, 1])])
        self.assertEqual([p.partitions for p in a.target_assignment.topic_partitions], [[0]])
        self.assertEqual((b.assignment.topic_partitions, b.subscribed_topic_names), ([], ["t"]))
        self.assertEqual(self.described("none").error_code, ErrorCode.GROUP_ID_NOT_FOUND)

    def test_new_partitions(self) -> None:
        """A topic that comes is given out at the next heartbeat."""
        consumer = self.consumer()
        consumer.beat(subscribed_topic_names=["t", "later"])
        self.server.create("later", 3)
        self.assertEqual(len(consumer.beat().assignment.topic_partitions), 2)


class MigrationTests(ConsumerGroupCase):
    """Online migration of groups between the protocols."""

    def test_migration(self) -> None:
        """A classic group takes in a member of the consumer protocol, and is classic again when that leaves."""
        old = self.classic()
        old.send_sync({old.member_id: assigned(0, 1)})
        self.assertEqual(old.answer().error_code, 0)
        new = self.consumer("new")
        new.beat()
        self.assertEqual((self.type_of()[0], new.assigned), ("consumer", []))
        self.assertEqual(old.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)
        self.rejoin(old)
        (kept,) = self.assignment(old)
        self.assertEqual(old.heartbeat(), 0)
        new.beat()
        self.assertEqual(new.assigned, [1 - kept])
        self.assertEqual(old.commit(3, kept), 0)
        described = {member.member_id: member.member_type for member in self.described().members}
        self.assertEqual(described, {old.member_id: 0, "new": 1})
        new.send(member_epoch=-1)
        self.assertEqual(self.type_of()[0], "classic")
        self.assertEqual(old.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertEqual(old.commit(4, kept), 0, "what it has read until now")
        old.send_join(protocols={"range": SUBSCRIPTION})
        self.assertTrue(old.joined().error_code == 0 and old.leads)

    def test_leaving_classic_member(self) -> None:
        """A classic member that leaves a group of both makes room."""
        old = self.classic()
        old.send_sync({old.member_id: assigned(0, 1)})
        old.answer()
        new = self.consumer("new")
        new.beat()
        old.leave()
        new.beat()
        self.assertEqual(new.assigned, [0, 1])

    def test_removed_members(self) -> None:
        """LeaveGroup, which an administrator's client sends, removes members that use the consumer protocol."""
        for version in (2, 3, 5):
            one, static = self.consumer("one"), self.consumer("static")
            one.beat(), static.beat(instance_id="i"), one.beat(), static.beat(instance_id="i")
            remover = self.member(member_id="one")
            self.assertEqual(remover.leave(version).error_code, 0)
            self.assertEqual([member.member_id for member in self.described().members], ["static"])
            self.assertEqual(one.send().error_code, ErrorCode.UNKNOWN_MEMBER_ID)
            self.client.turn(2)
            static.beat(instance_id="i")
            self.assertEqual(static.assigned, [0, 1])
            remover = self.member(member_id="static", instance_id="i" if version >= 3 else None)
            self.assertEqual(remover.leave(version).error_code, 0)
            self.assertEqual((self.described().group_state, self.described().members), ("Empty", []))
            again = remover.leave(version)
            found = again.members[0].error_code if version >= 3 else again.error_code
            self.assertEqual(found, ErrorCode.UNKNOWN_MEMBER_ID)

    def test_removed_last_member_of_the_consumer_protocol(self) -> None:
        """A group in which only classic members are left is classic again."""
        old = self.classic()
        old.send_sync({old.member_id: assigned(0, 1)})
        old.answer()
        self.consumer("new").beat()
        self.assertEqual(self.member(member_id="new").leave().members[0].error_code, 0)
        self.assertEqual(self.type_of()[0], "classic")
        old.send_join(protocols={"range": SUBSCRIPTION})
        self.assertTrue(old.joined().error_code == 0 and old.leads)

    def test_classic_member_while_an_assignment_waits(self) -> None:
        """It is told to join again when there is something to join for, not before."""
        self.client.turn(10)
        old = self.classic()
        old.send_sync({old.member_id: assigned(0, 1)})
        old.answer()
        new, other = self.consumer("new"), self.consumer("other")
        new.beat()
        self.rejoin(old)
        (kept,) = self.assignment(old)
        other.beat()
        self.assertEqual(self.type_of(), ("consumer", "Assigning"))
        self.assertEqual(old.heartbeat(), 0)
        self.rejoin(old)
        self.assertEqual(self.assignment(old), [kept])
        self.client.turn(1)
        self.assertEqual(old.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)
        self.rejoin(old)
        self.assertEqual(self.type_of(), ("consumer", "Reconciling"))

    def test_unreadable(self) -> None:
        """A group whose members say something else than consumers do stays classic."""
        self.group_of(self.member())
        self.assertEqual(self.consumer("new").send().error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        self.assertEqual(self.type_of(), ("classic", "Stable"))

    def test_empty_groups_are_replaced(self) -> None:
        """A group without members takes the protocol of who comes."""
        new = self.consumer("new")
        new.beat()
        new.send(member_epoch=-1)
        old = self.classic()
        self.assertEqual(self.type_of()[0], "classic")
        old.send_sync({old.member_id: assigned(0)})
        old.answer()
        old.leave()
        self.consumer("other").beat()
        self.assertEqual(self.type_of(), ("consumer", "Stable"))


class AdvertisedTests(ConsumerGroupCase):
    """Advertised versions and features."""

    def test_feature(self) -> None:
        """ApiVersions names the APIs and the finalized feature; that it may be off is for version 4 only."""
        for version in (3, 4):
            request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
            answer = self.client.ask(request, version)
            told = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
            self.assertEqual((told[68], told[69]), ((0, 1), (0, 1)))
            levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
            self.assertEqual(levels["group.version"], 1)
            self.assertEqual("group.version" in {feature.name for feature in answer.supported_features}, version == 4)


class ClassicOnlyTests(ConsumerGroupCase):
    """A broker without the protocol."""

    config = {**GroupCase.config, "group.coordinator.rebalance.protocols": "classic"}

    def test_off(self) -> None:
        """A disabled protocol is neither advertised nor served."""
        answer = self.client.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
        self.assertFalse({68, 69} & {key.api_key for key in answer.api_keys})
        for features in (answer.finalized_features, answer.supported_features):
            self.assertNotIn("group.version", {feature.name for feature in features})


class DisabledMigrationTests(ConsumerGroupCase):
    """A broker whose groups keep their protocol."""

    config = {**GroupCase.config, "group.consumer.migration.policy": "disabled"}

    def test_disabled(self) -> None:
        """A group with members is not found by the other protocol; members of both may meet in a consumer group."""
        old = self.classic()
        self.assertEqual(self.consumer("new").send().error_code, ErrorCode.GROUP_ID_NOT_FOUND)
        self.assertEqual(self.described().error_message, "the group 'g' uses the classic protocol")
        old.leave()
        new = self.consumer("new")
        new.beat()
        self.classic()
        new.send(member_epoch=-1)
        self.assertEqual(self.type_of()[0], "consumer")


def assigned(*partitions: int) -> bytes:
    """An assignment of partitions of ``t``, as a leader spells it."""
    named = TopicPartitions(topic="t", partitions=list(partitions))
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[named]), 1)

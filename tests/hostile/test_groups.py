"""Invalid group requests: each gets the right error, and has no effect."""

from __future__ import annotations

from typing import Any

from logbus.coordination.consumer.heartbeat import MAX_SUBSCRIBED_TOPICS
from logbus.coordination.consumer.target_assignment import MAX_EXPRESSIONS
from logbus.errors import LONGEST_MESSAGE, ErrorCode
from logbus.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from logbus.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from logbus.wire.messages.partitions import TopicIdPartitions, TopicPartitionIndexes
from tests.handlers.group_kit import GroupCase, Member, commit, fetch_committed
from tests.hostile.log_capture import logged

T0 = ("t", 0)


class ConsumerProtocolTests(GroupCase):
    """Heartbeats of the consumer protocol that no honest member sends."""

    def beat(self, group_id: str = "g", member_id: str = "m", epoch: int = 0, **given: Any) -> Any:
        request: dict[str, Any] = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch}
        if epoch == 0:
            request |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        return self.client.ask(ConsumerGroupHeartbeatRequest(**{**request, **given}), 1)

    def members(self, group_id: str = "g") -> int:
        group: Any = self.server.broker.coordinators.groups.group(group_id)
        return len(group.recorded.members)

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.server.reactor.advance(1)

    def test_long_names(self) -> None:
        """Names of the protocol's maximum length are accepted or refused; a response that quotes them has room."""
        for what in ("member_id", "instance_id", "rack_id", "server_assignor", "subscribed_topic_regex"):
            answer = self.beat(f"g-{what}", **{what: "\U0010fffe" * 8191})
            refused = {
                "server_assignor": ErrorCode.UNSUPPORTED_ASSIGNOR,
                "subscribed_topic_regex": ErrorCode.INVALID_REGULAR_EXPRESSION,
            }.get(what, ErrorCode.NONE)
            self.assertEqual(answer.error_code, refused, what)
            self.assertLess(len(answer.error_message or ""), LONGEST_MESSAGE + 100)
        self.assertEqual(self.server.broker.kafka_server.net_metrics.failures, 0)

    def test_epochs(self) -> None:
        """Epochs that the member is not in, or that there cannot be."""
        self.assertEqual(self.beat().error_code, 0)
        for epoch, code in (
            (2, ErrorCode.FENCED_MEMBER_EPOCH),
            (2**31 - 1, ErrorCode.FENCED_MEMBER_EPOCH),
            (-2, ErrorCode.INVALID_REQUEST),
            (-3, ErrorCode.INVALID_REQUEST),
            (-(2**31), ErrorCode.INVALID_REQUEST),
        ):
            self.assertEqual(self.beat(epoch=epoch).error_code, code, epoch)
        self.assertEqual(self.beat(epoch=1).error_code, 0)

    def test_claims_of_foreign_partitions(self) -> None:
        """Partitions that a member claims to own move none: those of others, unknown ones, negative ones."""
        first = self.beat(member_id="a")
        other = self.beat(member_id="b")
        topic_id = first.assignment.topic_partitions[0].topic_id
        for partitions in ([0, 1], [-1, -(2**31)], [2**31 - 1]):
            for owned in (topic_id, bytes(16), b"\xff" * 16):
                claim = [TopicIdPartitions(topic_id=owned, partitions=partitions)]
                told = self.beat(member_id="b", epoch=other.member_epoch, topic_partitions=claim)
                self.assertEqual(told.error_code, 0)
                self.assertFalse(told.assignment and told.assignment.topic_partitions)
        # The first one gives up one partition, when it says so.
        self.beat(member_id="a", epoch=1)
        kept = [TopicIdPartitions(topic_id=topic_id, partitions=[0])]
        self.beat(member_id="a", epoch=1, topic_partitions=kept)
        told = self.beat(member_id="b", epoch=other.member_epoch)
        self.assertEqual([one.partitions for one in told.assignment.topic_partitions], [[1]])

    def test_rebalance_timeouts(self) -> None:
        """0 is no time at all, and 2^31-1 a long one; a member that joins must say one that is not negative."""
        for timeout_ms in (-1, -5, -(2**31)):
            answer = self.beat(rebalance_timeout_ms=timeout_ms)
            self.assertEqual(answer.error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.beat("hasty", "a", rebalance_timeout_ms=0).error_code, 0)
        self.assertEqual(self.beat("patient", "a", rebalance_timeout_ms=2**31 - 1).error_code, 0)
        for group_id in ("hasty", "patient"):
            self.assertEqual(self.beat(group_id, "b").error_code, 0)
            self.assertEqual(self.beat(group_id, "a", 1).member_epoch, 1, "it is to give up a partition")
        self.pass_time(1)
        self.assertEqual((self.members("hasty"), self.members("patient")), (1, 2))
        self.pass_time(60)
        self.assertEqual((self.members("hasty"), self.members("patient")), (0, 0))

    def test_silence_before_a_long_timeout(self) -> None:
        """A member that may take 24 days to give up a partition, and is not heard of, keeps no timer."""
        self.assertEqual(self.beat(member_id="a", rebalance_timeout_ms=2**31 - 1).error_code, 0)
        self.assertEqual(self.beat(member_id="b").error_code, 0)
        self.assertEqual(self.beat(member_id="a", epoch=1).member_epoch, 1, "it is to give up a partition")
        self.pass_time(50)
        self.assertEqual(self.members(), 0)
        self.assertEqual(len(self.server.broker.coordinators.groups.manager._timers), 0)

    def test_huge_subscriptions(self) -> None:
        """Data too large for one record is refused, and leaves no group; too many elements close the connection."""
        answer = self.beat(subscribed_topic_names=[f"{'a' * 200}-{n}" for n in range(9_000)])
        self.assertEqual(answer.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.assertEqual(self.listed(), [])
        too_many = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"] * 100_001
        )
        self.client.send(too_many, 1)
        self.assertTrue(self.client.closed)

    def test_expressions(self) -> None:
        """Those that other engines need ages for cost nothing, those that are costly here are refused."""
        self.server.create("a" * 200, 1)
        self.assertEqual(self.beat(subscribed_topic_regex="(a+)+$").error_code, 0)
        for costly in ("(.*){300}" * 13, r"\pN" * 600, "a" * 32_000, "(a{1000}){1000}"):
            answer = self.beat("other", subscribed_topic_regex=costly)
            self.assertEqual(answer.error_code, ErrorCode.INVALID_REGULAR_EXPRESSION, costly[:20])

    def test_very_many_expressions(self) -> None:
        """A group has so many different ones, as each must be looked at when a topic is made."""
        for n in range(MAX_EXPRESSIONS):
            answer = self.beat(member_id=f"m{n}", subscribed_topic_regex=f"t{n}.*", subscribed_topic_names=None)
            self.assertEqual(answer.error_code, 0)
        answer = self.beat(member_id="more", subscribed_topic_regex="x.*", subscribed_topic_names=None)
        self.assertEqual(answer.error_code, ErrorCode.INVALID_REGULAR_EXPRESSION)
        self.assertEqual(self.members(), MAX_EXPRESSIONS)
        # One that is used already is not one more, and where one goes there is room for another.
        self.assertEqual(self.beat(member_id="same", subscribed_topic_regex="t1.*").error_code, 0)
        self.assertEqual(self.beat(member_id="m0", epoch=-1).error_code, 0)
        self.assertEqual(self.beat(member_id="more", subscribed_topic_regex="x.*").error_code, 0)

    def test_many_vanish_at_once(self) -> None:
        """Members whose removal takes more than one batch to write are removed all the same."""
        for n in range(40):
            self.assertEqual(self.beat(member_id=f"{n}-" + "x" * 30_000).error_code, 0)
        self.pass_time(50)
        self.assertEqual(self.members(), 0)
        self.assertEqual(len(self.server.broker.coordinators.groups.manager._timers), 0)
        self.restart()
        self.assertEqual(self.members(), 0)
        self.assertEqual(self.beat(member_id="honest").error_code, 0)

    def test_vanishing_members(self) -> None:
        """Members that join and are never heard of again leave nothing; others are served meanwhile."""
        self.assertEqual(self.beat("honest", "a").error_code, 0)
        for n in range(2000):
            if n % 40 == 39:
                self.pass_time(5)
                self.assertEqual(self.beat("honest", "a", 1).error_code, 0)
            self.assertEqual(self.beat("g", f"m{n}").error_code, 0)
        self.pass_time(50)
        self.assertEqual(self.members(), 0)
        coordinator = self.server.broker.coordinators.groups
        self.assertEqual(len(coordinator.manager._timers), 0)
        self.assertEqual(self.beat("g", "late").error_code, 0)


class OffsetTests(GroupCase):
    """Commits and fetches at the ends of their types."""

    def test_endless_retention(self) -> None:
        """A retention beyond the end of time lasts until then."""
        for retention_ms in (2**63 - 1, 2**62, 0, -1, -(2**63)):
            codes = commit(self.client, {T0: 5}, version=4, retention_time_ms=retention_ms)
            self.assertEqual(codes, {T0: 0}, retention_ms)
        commit(self.client, {T0: 6}, version=4, retention_time_ms=2**63 - 1)
        self.assertEqual(fetch_committed(self.client), {T0: 6})
        self.restart()
        self.assertEqual(fetch_committed(self.client), {T0: 6})

    def test_repeated_partitions(self) -> None:
        """The answer to a small request is small: each offset is in it once, however often it is asked for."""
        commit(self.client, {T0: 5}, metadata="m" * 4000)
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0] * 100)] * 100
        for asked in (
            [OffsetFetchRequestGroup(group_id="g", topics=None)] * 5000,
            [OffsetFetchRequestGroup(group_id="g", topics=topics)],
            [OffsetFetchRequestGroup(group_id="g", topics=topics[:1])] * 100,
        ):
            (group,) = self.client.ask(OffsetFetchRequest(groups=asked), 9).groups
            (topic,) = group.topics
            self.assertEqual([one.committed_offset for one in topic.partitions], [5])
        old = OffsetFetchRequest(
            group_id="g", topics=[TopicPartitionIndexes(name="t", partition_indexes=[0] * 10)] * 10
        )
        (topic,) = self.client.ask(old, 7).topics
        self.assertEqual(len(topic.partitions), 1)


class ManyGroupsTests(GroupCase):
    """Clients that think of a new group with each request."""

    config = {**GroupCase.config, "group.max.count": "20"}

    def test_group_limit(self) -> None:
        """The number of groups is limited over all clients; existing ones go on, others when there is room."""
        self.assertEqual(commit(self.client, {T0: 1}, "honest"), {T0: 0})
        with logged() as lines:
            for n in range(40):
                member = self.member(f"g{n}")
                member.send_join()
                code = ErrorCode.MEMBER_ID_REQUIRED if n < 19 else ErrorCode.COORDINATOR_NOT_AVAILABLE
                self.assertEqual(member.joined().error_code, code, n)
            full = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self.assertEqual(commit(self.client, {T0: 1}, "more"), {T0: full})
            beat = ConsumerGroupHeartbeatRequest(
                group_id="more",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=1,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            self.assertEqual(self.client.ask(beat, 1).error_code, full)
        self.assertEqual(len([line for line in lines if "group.max.count" in line]), 1)
        self.assertEqual(commit(self.client, {T0: 2}, "honest"), {T0: 0})
        self.server.reactor.advance(11)
        self.assertEqual(self.client.ask(beat, 1).error_code, 0)
        self.assertEqual(len(self.server.broker.coordinators.groups.groups()), 2)


class ManyTopicsTests(GroupCase):
    """A member that names very many topics."""

    def test_a_subscription_is_bounded(self) -> None:
        """
        A member may name so many topics, and not more.
        """
        for count, code in ((MAX_SUBSCRIBED_TOPICS + 1, ErrorCode.INVALID_REQUEST), (MAX_SUBSCRIBED_TOPICS, 0)):
            beat = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[f"n{number}" for number in range(count)],
                topic_partitions=[],
            )
            self.assertEqual(self.client.ask(beat, 1).error_code, code)


class MuchMetadataTests(GroupCase):
    """Clients whose members send much metadata, in ever more groups."""

    config = {**GroupCase.config, "group.members.max.bytes": str(5_000_000)}

    def join(self, group: str, size: int) -> Member:
        """A member of the classic protocol that brings so many bytes; one of before version 4 needs no id."""
        member = self.member(group, session_timeout_ms=300_000)
        member.send_join(version=3, protocols={"range": b"m" * size})
        self.server.reactor.advance(4)
        return member

    def used(self) -> int:
        """What all groups keep, as they say themselves."""
        return sum(group.memory for group in self.server.broker.coordinators.groups.groups())

    def test_member_memory_limit(self) -> None:
        """
        What members tell is bounded over all groups: those that find no room get a retriable error, and the log says
        it once; when members go, there is room for others.
        """
        members = []
        with logged() as lines:
            for n in range(8):
                member = self.join(f"hog{n}", 1_000_000)
                expected = ErrorCode.NONE if n < 4 else ErrorCode.COORDINATOR_NOT_AVAILABLE
                self.assertEqual(member.joined().error_code, expected, n)
                members.append(member)
        self.assertEqual(len([line for line in lines if "group.members.max.bytes" in line]), 1)
        self.assertLess(self.used(), 5_000_000)
        # One that is there may go on, and join again with what it brought.
        members[0].send_join(version=3, protocols={"range": b"m" * 1_000_000})
        self.server.reactor.advance(4)
        self.assertEqual(members[0].joined().error_code, 0)
        members[1].leave(version=2)
        self.server.reactor.advance(2)
        self.assertEqual(self.join("honest", 1_000_000).joined().error_code, 0)

    def test_members_of_the_consumer_protocol(self) -> None:
        """
        Subscriptions of the consumer protocol count, too.
        """
        codes = []
        for n in range(12):
            beat = ConsumerGroupHeartbeatRequest(
                group_id=f"g{n}",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[f"{number:05}" + "t" * 240 for number in range(3000)],
                topic_partitions=[],
            )
            codes.append(self.client.ask(beat, 1).error_code)
        fit = codes.count(0)
        self.assertEqual(codes, [0] * fit + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * (12 - fit))
        self.assertTrue(4 <= fit <= 6, fit)
        self.assertLess(self.used(), 5_000_000)

    def test_groups_count_after_a_restart(self) -> None:
        """Loaded groups count for the memory limit."""
        for n in range(4):
            member = self.join(f"hog{n}", 1_000_000)
            self.assertEqual(member.joined().error_code, 0)
            member.send_sync({member.member_id: b""})
            member.answer()
        self.restart()
        self.assertGreater(self.used(), 4_000_000)
        full = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.assertEqual(self.join("more", 1_000_000).joined().error_code, full)


class ManyIdsTests(GroupCase):
    """Clients that are given an id, and do not come back with it."""

    config = {**GroupCase.config, "group.members.max.bytes": "20000"}

    def test_ids_count(self) -> None:
        """
        Ids that are given to newcomers take memory, and are counted.
        """
        given = 0
        while given < 200:
            member = self.member(f"g{given % 7}")
            member.send_join()
            if member.joined().error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
            given += 1
        self.assertTrue(40 <= given <= 70, given)

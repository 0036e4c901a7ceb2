"""Tests of :mod:`logbus.coordination.consumer.consumer_group`: the responses to heartbeats."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.consumer import records
from logbus.coordination.consumer.consumer_group_member import AWAY, LEFT, MemberPosition, MemberState
from logbus.coordination.consumer.consumer_group_settings import ConsumerGroupSettings
from logbus.coordination.consumer.heartbeat import ConsumerHeartbeat
from logbus.coordination.consumer.partition_sets import NO_PARTITIONS
from logbus.coordination.consumer.regular_expressions import MAX_EXPRESSION_LENGTH, compile_expression
from logbus.coordination.group_records import decode_change, encode_change
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.group_log import ConsumerGroupRegularExpressionKey
from tests.coordination.consumer.kit import Client, Cluster, Log


class GroupCase(SynchronousTestCase):
    """A topic ``t`` of four partitions, and a group."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.t = self.cluster.create("t", 4)
        self.log = Log(
            self.cluster, ConsumerGroupSettings(session_timeout_ms=45_000, heartbeat_interval_ms=5000, max_size=3)
        )
        self.now = 0.0

    def join(self, member_id: str, **given: Any) -> Client:
        """A member that has joined."""
        client = Client(member_id, **{"topics": ("t",), **given})
        client.receive(self.now, self.log.heartbeat(self.now, client.beat()))
        return client

    def beat(self, client: Client) -> None:
        """One more heartbeat of a member."""
        client.receive(self.now, self.log.heartbeat(self.now, client.beat()))

    def settle(self, *clients: Client) -> None:
        """Heartbeats until nothing changes any more."""
        for _ in range(4):
            for client in clients:
                client.obey()
                self.beat(client)

    def refused(self, code: ErrorCode, beat: ConsumerHeartbeat) -> ApiError:
        """A heartbeat that is answered with an error, and changes nothing."""
        records = list(self.log.records)
        with self.assertRaises(ApiError) as caught:
            self.log.heartbeat(self.now, beat)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertEqual(self.log.records, records)
        self.assertEqual(vars_of(self.log.replayed().recorded), vars_of(self.log.group.recorded))
        return caught.exception


def vars_of(recorded: Any) -> dict[str, Any]:
    """The fields of a recorded state."""
    return {name: getattr(recorded, name) for name in ("epoch", "target_epoch", "members", "positions", "targets")}


class HeartbeatTests(GroupCase):
    """Members that follow the protocol."""

    def test_single_member(self) -> None:
        """The first member gets all partitions at once, and the heartbeat interval."""
        result = self.log.heartbeat(0, Client("a", topics=("t",)).beat())
        self.assertEqual((result.member_id, result.epoch, result.heartbeat_interval_ms), ("a", 1, 5000))
        self.assertEqual(result.assignment, {self.t: frozenset(range(4))})
        self.assertEqual(self.log.group.state_name, "Stable")

    def test_unchanged_heartbeat(self) -> None:
        """A heartbeat without changes changes nothing, and the response repeats nothing."""
        client = self.join("a")
        self.beat(client)
        result, changes = self.log.group.heartbeat(1.0, client.beat())
        self.assertEqual((changes, result.assignment), ([], None))

    def test_member_without_an_id(self) -> None:
        """Version 0 lets members have their ids made."""
        beat = evolve(Client("", topics=("t",)).beat(), requires_member_id=False)
        self.assertEqual(self.log.heartbeat(0, beat).member_id, "made-1")

    def test_no_topics_yet(self) -> None:
        """A member may join before a topic matches the pattern that it evaluates itself."""
        waiting, reader = self.join("a", topics=()), self.join("b")
        self.settle(waiting, reader)
        self.assertEqual((waiting.told, reader.told), (NO_PARTITIONS, {self.t: frozenset(range(4))}))
        result = self.log.heartbeat(1, ConsumerHeartbeat("a", waiting.epoch, topics=("t",)))
        waiting.receive(1, result)
        self.settle(reader, waiting)
        self.assertEqual((len(waiting.told[self.t]), len(reader.told[self.t])), (2, 2))

    def test_two_share_step_by_step(self) -> None:
        """A partition is revoked by one member before another gets it."""
        a = self.join("a")
        b = self.join("b")
        self.assertEqual((b.epoch, b.told), (2, NO_PARTITIONS))
        self.assertEqual(self.log.group.recorded.position("b").state, MemberState.UNRELEASED_PARTITIONS)
        self.assertEqual(self.log.group.state_name, "Reconciling")
        self.beat(a)
        self.assertEqual((a.epoch, a.told), (1, {self.t: frozenset({0, 1})}))
        self.assertEqual(self.log.group.recorded.position("a").state, MemberState.UNREVOKED_PARTITIONS)
        self.beat(b)
        self.assertEqual(b.told, NO_PARTITIONS, "still held by a")
        a.obey()
        self.beat(a)
        self.assertEqual((a.epoch, a.told), (2, {self.t: frozenset({0, 1})}))
        self.beat(b)
        self.assertEqual(b.told, {self.t: frozenset({2, 3})})
        self.assertEqual(self.log.group.state_name, "Stable")

    def test_full_heartbeat(self) -> None:
        """A full heartbeat gets a full response."""
        client = self.join("a")
        client.full = True
        result = self.log.heartbeat(1.0, client.beat())
        self.assertEqual(result.assignment, client.owned)

    def test_missed_answer(self) -> None:
        """The epoch before is taken from who says what it owns, and owns nothing else than it should."""
        a = self.join("a")
        self.cluster.grow("t")
        stale = a.beat()
        self.assertEqual(self.log.heartbeat(1, stale).epoch, 2)
        self.refused(ErrorCode.FENCED_MEMBER_EPOCH, evolve(stale, owned=None))
        self.refused(ErrorCode.FENCED_MEMBER_EPOCH, evolve(stale, owned={b"?" * 16: frozenset({0})}))
        again = self.log.heartbeat(1, evolve(stale, owned=a.owned))
        self.assertEqual((again.epoch, again.assignment), (2, {self.t: frozenset(range(5))}))

    def test_lost_join(self) -> None:
        """A join whose answer was lost is made again, and changes nothing."""
        client = Client("a", topics=("t",))
        first = self.log.heartbeat(0, client.beat())
        records = len(self.log.records)
        self.assertEqual(self.log.heartbeat(0, client.beat()), first)
        self.assertEqual(len(self.log.records), records)

    def test_rejoining_releases_partitions(self) -> None:
        """A fenced member that joins again under its id no longer owns its former partitions."""
        a, b = self.join("a"), self.join("b")
        self.settle(a, b)
        a.abandon()
        self.beat(a)
        self.assertEqual(a.epoch, 2)
        self.assertEqual(self.log.group.state_name, "Stable")

    def test_leaving(self) -> None:
        """Partitions of a member that leaves become free; an empty group keeps its epoch."""
        a, b = self.join("a"), self.join("b")
        self.settle(a, b)
        self.assertEqual(self.log.heartbeat(1, ConsumerHeartbeat("a", LEFT)).epoch, LEFT)
        self.assertEqual(self.log.group.state_name, "Assigning")
        self.beat(b)
        self.assertEqual(b.told, {self.t: frozenset(range(4))})
        self.log.heartbeat(1, ConsumerHeartbeat("b", LEFT))
        self.assertEqual((self.log.group.state_name, self.log.group.is_dead), ("Empty", False))
        self.assertEqual(self.log.replayed().state_name, "Empty")

    def test_assignor_of_the_most(self) -> None:
        """The group uses the assignor that most members prefer, by default ``uniform``."""
        self.assertEqual(self.log.group.describe().assignor, "uniform")
        self.join("a", assignor="range")
        self.assertEqual(self.log.group.describe().assignor, "range")

    def test_failed_append(self) -> None:
        """Changes that cannot be written are undone."""
        self.join("a")
        before = vars_of(self.log.group.recorded)
        self.log.broken = True
        self.assertRaises(ApiError, self.log.heartbeat, 1, Client("b", topics=("t",)).beat())
        self.assertEqual(vars_of(self.log.group.recorded), before)


class RefusalTests(GroupCase):
    """Invalid heartbeats."""

    def test_wrong_requests(self) -> None:
        """Invalid heartbeats get INVALID_REQUEST with an explanation."""
        joining = Client("a", topics=("t",)).beat()
        for wrong in (
            evolve(joining, member_id=""),
            evolve(joining, rebalance_timeout_ms=-1),
            evolve(joining, owned=None),
            evolve(joining, owned={self.t: frozenset({0})}),
            evolve(joining, topics=None, regex=None),
            evolve(joining, instance_id=" "),
            evolve(joining, rack_id=""),
            evolve(joining, epoch=-3),
            ConsumerHeartbeat("", 1),
            ConsumerHeartbeat("a", AWAY),
        ):
            self.assertTrue(self.refused(ErrorCode.INVALID_REQUEST, wrong).message)

    def test_unknown_assignor(self) -> None:
        """The error says which there are."""
        error = self.refused(ErrorCode.UNSUPPORTED_ASSIGNOR, Client("a", topics=("t",), assignor="sticky").beat())
        self.assertIn("range, uniform", error.message)

    def test_epochs(self) -> None:
        """A member in another epoch must start anew; so must one that is none."""
        self.join("a")
        self.refused(ErrorCode.FENCED_MEMBER_EPOCH, ConsumerHeartbeat("a", 7))
        self.refused(ErrorCode.UNKNOWN_MEMBER_ID, ConsumerHeartbeat("b", 1))
        self.refused(ErrorCode.UNKNOWN_MEMBER_ID, ConsumerHeartbeat("b", LEFT))
        self.refused(ErrorCode.UNKNOWN_MEMBER_ID, ConsumerHeartbeat("a", 1, instance_id="i"))

    def test_full_group(self) -> None:
        """One more than ``group.consumer.max.size`` is refused; those within go on."""
        clients = [self.join(name) for name in "abc"]
        self.refused(ErrorCode.GROUP_MAX_SIZE_REACHED, Client("d", topics=("t",)).beat())
        self.settle(*clients)

    def test_commits(self) -> None:
        """Commits must carry the member's epoch; tools may commit to an empty group only."""
        group = self.log.group
        group.check_commit("", None, -1, 9)
        self.join("a")
        group.check_commit("a", None, 1, 9)
        for code, asked in (
            (ErrorCode.STALE_MEMBER_EPOCH, ("a", None, 0, 9, False, [TopicPartition("t", 0)])),
            (ErrorCode.STALE_MEMBER_EPOCH, ("a", None, 2, 9)),
            (ErrorCode.UNKNOWN_MEMBER_ID, ("b", None, 1, 9)),
            (ErrorCode.UNKNOWN_MEMBER_ID, ("", None, -1, 9)),
            (ErrorCode.UNSUPPORTED_VERSION, ("a", None, 1, 8)),
            (ErrorCode.STALE_MEMBER_EPOCH, ("a", None, -1, 3, True, [TopicPartition("t", 0)])),
            (ErrorCode.UNKNOWN_MEMBER_ID, ("", "i", -1, 3, True)),
            (ErrorCode.UNKNOWN_MEMBER_ID, ("", None, -2, 3, True)),
        ):
            with self.assertRaises(ApiError) as caught:
                group.check_commit(*asked)
            self.assertEqual(caught.exception.code, code, asked)
        # A producer that knows only the group's id, such as one before KIP-447.
        group.check_commit("", None, -1, 3, transactional=True)
        group.check_fetch(None, -1)
        group.check_fetch("a", 1)
        self.assertRaises(ApiError, group.check_fetch, "a", 0)
        error = self.assertRaises(ApiError, group.check_fetch, "", -1)
        self.assertEqual(error.code, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertRaises(ApiError, group.check_deletable)

    def test_state_of_a_later_release(self) -> None:
        """A member in a state that is not known here gives up everything, and goes on."""
        a = self.join("a")
        recorded = self.log.group.recorded
        recorded.set_position("a", MemberPosition(1, 1, MemberState.UNKNOWN, a.owned))
        with self.assertRaises(ApiError) as caught:
            self.log.heartbeat(1, a.beat())
        self.assertEqual(caught.exception.code, ErrorCode.FENCED_MEMBER_EPOCH)
        a.abandon()
        self.beat(a)
        self.assertEqual(a.told, {self.t: frozenset(range(4))})
        self.assertEqual(recorded.position("a").state, MemberState.STABLE)


class CommitEpochTests(GroupCase):
    """Commits that a member sent before it heard of its next epoch (KIP-1251)."""

    def setUp(self) -> None:
        super().setUp()
        self.a, self.b = self.join("a"), self.join("b")
        self.settle(self.a, self.b)
        self.assertEqual((self.a.epoch, self.b.epoch), (2, 2))
        self.assertEqual((self.a.owned, self.b.owned), ({self.t: frozenset({0, 1})}, {self.t: frozenset({2, 3})}))

    def accepted(self, member_id: str, *partitions: int) -> list[int]:
        """The epochs up to 3 in which a member may commit all of these partitions of ``t``; also after a failover."""
        wanted = [TopicPartition("t", number) for number in partitions]
        found: list[list[int]] = []
        for group in (self.log.group, self.log.replayed()):
            found.append([])
            for epoch in range(-1, 4):
                try:
                    group.check_commit(member_id, None, epoch, 9, partitions=wanted)
                except ApiError as e:
                    self.assertEqual(e.code, ErrorCode.STALE_MEMBER_EPOCH)
                else:
                    found[-1].append(epoch)
        self.assertEqual(found[0], found[1])
        return found[0]

    def test_kept_partitions(self) -> None:
        """A partition may be committed in each epoch since its member got it; one that it gave up may not."""
        self.assertEqual(self.accepted("a", 0), [1, 2])
        self.assertEqual(self.accepted("a", 0, 1), [1, 2])
        self.assertEqual(self.accepted("b", 2), [2])
        self.assertEqual(self.accepted("a", 2), [2], "in its present epoch a member commits what it wants")
        self.assertEqual(self.accepted("a", 0, 2), [2])
        self.assertRaises(ApiError, self.log.group.check_fetch, "a", 1)

    def test_while_revoking(self) -> None:
        """A partition that is to be revoked is still the member's."""
        self.join("c")
        each = next(each for each in (self.a, self.b) if self.told_to_revoke(each))
        since = 1 if each is self.a else 2
        (number,) = self.log.group.recorded.position(each.member_id).revoking[self.t]
        self.assertEqual(self.accepted(each.member_id, number), list(range(since, 3)))
        each.obey()
        self.beat(each)
        self.assertEqual(each.epoch, 3)
        self.assertEqual(self.accepted(each.member_id, number), [3])
        self.assertEqual(self.accepted(each.member_id, *each.owned[self.t]), list(range(since, 4)))

    def test_revoked_in_vain(self) -> None:
        """What a member gave up for one that has left meanwhile it has back at once, as another partition."""
        self.join("c")
        each = next(each for each in (self.a, self.b) if self.told_to_revoke(each))
        (number,) = self.log.group.recorded.position(each.member_id).revoking[self.t]
        self.log.heartbeat(self.now, ConsumerHeartbeat("c", LEFT))
        each.obey()
        self.beat(each)
        self.assertEqual(len(each.told[self.t]), 2)
        self.assertEqual((each.epoch, self.accepted(each.member_id, number)), (4, []), "only since epoch 4")
        self.assertEqual(self.log.group.recorded.position(each.member_id).since[self.t, number], 4)

    def told_to_revoke(self, client: Client) -> bool:
        """Whether a member must revoke something, by its next heartbeat."""
        self.beat(client)
        return self.log.group.recorded.position(client.member_id).state is MemberState.UNREVOKED_PARTITIONS

    def test_gone_and_back(self) -> None:
        """A partition that a member got again is its own only since then."""
        self.log.heartbeat(self.now, ConsumerHeartbeat("b", LEFT))
        self.settle(self.a)
        self.assertEqual(self.a.epoch, 3)
        self.assertEqual(self.accepted("a", 3), [3])
        self.assertEqual(self.accepted("a", 0), [1, 2, 3])

    def test_topic_made_anew(self) -> None:
        """Another topic of the same name is not what the member had."""
        self.cluster.delete("t")
        self.assertEqual(self.accepted("a", 0), [2])
        self.cluster.create("t", 4)
        self.assertEqual(self.accepted("a", 0), [2])

    def test_records_of_an_older_release(self) -> None:
        """Records without these epochs are read; then only the present epoch is accepted, as in Kafka."""
        change: Any = records.position("group", "a", self.log.group.recorded.position("a"))
        for topic in change[1].assigned_partitions:
            topic.assignment_epochs = None
        self.log.records.append(encode_change(change))
        self.log.restart(self.now)
        self.assertEqual(self.accepted("a", 0), [2])

    def test_record(self) -> None:
        """The epochs are in a tagged field of each topic, as in Kafka 4.3."""
        _, value = encode_change(records.position("group", "b", self.log.group.recorded.position("b")))
        topic = self.t + b"\x03" + bytes.fromhex("00000002 00000003") + b"\x01\x00\x09\x03" + bytes([0, 0, 0, 2] * 2)
        self.assertEqual(value, bytes.fromhex("0000 00000002 00000002 00") + b"\x02" + topic + b"\x01\x00")


class StaticTests(GroupCase):
    """Members with an instance id (KIP-345)."""

    def test_coming_back(self) -> None:
        """A static member that returns within its session gets its partitions back."""
        a, b = self.join("a", instance_id="i"), self.join("b")
        self.settle(a, b)
        self.log.heartbeat(1, evolve(ConsumerHeartbeat("a", AWAY), instance_id="i"))
        self.assertEqual(self.log.group.state_name, "Reconciling")
        back = self.join("c", instance_id="i")
        self.assertEqual((back.epoch, back.told), (2, a.owned))
        self.beat(b)
        self.assertEqual(b.epoch, 2)
        self.refused(ErrorCode.FENCED_INSTANCE_ID, evolve(a.beat(), instance_id="i"))
        since = self.log.group.recorded.position("c").since
        self.assertEqual(since, {(self.t, number): 0 for number in back.owned[self.t]}, "as in Kafka")

    def test_not_coming_back(self) -> None:
        """When the session ends, the others get what was kept."""
        a, b = self.join("a", instance_id="i"), self.join("b")
        self.settle(a, b)
        self.log.heartbeat(0, evolve(ConsumerHeartbeat("a", AWAY), instance_id="i"))
        self.now = 30.0
        self.beat(b)
        self.log.group.expire(50.0)
        self.beat(b)
        self.assertEqual(b.told, {self.t: frozenset(range(4))})

    def test_in_use(self) -> None:
        """An instance id is not taken over from a member that is there; its own member may join again."""
        self.join("a", instance_id="i")
        self.refused(ErrorCode.UNRELEASED_INSTANCE_ID, Client("b", "i", topics=("t",)).beat())
        self.assertEqual(self.join("a", instance_id="i").epoch, 1)


class TimeTests(GroupCase):
    """Members that are late."""

    def test_silence(self) -> None:
        """A member without heartbeats for a session is removed."""
        self.join("a")
        self.now = 10.0
        b = self.join("b")
        self.log.group.expire(46.0)
        self.assertEqual(set(self.log.group.recorded.members), {"b"})
        self.now = 46.0
        self.beat(b)
        self.assertEqual(b.told, {self.t: frozenset(range(4))})

    def test_no_revocation(self) -> None:
        """A member that does not revoke partitions within its rebalance timeout is removed."""
        a = self.join("a", rebalance_timeout_ms=20_000)
        b = self.join("b")
        self.beat(a)
        for self.now in (10.0, 19.0):
            self.beat(a)
            self.beat(b)
            self.log.group.expire(self.now)
        self.assertIn("a", self.log.group.recorded.members)
        self.now = 20.0
        self.log.group.expire(self.now)
        self.refused(ErrorCode.UNKNOWN_MEMBER_ID, a.beat())
        self.beat(b)
        self.assertEqual(b.told, {self.t: frozenset(range(4))})

    def test_failed_write_of_a_removal(self) -> None:
        """A removal that cannot be written is retried after a delay."""
        self.join("a")
        self.log.broken = True
        self.log.group.expire(100.0)
        self.assertIn("a", self.log.group.recorded.members)
        self.assertGreater(self.log.group.deadline or 0, 100.0)
        self.log.broken = False
        self.log.group.expire(102.0)
        self.assertTrue(self.log.group.is_empty)

    def test_restart(self) -> None:
        """After a load every member has a full session."""
        self.join("a")
        self.log.restart(1000.0)
        self.assertEqual(self.log.group.deadline, 1045.0)
        self.log.group.expire(1044.0)
        self.assertFalse(self.log.group.is_empty)


class TopicTests(GroupCase):
    """Topics that are created, get partitions, and are deleted."""

    def test_growth(self) -> None:
        """New partitions are given out at the next heartbeats."""
        a = self.join("a")
        self.cluster.grow("t", 2)
        self.beat(a)
        self.assertEqual((a.epoch, a.told), (2, {self.t: frozenset(range(6))}))

    def test_topics_without_subscribers(self) -> None:
        """Topics without subscribers have no effect."""
        a = self.join("a")
        self.cluster.create("other")
        self.assertEqual(self.log.group.heartbeat(0, evolve(a.beat(), owned=None))[1], [])

    def test_made_anew(self) -> None:
        """A topic that is deleted and made again is another one."""
        a = self.join("a")
        self.cluster.delete("t")
        again = self.cluster.create("t", 1)
        self.beat(a)
        a.obey()
        self.beat(a)
        self.assertEqual(a.told, {again: frozenset({0})})

    def test_topic_changes_during_a_failover(self) -> None:
        """Topic changes during a failover are detected from the records."""
        a = self.join("a")
        self.cluster.grow("t")
        self.log.restart(1.0)
        self.beat(a)
        self.assertEqual(a.told, {self.t: frozenset(range(5))})

    def test_subscription_before_the_topic(self) -> None:
        """A topic may be subscribed to before it is created."""
        a = self.join("a", topics=("later",))
        self.assertEqual((a.told, self.log.group.is_subscribed_to("later")), (NO_PARTITIONS, True))
        later = self.cluster.create("later")
        self.beat(a)
        self.assertEqual(a.told, {later: frozenset({0})})


class ExpressionTests(GroupCase):
    """Members subscribed to regular expressions."""

    def test_regular_expressions(self) -> None:
        """A member gets all topics that match entirely, also later ones."""
        self.cluster.create("t2")
        a = self.join("a", topics=(), regex="t|x.*")
        self.assertEqual(set(a.told), {self.t})
        x = self.cluster.create("xyz", 1)
        self.beat(a)
        self.assertEqual(set(a.told), {self.t, x})
        self.assertTrue(self.log.group.is_subscribed_to("xyz"))
        self.assertFalse(self.log.group.is_subscribed_to("t2"))

    def test_resolved_once(self) -> None:
        """Members with the same expression cost one look at the topics, and one record."""
        with patch(
            "logbus.coordination.consumer.target_assignment.matching_names", return_value=frozenset({"t"})
        ) as matching:
            clients = [self.join(name, topics=(), regex="t") for name in "abc"]
            self.settle(*clients)
        self.assertEqual(matching.call_count, 2, "at the first join, and at the first look at this version of topics")
        kinds = [type(decode_change(key, value)[0]) for key, value in self.log.records]
        self.assertEqual(kinds.count(ConsumerGroupRegularExpressionKey), 1)

    def test_no_longer_used(self) -> None:
        """An expression goes with the last member that uses it."""
        self.join("a", topics=(), regex="t")
        self.join("b")
        self.log.heartbeat(0, ConsumerHeartbeat("a", 1, topics=("t",), regex=""))
        self.assertEqual(self.log.group.recorded.expressions, {})
        self.assertEqual(self.log.replayed().recorded.expressions, {})

    def test_invalid_expressions(self) -> None:
        """Broken expressions, and those that cannot be matched in linear time, are refused with the reason."""
        for wrong in ("(", "*", r"(a)\1", "a(?=b)", "((a{100}){100}){100}", "a" * (MAX_EXPRESSION_LENGTH + 1)):
            beat = Client("a", topics=(), regex=wrong).beat()
            self.assertIn("regular expression", self.refused(ErrorCode.INVALID_REGULAR_EXPRESSION, beat).message)

    def test_hostile(self) -> None:
        """An expression that takes other engines ages takes this one no time."""
        self.assertFalse(compile_expression("(a*)*(a*)*(a*)*b")("a" * 200))

    def test_engine_missing(self) -> None:
        """Without the engine the error says what to install; expressions read back stand for what they stood for."""
        a = self.join("a", topics=(), regex="t")
        compile_expression.cache_clear()
        with patch.dict(sys.modules, {"re2": None}):
            error = self.refused(ErrorCode.INVALID_REGULAR_EXPRESSION, Client("b", topics=(), regex="t").beat())
            self.assertIn("pip install google-re2", error.message)
            self.log.restart(0)
            self.beat(a)
        self.assertEqual(a.told, {self.t: frozenset(range(4))})


class AssignmentIntervalTests(GroupCase):
    """Changes that follow each other within a second make one assignment (KIP-1263)."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.log.settings = evolve(self.log.settings, max_size=9)

    def epochs(self) -> tuple[int, int]:
        """Of the group, and of its targets."""
        described = self.log.group.describe()
        return described.epoch, described.target_epoch

    def test_burst_of_joins(self) -> None:
        """The first member has all at once, those that come right after it get theirs together."""
        a = self.join("a")
        self.assertEqual(a.told, {self.t: frozenset(range(4))})
        self.now += 0.1
        b, c = self.join("b"), self.join("c")
        self.assertEqual((self.epochs(), self.log.group.state_name), ((3, 1), "Assigning"))
        self.assertEqual([(one.epoch, one.told) for one in (b, c)], [(1, NO_PARTITIONS)] * 2)
        self.now += 0.8
        self.settle(a, b, c)
        self.assertEqual((self.epochs(), a.told), ((3, 1), {self.t: frozenset(range(4))}))
        self.now += 0.1
        self.settle(a, b, c)
        self.assertEqual((self.epochs(), self.log.group.state_name), ((3, 3), "Stable"))
        self.assertEqual(sorted(len(one.told[self.t]) for one in (a, b, c)), [1, 1, 2])

    def test_interval_of_zero(self) -> None:
        """Each change makes an assignment."""
        self.log.settings = evolve(self.log.settings, assignment_interval_ms=0)
        a, b = self.join("a"), self.join("b")
        self.settle(a, b)
        self.assertEqual((self.epochs(), len(b.told[self.t])), ((2, 2), 2))

    def test_restart_of_the_only_member(self) -> None:
        """It need not wait."""
        a = self.join("a")
        a.epoch = LEFT
        self.log.heartbeat(self.now, a.beat())
        self.assertEqual(self.join("a2").told, {self.t: frozenset(range(4))})

    def test_next_coordinator(self) -> None:
        """It knows when the last assignment was."""
        self.join("a")
        self.log.restart(self.now)
        self.join("b")
        self.assertEqual(self.epochs(), (2, 1))

    def test_topic_that_is_left_out(self) -> None:
        """A member gives up at once what it does not want any more, and what it wants now it gets later."""
        u = self.cluster.create("u", 2)
        a = self.join("a", topics=("t", "u"))
        b = self.join("b")
        a.topics, a.full = ("u",), True
        self.settle(b, a)
        self.assertEqual((self.epochs(), a.told, b.told), ((3, 1), {u: frozenset({0, 1})}, NO_PARTITIONS))
        self.now += 1
        self.settle(b, a)
        self.assertEqual((self.epochs(), b.told), ((3, 3), {self.t: frozenset(range(4))}))
        self.assertEqual((a.told, self.log.group.state_name), ({u: frozenset({0, 1})}, "Stable"))

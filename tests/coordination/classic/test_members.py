"""Tests for :mod:`logbus.coordination.classic.members` and :mod:`~logbus.coordination.classic.subscriptions`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.classic.members import ClassicGroupMember, ClassicGroupMembers, distinct
from logbus.coordination.classic.subscriptions import subscribed_topics
from tests.coordination.classic.kit import joining, subscription

NAMES = st.lists(st.sampled_from(["range", "sticky", "rack", "own"]), min_size=1, max_size=5)


def member(name: str, *protocols: str) -> ClassicGroupMember:
    return ClassicGroupMember.of(name, joining(protocols=tuple((protocol, b"") for protocol in protocols)))


def group(*members: ClassicGroupMember) -> ClassicGroupMembers:
    everybody = ClassicGroupMembers()
    for one in members:
        everybody.add(one)
    return everybody


class ProtocolTests(SynchronousTestCase):
    def test_most_votes_win(self) -> None:
        """The protocol that most members prefer among those that all support is selected."""
        chosen = group(member("a", "x", "y"), member("b", "y", "x"), member("c", "y", "x")).select_protocol()
        self.assertEqual(chosen, "y")

    def test_protocol_supported_by_all(self) -> None:
        """A rolling change of the assignor: the old one stays as long as one member knows no other."""
        new = [member(str(number), "new", "old") for number in range(5)]
        self.assertEqual(group(*new, member("late", "old")).select_protocol(), "old")
        self.assertEqual(group(*new).select_protocol(), "new")

    def test_duplicate_protocol_names(self) -> None:
        """A member that names a protocol twice has one vote for it, and takes none from others."""
        twice = group(member("a", "x", "x", "y"), member("b", "y"))
        self.assertEqual(twice.select_protocol(), "y")
        self.assertFalse(twice.supports((("x", b""),)))
        self.assertEqual(distinct((("x", b"1"), ("y", b""), ("x", b"2"))), (("x", b"1"), ("y", b"")))

    @given(st.lists(NAMES, min_size=1, max_size=6), st.lists(st.tuples(st.integers(0, 5), NAMES), max_size=6))
    def test_counts_follow_members(self, wishes: list[list[str]], updates: list[tuple[int, list[str]]]) -> None:
        """After any changes the selected protocol is supported by all members."""
        members = [member(str(number), *names) for number, names in enumerate(wishes)]
        everybody = group(*members)
        for number, names in updates:
            one = everybody.get(str(number))
            if one is None:
                continue
            if len(names) > 4:
                everybody.remove(one)
            else:
                everybody.update(one, joining(protocols=tuple((name, b"m") for name in names)))
            left = list(everybody)
            common = set.intersection(*({name for name, _ in each.protocols} for each in left)) if left else set()
            chosen = everybody.select_protocol()
            if common:
                self.assertIn(chosen, common)
            else:
                self.assertEqual(chosen, "")
            if left:
                for name in ("range", "sticky", "rack", "own"):
                    self.assertEqual(everybody.supports(((name, b""),)), name in common)
            self.assertEqual(everybody.size, sum(each.size() for each in left))


class LeaderTests(SynchronousTestCase):
    def test_the_first_leads_then_the_next(self) -> None:
        """The first member is the leader; after it the oldest one."""
        members = [member(name, "x") for name in "abc"]
        everybody = group(*members)
        self.assertEqual(everybody.leader, "a")
        everybody.remove(members[1])
        everybody.remove(members[0])
        self.assertEqual(everybody.leader, "c")
        everybody.remove(members[2])
        self.assertIs(everybody.leader, None)

    def test_leader_has_joined(self) -> None:
        """A leader that does not come to the rebalance leads no more."""
        first, second = member("a", "x"), member("b", "x")
        everybody = group(first, second)
        self.assertFalse(everybody.elect())
        everybody.await_join(second, lambda result: None)
        self.assertTrue(everybody.elect())
        self.assertEqual(everybody.leader, "b")


class SubscriptionTests(SynchronousTestCase):
    def topics(self, *metadata: bytes, kind: str = "consumer") -> frozenset[str] | None:
        members = [
            ClassicGroupMember.of(str(number), joining(protocols=(("x", one),))) for number, one in enumerate(metadata)
        ]
        return subscribed_topics(kind, "x", members)

    def test_topics_of_all(self) -> None:
        """The group's topics are the union of its members'."""
        self.assertEqual(self.topics(subscription("a", "b"), subscription("b", "c")), {"a", "b", "c"})

    def test_unreadable_subscriptions(self) -> None:
        """Clients may tell their leader what they like; then every topic may be meant."""
        for bad in (b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\5abc", b"\0\0\x7f\xff\xff\xff"):
            self.assertIs(self.topics(subscription("a"), bad), None, bad)

    def test_only_consumers_speak_of_topics(self) -> None:
        """Workers of Kafka Connect use the same groups for something else."""
        self.assertIs(self.topics(subscription("a"), kind="connect"), None)

    def test_newer_versions(self) -> None:
        """Every version begins with the topics."""
        self.assertEqual(self.topics(b"\0\x63" + subscription("a")[2:] + b"more"), {"a"})

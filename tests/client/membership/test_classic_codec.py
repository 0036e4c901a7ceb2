"""Subscriptions and assignments of the classic protocol, as bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.membership.assignors import ASSIGNORS
from logbus.client.membership.classic_codec import (
    MemberSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from logbus.client.membership.sticky_assignor import cooperative_data, sticky_data
from logbus.model import TopicPartition


def parts(*names: str) -> list[TopicPartition]:
    """``a-0`` and the like."""
    return [TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in names]


class ClassicCodecTests(SynchronousTestCase):
    """The bytes members exchange."""

    def test_sticky_bytes(self) -> None:
        """Kafka's sticky user data: topics with their partitions, then the generation."""
        data = sticky_data(parts("t-1", "t-0"), 7)
        assert data == bytes.fromhex("00000001 0001 74 00000002 00000000 00000001 00000007")
        assert sticky_data((), -1) is None
        assert cooperative_data((), 7) == bytes.fromhex("00000007")

    @given(st.binary(max_size=60))
    def test_bad_bytes_are_no_claim(self, data: bytes) -> None:
        """Whatever a member sends as user data, the others get their partitions."""
        members = {"a": MemberSubscription(("t",), user_data=data), "b": MemberSubscription(("t",))}
        for name in ("sticky", "cooperative-sticky"):
            assert sum(map(len, ASSIGNORS[name].assign({"t": 4}, members).values())) == 4

    @given(st.binary(max_size=60))
    def test_bad_subscriptions_and_assignments(self, data: bytes) -> None:
        """Undecodable bytes are an empty subscription or assignment."""
        read_subscription(data)
        read_assignment(data)
        assert read_subscription(data[:1]) == MemberSubscription()
        assert read_assignment(data[:1]) == frozenset()

    def test_round_trip(self) -> None:
        """Encoded values can be decoded, also with an older version's fields only."""
        told = MemberSubscription(("a", "b"), tuple(parts("a-0", "b-1")), 5, None, "r", b"x")
        assert read_subscription(write_subscription(told)) == told
        assert read_assignment(write_assignment(parts("a-1", "b-0"))) == frozenset(parts("a-1", "b-0"))

    def test_newer_versions(self) -> None:
        """A newer member's bytes begin as ours do."""
        newer = b"\x00\x09" + write_subscription(MemberSubscription(("a",)))[2:] + b"more"
        assert read_subscription(newer).topics == ("a",)

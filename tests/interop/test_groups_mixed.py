"""Tests groups with members of logbus and of other libraries, with any of them as the leader."""

from __future__ import annotations

import pytest

from logbus.testing import Broker
from tests.interop.group_workload import PARTITIONS, SESSION_MS, end_sessions_soon, places_of, produce
from tests.interop.member_groups import Group
from tests.interop.test_offsets import create

#: Those that agree on an assignor, and so can be in one group.
MIXED = {
    "range": ("logbus-range", "confluent-range", "aiokafka-range"),
    "roundrobin": ("logbus-roundrobin", "confluent-roundrobin", "aiokafka-roundrobin"),
    "sticky": ("logbus-sticky", "aiokafka-sticky", "kafka-python-sticky"),
    "cooperative": ("logbus-cooperative", "confluent-cooperative", "kafka-python-cooperative"),
    "consumer": ("logbus-consumer-uniform", "confluent-consumer-uniform", "logbus-consumer-uniform"),
}


@pytest.mark.parametrize("kinds", MIXED.values(), ids=MIXED)
def test_mixed_members(broker: Broker, topic: str, kinds: tuple[str, ...]) -> None:
    """Each in turn comes first, and so leads; then one leaves, and another is killed."""
    create(broker, topic, PARTITIONS)
    end_sessions_soon(broker, f"group-{topic}")
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        values = set()
        for leader in range(len(kinds)):
            members = [group.join(kinds[leader])]
            group.until_balanced(places_of(topic))
            second, third = kinds[leader + 1 :] + kinds[:leader]
            members += [group.join(second, session_timeout_ms=SESSION_MS), group.join(third)]
            group.until_balanced(places_of(topic))
            values |= produce(broker, str(leader), topic)
            group.until_processed(values)
            # In the consumer protocol all may be owned while a member has still to give one up for another.
            group.until(lambda members=members: [len(each.owned) for each in members] == [2, 2, 2], "even shares")
            group.close(members[0])
            group.until_balanced(places_of(topic))
            group.kill(members[1])
            group.until_balanced(places_of(topic))
            values |= produce(broker, f"{leader}-last", topic)
            group.until_processed(values)
            group.close(members[2])
        group.assert_never_shared()


@pytest.mark.parametrize("kinds", [MIXED["cooperative"], MIXED["consumer"]], ids=["cooperative", "consumer"])
def test_mixed_members_keep_partitions(broker: Broker, topic: str, kinds: tuple[str, ...]) -> None:
    """The second member gets half, and nothing else moves, whichever of the two is first."""
    create(broker, topic, PARTITIONS)
    for first, second in (kinds[:2], kinds[1::-1]):
        with Group(broker.bootstrap, f"group-{topic}-{first}", [topic]) as group:
            one = group.join(first)
            group.until_balanced(places_of(topic))
            other = group.join(second)
            group.until_balanced(places_of(topic))
            revoked = [place for _, word, places in one.news if word == "revoked" for place in places]
            assert sorted(revoked) == sorted(other.owned), str(one)
            group.assert_never_shared()

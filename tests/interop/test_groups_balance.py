"""Tests rebalances: each partition is owned by exactly one member, and each record is processed."""

from __future__ import annotations

import pytest

from logbus.testing import Broker
from tests.interop.consumers import KINDS
from tests.interop.group_workload import PARTITIONS, places_of, produce
from tests.interop.member_groups import Group
from tests.interop.test_offsets import create


@pytest.mark.parametrize("kind", KINDS)
def test_join_and_leave(broker: Broker, topic: str, kind: str) -> None:
    """Three share two topics; one leaves, and one joins again."""
    other = f"{topic}-other"
    create(broker, topic, PARTITIONS)
    create(broker, other, 3)
    places = places_of(topic) + places_of(other, 3)
    with Group(broker.bootstrap, f"group-{topic}", (topic, other)) as group:
        first, second = group.join(kind), group.join(kind)
        group.until_balanced(places)
        group.join(kind)
        group.until_balanced(places)
        values = produce(broker, "three", topic) | produce(broker, "three", other, 3)
        group.until_processed(values)
        group.close(first)
        group.until_balanced(places)
        values |= produce(broker, "two", topic)
        group.until_processed(values)
        group.join(kind)
        group.until_balanced(places)
        group.close(second)
        group.until_balanced(places)
        values |= produce(broker, "after", topic)
        group.until_processed(values)
        group.assert_never_shared()


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_three_libraries_in_one_group(broker: Broker, topic: str, strategy: str) -> None:
    """Whichever library leads the group, the others do what it says."""
    create(broker, topic, PARTITIONS)
    kinds = [f"{library}-{strategy}" for library in ("confluent", "kafka-python", "aiokafka")]
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        values = set()
        for leader in range(3):
            started = [group.join(kind) for kind in kinds[leader:] + kinds[:leader]]
            group.until_balanced(places_of(topic))
            values |= produce(broker, str(leader), topic)
            group.until_processed(values)
            assert sorted(len(member.owned) for member in started) == [2, 2, 2]
            group.close(*started)
        group.assert_never_shared()


def test_more_members_than_partitions(broker: Broker, topic: str) -> None:
    """Those for whom nothing is left wait, and one of them takes over at once."""
    create(broker, topic, 1)
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        members = [group.join(kind) for kind in ("confluent-range", "kafka-python-range", "aiokafka-range")]
        group.until(lambda: all("assigned" in {word for _, word, _ in m.news} for m in members), "joined by all")
        for left in (3, 2, 1):
            group.until(lambda: sum(len(member.owned) for member in group.live) == 1, "owned by one")
            values = produce(broker, str(left), topic, 1)
            group.until_processed(values)
            [owner] = [member for member in members if member.owned]
            group.close(owner)
        group.assert_never_shared()


@pytest.mark.parametrize("kind", ["confluent-cooperative", "kafka-python-cooperative", "confluent-consumer-uniform"])
def test_cooperative_members_keep_partitions(broker: Broker, topic: str, kind: str) -> None:
    """The second member gets half of the partitions; the first keeps the other half all the time."""
    create(broker, topic, PARTITIONS)
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        first = group.join(kind)
        group.until_balanced(places_of(topic))
        group.join(kind)
        group.until_balanced(places_of(topic))
        revoked = [place for _, word, places in first.news if word == "revoked" for place in places]
        assert len(revoked) == len(set(revoked)) == PARTITIONS // 2, str(first)
        group.assert_never_shared()

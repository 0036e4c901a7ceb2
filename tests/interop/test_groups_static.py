"""Tests static members (KIP-345): one that returns in time gets its partitions back without a rebalance."""

from __future__ import annotations

import time

import pytest

from logbus.testing import Broker
from tests.interop.consumers import LIBRARIES
from tests.interop.group_workload import PARTITIONS, SESSION_MS, end_sessions_soon, places_of, produce
from tests.interop.member_groups import Group, MemberFailed
from tests.interop.test_offsets import create

CLASSIC = [kind for kind in LIBRARIES if "consumer" not in kind]


@pytest.mark.parametrize(
    ("kind", "how"),
    [(kind, how) for kind in (*CLASSIC, "confluent-cooperative") for how in ("close", "kill")]
    # In the consumer protocol a name is in use until its member leaves or its session ends.
    + [("confluent-consumer-uniform", "close")],
)
@pytest.mark.long
def test_restart_of_a_member(broker: Broker, topic: str, kind: str, how: str) -> None:
    """A member that ends and starts again has its partitions again; the other never lost one of its own."""
    create(broker, topic, PARTITIONS)
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        first = group.join(kind, instance_id="first")
        second = group.join(kind, instance_id="second")
        group.until_balanced(places_of(topic))
        group.until_processed(produce(broker, "before", topic))
        group.until_committed(dict.fromkeys(places_of(topic), 10))
        owned, seen = first.owned, second.rebalances()
        group.close(first) if how == "close" else group.kill(first)
        between = produce(broker, "between", topic)
        first = group.join(kind, instance_id="first")
        group.until_balanced(places_of(topic))
        group.until_processed(between)
        assert first.owned == owned
        assert second.rebalances() == seen, str(second)
        assert {record.value for record in first.records} <= between


@pytest.mark.parametrize("kind", LIBRARIES)
@pytest.mark.long
def test_absent_member(broker: Broker, topic: str, kind: str) -> None:
    """When the session of a static member is over, the others share its partitions."""
    create(broker, topic, PARTITIONS)
    end_sessions_soon(broker, f"group-{topic}")
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        first = group.join(kind, instance_id="first", session_timeout_ms=SESSION_MS)
        group.join(kind, instance_id="second")
        group.until_balanced(places_of(topic))
        began = time.monotonic()
        group.close(first)
        group.until_balanced(places_of(topic))
        assert time.monotonic() - began > SESSION_MS / 1000 / 2
        group.until_processed(produce(broker, "after", topic))


def test_second_of_the_same_name_fences_the_first(broker: Broker, topic: str) -> None:
    """The newer one of two members of the classic protocol with one name goes on, the older one is told to stop."""
    create(broker, topic, PARTITIONS)
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        first = group.join("confluent-range", instance_id="one")
        group.until_balanced(places_of(topic))
        second = group.join("confluent-range", instance_id="one")
        group.until(lambda: first.failure is not None, "fenced", fails=True)
        assert "fenced" in str(first.failure)
        group.until(lambda: len(second.owned) == PARTITIONS, "taken over", fails=True)


def test_fenced_member_commits_nothing(broker: Broker, topic: str) -> None:
    """A library that does not tell a member that it is fenced cannot commit for it, either."""
    create(broker, topic, PARTITIONS)
    kind = "kafka-python-range"
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        first = group.join(kind, instance_id="one")
        group.until_balanced(places_of(topic))
        group.call(first, "commit", {(topic, 0): (7, "")})
        second = group.join(kind, instance_id="one")
        group.until(lambda: len(second.owned) == PARTITIONS, "taken over")
        with pytest.raises(MemberFailed):
            group.call(first, "commit", {(topic, 0): (8, "")})
        assert group.call(second, "committed", (topic, 0))[0] == 7


def test_name_in_use(broker: Broker, topic: str) -> None:
    """In the consumer protocol it is the newer one that is refused, as long as the older one lives."""
    create(broker, topic, PARTITIONS)
    kind = "confluent-consumer-uniform"
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        group.join(kind, instance_id="one")
        group.until_balanced(places_of(topic))
        second = group.join(kind, instance_id="one")
        group.until(lambda: second.failure is not None, "refused", fails=True)
        assert "instance ID is still used" in str(second.failure)

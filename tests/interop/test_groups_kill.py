"""Tests a killed member: after its session timeout others take over, and nothing is lost."""

from __future__ import annotations

import time

import pytest

from logbus.testing import Broker
from tests.interop.consumers import LIBRARIES
from tests.interop.group_workload import PARTITIONS, SESSION_MS, end_sessions_soon, places_of, produce
from tests.interop.member_groups import Group
from tests.interop.test_offsets import create

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", [*LIBRARIES, "confluent-cooperative", "kafka-python-cooperative", "aiokafka-sticky"])
def test_killed_member(broker: Broker, topic: str, kind: str) -> None:
    """
    Its partitions go to the others when its session is over, not before; what it had not committed is done again.

    In the end exactly what was written is committed.
    """
    create(broker, topic, PARTITIONS)
    end_sessions_soon(broker, f"group-{topic}")
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        killed = group.join(kind, session_timeout_ms=SESSION_MS, commits=False)
        others = [group.join(kind) for _ in range(2)]
        group.until_balanced(places_of(topic))
        before = produce(broker, "before", topic)
        group.until_processed(before)
        lost, undone = killed.owned, {record.value for record in killed.records}
        assert lost
        assert undone
        began = time.monotonic()
        group.kill(killed)
        after = produce(broker, "after", topic)
        group.until_balanced(places_of(topic))
        # Its last heartbeat may have been a while before its end.
        assert time.monotonic() - began > SESSION_MS / 1000 / 2
        group.until(
            lambda: undone | after <= {record.value for member in others for record in member.records},
            "processed by those who are left",
        )
        group.until_committed(dict.fromkeys(places_of(topic), 20))
        group.assert_never_shared()


def test_all_members_killed(broker: Broker, topic: str) -> None:
    """A group whose members are all gone is taken up by the next one where they had committed."""
    create(broker, topic, PARTITIONS)
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        members = [group.join("confluent-range", session_timeout_ms=SESSION_MS) for _ in range(3)]
        group.until_balanced(places_of(topic))
        group.until_processed(produce(broker, "before", topic))
        group.until_committed(dict.fromkeys(places_of(topic), 10))
        for member in members:
            group.kill(member)
        after = produce(broker, "after", topic)
        heir = group.join("confluent-range")
        group.until_balanced(places_of(topic))
        group.until_processed(after)
        assert {record.value for record in heir.records} == after

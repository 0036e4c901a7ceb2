"""Tests subscriptions by a regular expression: matching topics are added when they appear, and removed when deleted."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from logbus.testing import Broker
from tests.interop.consumers import LIBRARIES, SECONDS
from tests.interop.group_workload import places_of, produce
from tests.interop.member_groups import Group
from tests.interop.test_offsets import create

#: kafka-python forgets the answer to a join when a poll ends before it comes, if topics changed meanwhile.
LONG_POLL = {"poll_seconds": 3.0}


@pytest.mark.parametrize("kind", LIBRARIES)
def test_topics_come_and_go(broker: Broker, topic: str, kind: str) -> None:
    """Two members share whatever matches, and nothing else."""
    first, second, other = f"{topic}-one", f"{topic}-two", f"{topic}.one"
    create(broker, first, 4)
    create(broker, other, 4)
    polls = LONG_POLL if kind.startswith("kafka-python") else {}
    with Group(broker.bootstrap, f"group-{topic}", [f"^{topic}-.*"]) as group:
        group.join(kind, **polls), group.join(kind, **polls)
        group.until_balanced(places_of(first, 4))
        group.until_processed(produce(broker, "first", first, 4))
        create(broker, second, 2)
        group.until_balanced(places_of(first, 4) + places_of(second, 2), 2 * SECONDS)
        group.until_processed(produce(broker, "second", second, 2))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.delete_topics([first]).values():
            future.result(SECONDS)
        group.until_balanced(places_of(second, 2), 2 * SECONDS)
        group.until_processed(produce(broker, "rest", second, 2))
        assert other not in {record.place[0] for member in group.members for record in member.records}
        group.assert_never_shared()

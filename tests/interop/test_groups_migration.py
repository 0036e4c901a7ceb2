"""Tests the migration of a group from the classic to the consumer protocol and back, member by member."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient

from logbus.testing import Broker
from tests.interop.consumers import SECONDS
from tests.interop.group_workload import PARTITIONS, places_of, produce
from tests.interop.member_groups import Group
from tests.interop.test_admin_confluent import done
from tests.interop.test_offsets import create

CONSUMER = "confluent-consumer-uniform"


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def type_of(admin: AdminClient, group: Group) -> Any:
    """Which protocol a group is of."""
    return done(admin.describe_consumer_groups([group.settings.group_id], request_timeout=SECONDS)).type


@pytest.mark.parametrize("classic", ["confluent-range", "confluent-cooperative", "kafka-python-cooperative"])
def test_migration_and_back(broker: Broker, admin: AdminClient, topic: str, classic: str) -> None:
    """Each member in turn is replaced by one of the other protocol; each record is processed, and offsets stay."""
    create(broker, topic, PARTITIONS)
    places = places_of(topic)
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        members = [group.join(classic), group.join(classic)]
        values: set[bytes] = set()

        def settled(name: str, type_: ConsumerGroupType) -> None:
            group.until_balanced(places)
            values.update(produce(broker, name, topic))
            group.until_processed(values)
            assert type_of(admin, group) == type_

        settled("classic", ConsumerGroupType.CLASSIC)
        for number in range(2):
            members.append(group.join(CONSUMER))
            settled(f"there-{number}-joined", ConsumerGroupType.CONSUMER)
            group.close(members.pop(0))
            settled(f"there-{number}-left", ConsumerGroupType.CONSUMER)
        group.until_committed(dict.fromkeys(places, 50))
        for number in range(2):
            members.append(group.join(classic))
            settled(f"back-{number}-joined", ConsumerGroupType.CONSUMER)
            group.close(members.pop(0))
            settled(f"back-{number}-left", (ConsumerGroupType.CONSUMER, ConsumerGroupType.CLASSIC)[number])
        group.until_committed(dict.fromkeys(places, 90))
        group.assert_never_shared()


def test_empty_group_changes_at_once(broker: Broker, admin: AdminClient, topic: str) -> None:
    """The first member decides the protocol of an empty group, which continues from the committed offsets."""
    create(broker, topic, PARTITIONS)
    types = {"confluent-range": ConsumerGroupType.CLASSIC, CONSUMER: ConsumerGroupType.CONSUMER}
    with Group(broker.bootstrap, f"group-{topic}", [topic]) as group:
        for kind in ("confluent-range", CONSUMER, "confluent-range"):
            values = produce(broker, f"{kind}-{len(group.members)}", topic)
            member = group.join(kind)
            group.until_processed(values)
            assert {record.value for record in member.records} == values
            assert type_of(admin, group) == types[kind]
            group.close(member)

"""Administration of groups by confluent-kafka's AdminClient."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from logbus.testing import Broker
from tests.interop.consumers import SECONDS, Place
from tests.interop.group_workload import PARTITIONS, places_of, produce
from tests.interop.member_groups import Group, Member
from tests.interop.test_admin_confluent import done, refused
from tests.interop.test_offsets import create

TYPES = {"classic": ConsumerGroupType.CLASSIC, "consumer": ConsumerGroupType.CONSUMER}


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def listed(admin: AdminClient, **of: Any) -> dict[str, Any]:
    """The groups there are, by their names."""
    found = admin.list_consumer_groups(**of).result(SECONDS)
    assert not found.errors
    return {group.group_id: group for group in found.valid}


def committed(admin: AdminClient, group_id: str, *places: Place) -> dict[Place, tuple[int, KafkaError | None]]:
    """The offsets of a group, of all its partitions unless some are named."""
    asked = ConsumerGroupTopicPartitions(group_id, [TopicPartition(*place) for place in places] or None)
    found = done(admin.list_consumer_group_offsets([asked])).topic_partitions
    return {(each.topic, each.partition): (each.offset, each.error) for each in found}


def alter(admin: AdminClient, group_id: str, *offsets: TopicPartition) -> Any:
    """Set offsets; what became of each is with it."""
    return done(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id, list(offsets))]))


@pytest.mark.parametrize("kind", ["confluent-range", "confluent-consumer-range"])
def test_group_with_members(broker: Broker, admin: AdminClient, topic: str, kind: str) -> None:
    """It is listed with its type and state, and described with who owns what; it cannot be deleted."""
    create(broker, topic, PARTITIONS)
    group_id, type_ = f"group-{topic}", TYPES["consumer" if "consumer" in kind else "classic"]
    with Group(broker.bootstrap, group_id, [topic]) as group:
        members: dict[str, Member] = {}
        for name in ("one", "two"):
            members[name] = group.join(kind, client_id=f"client-{name}", instance_id=name)
        group.until_balanced(places_of(topic))
        group.until_processed(produce(broker, "before", topic))
        group.until_committed(dict.fromkeys(places_of(topic), 10))

        found = listed(admin)[group_id]
        assert (found.state, found.type, found.is_simple_consumer_group) == (ConsumerGroupState.STABLE, type_, False)
        assert group_id in listed(admin, states={ConsumerGroupState.STABLE}, types={type_})
        assert group_id not in listed(admin, states={ConsumerGroupState.EMPTY})
        assert group_id not in listed(admin, types=set(TYPES.values()) - {type_})

        described = done(admin.describe_consumer_groups([group_id]))
        assert (described.state, described.type) == (ConsumerGroupState.STABLE, type_)
        assert (described.partition_assignor, described.coordinator.id) == ("range", 0)
        assert {each.group_instance_id: each.client_id for each in described.members} == {
            "one": "client-one",
            "two": "client-two",
        }
        for each in described.members:
            assert each.host == "/127.0.0.1"
            owned = {(place.topic, place.partition) for place in each.assignment.topic_partitions}
            assert owned == members[each.group_instance_id].owned

        assert refused(admin.delete_consumer_groups([group_id])) == KafkaError.NON_EMPTY_GROUP
        answer = alter(admin, group_id, TopicPartition(topic, 0, 3))
        assert [each.error.code() for each in answer.topic_partitions] == [KafkaError.UNKNOWN_MEMBER_ID]
        assert committed(admin, group_id) == dict.fromkeys(places_of(topic), (10, None))


def test_empty_group(broker: Broker, admin: AdminClient, topic: str) -> None:
    """Its offsets are set and read; it is deleted once, and then is unknown."""
    create(broker, topic, 3)
    group_id = f"group-{topic}"
    answer = alter(admin, group_id, TopicPartition(topic, 0, 7), TopicPartition(topic, 2, 9, metadata="by hand"))
    assert [each.error for each in answer.topic_partitions] == [None, None]
    assert committed(admin, group_id) == {(topic, 0): (7, None), (topic, 2): (9, None)}
    # -1001: none is committed.
    assert committed(admin, group_id, (topic, 1), (topic, 2)) == {(topic, 1): (-1001, None), (topic, 2): (9, None)}
    assert listed(admin)[group_id].state == ConsumerGroupState.EMPTY
    described = done(admin.describe_consumer_groups([group_id]))
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])
    done(admin.delete_consumer_groups([group_id]))
    assert group_id not in listed(admin)
    assert committed(admin, group_id) == {}
    assert refused(admin.delete_consumer_groups([group_id])) == KafkaError.GROUP_ID_NOT_FOUND


def test_unknown_group(admin: AdminClient, topic: str) -> None:
    """A group that never was is described as dead, has no offsets, and cannot be deleted."""
    group_id = f"group-{topic}"
    described = done(admin.describe_consumer_groups([group_id]))
    assert (described.state, described.members) == (ConsumerGroupState.DEAD, [])
    assert committed(admin, group_id, (topic, 0)) == {(topic, 0): (-1001, None)}
    assert refused(admin.delete_consumer_groups([group_id])) == KafkaError.GROUP_ID_NOT_FOUND


def test_offset_of_an_unknown_partition(broker: Broker, admin: AdminClient, topic: str) -> None:
    """It is refused, and the others of the same request are set."""
    create(broker, topic, 1)
    answer = alter(admin, f"group-{topic}", TopicPartition(topic, 0, 1), TopicPartition(topic, 8, 1))
    assert KafkaError.UNKNOWN_TOPIC_OR_PART in {each.error and each.error.code() for each in answer.topic_partitions}
    assert committed(admin, f"group-{topic}") == {(topic, 0): (1, None)}

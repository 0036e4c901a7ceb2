"""Administration of groups by the clients written in Python: kafka-python and aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka import errors as py_errors
from kafka.admin import MemberToRemove, OffsetSpec

from logbus.testing import Broker
from tests.interop.group_workload import PARTITIONS, places_of, produce
from tests.interop.member_groups import Group
from tests.interop.test_offsets import create


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def offsets(admin: Any, group_id: str) -> dict[int, tuple[int, str]]:
    """The committed offsets of a group in its only topic."""
    found = admin.list_group_offsets({group_id: None})[group_id]
    return {place.partition: (held.offset, held.metadata) for place, held in found.items()}


def test_group_with_members(broker: Broker, admin: Any, topic: str) -> None:
    """It is described with who owns what; its offsets and itself are safe from deletion; a member can be removed."""
    create(broker, topic, PARTITIONS)
    group_id = f"group-{topic}"
    with Group(broker.bootstrap, group_id, [topic]) as group:
        members = [group.join("kafka-python-range", client_id=f"client-{n}", instance_id=f"name-{n}") for n in (0, 1)]
        group.until_balanced(places_of(topic))
        group.until_processed(produce(broker, "before", topic))
        group.until_committed(dict.fromkeys(places_of(topic), 10))
        found = {each["group_id"]: each for each in admin.list_groups()}[group_id]
        assert (found["protocol_type"], found["group_state"], found["group_type"]) == ("consumer", "Stable", "classic")
        assert group_id in {each["group_id"] for each in admin.list_groups(states_filter=["Stable"])}
        assert group_id not in {each["group_id"] for each in admin.list_groups(states_filter=["Empty"])}
        assert group_id not in {each["group_id"] for each in admin.list_groups(types_filter=["consumer"])}

        described = admin.describe_groups([group_id])[group_id]
        assert (described["error"], described["group_state"], described["protocol_data"]) == (None, "Stable", "range")
        for number, member in enumerate(members):
            [told] = [each for each in described["members"] if each["group_instance_id"] == f"name-{number}"]
            assert told["client_id"] == f"client-{number}"
            assert told["client_host"] == "/127.0.0.1"
            assert told["member_metadata"]["topics"] == [topic]
            [share] = told["member_assignment"]["assigned_partitions"]
            assert {(share["topic"], partition) for partition in share["partitions"]} == member.owned

        assert admin.delete_groups([group_id]) == {group_id: "NonEmptyGroupError"}
        place = TopicPartition(topic, 0)
        assert admin.delete_group_offsets(group_id, [place]) == {place: py_errors.GroupSubscribedToTopicError}
        refusal = admin.alter_group_offsets(group_id, {place: OffsetAndMetadata(3, "", -1)})
        assert refusal == {place: py_errors.UnknownMemberIdError}
        assert offsets(admin, group_id) == dict.fromkeys(range(PARTITIONS), (10, ""))

        seen = members[1].rebalances()
        removed = admin.remove_group_members(group_id, [MemberToRemove(group_instance_id="name-0")])
        assert list(removed.values()) == [py_errors.NoError]
        # The member is alive, and comes back.
        group.until(lambda: members[1].rebalances() > seen, "rebalanced")
        group.until_balanced(places_of(topic))


def test_empty_group(broker: Broker, admin: Any, topic: str) -> None:
    """Its offsets are set, reset, deleted one by one; it is deleted once, and then is unknown."""
    create(broker, topic, 3)
    produce(broker, "before", topic, 3)
    group_id = f"group-{topic}"
    places = [TopicPartition(topic, number) for number in range(3)]
    answer = admin.alter_group_offsets(group_id, {place: OffsetAndMetadata(4, "by hand", -1) for place in places})
    assert answer == dict.fromkeys(places, py_errors.NoError)
    assert offsets(admin, group_id) == dict.fromkeys(range(3), (4, "by hand"))
    admin.reset_group_offsets(group_id, {places[0]: OffsetSpec.EARLIEST, places[1]: OffsetSpec.LATEST, places[2]: 700})
    assert offsets(admin, group_id) == {0: (0, "by hand"), 1: (10, "by hand"), 2: (10, "by hand")}
    assert admin.delete_group_offsets(group_id, places[:1]) == {places[0]: py_errors.NoError}
    assert offsets(admin, group_id) == {1: (10, "by hand"), 2: (10, "by hand")}
    assert admin.describe_groups([group_id])[group_id]["group_state"] == "Empty"
    assert admin.delete_groups([group_id]) == {group_id: "OK"}
    assert group_id not in {each["group_id"] for each in admin.list_groups()}
    assert offsets(admin, group_id) == {}
    assert admin.delete_groups([group_id]) == {group_id: "GroupIdNotFoundError"}


def test_unknown_group(admin: Any, topic: str) -> None:
    """Nothing is there to be deleted, and nobody to be removed."""
    group_id = f"group-{topic}"
    assert admin.describe_groups([group_id])[group_id]["group_state"] == "Dead"
    with pytest.raises(py_errors.GroupIdNotFoundError):
        admin.delete_group_offsets(group_id, [TopicPartition(topic, 0)])
    removed = admin.remove_group_members(group_id, [MemberToRemove(member_id="nobody")])
    assert list(removed.values()) == [py_errors.UnknownMemberIdError]


def test_aiokafka(broker: Broker, admin: Any, topic: str) -> None:
    """aiokafka lists and describes a group, and reads its offsets."""
    create(broker, topic, 2)
    group_id = f"group-{topic}"
    place = TopicPartition(topic, 1)
    admin.alter_group_offsets(group_id, {place: OffsetAndMetadata(5, "noted", -1)})

    async def ask(client: Any) -> tuple[Any, ...]:
        await client.start()
        try:
            return (
                await client.list_consumer_groups(),
                await client.describe_consumer_groups([group_id]),
                await client.list_consumer_group_offsets(group_id),
            )
        finally:
            await client.close()

    async def asked() -> tuple[Any, ...]:
        return await ask(AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap))

    with Group(broker.bootstrap, group_id, [topic]) as group:
        group.join("aiokafka-roundrobin")
        group.until_balanced(places_of(topic, 2))
        groups, [described], committed = asyncio.run(asked())
        assert (group_id, "consumer") in {tuple(each[:2]) for each in groups}
        [(error, name, state, kind, protocol, members, *_)] = described.groups
        assert (error, name, state, kind, protocol) == (0, group_id, "Stable", "consumer", "roundrobin")
        assert len(members) == 1
        assert {tuple(at): tuple(held) for at, held in committed.items()} == {(topic, 1): (5, "noted")}

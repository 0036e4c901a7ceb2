"""Administration by confluent-kafka's AdminClient."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from logbus.testing import Broker

SECONDS = 120


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def done(futures: Mapping[Any, Future[Any]]) -> Any:
    """The result of the only future of an answer."""
    [future] = futures.values()
    return future.result(SECONDS)


def refused(futures: Mapping[Any, Future[Any]]) -> int:
    """The error code of the only future of an answer."""
    with pytest.raises(KafkaException) as caught:
        done(futures)
    code: int = caught.value.args[0].code()
    return code


@pytest.mark.one_broker
def test_topics(admin: AdminClient, topic: str) -> None:
    """A topic is created, described, listed, and deleted."""
    done(admin.create_topics([NewTopic(topic, 3, 1, config={"retention.ms": "60000"})]))
    described = done(admin.describe_topics(TopicCollection([topic])))
    assert [(p.id, p.leader.id, [r.id for r in p.isr]) for p in described.partitions] == [(n, 0, [0]) for n in range(3)]
    assert topic in admin.list_topics(timeout=SECONDS).topics
    assert list(admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions) == [0, 1, 2]
    assert refused(admin.create_topics([NewTopic(topic, 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    done(admin.delete_topics([topic]))
    assert topic not in admin.list_topics(timeout=SECONDS).topics
    assert refused(admin.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert refused(admin.describe_topics(TopicCollection([topic]))) == KafkaError.UNKNOWN_TOPIC_OR_PART
    done(admin.create_topics([NewTopic(topic, 1, 1)]))
    assert str(done(admin.describe_topics(TopicCollection([topic]))).topic_id) != str(described.topic_id)


def test_default_partitions(admin: AdminClient, topic: str) -> None:
    """Without numbers the broker's own count."""
    done(admin.create_topics([NewTopic(topic)]))
    assert len(done(admin.describe_topics(TopicCollection([topic]))).partitions) == 1


def test_partitions(admin: AdminClient, topic: str) -> None:
    """Partitions are added, and never taken away."""
    done(admin.create_topics([NewTopic(topic, 2, 1)]))
    done(admin.create_partitions([NewPartitions(topic, 5)]))
    assert len(done(admin.describe_topics(TopicCollection([topic]))).partitions) == 5
    assert refused(admin.create_partitions([NewPartitions(topic, 3)])) == KafkaError.INVALID_PARTITIONS
    assert refused(admin.create_partitions([NewPartitions("absent", 3)])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_configs(admin: AdminClient, topic: str) -> None:
    """Single keys are set, appended to, and given back."""
    done(admin.create_topics([NewTopic(topic, 1, 1)]))

    def change(name: str, value: str | None, how: AlterConfigOpType) -> Mapping[Any, Future[Any]]:
        entry = ConfigEntry(name, value, incremental_operation=how)
        answer: Mapping[Any, Future[Any]] = admin.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
        )
        return answer

    def said() -> dict[str, str]:
        found = done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: entry.value for name, entry in found.items() if not entry.is_default}

    before = said()
    done(change("retention.ms", "5000", AlterConfigOpType.SET))
    done(change("cleanup.policy", "compact", AlterConfigOpType.APPEND))
    assert said() == {**before, "retention.ms": "5000", "cleanup.policy": "delete,compact"}
    done(change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT))
    done(change("retention.ms", None, AlterConfigOpType.DELETE))
    assert said() == {**before, "cleanup.policy": "compact"}
    assert refused(change("retention.ms", "soon", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG
    assert refused(change("retention.sm", "1", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG
    assert said() == {**before, "cleanup.policy": "compact"}


def test_records_and_offsets(admin: AdminClient, broker: Broker, topic: str) -> None:
    """Records are deleted up to an offset; offsets are found by name and by time."""
    done(admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})]))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce(topic, b"x", partition=0, timestamp=1_000 + 1_000 * number + (500_000 if number == 8 else 0))
    assert producer.flush(SECONDS) == 0

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        found = done(admin.list_offsets({TopicPartition(topic, 0): spec}))
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest()) == (0, -1)
    assert offset(OffsetSpec.latest()) == (10, -1)
    assert offset(OffsetSpec.max_timestamp()) == (8, 509_000)
    assert offset(OffsetSpec.for_timestamp(4_001)) == (4, 5_000)
    assert offset(OffsetSpec.for_timestamp(509_001)) == (-1, -1)
    assert done(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark == 4
    assert offset(OffsetSpec.earliest()) == (4, -1)
    assert refused(admin.delete_records([TopicPartition(topic, 0, 11)])) == KafkaError.OFFSET_OUT_OF_RANGE


@pytest.mark.one_broker
def test_cluster(admin: AdminClient, broker: Broker) -> None:
    """The cluster has an id, one broker, and that one is the controller."""
    found = admin.describe_cluster().result(SECONDS)
    assert (found.controller.id, [node.id for node in found.nodes]) == (0, [0])
    assert f"{found.nodes[0].host}:{found.nodes[0].port}" == broker.bootstrap
    assert found.cluster_id == admin.list_topics(timeout=SECONDS).cluster_id


@pytest.mark.parametrize("name", ["a/b", "..", "with space", "x" * 250])
def test_invalid_names(admin: AdminClient, name: str) -> None:
    """Names that could not be a directory's are refused."""
    assert refused(admin.create_topics([NewTopic(name, 1, 1)])) == KafkaError.TOPIC_EXCEPTION


def test_too_many_replicas(admin: AdminClient, topic: str) -> None:
    """One broker can hold one replica."""
    assert refused(admin.create_topics([NewTopic(topic, 1, 3)])) == KafkaError.INVALID_REPLICATION_FACTOR

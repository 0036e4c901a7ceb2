"""Three brokers on one ZooKeeper: every broker gives the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from logbus.testing.cluster import Cluster, ClusterBroker

SECONDS = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """It runs for all tests of this module."""
    with Cluster() as running:
        yield running


def metadata(broker: ClusterBroker, topic: str | None = None) -> ClusterMetadata:
    """What a broker tells a client that knows no other; a topic that is asked for is created."""
    asked = {"bootstrap.servers": broker.bootstrap, "allow.auto.create.topics": True}
    return Producer(asked).list_topics(topic, timeout=SECONDS)


def create(broker: ClusterBroker, name: str, partitions: int) -> None:
    """Create a topic with one replica of each partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(SECONDS)


def produce(broker: ClusterBroker, topic: str, partitions: int) -> None:
    """A record to each partition, with its number as value."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for partition in range(partitions):
        producer.produce(
            topic, b"%d" % partition, partition=partition, on_delivery=lambda error, _: error and failed.append(error)
        )
    assert producer.flush(SECONDS) == 0
    assert failed == []


def consume(broker: ClusterBroker, topic: str, partitions: int) -> Sequence[bytes | None]:
    """The first record of each partition, by way of this broker."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found: dict[int, bytes | None] = {}
        while len(found) < partitions:
            message: Message | None = consumer.poll(SECONDS)
            assert message is not None, f"only {found} came"
            assert message.error() is None, message.error()
            found.setdefault(message.partition() or 0, message.value())
        return [found[partition] for partition in range(partitions)]
    finally:
        consumer.close()


def test_the_same_everywhere(cluster: Cluster) -> None:
    """Every broker tells of all three, at the addresses for clients, and of one controller."""
    controller = cluster.controller().id
    for broker in cluster.brokers:
        told = metadata(broker)
        assert told.controller_id == controller
        assert {f"{one.host}:{one.port}" for one in told.brokers.values()} == set(cluster.bootstrap.split(","))
        assert sorted(told.brokers) == [0, 1, 2]


def test_topics_by_way_of_any_broker(cluster: Cluster) -> None:
    """A topic made by way of a broker that is not the controller is served by all of them when the answer comes."""
    others = [broker for broker in cluster.brokers if broker.id != cluster.controller().id]
    name = f"asked-{uuid4().hex}"
    made = metadata(others[0], name).topics[name]
    assert made.error is None
    for broker in cluster.brokers:
        seen = metadata(broker).topics[name]
        assert {n: p.leader for n, p in seen.partitions.items()} == {n: p.leader for n, p in made.partitions.items()}


def test_leaders_are_spread(cluster: Cluster) -> None:
    """Partitions led by different brokers are written and read by a client that knows one of them."""
    name = f"spread-{uuid4().hex}"
    create(cluster.brokers[0], name, 6)
    leaders = [part.leader for part in metadata(cluster.brokers[1]).topics[name].partitions.values()]
    assert sorted(set(leaders)) == [0, 1, 2]
    produce(cluster.brokers[1], name, 6)
    assert consume(cluster.brokers[2], name, 6) == [b"%d" % partition for partition in range(6)]


@pytest.mark.long
def test_the_controller_dies(cluster: Cluster) -> None:
    """Another takes over: topics can be created, and the one that died comes back to what it led."""
    name = f"before-{uuid4().hex}"
    create(cluster.brokers[0], name, 3)
    produce(cluster.brokers[0], name, 3)
    killed = cluster.controller()
    killed.kill()
    now = cluster.controller(other_than=killed)
    cluster.wait_gone(killed)
    others = [broker for broker in cluster.brokers if broker is not killed]
    for broker in others:
        # Brokers hear of a controller after it was elected, and clients wait for the one that they were told of.
        cluster.wait_until(
            lambda broker=broker: metadata(broker).controller_id == now.id,  # type: ignore[misc]
            f"broker {broker.id} telling of the controller",
        )
        after = f"after-{broker.id}-{uuid4().hex}"
        create(broker, after, 2)
        produce(broker, after, 2)
    killed.start()
    cluster.wait_back(killed)
    cluster.wait_known()
    assert consume(killed, name, 3) == [b"0", b"1", b"2"]

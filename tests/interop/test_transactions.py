"""Tests the transactions of every client that has them; every client reads the records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from logbus.records.batch import BatchHeader, iter_batches
from logbus.testing import Broker, Cluster, LocalCluster
from logbus.testing.waiting import wait_until
from tests.interop.clients import SECONDS, log_files
from tests.interop.java_client import Java
from tests.interop.test_cluster_records import led_by_each
from tests.interop.test_offsets import create
from tests.interop.transactional_clients import END, PRODUCERS, Fenced, Make, Read, Transactional, producers, readers

COMMITTED, ALL = "read_committed", "read_uncommitted"


@pytest.fixture(params=PRODUCERS)
def make(request: pytest.FixtureRequest, java: Java) -> Iterator[Make]:
    """Makes producers of each client in turn, and closes them in the end."""
    made: list[Transactional] = []

    def remembered(bootstrap: str, transactional_id: str) -> Transactional:
        made.append(producers(java)[request.param](bootstrap, transactional_id))
        return made[-1]

    yield remembered
    for one in made:
        one.close()


@pytest.fixture
def read(java: Java) -> dict[str, Read]:
    """Every client's way to read."""
    return readers(java)


def in_transaction(producer: Transactional, topic: str, values: list[bytes], partition: int = 0) -> None:
    """Commit them."""
    producer.begin()
    producer.send(topic, values, partition)
    producer.commit()


def offset_of(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    """The committed offset of a group; −1001: none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        [found] = consumer.committed([TopicPartition(topic, partition)], SECONDS)
        return int(found.offset)
    finally:
        consumer.close()


def commits_and_aborts(make: Make, read: dict[str, Read], bootstrap: str, topic: str) -> None:
    """Two partitions, written by turns."""
    producer = make(bootstrap, f"id-{topic}")
    kept: dict[int, list[bytes]] = {0: [], 1: []}
    sent: dict[int, list[bytes]] = {0: [], 1: []}
    for number in range(6):
        producer.begin()
        for partition in (0, 1):
            values = [b"%d/%d/%d" % (number, partition, each) for each in range(3)]
            producer.send(topic, values, partition)
            sent[partition] += values
            kept[partition] += values if number % 3 != 1 else []
        if number % 3 == 1:
            producer.abort()
        else:
            producer.commit()
    for partition in (0, 1):
        in_transaction(producer, topic, [END], partition)
    for name, values_of in read.items():
        for partition in (0, 1):
            assert values_of(bootstrap, topic, partition, COMMITTED) == kept[partition], name
            assert values_of(bootstrap, topic, partition, ALL) == sent[partition], name


def test_commits_and_aborts(broker: Broker, topic: str, make: Make, read: dict[str, Read]) -> None:
    """Whoever reads committed records gets what was committed; who reads all of them gets what was aborted, too."""
    create(broker, topic, 2)
    commits_and_aborts(make, read, broker.bootstrap, topic)


def test_commits_and_aborts_in_a_cluster(
    cluster: LocalCluster, java: Java, topic: str, make: Make, read: dict[str, Read]
) -> None:
    """The same, where the two partitions, and perhaps the coordinator, are with different brokers."""
    led_by_each(java, cluster, topic)
    commits_and_aborts(make, read, cluster.bootstrap, topic)


def test_open_transaction(broker: Broker, topic: str, make: Make, read: dict[str, Read]) -> None:
    """Behind a transaction that is open nothing is committed, whoever wrote it; once it ends, everything is there."""
    create(broker, topic)
    slow, fast = make(broker.bootstrap, f"slow-{topic}"), make(broker.bootstrap, f"fast-{topic}")
    in_transaction(fast, topic, [b"before"])
    slow.begin()
    slow.send(topic, [b"slow"])
    in_transaction(fast, topic, [b"fast", END])
    assert read["confluent"](broker.bootstrap, topic, 0, ALL) == [b"before", b"slow", b"fast"]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        # Where readers of committed records are held up: at the first record of the open one.
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert [each.value() for each in consumer.consume(1, SECONDS)] == [b"before"]
        assert consumer.consume(1, 1.0) == []
    finally:
        consumer.close()
    slow.commit()
    for name, values_of in read.items():
        assert values_of(broker.bootstrap, topic, 0, COMMITTED) == [b"before", b"slow", b"fast"], name


def test_offsets(broker: Broker, topic: str, make: Make) -> None:
    """A group's offsets are committed with the records, and not with those that were aborted."""
    create(broker, topic, 2)
    group, producer = f"group-{topic}", make(broker.bootstrap, f"id-{topic}")
    producer.begin()
    producer.send(topic, [b"kept"])
    producer.offsets(group, topic, {0: 5, 1: 7})
    producer.commit()
    assert [offset_of(broker.bootstrap, group, topic, each) for each in (0, 1)] == [5, 7]
    producer.begin()
    producer.send(topic, [b"dropped"])
    producer.offsets(group, topic, {0: 6})
    producer.abort()
    assert offset_of(broker.bootstrap, group, topic) == 5
    producer.begin()
    producer.offsets(group, topic, {0: 8})
    producer.commit()
    assert offset_of(broker.bootstrap, group, topic) == 8


def test_fencing(broker: Broker, topic: str, make: Make, read: dict[str, Read]) -> None:
    """Another producer of the same id ends what the one before it had begun, which learns that it has been replaced."""
    create(broker, topic)
    zombie = make(broker.bootstrap, f"id-{topic}")
    zombie.begin()
    zombie.send(topic, [b"zombie"])
    heir = make(broker.bootstrap, f"id-{topic}")
    with pytest.raises(Fenced):
        zombie.send(topic, [b"again"])
        zombie.commit()
    in_transaction(heir, topic, [b"heir", END])
    for name, values_of in read.items():
        assert values_of(broker.bootstrap, topic, 0, COMMITTED) == [b"heir"], name
    assert read["confluent"](broker.bootstrap, topic, 0, ALL) == [b"zombie", b"heir"]


@pytest.mark.parametrize("kind", PRODUCERS)
def test_epochs(broker: Broker, java: Java, topic: str, kind: str) -> None:
    """
    Kafka's own client has each transaction in an epoch of its own (KIP-890); with the others it stays the same.
    """
    create(broker, topic)
    producer = producers(java)[kind](broker.bootstrap, f"id-{topic}")
    try:
        for number in range(3):
            in_transaction(producer, topic, [b"%d" % number])
    finally:
        producer.close()

    def written() -> list[BatchHeader]:
        return [header for _, header in iter_batches(log_files(broker.data_dir, topic))]

    # The answer to a commit does not wait for its markers.
    wait_until(lambda: len(written()) == 6, lambda: f"six batches, {len(written())} came", SECONDS)
    headers = written()
    found = [(header.producer_epoch, header.control) for header in headers]
    first = found[0][0]
    if kind == "java":
        expected = [(first + number + marks, bool(marks)) for number in range(3) for marks in (0, 1)]
    else:
        expected = [(first, False), (first, True)] * 3
    assert found == expected


@pytest.mark.long
def test_coordinator_dies(
    cluster_of_processes: Cluster,
    java: Java,
    topic: str,
    make: Make,
    read: dict[str, Read],
    request: pytest.FixtureRequest,
) -> None:
    """The broker that coordinates dies in the middle of a transaction: it is committed all the same, as a whole."""
    if request.node.callspec.params["make"] == "kafka-python":
        # Its Sender forgets the request if connecting fails, looks for the coordinator, and waits for ever.
        pytest.skip("kafka-python 3.0 drops EndTxn when the coordinator cannot be connected to")
    cluster = cluster_of_processes
    led_by_each(java, cluster, topic)
    producer = make(cluster.bootstrap, f"id-{topic}")
    in_transaction(producer, topic, [b"before"], 0)
    producer.begin()
    for partition in range(3):
        producer.send(topic, [b"during"], partition)
    coordinator = cluster.leader("__transaction_state")
    coordinator.kill()
    try:
        for partition in range(3):
            producer.send(topic, [b"after"], partition)
        producer.commit()
        for partition in range(3):
            in_transaction(producer, topic, [END], partition)
    finally:
        coordinator.start()
        cluster.wait_in_sync(topic, "__transaction_state")
    for partition, before in enumerate(([b"before"], [], [])):
        found = read["confluent"](cluster.bootstrap, topic, partition, COMMITTED)
        assert found == [*before, b"during", b"after"]

"""Tests records on three brokers: every client reads what any client wrote, and all replicas are equal."""

from __future__ import annotations

import pytest

from logbus.records.batch import iter_batches
from logbus.records.compression import Codec
from logbus.testing import Cluster, LocalCluster
from logbus.testing.local_cluster import LocalBroker
from tests.interop.clients import CLIENTS, CODECS, Client, Message, log_files
from tests.interop.java_client import Java

PARTITIONS = 3


@pytest.fixture(params=[*(client.name for client in CLIENTS), Java.name])
def writer(request: pytest.FixtureRequest, java: Java) -> Client:
    """Each client in turn, Java's among them."""
    by_name: dict[str, Client] = {client.name: client for client in (*CLIENTS, java)}
    return by_name[request.param]


def led_by_each(java: Java, cluster: LocalCluster | Cluster, topic: str) -> str:
    """A topic of three replicas, partition N led by broker N; a broker that is not the controller is asked for it."""
    asked = next(broker for broker in cluster.brokers if broker is not cluster.controller())
    java.run("create", asked.bootstrap, topic, "0,1,2;1,2,0;2,0,1")
    return topic


def replicas_agree(cluster: LocalCluster, topic: str) -> dict[int, bytes]:
    """Wait until the logs of all brokers are the same; the batches of each partition."""

    def held(broker: LocalBroker) -> dict[int, bytes]:
        return {partition: log_files(broker.data_dir, topic, partition) for partition in range(PARTITIONS)}

    def same() -> dict[int, bytes] | None:
        first, *others = map(held, cluster.brokers)
        return first if all(first.values()) and all(other == first for other in others) else None

    return cluster.wait_until(same, f"the same log of {topic} on all brokers", 10)


def test_every_client_reads_its_records(cluster: LocalCluster, java: Java, topic: str, writer: Client) -> None:
    """By way of one broker to three leaders, in every codec, idempotent; every replica has the very same batches."""
    led_by_each(java, cluster, topic)
    sent: dict[int, list[Message]] = {partition: [] for partition in range(PARTITIONS)}
    for number, codec in enumerate(CODECS):
        partition = number % PARTITIONS
        some = [
            Message(b"%d %s " % (n, codec.encode()) * 30, b"key %d" % n, (("codec", codec.encode()),)) for n in range(3)
        ]
        bootstrap = cluster.brokers[number % len(cluster.brokers)].bootstrap
        writer.produce(bootstrap, topic, some, partition=partition, codec=codec, idempotent=True)
        sent[partition] += some
    for number, reader in enumerate((*CLIENTS, java)):
        bootstrap = cluster.brokers[number % len(cluster.brokers)].bootstrap
        for partition, messages in sent.items():
            found = reader.fetch(bootstrap, topic, len(messages), partition=partition)
            assert found == messages, f"{reader.name} read something else from {topic}-{partition}"
            assert [message.offset for message in found] == list(range(len(messages)))
    headers = [header for log in replicas_agree(cluster, topic).values() for _, header in iter_batches(log)]
    assert {Codec(header.codec).name.lower() for header in headers} == set(CODECS)
    assert all(header.producer_id >= 0 for header in headers)


def test_many_batches(cluster: LocalCluster, java: Java, topic: str) -> None:
    """A client reads on from the middle of what it wrote, whoever leads."""
    led_by_each(java, cluster, topic)
    sent = [Message(b"%d " % number * 20) for number in range(3_000)]
    for partition, client in enumerate((java, CLIENTS[0], CLIENTS[2])):
        client.produce(cluster.bootstrap, topic, sent, partition=partition, codec="lz4", idempotent=True)
        assert client.fetch(cluster.bootstrap, topic, 1_700, partition=partition, offset=1_300) == sent[1_300:]
    replicas_agree(cluster, topic)

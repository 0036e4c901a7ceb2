"""A cluster whose brokers speak TLS among themselves, show each other their certificates, and log in by SASL."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import Cluster
from tests.certificates import Authority

pytestmark = [pytest.mark.interop, pytest.mark.slow]
SECONDS = 120


def settings(directory: Path, hosts: tuple[str, ...]) -> dict[str, str]:
    """The settings of all brokers, whose certificate names these hosts."""
    authority = Authority.new()
    return {
        "listener.security.protocol.map": "kafka:PLAINTEXT,replication:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "ssl.truststore.location": str(authority.write(directory / "ca.pem")),
        "ssl.keystore.location": str(authority.issue("CN=broker", hosts=hosts).write(directory / "broker.pem")),
        "listener.name.replication.ssl.client.auth": "required",
        "listener.name.replication.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.replication.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="broker" password="of-brokers" user_broker="of-brokers";'
        ),
        # So that connections are replaced while the test runs.
        "listener.name.replication.connections.max.reauth.ms": "2000",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:ANONYMOUS",
        "offsets.topic.num.partitions": "1",
    }


def test_replication(tmp_path: Path) -> None:
    """Records are replicated, and survive the leader."""
    hosts = ("localhost", "127.0.0.1", "127.0.8.1", "127.0.8.2")
    with Cluster(brokers=2, config=settings(tmp_path, hosts)) as cluster:
        client = {"bootstrap.servers": cluster.bootstrap}
        topic = NewTopic("t", 1, 2)
        admin = AdminClient(client)
        admin.create_topics([topic])["t"].result(SECONDS)
        producer = Producer({**client, "acks": "all"})
        for n in range(10):
            producer.produce("t", str(n).encode())
        assert producer.flush(SECONDS) == 0
        led = cluster.leader("t", 0)
        led.kill()
        cluster.leader("t", 0, other_than=led)
        consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        try:
            assert [message.value() for message in consumer.consume(10, SECONDS)] == [
                str(n).encode() for n in range(10)
            ]
        finally:
            consumer.close()

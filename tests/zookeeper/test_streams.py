"""
An application of Kafka Streams whose tasks the broker assigns (KIP-1071), on clusters with ZooKeeper: with a user that
has just the rights that Kafka's documentation names, and while brokers are killed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from logbus.testing import Broker
from logbus.testing.cluster import Cluster
from logbus.testing.zookeeper import ZooKeeper
from tests.interop.test_acls import AUTHORIZER
from tests.interop.test_streams import NAME, PARTITIONS, Writer, application, check_results, running
from tests.zookeeper.test_broker import a_broker

__all__ = ["application"]

SECONDS = 120.0
TOPICS = ("lines", "authors", "counts", "signed")
STREAMS = {
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
}
PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="a" '
    'user_admin="a" user_app="b";'
)
ADMIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "admin",
    "sasl.password": "a",
}
APP = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="b";'
    ),
    "group.protocol": "streams",
}


def create_topics(broker: Broker, replicas: int, settings: dict[str, str]) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **settings})
    topics = [NewTopic(name, PARTITIONS, replicas) for name in TOPICS]
    for made in admin.create_topics(topics, request_timeout=SECONDS).values():
        made.result(SECONDS)
    return admin


def rights() -> list[AclBinding]:
    """Its group, topics and transactions by the prefix of its id, and what it reads and writes."""
    given = [(ResourceType.TOPIC, name, AclOperation.READ) for name in ("lines", "authors")]
    given += [(ResourceType.TOPIC, name, AclOperation.WRITE) for name in ("counts", "signed")]
    own = [
        (ResourceType.TOPIC, AclOperation.ALL),
        (ResourceType.GROUP, AclOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
    ]
    allow, literal, prefixed = AclPermissionType.ALLOW, ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    found = [AclBinding(kind, name, literal, "User:app", "*", what, allow) for kind, name, what in given]
    return found + [AclBinding(kind, NAME, prefixed, "User:app", "*", what, allow) for kind, what in own]


def test_user_with_rights(application: list[str], zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """It makes its internal topics, and counts each word once."""
    settings = {
        **STREAMS,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KAFKA:SASL_PLAINTEXT",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.kafka.plain.sasl.jaas.config": PLAIN,
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
    }
    with a_broker(zookeeper, "/streams", config=settings) as broker:
        admin = create_topics(broker, 1, ADMIN)
        for made in admin.create_acls(rights(), request_timeout=SECONDS).values():
            made.result(SECONDS)
        writer = Writer(broker, ADMIN)
        with running(application, broker, tmp_path / "1", APP):
            writer.write(300)
            check_results(broker, writer)
        own = {name for name in admin.list_topics(timeout=SECONDS).topics if name.startswith(NAME)}
        assert len(own) == 2, own


@pytest.mark.long
def test_brokers_are_killed(application: list[str], tmp_path: Path) -> None:
    """Whichever broker coordinates the group: the next one goes on with its tasks, and no word is counted twice."""
    settings = {**STREAMS, "default.replication.factor": "3", "min.insync.replicas": "2"}
    with Cluster(3, settings) as cluster:
        create_topics(cluster.brokers[0], 3, {})
        bootstrap = {"bootstrap.servers": cluster.bootstrap}
        writer = Writer(cluster.brokers[0], bootstrap)
        with running(application, cluster.brokers[0], tmp_path / "1", {"group.protocol": "streams"}):
            for broker in cluster.brokers:
                writer.write(100)
                broker.kill()
                writer.write(100)
                broker.start()
            check_results(cluster.brokers[0], writer)

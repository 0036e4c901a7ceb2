"""ACLs, set and shown by Kafka's own tool and by confluent-kafka, and obeyed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from benchmarks.compare.jars import KAFKA_VERSION, tools_jars
from logbus.testing import Broker
from tests.interop.clients import SECONDS
from tests.interop.java_client import CACHE

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
EVERYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


no_acls = pytest.mark.logbus({"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": True})
"""A broker on which everybody may do what no ACL is about."""


def write_error(broker: Broker, topic: str) -> str | None:
    """The name of the error of a record to a topic; None: it was written."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": int(SECONDS * 1000)})
    producer.produce(topic, b"value", on_delivery=lambda error, message: errors.append(error))
    producer.flush(SECONDS)
    (error,) = errors
    return None if error is None else error.name()


@no_acls
def test_confluent_kafka(logbus_broker: Broker) -> None:
    """A denial holds at once, and so does its end."""
    admin = AdminClient({"bootstrap.servers": logbus_broker.bootstrap})
    denial = AclBinding(
        ResourceType.TOPIC,
        "private",
        ResourcePatternType.PREFIXED,
        "User:ANONYMOUS",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    for future in admin.create_acls([denial], request_timeout=SECONDS).values():
        future.result(SECONDS)
    assert admin.describe_acls(EVERYTHING, request_timeout=SECONDS).result(SECONDS) == [denial]
    assert write_error(logbus_broker, "private-1") == "TOPIC_AUTHORIZATION_FAILED"
    assert write_error(logbus_broker, "public") is None
    (deleted,) = admin.delete_acls([EVERYTHING], request_timeout=SECONDS).values()
    assert deleted.result(SECONDS) == [denial]
    assert write_error(logbus_broker, "private-1") is None
    with pytest.raises(KafkaException, match="not such as User:alice"):
        wrong = AclBinding(
            ResourceType.TOPIC,
            "t",
            ResourcePatternType.LITERAL,
            "alice",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        next(iter(admin.create_acls([wrong], request_timeout=SECONDS).values())).result(SECONDS)


@pytest.fixture
def kafka_acls(logbus_broker: Broker) -> Callable[..., str]:
    """Apache Kafka's ``kafka-acls``; what it prints."""
    jars = tools_jars(KAFKA_VERSION, CACHE)
    name = "org.apache.kafka.tools.AclCommand"
    command = ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", name]

    def run(*arguments: str) -> str:
        given = [*command, "--bootstrap-server", logbus_broker.bootstrap, *arguments]
        done = subprocess.run(given, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@no_acls
def test_kafka_acls(kafka_acls: Callable[..., str]) -> None:
    """Kafka's tool adds, lists and removes."""
    kafka_acls("--add", "--allow-principal", "User:alice", "--consumer", "--topic", "orders", "--group", "shop")
    kafka_acls(
        "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "Read", "--topic", "ord",
        "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    listed = kafka_acls("--list", "--topic", "orders", "--resource-pattern-type", "match")
    for part in (
        "principal=User:alice, host=*, operation=READ, permissionType=ALLOW",
        "principal=User:alice, host=*, operation=DESCRIBE, permissionType=ALLOW",
        "principal=User:bob, host=10.0.0.1, operation=READ, permissionType=DENY",
        "patternType=PREFIXED",
    ):
        assert part in listed
    kafka_acls("--remove", "--force", "--topic", "orders")
    listed = kafka_acls("--list")
    assert "patternType=PREFIXED" in listed
    assert "resourceType=TOPIC, name=orders" not in listed
    assert "resourceType=GROUP, name=shop" in listed


PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="a" user_alice="b" user_bob="c";'


@pytest.fixture
def users_broker() -> Iterator[Broker]:
    """A broker whose clients log in, and may do what ACLs allow."""
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KAFKA:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.kafka.plain.sasl.jaas.config": PLAIN,
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
    }
    with Broker(settings) as broker:
        yield broker


def as_user(broker: Broker, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": {"admin": "a", "alice": "b", "bob": "c"}[user],
        **more,
    }


def test_users_with_rights(users_broker: Broker) -> None:
    """One writes, another reads in a group; what is revoked while they work ends."""
    admin = AdminClient(as_user(users_broker, "admin"))
    admin.create_topics([NewTopic("orders", 1), NewTopic("secret", 1)])["orders"].result(SECONDS)

    def rule(user: str, operation: AclOperation, kind: ResourceType, name: str) -> AclBinding:
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        return AclBinding(kind, name, literal, f"User:{user}", "*", operation, allow)

    rules = [
        rule("alice", AclOperation.WRITE, ResourceType.TOPIC, "orders"),
        rule("bob", AclOperation.READ, ResourceType.TOPIC, "orders"),
        rule("bob", AclOperation.READ, ResourceType.GROUP, "shop"),
    ]
    for future in admin.create_acls(rules, request_timeout=SECONDS).values():
        future.result(SECONDS)

    errors: list[str | None] = []
    producer = Producer(as_user(users_broker, "alice", **{"message.timeout.ms": int(SECONDS * 1000)}))

    def write(topic: str) -> str | None:
        producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error and error.name()))
        producer.flush(SECONDS)
        return errors[-1]

    assert write("orders") is None
    assert write("secret") == "TOPIC_AUTHORIZATION_FAILED"
    assert set(AdminClient(as_user(users_broker, "bob")).list_topics(timeout=SECONDS).topics) == {"orders"}

    group = {"group.id": "shop", "auto.offset.reset": "earliest"}
    consumer = Consumer(as_user(users_broker, "bob", **group))
    consumer.subscribe(["orders"])
    try:
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None, message.error()
        wanted = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        for future in admin.delete_acls([wanted], request_timeout=SECONDS).values():
            assert len(future.result(SECONDS)) == len(rules)
        assert write("orders") == "TOPIC_AUTHORIZATION_FAILED"
        codes = set[str]()
        while not codes & {"TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"}:
            message = consumer.poll(SECONDS)
            assert message is not None
            if error := message.error():
                codes.add(error.name())
    finally:
        consumer.close()

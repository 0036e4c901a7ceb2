"""ACLs, set and shown by Kafka's own tool and by confluent-kafka, and obeyed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
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


@pytest.fixture
def acl_broker() -> Iterator[Broker]:
    """A broker on which everybody may do what no ACL is about."""
    with Broker({"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}) as broker:
        yield broker


def write_error(broker: Broker, topic: str) -> str | None:
    """The name of the error of a record to a topic; None: it was written."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": int(SECONDS * 1000)})
    producer.produce(topic, b"value", on_delivery=lambda error, message: errors.append(error))
    producer.flush(SECONDS)
    (error,) = errors
    return None if error is None else error.name()


def test_confluent_kafka(acl_broker: Broker) -> None:
    """A denial holds at once, and so does its end."""
    admin = AdminClient({"bootstrap.servers": acl_broker.bootstrap})
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
    assert write_error(acl_broker, "private-1") == "TOPIC_AUTHORIZATION_FAILED"
    assert write_error(acl_broker, "public") is None
    (deleted,) = admin.delete_acls([EVERYTHING], request_timeout=SECONDS).values()
    assert deleted.result(SECONDS) == [denial]
    assert write_error(acl_broker, "private-1") is None
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
def kafka_acls(acl_broker: Broker) -> Callable[..., str]:
    """Apache Kafka's ``kafka-acls``; what it prints."""
    jars = tools_jars(KAFKA_VERSION, CACHE)
    name = "org.apache.kafka.tools.AclCommand"
    command = ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", name]

    def run(*arguments: str) -> str:
        given = [*command, "--bootstrap-server", acl_broker.bootstrap, *arguments]
        done = subprocess.run(given, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


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

"""Tests ``logbus produce --registry`` with a broker's own registry and Confluent's deserializers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from logbus.testing import Broker
from tests.cli.command_line import run

AVRO = {"type": "record", "name": "Tea", "fields": [{"name": "name", "type": "string"}, {"name": "g", "type": "int"}]}
JSON = {"title": "Tea", "type": "object", "properties": {"g": {"type": "integer"}}, "required": ["g"]}
PROTOBUF = 'syntax = "proto3"; message Tea { string name = 1; int64 g = 2; }'
TEA = {"name": "sencha", "g": 100}


pytestmark = pytest.mark.logbus(num_partitions=1)


@pytest.fixture(scope="module")
def registry(broker: Broker) -> SchemaRegistryClient:
    client = SchemaRegistryClient({"url": f"{broker.admin_url}/registry"})
    client.register_schema("avro-value", Schema(json.dumps(AVRO), "AVRO"))
    client.register_schema("json-value", Schema(json.dumps(JSON), "JSON"))
    client.register_schema("protobuf-value", Schema(PROTOBUF, "PROTOBUF"))
    client.register_schema("keyed-key", Schema('"long"', "AVRO"))
    client.register_schema("keyed-value", Schema('"string"', "AVRO"))
    client.register_schema("keyed-value", Schema('["string", "int"]', "AVRO"))
    return client


@pytest.fixture
def produce(broker: Broker, registry: SchemaRegistryClient) -> Callable[..., Any]:
    """Sends lines, encoded; returns what the command did."""

    def produce(lines: str, topic: str, *arguments: str) -> Any:
        at = [
            "--create",
            "--bootstrap",
            broker.bootstrap,
            "--registry",
            f"{broker.admin_url}/registry",
        ]
        return run("produce", topic, *at, *arguments, stdin=lines.encode())

    return produce


def values(broker: Broker, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a topic, as they are."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "-"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = list[tuple[bytes | None, bytes | None]]()
    try:
        while len(found) < count:
            message = consumer.poll(60)
            assert message is not None and message.error() is None, message and message.error()
            found.append((message.key(), message.value()))
    finally:
        consumer.close()
    return found


def test_confluent_reads_it(broker: Broker, registry: SchemaRegistryClient, produce: Callable[..., Any]) -> None:
    """What is encoded is what Confluent's deserializers read."""
    for topic, deserialize in (
        ("avro", AvroDeserializer(registry)),
        ("json", JSONDeserializer(json.dumps(JSON), schema_registry_client=registry)),
    ):
        done = produce(f"{json.dumps(TEA)}\n", topic)
        assert done.status == 0, done.err
        ((_, value),) = values(broker, topic, 1)
        assert deserialize(value, SerializationContext(topic, MessageField.VALUE)) == TEA


def test_there_and_back(broker: Broker, produce: Callable[..., Any]) -> None:
    """What ``consume --registry --json`` prints is sent again as the same bytes, and what has no schema as it was."""
    lines = [
        '{"key": 7, "value": {"string": "a"}}',
        '{"key": "8", "value": 5}',
        '{"value_base64": "AAAAAGM/", "key": 9}',
    ]
    assert produce("\n".join(lines), "keyed", "--format", "json").status == 0
    assert produce('{"name": "sencha", "g": 100}\n{"g": "7"}\n', "protobuf").status == 0
    for topic, count in (("keyed", 3), ("protobuf", 2)):
        at = ["--bootstrap", broker.bootstrap, "--registry", f"{broker.admin_url}/registry"]
        printed = run("consume", topic, "--from-beginning", "-e", "--json", *at).out
        schemas = ["--key-schema", f"{topic}-key"] if topic == "keyed" else []
        copied = produce(printed, f"{topic}-copy", "--format", "json", "--value-schema", f"{topic}-value", *schemas)
        assert copied.status == 0, copied.err
        assert values(broker, f"{topic}-copy", count) == values(broker, topic, count)


@pytest.mark.parametrize(
    ("topic", "lines", "arguments", "told"),
    [
        (
            "avro",
            '{"name": "a", "g": 1}\n{"name": "b"}',
            (),
            "line 2: its value does not fit the schema: it has no 'g', a field of Tea",
        ),
        ("avro", "tea", (), "line 1: its value is no JSON, such as"),
        ("json", '{"g": "1"}', (), "line 1: its value does not fit the schema: at /g: '1' is not of type 'integer'"),
        ("protobuf", '{"h": 1}', (), "line 1: its value does not fit the schema: it is no message Tea: "),
        ("keyed", '{"key": "a", "value": 1}', ("-f", "json"), "line 1: its key is no JSON"),
        (
            "keyed",
            "1",
            ("--value-schema", "keyed-value:1"),
            "line 1: its value does not fit the schema: it is 1, no string",
        ),
        (
            "keyed",
            "1",
            ("--value-schema", "keyed-value:9"),
            "the registry has no schema 'keyed-value:9': register it, or",
        ),
        (
            "plain",
            "1",
            (),
            "the registry has no schema 'plain-value': register it, or name another one's subject with --value-schema",
        ),
        (
            "avro",
            "1",
            ("--key-schema", "k"),
            "the registry has no schema 'k': register it, or name another one's subject with --key-schema",
        ),
    ],
)
def test_refused(produce: Callable[..., Any], topic: str, lines: str, arguments: tuple[str, ...], told: str) -> None:
    """One line says what is wrong, and how many records were written."""
    done = produce(lines, topic, *arguments)
    said = done.err.removeprefix(f"Created topic {topic}.\n")
    assert (done.status, said.count("\n")) == (1, 1)
    assert told in said
    assert "records written: 1" in done.err or "line 2" not in done.err


def test_without_a_registry(broker: Broker) -> None:
    """The options of schemas need one."""
    done = run("produce", "avro", "--value-schema", "avro-value", "--bootstrap", broker.bootstrap)
    assert done.status == 2
    assert "give --registry" in done.err

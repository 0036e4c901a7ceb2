"""Tests ``logbus consume --registry`` with what Confluent's serializers write and a broker's own registry."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from logbus.testing import Broker
from tests.cli.command_line import run

AVRO = {"type": "record", "name": "Tea", "fields": [{"name": "name", "type": "string"}, {"name": "g", "type": "int"}]}
JSON = {"title": "Tea", "type": "object", "properties": {"name": {"type": "string"}}}


pytestmark = pytest.mark.logbus(num_partitions=1)


@pytest.fixture(scope="module", autouse=True)
def teas(broker: Broker) -> None:
    """With records of Avro, of JSON Schema, of no schema, and of one that is not there."""
    registry = SchemaRegistryClient({"url": f"{broker.admin_url}/registry"})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    context = SerializationContext("teas", MessageField.VALUE)
    avro = AvroSerializer(registry, json.dumps(AVRO))
    structured = JSONSerializer(json.dumps(JSON), registry)
    producer.produce("teas", avro({"name": "sencha", "g": 100}, context), "a")
    producer.produce("teas", structured({"name": "assam"}, SerializationContext("more", MessageField.VALUE)), "b")
    producer.produce("teas", "plain", "c")
    producer.produce("teas", b"\0\0\0\0\x63???", "d")
    assert producer.flush(60) == 0


def consume(broker: Broker, *arguments: str) -> tuple[list[str], str]:
    """The lines that are printed, and what is said about them."""
    at = ["--bootstrap", broker.bootstrap, "--registry", f"{broker.admin_url}/registry"]
    done = run("consume", "teas", "--from-beginning", "-e", *at, *arguments)
    assert done.status == 0, done.err
    return done.out.splitlines(), done.err


def test_decoded(broker: Broker) -> None:
    """What has a schema is printed as JSON; other values as they are, with a line about a schema that is not there."""
    lines, said = consume(broker)
    assert [json.loads(each) for each in lines[:2]] == [{"name": "sencha", "g": 100}, {"name": "assam"}]
    assert lines[2] == "plain"
    assert lines[3].endswith("???")
    assert said.count("\n") == 1
    assert said.startswith("logbus: schema 99: ")
    assert said.endswith("; its values are printed as they are\n")


def test_filtered(broker: Broker) -> None:
    """Conditions are about what is printed, also for a member of a group."""
    assert consume(broker, "--filter", "value.g>=50", "-f", "%k\\n")[0] == ["a"]
    assert consume(broker, "--filter", "value.name=assam", "-f", "%k\\n", "--group", "kitchen")[0] == ["b"]


def test_no_registry(broker: Broker) -> None:
    """It is one line of error."""
    at = ["--bootstrap", broker.bootstrap, "--registry", "http://127.0.0.1:1"]
    done = run("consume", "teas", "--from-beginning", "-e", *at)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "no schema registry answers: http://127.0.0.1:1: " in done.err
    for url, why in (
        (
            f"http://{broker.bootstrap}",
            f"http://{broker.bootstrap}: it does not speak HTTP, or closed the connection: C",
        ),
        (
            f"{broker.admin_url}/x",
            "HTTP status 404; is it a schema registry? A broker's is at http://HOST:PORT/registry",
        ),
    ):
        done = run("produce", "teas", "--bootstrap", broker.bootstrap, "--registry", url, stdin=b"1\n")
        assert (done.status, done.err.count("\n")) == (1, 1)
        assert why in done.err
    wrong = run("consume", "teas", "-e", "--bootstrap", broker.bootstrap, "--registry", "nowhere")
    assert wrong.status == 2
    assert "'nowhere' is no URL of a schema registry" in wrong.err

"""Tests Confluent's serializers with a broker's schema registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from google.protobuf.message_factory import GetMessageClass

from logbus.client import Cluster as NativeCluster
from logbus.client.schema.avro import AvroDeserializer as OurDeserializer
from logbus.client.schema.avro import AvroSerializer as OurSerializer
from logbus.client.schema.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from logbus.client.schema.protobuf import ProtobufDeserializer as OurProtobufDeserializer
from logbus.client.schema.protobuf import ProtobufSerializer as OurProtobufSerializer
from logbus.client.schema.schema_registry import RegistryError, SchemaRegistry
from logbus.registry.protobuf_compiler import compiled
from logbus.registry.protobuf_schema import pool_of
from logbus.testing import Broker, LocalCluster
from tests.interop.clients import SECONDS
from tests.interop.conftest import MakeBroker
from tests.interop.native_client import run
from tests.registry.kit import GIFT, ORDER, PRICE

AN_ORDER = {"what": "tea"}
JSON_ORDER = {"title": "Order", "type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}


def client_of(*brokers: Broker) -> SchemaRegistryClient:
    """A client of the registry of a broker, or of those of several."""
    return SchemaRegistryClient({"url": ",".join(f"{broker.admin_url}/registry" for broker in brokers)})


@pytest.fixture
def registry(broker: Broker) -> Iterator[SchemaRegistryClient]:
    """A client of the common broker's."""
    with client_of(broker) as client:
        yield client


def sent(broker: Broker, topic: str, value: bytes | None) -> bytes:
    """A value that went through the broker."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None, "nothing came"
            if message.error() is None:
                found: bytes = message.value()
                return found
    finally:
        consumer.close()


def test_avro(broker: Broker, registry: SchemaRegistryClient, topic: str) -> None:
    """A record in Avro is written with a schema that is registered on the way, and read with a later one."""
    context = SerializationContext(topic, MessageField.VALUE)
    data = sent(broker, topic, AvroSerializer(registry, json.dumps(ORDER))(AN_ORDER, context))
    assert data[0] == 0
    assert AvroDeserializer(registry)(data, context) == AN_ORDER
    assert AvroDeserializer(registry, json.dumps(GIFT))(data, context) == {"what": "tea", "to": ""}
    assert registry.get_latest_version(f"{topic}-value").schema_id == int.from_bytes(data[1:5], "big")
    with pytest.raises(SchemaRegistryError) as refused:
        AvroSerializer(registry, json.dumps(PRICE))({"what": "tea", "price": 3}, context)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert "Order.price" in refused.value.error_message


def test_json(broker: Broker, registry: SchemaRegistryClient, topic: str) -> None:
    """The same in JSON Schema, also what refers to another one's."""
    context = SerializationContext(topic, MessageField.VALUE)
    serializer = JSONSerializer(json.dumps(JSON_ORDER), registry)
    data = sent(broker, topic, serializer(AN_ORDER, context))
    assert JSONDeserializer(None, schema_registry_client=registry)(data, context) == AN_ORDER
    with pytest.raises(SerializationError):
        serializer({"what": 3}, context)
    reference = SchemaReference("order.json", f"{topic}-value", 1)
    lines = json.dumps({"title": "Lines", "type": "object", "properties": {"first": {"$ref": "order.json"}}})
    schema = Schema(lines, "JSON", [reference])
    key = SerializationContext(topic, MessageField.KEY)
    written = JSONSerializer(schema, registry)({"first": AN_ORDER}, key)
    assert JSONDeserializer(None, schema_registry_client=registry)(written, key) == {"first": AN_ORDER}
    assert registry.get_latest_version(f"{topic}-key").schema.references == [reference]


def protobuf_classes(topic: str, count: str = "int32") -> tuple[Any, Any]:
    """Messages of a file that imports another; the second is within one that is not the first."""
    imported = 'syntax = "proto3"; package money; message Price { int64 cents = 1; }'
    text = f"""
        syntax = "proto3";
        package shop;
        import "{topic}/price.proto";
        import "google/protobuf/timestamp.proto";
        message Order {{ string what = 1; {count} count = 2; money.Price price = 3; google.protobuf.Timestamp at = 4; }}
        message Basket {{ map<string, Order> orders = 1; message Line {{ repeated Order orders = 1; }} }}
    """
    pool = pool_of(compiled(text, {f"{topic}/price.proto": imported}), f"{topic}/order.proto")
    order, line = (GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Order", "Basket.Line"))
    return order, line


def test_protobuf(broker: Broker, registry: SchemaRegistryClient, topic: str) -> None:
    """Messages of Protobuf, whose schema comes as a descriptor, and what it imports as a schema of its own."""
    order, line = protobuf_classes(topic)
    context = SerializationContext(topic, MessageField.VALUE)
    an_order = order(what="tea", count=2, price={"cents": 350}, at={"seconds": 1})
    data = sent(broker, topic, ProtobufSerializer(order, registry)(an_order, context))
    assert ProtobufDeserializer(order, None, registry)(data, context) == an_order
    a_line = line(orders=[an_order])
    data = ProtobufSerializer(line, registry)(a_line, context)
    assert data is not None
    assert ProtobufDeserializer(line, None, registry)(data, context) == a_line
    found = registry.get_latest_version(f"{topic}-value")
    assert (found.version, found.schema.schema_type) == (1, "PROTOBUF")
    assert found.schema.references == [SchemaReference(f"{topic}/price.proto", f"{topic}/price.proto", 1)]
    text = found.schema.schema_str or ""
    assert "  money.Price price = 3;" in text.replace(" .money", " money")
    assert (
        registry.register_schema(f"{topic}-value", Schema(text, "PROTOBUF", found.schema.references)) == found.schema_id
    )
    other, _ = protobuf_classes(topic, "string")
    with pytest.raises(SchemaRegistryError) as refused:
        ProtobufSerializer(other, registry)(other(what="tea"), context)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert "Order.count: field 2 is written as int32, and read as string" in refused.value.error_message
    with pytest.raises(SchemaRegistryError) as wrong:
        registry.register_schema(topic, Schema('syntax = "proto3"; message', "PROTOBUF"))
    assert wrong.value.error_code == 42201


def test_avro_references(registry: SchemaRegistryClient, topic: str) -> None:
    """An Avro schema that uses a type of another subject's."""
    registry.register_schema(f"{topic}-order", Schema(json.dumps(ORDER), "AVRO"))
    basket = {"type": "record", "name": "Basket", "fields": [{"name": "order", "type": "Order"}]}
    schema = Schema(json.dumps(basket), "AVRO", [SchemaReference("Order", f"{topic}-order", 1)])
    context = SerializationContext(topic, MessageField.VALUE)
    data = AvroSerializer(registry, schema)({"order": AN_ORDER}, context)
    assert AvroDeserializer(registry)(data, context) == {"order": AN_ORDER}


def test_all_of_the_client(registry: SchemaRegistryClient, topic: str) -> None:
    """Every call of Confluent's client that there is an answer to."""
    order, gift = Schema(json.dumps(ORDER), "AVRO"), Schema(json.dumps(GIFT), "AVRO")
    schema_id = registry.register_schema(topic, order)
    full = registry.register_schema_full_response(topic, gift)
    assert full.schema_id > schema_id
    registry.clear_caches()
    assert json.loads(registry.get_schema(schema_id).schema_str or "") == ORDER
    assert full.guid is not None
    assert json.loads(registry.get_schema_by_guid(full.guid).schema_str or "") == GIFT
    assert set(registry.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert topic in registry.get_subjects_by_schema_id(schema_id)
    assert (topic, 1) in [(each.subject, each.version) for each in registry.get_schema_versions(schema_id)]
    assert registry.lookup_schema(topic, gift).version == 2
    assert registry.get_subjects(subject_prefix=topic) == [topic]
    assert registry.get_versions(topic) == [1, 2]
    assert registry.get_version(topic, 1).schema_id == schema_id
    assert registry.get_referenced_by(topic, 1) == []
    assert registry.test_compatibility(topic, order) is True
    assert registry.test_compatibility(topic, Schema(json.dumps(PRICE), "AVRO")) is False
    assert registry.test_compatibility_all_versions(topic, gift, verbose=True) is True
    assert registry.get_compatibility() == "BACKWARD"
    registry.set_compatibility(topic, "FULL_TRANSITIVE")
    assert registry.get_compatibility(topic) == "FULL_TRANSITIVE"
    registry.set_config(topic, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    assert registry.get_config(topic).compatibility_level == "NONE"
    registry.delete_config(topic)
    assert registry.get_global_mode() == "READWRITE"
    assert registry.update_mode(topic, "READONLY") == "READONLY"
    assert registry.get_mode(topic) == "READONLY"
    assert registry.delete_mode(topic) == "READONLY"
    assert registry.get_contexts() == ["."]
    assert registry.delete_version(topic, 2) == 2
    assert registry.delete_subject(topic) == [1]
    assert registry.delete_subject(topic, permanent=True) == [1, 2]
    with pytest.raises(SchemaRegistryError) as gone:
        registry.get_versions(topic)
    assert gone.value.error_code == 40401


@pytest.mark.parametrize("stop", [Broker.stop, Broker.kill], ids=["SIGTERM", "SIGKILL"])
def test_restart(make_broker: MakeBroker, stop: Any) -> None:
    """Whichever way the broker ends, it knows the schemas afterwards, and goes on counting."""
    broker = make_broker()
    context = SerializationContext("t", MessageField.VALUE)
    with client_of(broker) as before:
        data = AvroSerializer(before, json.dumps(ORDER))(AN_ORDER, context)
        before.set_compatibility("t-value", "NONE")
    stop(broker)
    broker.start()
    with client_of(broker) as after:
        assert AvroDeserializer(after)(data, context) == AN_ORDER
        assert after.register_schema("t-value", Schema(json.dumps(ORDER), "AVRO")) == 1
        assert after.register_schema("t-value", Schema(json.dumps(PRICE), "AVRO")) == 2


def test_cluster(cluster: LocalCluster) -> None:
    """Producers on all brokers register schemas while the one that writes is killed: an id means one schema."""
    ids: dict[str, set[int]] = {}
    guard = threading.Lock()
    texts = [json.dumps({"type": "fixed", "name": "F", "size": size}) for size in range(30)]

    def register(number: int, text: str) -> None:
        with client_of(*cluster.brokers[number:], *cluster.brokers[:number]) as client:
            found = client.register_schema(f"s{json.loads(text)['size'] % 7}-{number}", Schema(text, "AVRO"))
        with guard:
            ids.setdefault(text, set()).add(found)

    with client_of(*cluster.brokers) as client:
        client.set_compatibility(level="NONE")
    leader = cluster.leader("_schemas")
    with ThreadPoolExecutor(6) as pool:
        tasks = [pool.submit(register, number, text) for text in texts for number in range(3)]
        while sum(task.done() for task in tasks) < 20:
            tasks[20].exception(timeout=60)
        leader.kill()
        for task in tasks:
            task.result(timeout=120)
    leader.start()
    assert all(len(each) == 1 for each in ids.values()), ids
    assert len({found for each in ids.values() for found in each}) == len(texts)
    cluster.wait_back(leader)
    for broker in cluster.brokers:
        with client_of(broker) as client:
            for text in texts:
                (schema_id,) = ids[text]
                assert json.loads(client.get_schema(schema_id).schema_str or "") == json.loads(text)


def test_our_client(broker: Broker, topic: str) -> None:
    """Our own client's serializers, and Confluent's, read what the others wrote."""

    async def both(kafka: NativeCluster) -> bytes:
        ours = SchemaRegistry(kafka.reactor, f"{broker.admin_url}/registry")
        try:
            data = await OurSerializer(ours, ORDER).serialize(topic, AN_ORDER)
            assert data is not None
            assert await OurDeserializer(ours).deserialize(topic, data) == AN_ORDER
            found = await ours.version(f"{topic}-value")
            assert (found.version, found.schema_type) == (1, "AVRO")
            with pytest.raises(RegistryError) as refused:
                await ours.register(f"{topic}-value", json.dumps(PRICE))
            assert refused.value.error_code == 409
            return data
        finally:
            await ours.close()

    data = run(broker.bootstrap, both)
    with client_of(broker) as registry:
        assert AvroDeserializer(registry)(data, SerializationContext(topic, MessageField.VALUE)) == AN_ORDER


def test_our_json(broker: Broker, registry: SchemaRegistryClient, topic: str) -> None:
    """Likewise in JSON Schema: each reads what the other wrote, and both have the same id for the schema."""
    context = SerializationContext(topic, MessageField.VALUE)
    theirs = JSONSerializer(json.dumps(JSON_ORDER), registry)(AN_ORDER, context)

    async def both(kafka: NativeCluster) -> bytes | None:
        ours = SchemaRegistry(kafka.reactor, f"{broker.admin_url}/registry")
        try:
            assert await JsonSchemaDeserializer(ours).deserialize(topic, theirs) == AN_ORDER
            return await JsonSchemaSerializer(ours, JSON_ORDER).serialize(topic, AN_ORDER)
        finally:
            await ours.close()

    data = run(broker.bootstrap, both)
    assert (data[:5], json.loads(data[5:])) == (theirs[:5], AN_ORDER)
    assert JSONDeserializer(None, schema_registry_client=registry)(data, context) == AN_ORDER


@pytest.mark.parametrize("name", ["Order", "Basket.Line"])
def test_our_protobuf(broker: Broker, registry: SchemaRegistryClient, topic: str, name: str) -> None:
    """Likewise in Protobuf: both make the same bytes, with the files that the schema imports."""
    order, line = protobuf_classes(topic)
    an_order = order(what="tea", count=2, price={"cents": 350}, at={"seconds": 1})
    kind, message = (order, an_order) if name == "Order" else (line, line(orders=[an_order]))
    context = SerializationContext(topic, MessageField.VALUE)

    async def write(kafka: NativeCluster) -> bytes | None:
        ours = SchemaRegistry(kafka.reactor, f"{broker.admin_url}/registry")
        try:
            data = await OurProtobufSerializer(ours, kind).serialize(topic, message)
            assert await OurProtobufSerializer(ours, kind, register=False).serialize(topic, message) == data
            return data
        finally:
            await ours.close()

    data = run(broker.bootstrap, write)
    assert ProtobufDeserializer(kind, None, registry)(data, context) == message
    found = registry.get_latest_version(f"{topic}-value")
    assert (found.version, found.schema.schema_type) == (1, "PROTOBUF")
    assert found.schema.references == [SchemaReference(f"{topic}/price.proto", f"{topic}/price.proto", 1)]
    theirs = ProtobufSerializer(kind, registry)(message, context)
    assert theirs == data
    assert OurProtobufDeserializer(kind)(topic, theirs) == message

"""The schema registry and Avro for asyncio, against a broker's registry."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto

from logbus.client.aio.schema_registry import RegistryError, RegistryUnreachable, SchemaRegistry
from logbus.client.aio.schema_serializers import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufSerializer,
)
from logbus.client.schema.protobuf import ProtobufDeserializer
from logbus.client.serializers import SerializationError
from logbus.errors import ConfigError
from logbus.testing import Broker
from tests.client.aio.kit import run

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "what", "type": "string"}]}
LATER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "what", "type": "string"}, {"name": "gift", "type": "boolean", "default": False}],
}


def test_avro(logbus_session_broker: Broker, topic: str) -> None:
    """What is written is read, by another client, with its own schema, and without waiting once the schema is known."""

    async def work() -> None:
        async with SchemaRegistry(f"{logbus_session_broker.admin_url}/registry") as registry:
            writing = AvroSerializer(registry, ORDER)
            with pytest.raises(SerializationError, match="await prepare"):
                writing(topic, {"what": "tea"})
            data = await writing.serialize(topic, {"what": "tea"})
            assert writing(topic, {"what": "tea"}) == data
            assert await registry.versions(f"{topic}-value") == [1]
            assert (await registry.version(f"{topic}-value")).id == await writing.prepare(topic)
        async with SchemaRegistry(f"{logbus_session_broker.admin_url}/registry") as registry:
            reading = AvroDeserializer(registry, LATER)
            found = await asyncio.gather(*[reading.deserialize(topic, data) for _ in range(5)])
            assert found == [{"what": "tea", "gift": False}] * 5
            assert reading(topic, data) == found[0]
            assert await reading.deserialize(topic, None) is None

    run(work())


def test_json_and_protobuf(logbus_session_broker: Broker, topic: str) -> None:
    """JSON Schema and Protobuf have the same shape."""

    async def work() -> None:
        async with SchemaRegistry(f"{logbus_session_broker.admin_url}/registry") as registry:
            writing = JsonSchemaSerializer(registry, {"type": "object", "required": ["what"]})
            data = await writing.serialize(topic, {"what": "tea"})
            assert await JsonSchemaDeserializer(registry).deserialize(topic, data) == {"what": "tea"}
            with pytest.raises(SerializationError, match="'what' is a required property"):
                writing(topic, {})
            messages = ProtobufSerializer(registry, DescriptorProto, is_key=True)
            data = await messages.serialize(topic, DescriptorProto(name="tea"))
            assert ProtobufDeserializer(DescriptorProto)(topic, data) == DescriptorProto(name="tea")

    run(work())


def test_errors(logbus_session_broker: Broker, topic: str) -> None:
    """Errors of the registry are raised; one that does not answer is, after some attempts; and tasks are cancelled."""

    async def work() -> None:
        async with SchemaRegistry(f"{logbus_session_broker.admin_url}/registry") as registry:
            with pytest.raises(RegistryError, match=r"40403|not found"):
                await registry.schema(2**30)
            with pytest.raises(ConfigError, match="not an Avro schema"):
                AvroSerializer(registry, "{")
        async with SchemaRegistry("http://127.0.0.1:9", attempts=2) as nobody:
            with pytest.raises(RegistryUnreachable, match=r"no schema registry answers: http://127\.0\.0\.1:9"):
                await nobody.subjects()
        silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        async with SchemaRegistry(f"http://127.0.0.1:{port}") as slow:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await slow.schema(1)
        silent.close()
        with pytest.raises(ConfigError, match="'ftp://x' is not the URL"):
            SchemaRegistry("ftp://x")

    run(work())


def test_no_reactor() -> None:
    """No reactor is installed by its import."""
    program = "import sys, logbus.client.aio.schema_registry; print('twisted.internet.reactor' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )

"""
Schemas as what reads values, for pages that show records, and as what makes values of JSON, for records that are typed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from logbus.admin.schema_registry import SchemaNotUsed, ValueSchema
from logbus.registry.avro_encoding import encode_value
from logbus.registry.avro_schema import AvroType, read_avro
from logbus.registry.avro_values import read_value
from logbus.registry.errors import RegistryRefusal
from logbus.registry.json_values import json_writer
from logbus.registry.protobuf_compiler import check_installed
from logbus.registry.protobuf_schema import descriptor_of
from logbus.registry.protobuf_values import known_files, message_reader, message_writer

MOST_REFERENCED = 20
MOST_CHARACTERS = 100_000
"""Of a schema and what it refers to: parsing so much takes some milliseconds."""

Get = Callable[..., Awaitable[Mapping[str, Any]]]
"""Asks the registry for the path of these segments, with parameters by name; raises SchemaNotUsed."""


async def value_schema(get: Get, number: int) -> ValueSchema:
    """
    Return the schema of an id.

    :raise SchemaNotUsed: it is of another type, too large, or refers to too many others.
    """
    told = await get("schemas", "ids", str(number), format="serialized")
    with _refused():
        match _kind(told):
            case "JSON":
                return ValueSchema("JSON")
            case "AVRO":
                found = await _AvroReader(get).read(told)
                return ValueSchema("Avro", lambda data: read_value(data, found))
            case "PROTOBUF":
                check_installed()
                return ValueSchema("Protobuf", message_reader(await _ProtobufReader(get).files(told, "")))
    raise SchemaNotUsed(f"a schema of type {_kind(told)} is not read here")


async def value_writer(get: Get, number: int) -> Callable[[Any], bytes]:
    """
    Return what makes values of JSON by the schema of an id, without the frame; of Protobuf's messages the first of the
    file.

    :return: raises ValueError, if what it gets is no value of the schema.
    :raise SchemaNotUsed: as for :func:`value_schema`; or it is a JSON schema with references.
    """
    told = await get("schemas", "ids", str(number), format="serialized")
    with _refused():
        match _kind(told):
            case "JSON" if not told.get("references"):
                return json_writer(told["schema"])
            case "JSON":
                raise SchemaNotUsed("it refers to other JSON schemas, which are not looked up here")
            case "AVRO":
                found = await _AvroReader(get).read(told)
                return lambda value: encode_value(value, found)
            case "PROTOBUF":
                check_installed()
                return message_writer(await _ProtobufReader(get).files(told, ""))
    raise SchemaNotUsed(f"a schema of type {_kind(told)} is not read here")


def _kind(told: Mapping[str, Any]) -> str:
    return str(told.get("schemaType", "AVRO"))


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except (RegistryRefusal, ValueError, RecursionError) as e:
        raise SchemaNotUsed(f"it is not read here: {e}") from None


@define
class _Reader:
    """Reads a schema and those it refers to, up to a size and a number."""

    get: Get
    characters: int = 0
    referenced: int = 0

    def check(self, told: Mapping[str, Any]) -> None:
        self.characters += len(told["schema"])
        if self.characters > MOST_CHARACTERS:
            raise SchemaNotUsed(f"it has more than {MOST_CHARACTERS} characters")

    async def other(self, reference: Mapping[str, Any], **query: str) -> Mapping[str, Any]:
        """Return what a schema refers to."""
        self.referenced += 1
        if self.referenced > MOST_REFERENCED:
            raise SchemaNotUsed(f"it refers to more than {MOST_REFERENCED} others")
        return await self.get("subjects", reference["subject"], "versions", str(reference["version"]), **query)


@define
class _AvroReader(_Reader):
    async def read(self, told: Mapping[str, Any]) -> AvroType:
        return read_avro(json.loads(told["schema"]), await self.known(told)).type

    async def known(self, told: Mapping[str, Any]) -> dict[str, AvroType]:
        """Return the types that a schema refers to, and those that these refer to."""
        self.check(told)
        known: dict[str, AvroType] = {}
        for each in told.get("references", []):
            other = await self.other(each)
            of_other = await self.known(other)
            for name, found in {**of_other, **read_avro(json.loads(other["schema"]), of_other).names}.items():
                known.setdefault(name, found)
        return known


@define
class _ProtobufReader(_Reader):
    done: dict[str, Any] = field(factory=dict)

    async def files(self, told: Mapping[str, Any], name: str) -> list[Any]:
        """Return the descriptors of the files that a schema imports, each after those it imports, and its own."""
        self.check(told)
        file = descriptor_of(told["schema"])
        file.name = name
        for each in told.get("references", []):
            if each["name"] not in self.done:
                await self.files(await self.other(each, format="serialized"), each["name"])
        for each in file.dependency:
            if each not in self.done:
                for known in known_files(each):
                    self.done.setdefault(known.name, known)
        self.done[name] = file
        return list(self.done.values())

"""
Schemas as what reads values: for pages that show records.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import define, field

from logbus.admin.schema_registry import SchemaNotUsed, ValueSchema
from logbus.registry.avro_schema import AvroType, read_avro
from logbus.registry.avro_values import read_value
from logbus.registry.errors import RegistryRefusal
from logbus.registry.protobuf_compiler import check_installed
from logbus.registry.protobuf_schema import descriptor_of
from logbus.registry.protobuf_values import known_files, message_reader

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
    kind = told.get("schemaType", "AVRO")
    if kind == "JSON":
        return ValueSchema("JSON")
    try:
        if kind == "AVRO":
            found = await _AvroReader(get).read(told)
            return ValueSchema("Avro", lambda data: read_value(data, found))
        if kind == "PROTOBUF":
            check_installed()
            return ValueSchema("Protobuf", message_reader(await _ProtobufReader(get).files(told, "")))
    except (RegistryRefusal, ValueError, RecursionError) as e:
        raise SchemaNotUsed(f"it is not read here: {e}") from None
    raise SchemaNotUsed(f"a schema of type {kind} is not read here")


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

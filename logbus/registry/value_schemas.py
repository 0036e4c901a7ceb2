"""
Schemas as what reads values: for pages that show records.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import define

from logbus.admin.schema_registry import SchemaNotUsed, ValueSchema
from logbus.registry.avro_schema import AvroType, read_avro
from logbus.registry.avro_values import read_value
from logbus.registry.errors import RegistryRefusal

MOST_REFERENCED = 20
MOST_CHARACTERS = 100_000
"""Of a schema and what it refers to: parsing so much takes some milliseconds."""

Get = Callable[..., Awaitable[Mapping[str, Any]]]
"""Asks the registry for the path of these segments; raises SchemaNotUsed."""


async def value_schema(get: Get, number: int) -> ValueSchema:
    """
    Return the schema of an id.

    :raise SchemaNotUsed: it is of another type, too large, or refers to too many others.
    """
    told = await get("schemas", "ids", str(number))
    kind = told.get("schemaType", "AVRO")
    if kind == "JSON":
        return ValueSchema("JSON")
    if kind != "AVRO":
        raise SchemaNotUsed(f"a schema of type {kind} is not read here")
    try:
        found = await _AvroReader(get).read(told)
    except (RegistryRefusal, ValueError, RecursionError) as e:
        raise SchemaNotUsed(f"it is not read here: {e}") from None
    return ValueSchema("Avro", lambda data: read_value(data, found))


@define
class _AvroReader:
    get: Get
    characters: int = 0
    referenced: int = 0

    async def read(self, told: Mapping[str, Any]) -> AvroType:
        return read_avro(json.loads(told["schema"]), await self.known(told)).type

    async def known(self, told: Mapping[str, Any]) -> dict[str, AvroType]:
        """Return the types that a schema refers to, and those that these refer to."""
        self.characters += len(told["schema"])
        if self.characters > MOST_CHARACTERS:
            raise SchemaNotUsed(f"it has more than {MOST_CHARACTERS} characters")
        known: dict[str, AvroType] = {}
        for each in told.get("references", []):
            self.referenced += 1
            if self.referenced > MOST_REFERENCED:
                raise SchemaNotUsed(f"it refers to more than {MOST_REFERENCED} others")
            other = await self.get("subjects", each["subject"], "versions", str(each["version"]))
            of_other = await self.known(other)
            for name, found in {**of_other, **read_avro(json.loads(other["schema"]), of_other).names}.items():
                known.setdefault(name, found)
        return known

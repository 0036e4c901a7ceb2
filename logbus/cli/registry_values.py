"""Decodes keys and values by the schemas of a registry, for ``logbus consume --registry``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from attrs import frozen

from logbus.admin.schema_registry import SchemaNotUsed, ValueSchema
from logbus.cli.app import print_error
from logbus.cli.registry_address import FRAME, Registry
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.schema.registry_http import RegistryError

_MOST_SCHEMAS = 1000


@frozen
class _Unread:
    """The reason why values of a schema cannot be read."""

    reason: str


class RegistryValues:
    """
    Makes JSON of keys and values that have a schema. Others, and those that cannot be read, stay as they are; the first
    of each schema that cannot is reported on standard error.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._schemas: dict[int, ValueSchema | _Unread] = {}

    async def decoded(self, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """
        Return the records with JSON instead of what has a schema.

        :raise RegistryUnreachable: no registry answers.
        """
        return [
            each._replace(key=await self._content(each.key), value=await self._content(each.value)) for each in records
        ]

    async def close(self) -> None:
        """Close the connections."""
        await self._registry.close()

    async def _content(self, data: bytes | None) -> bytes | None:
        if data is None or len(data) <= FRAME or data[0] != 0:
            return data
        number = int.from_bytes(data[1:FRAME], "big")
        schema = self._schemas.get(number) or await self._look_up(number)
        if isinstance(schema, _Unread):
            return data
        try:
            if schema.read is None:
                return data[FRAME:]
            return json.dumps(schema.read(data[FRAME:]), ensure_ascii=False, separators=(",", ":")).encode()
        except ValueError as e:
            self._give_up(number, f"a value is none of it: {e}")
            return data

    async def _look_up(self, number: int) -> ValueSchema | _Unread:
        from logbus.registry.value_schemas import value_schema

        if len(self._schemas) >= _MOST_SCHEMAS:
            self._schemas.clear()
        try:
            found: ValueSchema | _Unread = await value_schema(self._registry.get, number)
        except (SchemaNotUsed, RegistryError) as e:
            return self._give_up(number, str(e))
        self._schemas[number] = found
        return found

    def _give_up(self, number: int, reason: str) -> _Unread:
        sys.stdout.flush()
        print_error(f"schema {number}: {reason}; its values are printed as they are")
        self._schemas[number] = unread = _Unread(reason)
        return unread

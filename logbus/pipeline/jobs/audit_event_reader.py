"""Decodes monitoring events from JSON, Avro, or Avro framed with a schema id."""

from __future__ import annotations

import json
from functools import cache
from io import BytesIO
from typing import Any

from attrs import define, field

from logbus.client.audit.monitoring_event import AVRO_SCHEMA, MonitoringEvent, decode_unframed, event_of
from logbus.client.serializers import SerializationError
from logbus.extras import install_hint
from logbus.pipeline.blocking.schema_registry import NoSuchSchema, RegistryClient

_FRAMED = 0
_FRAME = 5
_SCHEMAS = 1000


@define
class AuditEventReader:
    """
    Decodes events, and caches the schemas that it has looked up.

    :param registry: where schemas of framed events are looked up; None: these cannot be read.
    """

    registry: RegistryClient | None = None
    _schemas: dict[int, Any] = field(factory=dict, init=False)

    def event(self, value: bytes | None) -> MonitoringEvent:
        """
        Decode an event; the first byte says how it is encoded.

        :raise SerializationError: it is not a monitoring event.
        :raise RegistryFailed: the registry does not answer.
        """
        if not value or value[0] != _FRAMED:
            return decode_unframed(value, lambda avro: _avro(avro, _parsed(), None))
        if len(value) < _FRAME:
            raise SerializationError(f"{len(value)} bytes are no framed value")
        return event_of(_avro(value[_FRAME:], self._schema(int.from_bytes(value[1:_FRAME])), _parsed()))

    def _schema(self, number: int) -> Any:
        if self.registry is None:
            raise SerializationError(
                f"a monitoring event in Avro with the schema {number} of a schema registry: say where the registry is"
            )
        if number not in self._schemas:
            if len(self._schemas) >= _SCHEMAS:
                self._schemas.clear()
            # An error is cached, too, since there may be many events with this schema.
            self._schemas[number] = _looked_up(self.registry, number)
        found = self._schemas[number]
        if isinstance(found, SerializationError):
            raise found
        return found


def _looked_up(registry: RegistryClient, number: int) -> Any:
    """A parsed schema, or the error about it."""
    parse = _fastavro().parse_schema
    try:
        text = registry.schema(number)
    except NoSuchSchema as e:
        return SerializationError(f"the registry has no schema {number}: {e}")
    try:
        return parse(json.loads(text))
    except Exception as e:
        # fastavro raises all kinds of exceptions.
        return SerializationError(f"schema {number} of the registry is not Avro: {e!r:.200}")


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError as e:
        raise SerializationError(f"Avro needs fastavro, which is not installed: {install_hint('avro')}") from e
    return fastavro


@cache
def _parsed() -> Any:
    return _fastavro().parse_schema(dict(AVRO_SCHEMA))


def _avro(data: bytes, writer: Any, reader: Any) -> Any:
    read, reading = _fastavro().schemaless_reader, BytesIO(data)
    try:
        fields = read(reading, writer, reader)
    except Exception as e:
        # fastavro raises all kinds of exceptions.
        raise SerializationError(f"neither JSON nor a monitoring event in Avro: {e!r:.200}") from e
    if reading.tell() != len(data):
        raise SerializationError(f"{len(data) - reading.tell()} bytes follow a monitoring event in Avro")
    return fields

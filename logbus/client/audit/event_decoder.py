"""
Decodes monitoring events in JSON, plain Avro, or Avro framed with a schema id.

A framed value begins with a byte 0, which neither of the others does: plain Avro begins with the length of the event's
id, which is never 0.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from logbus.client.audit.monitoring_event import (
    AUDIT_TOPIC,
    AVRO_SCHEMA,
    MonitoringEvent,
    as_fields,
    decode_unframed,
    event_of,
)
from logbus.client.schema.registry_http import RegistryError
from logbus.client.schema.schema_registry import SchemaRegistry, unframe
from logbus.client.serializers import SerializationError
from logbus.extras import install_hint

_FRAMED = 0
_NOT_FOUND = 404
_NEEDED = f"Avro needs fastavro, which is not installed: {install_hint('avro')}"


class _PlainAvro(Protocol):
    """The used part of ``PlainAvro``, whose module can only be imported if fastavro is installed."""

    def write(self, topic: str, value: Any) -> bytes: ...
    def read(self, topic: str, data: bytes) -> Any: ...


class _FramedAvro(Protocol):
    """The used part of ``AvroDeserializer``, likewise."""

    def deserialize(self, topic: str, data: bytes | None) -> Deferred[Any]: ...


def encode_avro(event: MonitoringEvent) -> bytes:
    """
    Encode an event in Avro by :data:`~logbus.client.audit.monitoring_event.AVRO_SCHEMA`, without a frame: for
    :class:`~logbus.client.audit.audit_interceptor.AuditInterceptor`'s ``encode``.

    :raise SerializationError: fastavro is not installed.
    """
    return _avro().write(AUDIT_TOPIC, as_fields(event))


class EventDecoder:
    """
    Decodes events; called with the value of a record.

    :param registry: looks up the schemas of framed events; None: framed events are refused.
    """

    def __init__(self, registry: SchemaRegistry | None = None) -> None:
        self._registry = registry
        self._framed: _FramedAvro | None = None

    def __call__(self, data: bytes | None) -> MonitoringEvent | Deferred[MonitoringEvent]:
        """
        Decode an event.

        :returns: the event, or a Deferred of it if the registry has to be asked.
        :raise SerializationError: (or in the Deferred) it is not a valid event; the message says what is wrong.
        :raise RegistryUnreachable: (in the Deferred) the registry does not answer.
        :raise RegistryError: (in the Deferred) it refuses the request.
        """
        if not data or data[0] != _FRAMED:
            return decode_unframed(data, lambda avro: _avro().read(AUDIT_TOPIC, avro))
        schema_id, _ = unframe(AUDIT_TOPIC, data)
        if self._registry is None:
            raise SerializationError(
                f"a monitoring event in Avro with the schema {schema_id} of a schema registry: say where the registry "
                "is (--schema-registry)"
            )
        return Deferred.fromCoroutine(self._read_framed(self._registry, schema_id, data))

    async def _read_framed(self, registry: SchemaRegistry, schema_id: int, data: bytes) -> MonitoringEvent:
        if self._framed is None:
            try:
                from logbus.client.schema.avro import AvroDeserializer
            except ImportError:
                raise SerializationError(_NEEDED) from None
            self._framed = AvroDeserializer(registry, AVRO_SCHEMA)
        try:
            return event_of(await self._framed.deserialize(AUDIT_TOPIC, data))
        except RegistryError as e:
            if e.status != _NOT_FOUND:
                raise
            raise SerializationError(f"the registry has no schema {schema_id}: {e}") from e


@cache
def _avro() -> _PlainAvro:
    try:
        from logbus.client.schema.avro import PlainAvro
    except ImportError:
        raise SerializationError(_NEEDED) from None
    return PlainAvro(AVRO_SCHEMA)

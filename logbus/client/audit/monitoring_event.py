"""
Monitoring events: counts of the records that an instance has published or consumed, by topic, in a window. Pure.

In JSON an event is an object with the fields of :class:`MonitoringEvent`; :data:`AVRO_SCHEMA` is the same for Avro.
Records are counted by their timestamps (event time), so that producers and consumers count a record in the same window,
however much later it is read. Windows begin at multiples of their length since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import asdict, field, frozen

from logbus.client.serializers import JsonDeserializer, JsonSerializer, SerializationError

AUDIT_TOPIC = "logbus-audit"
"""The default audit topic."""

DEFAULT_WINDOW_MS = 600_000
PRODUCER, CONSUMER = "producer", "consumer"

AVRO_SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "MonitoringEvent",
    "namespace": "logbus",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "application", "type": "string"},
        {"name": "host", "type": "string"},
        {"name": "role", "type": "string"},
        {"name": "window_start", "type": "long"},
        {"name": "window_ms", "type": "long"},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "failed", "type": {"type": "map", "values": "long"}, "default": {}},
        {"name": "uncounted", "type": "long", "default": 0},
    ],
}

_LONGEST_WINDOW_MS = 366 * 24 * 3600 * 1000


@frozen
class MonitoringEvent:
    """
    Counts for one window since the previous event; the events of a window add up.

    :ivar id: unique; a duplicate of an event has the same id.
    :ivar application: the application's name; its instances are added up.
    :ivar host: the instance's host.
    :ivar role: ``producer``, ``consumer``, or another stage.
    :ivar window_start: milliseconds since 1970, a multiple of ``window_ms``.
    :ivar window_ms: length of the window in milliseconds.
    :ivar counts: records by topic: published and acknowledged, or consumed.
    :ivar failed: records by topic that the producer failed to write, or may have failed to.
    :ivar uncounted: records, of any topics and windows, that were not counted for lack of room.
    """

    id: str
    application: str
    host: str
    role: str
    window_start: int
    window_ms: int
    counts: Mapping[str, int] = field(factory=dict)
    failed: Mapping[str, int] = field(factory=dict)
    uncounted: int = 0


def as_fields(event: MonitoringEvent) -> dict[str, Any]:
    """An event's fields, as in JSON and Avro."""
    return asdict(event)


def encode_event(event: MonitoringEvent) -> bytes:
    """Encode an event in JSON."""
    data = JsonSerializer()(AUDIT_TOPIC, as_fields(event))
    assert data is not None
    return data


def decode_event(data: bytes | None) -> MonitoringEvent:
    """
    Decode an event from JSON.

    :raise SerializationError: it is not a valid event; the message says what is wrong.
    """
    return event_of(JsonDeserializer()(AUDIT_TOPIC, data))


def decode_unframed(data: bytes | None, read_avro: Callable[[bytes], Any]) -> MonitoringEvent:
    """
    Decode an event from JSON or from Avro.

    JSON begins with a brace, perhaps after white space. Avro begins with the length of the id: some lengths are white
    space, too, and the id may begin with a brace. Then it is JSON if it can be read as that.

    :param read_avro: gives the fields of an event in Avro.
    :raise SerializationError: it is not a valid event; the message says what is wrong.
    """
    if not data or data[:1] == b"{":
        return decode_event(data)
    if data.lstrip()[:1] != b"{":
        return event_of(read_avro(data))
    try:
        return decode_event(data)
    except SerializationError as e:
        try:
            return event_of(read_avro(data))
        except SerializationError:
            raise e from None


def event_of(fields: Any) -> MonitoringEvent:
    """
    Make an event from its fields; unknown fields, of later versions, are ignored.

    :raise SerializationError: these are not valid fields of an event.
    """
    if not isinstance(fields, dict):
        raise SerializationError("a monitoring event is an object")
    for name in ("id", "application", "host", "role"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            raise SerializationError(f"a monitoring event has text as {name!r}, not {fields.get(name)!r:.80}")
    event = MonitoringEvent(
        id=fields["id"],
        application=fields["application"],
        host=fields["host"],
        role=fields["role"],
        window_start=_number(fields, "window_start"),
        window_ms=_number(fields, "window_ms"),
        counts=_numbers(fields, "counts"),
        failed=_numbers(fields, "failed"),
        uncounted=_number(fields, "uncounted", 0),
    )
    if not 0 < event.window_ms <= _LONGEST_WINDOW_MS:
        raise SerializationError(f"a window of {event.window_ms} ms is none; it may be 1 ms to a year long")
    if event.window_start % event.window_ms:
        raise SerializationError(f"a window of {event.window_ms} ms does not begin at {event.window_start}")
    return event


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _number(fields: dict[str, Any], name: str, default: int | None = None) -> int:
    value = fields.get(name, default)
    if not _is_number(value):
        raise SerializationError(f"a monitoring event has a whole number as {name!r}, not {value!r:.80}")
    assert isinstance(value, int)
    return value


def _numbers(fields: dict[str, Any], name: str) -> dict[str, int]:
    value = fields.get(name, {})
    if not isinstance(value, dict) or not all(isinstance(k, str) and _is_number(v) for k, v in value.items()):
        raise SerializationError(f"a monitoring event has whole numbers by topic as {name!r}, not {value!r:.80}")
    return dict(value)

"""
Serializers and deserializers of keys and values: bytes, text, JSON. For Avro, JSON Schema and Protobuf see
:mod:`logbus.client.schema`. Pure.

A serializer is a callable that takes the topic and a value and returns bytes; a deserializer is the inverse:

.. code-block:: python

    producer = Producer(cluster, key_serializer=StringSerializer(), value_serializer=JsonSerializer())

None stays None in both directions: it means no key, or as a value, deletes the key from a compacted topic. A value that
cannot be converted raises a :class:`SerializationError` that names the topic.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from attrs import field, frozen

from logbus.errors import ConfigError, LogbusError

T = TypeVar("T")

Serializer = Callable[[str, Any], bytes | None]
"""Called with the topic and a value."""

Deserializer = Callable[[str, bytes | None], T]
"""Called with the topic and the bytes of a key or value; its return type is the type of a consumer's keys or values."""

_SHOWN = 80


class SerializationError(LogbusError):
    """A key or value cannot be serialized or deserialized; the message names the topic."""


@frozen
class BytesSerializer:
    """Accepts bytes and bytes-like objects."""

    def __call__(self, topic: str, value: bytes | bytearray | memoryview | None) -> bytes | None:
        """
        :raise SerializationError: it is not bytes-like.
        """
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        raise SerializationError(
            f"topic {topic!r}: {_type(value)} is not bytes; encode it, or give the producer a serializer"
        )


@frozen
class BytesDeserializer:
    """Returns the bytes unchanged."""

    def __call__(self, topic: str, data: bytes | None) -> bytes | None:
        """Never fails."""
        return data


def _known(instance: object, attribute: object, encoding: str) -> None:
    try:
        "".encode(encoding)
    except LookupError:
        raise ConfigError(f"{encoding!r} is not an encoding; utf-8 is") from None


@frozen
class StringSerializer:
    """
    Encodes text.

    :raise ConfigError: there is no such encoding.
    """

    encoding: str = field(default="utf-8", validator=_known)

    def __call__(self, topic: str, value: str | None) -> bytes | None:
        """
        :raise SerializationError: it is not text, or not encodable.
        """
        if value is None:
            return None
        if not isinstance(value, str):
            raise SerializationError(f"topic {topic!r}: {_type(value)} is not text")
        try:
            return value.encode(self.encoding)
        except UnicodeEncodeError as e:
            raise SerializationError(
                f"topic {topic!r}: text cannot be written as {self.encoding}: {e.reason} at character {e.start}"
            ) from None


@frozen
class StringDeserializer:
    """
    Decodes text.

    :raise ConfigError: there is no such encoding.
    """

    encoding: str = field(default="utf-8", validator=_known)

    def __call__(self, topic: str, data: bytes | None) -> str | None:
        """
        :raise SerializationError: the bytes are not text in this encoding.
        """
        if data is None:
            return None
        try:
            return bytes(data).decode(self.encoding)
        except UnicodeDecodeError as e:
            raise SerializationError(
                f"topic {topic!r}: {_start(data)} is not {self.encoding}: {e.reason} at byte {e.start}"
            ) from None


@frozen
class JsonSerializer:
    """
    Encodes JSON (RFC 8259) in UTF-8, without spaces; NaN and infinity are refused.

    :ivar default: converts objects that JSON does not support; as for :func:`json.dumps`.
    :ivar sort_keys: equal values get equal bytes, as is needed for keys.
    """

    default: Callable[[Any], Any] | None = None
    sort_keys: bool = False

    def __call__(self, topic: str, value: Any) -> bytes | None:
        """
        :raise SerializationError: it cannot be represented in JSON.
        """
        if value is None:
            return None
        try:
            return json.dumps(
                value,
                ensure_ascii=False,
                allow_nan=False,
                separators=(",", ":"),
                default=self.default,
                sort_keys=self.sort_keys,
            ).encode()
        except (TypeError, ValueError, RecursionError) as e:
            raise SerializationError(f"topic {topic!r}: {_type(value)} cannot be written as JSON: {_why(e)}") from None


@frozen
class JsonDeserializer:
    """Decodes JSON."""

    def __call__(self, topic: str, data: bytes | None) -> Any:
        """
        :raise SerializationError: it is not JSON.
        """
        if data is None:
            return None
        try:
            return json.loads(bytes(data).decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as e:
            raise SerializationError(f"topic {topic!r}: {_start(data)} is not JSON: {_why(e)}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _type(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _start(data: bytes) -> str:
    start = bytes(data[:_SHOWN])
    return repr(start) + (f"... ({len(data)} bytes)" if len(data) > _SHOWN else "")

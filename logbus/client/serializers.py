"""
From values to the bytes of keys and values, and back: bytes, text, JSON; Avro is in :mod:`logbus.client.schema.avro`.

A serializer is anything that is called with the topic and a value and returns bytes, a deserializer the inverse:

.. code-block:: python

    producer = Producer(cluster, key_serializer=StringSerializer(), value_serializer=JsonSerializer())

None stays None in both directions: as a key it means none, as a value it deletes the key from a compacted topic. What
cannot be converted is a :class:`SerializationError` that names the topic.
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
"""Called with the topic and the bytes of a key or value; what it returns is the type of a consumer's keys or values."""

_SHOWN = 80


class SerializationError(LogbusError):
    """A key or value cannot be made into bytes, or bytes not into what was expected; the message names the topic."""


@frozen
class BytesSerializer:
    """Takes bytes, and what is like them, as they are."""

    def __call__(self, topic: str, value: bytes | bytearray | memoryview | None) -> bytes | None:
        """
        :raise SerializationError: it is something else.
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
    """Leaves bytes as they are."""

    def __call__(self, topic: str, data: bytes | None) -> bytes | None:
        """No bytes are refused."""
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
        :raise SerializationError: it is not text, or has characters that the encoding has not.
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
        :raise SerializationError: the bytes are not text of this encoding.
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
    Writes JSON (RFC 8259) in UTF-8, as short as it goes: no NaN, no infinity.

    :ivar default: makes something that JSON has out of what it has not; as for :func:`json.dumps`.
    :ivar sort_keys: so that equal values have equal bytes, as keys must.
    """

    default: Callable[[Any], Any] | None = None
    sort_keys: bool = False

    def __call__(self, topic: str, value: Any) -> bytes | None:
        """
        :raise SerializationError: JSON has no such thing.
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
    """Reads JSON."""

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

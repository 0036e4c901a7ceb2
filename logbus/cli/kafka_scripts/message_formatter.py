"""Formats records as Kafka's DefaultMessageFormatter, by its properties."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from attrs import frozen

from logbus.cli.kafka_scripts.option_parser import UsageError
from logbus.client.consumer.consumer_record import ConsumerRecord

_PACKAGE = "org.apache.kafka.tools.consumer"
FORMATTERS = tuple(f"{_PACKAGE}.{name}MessageFormatter" for name in ("Default", "Logging", "NoOp"))

_PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")
PROPERTIES = (
    *(f"print.{name}" for name in _PRINTED),
    "key.separator",
    "line.separator",
    "headers.separator",
    "null.literal",
    "key.deserializer",
    "value.deserializer",
    "headers.deserializer",
)

_SERIALIZATION = "org.apache.kafka.common.serialization"
_NUMBERS = {"Long": ">q", "Integer": ">i", "Short": ">h", "Double": ">d", "Float": ">f"}
DESERIALIZERS = tuple(f"{_SERIALIZATION}.{name}Deserializer" for name in ("String", "ByteArray", *_NUMBERS))

Show = Callable[[bytes], bytes]


class NotDeserializable(ValueError):
    """A key or a value is not what its deserializer reads."""


@frozen
class MessageFormatter:
    """
    The printed form of a record.

    :ivar printed: names of :data:`PROPERTIES` without ``print.``.
    :ivar deserializers: of key, value and headers, by name: how their bytes become text.
    """

    printed: frozenset[str] = frozenset({"value"})
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    deserializers: Mapping[str, Show] = {}
    show: Show = bytes

    @classmethod
    def of(cls, properties: Mapping[str, str], show: Show = bytes) -> MessageFormatter:
        """
        Read the properties of ``--formatter-property``.

        :param show: applied to what producers set.
        :raise UsageError: one is not known.
        """
        unknown = sorted(properties.keys() - set(PROPERTIES))
        if unknown:
            raise UsageError(f"{unknown[0]} is not a property of the formatter; there are {', '.join(PROPERTIES)}")
        printed = {
            name
            for name in _PRINTED
            if properties.get(f"print.{name}", "true" if name == "value" else "").strip().lower() == "true"
        }
        texts = {
            name.replace(".", "_"): properties[name].encode(errors="surrogateescape")
            for name in ("key.separator", "line.separator", "headers.separator", "null.literal")
            if name in properties
        }
        deserializers = {
            name: _deserializer(properties[f"{name}.deserializer"])
            for name in ("key", "value", "headers")
            if f"{name}.deserializer" in properties
        }
        return cls(frozenset(printed), deserializers=deserializers, show=show, **texts)

    def line(self, record: ConsumerRecord, timestamp_type: str = "CreateTime") -> bytes:
        """
        A record, with the separator of lines.

        :raise NotDeserializable: a deserializer cannot read its key, its value or a header.
        """
        parts = []
        if "timestamp" in self.printed:
            parts.append(b"NO_TIMESTAMP" if record.timestamp < 0 else f"{timestamp_type}:{record.timestamp}".encode())
        if "partition" in self.printed:
            parts.append(b"Partition:%d" % record.partition)
        if "offset" in self.printed:
            parts.append(b"Offset:%d" % record.offset)
        if "headers" in self.printed:
            headers = [
                self.show(name.encode(errors="surrogateescape")) + b":" + self._text("headers", value)
                for name, value in record.headers
            ]
            parts.append(self.headers_separator.join(headers) or b"NO_HEADERS")
        if "key" in self.printed:
            parts.append(self._text("key", record.key))
        if "value" in self.printed:
            parts.append(self._text("value", record.value))
        return self.key_separator.join(parts) + self.line_separator

    def _text(self, what: str, data: bytes | None) -> bytes:
        if data is None:
            return self.null_literal
        deserialize = self.deserializers.get(what)
        return self.show(data if deserialize is None else deserialize(data))


def _deserializer(name: str) -> Show:
    if name not in DESERIALIZERS:
        raise UsageError(f"deserializer {name} is not served; there are {', '.join(DESERIALIZERS)}")
    kind = name.removeprefix(f"{_SERIALIZATION}.").removesuffix("Deserializer")
    return bytes if kind not in _NUMBERS else _number(kind, struct.Struct(_NUMBERS[kind]))


def _number(kind: str, form: struct.Struct) -> Show:
    def text(data: bytes) -> bytes:
        if len(data) != form.size:
            raise NotDeserializable(f"Size of data received by {kind}Deserializer is not {form.size}")
        return str(form.unpack(data)[0]).encode()

    return text

"""
Serializers for Protobuf with a schema registry, in Confluent's wire format. Needs the extra ``protobuf``.

.. code-block:: python

    from orders_pb2 import Order

    registry = SchemaRegistry(reactor, "http://127.0.0.1:8081")
    orders = ProtobufSerializer(registry, Order)
    await producer.send("orders", await orders.serialize("orders", Order(id=42)))

    consumer = Consumer(cluster, "kitchen", value_deserializer=ProtobufDeserializer(Order))

A value is the schema's id, the place of the message in its file (:mod:`logbus.client.schema.message_place`), and the
message. Files that the message's file imports are registered as schemas of their own, by their names, but for those
that every compiler has.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from logbus.client.schema.message_place import read_place, written_place
from logbus.client.schema.schema_frame import unframe
from logbus.client.schema.schema_registry import SchemaReference, SchemaRegistry
from logbus.client.schema.schema_serializer import SchemaSerializer, Subject, topic_name
from logbus.client.serializers import SerializationError
from logbus.errors import ConfigError
from logbus.extras import install_hint

try:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError, EncodeError, Message
except ImportError as e:
    raise ImportError(f"Protobuf needs protobuf, which is not installed: {install_hint('protobuf')}") from e

if TYPE_CHECKING:
    M = TypeVar("M", bound=Message)
else:
    M = TypeVar("M")

_KNOWN = "google/protobuf/"
"""The folder of files that are part of Protobuf; no registry needs them."""


class ProtobufSerializer(SchemaSerializer):
    """
    Encodes messages of one type.

    :param message: a class that ``protoc`` has made.
    :param is_key: whether it is for keys: equal messages get equal bytes then, as far as Protobuf gives that.
    :param subject: the subject name strategy.
    :param register: register the schema and those it imports; if not, they must be registered already.
    :raise ConfigError: it is not such a class.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        message: type[Message],
        *,
        is_key: bool = False,
        subject: Subject = topic_name,
        register: bool = True,
    ) -> None:
        descriptor = _descriptor(message)
        self._message = message
        self._file = descriptor.file
        self._place = written_place(_place(descriptor))
        super().__init__(
            registry,
            _text(self._file),
            descriptor.full_name,
            "PROTOBUF",
            is_key=is_key,
            subject=subject,
            register=register,
        )

    async def _references(self) -> Sequence[SchemaReference]:
        return await self._imports(self._file, {})

    async def _imports(self, file: Any, known: dict[str, SchemaReference]) -> list[SchemaReference]:
        """
        Register or look up what a file imports, from the innermost on.

        :param known: what was found by now, by name.
        """
        wanted = [each for each in file.dependencies if not each.name.startswith(_KNOWN)]
        for each in wanted:
            if each.name not in known:
                inner, text = await self._imports(each, known), _text(each)
                if self._register:
                    await self._registry.register(each.name, text, "PROTOBUF", inner)
                version = (await self._registry.lookup(each.name, text, "PROTOBUF", inner)).version
                known[each.name] = SchemaReference(each.name, each.name, version)
        return [known[each.name] for each in wanted]

    def _write(self, topic: str, value: Any) -> bytes:
        if not isinstance(value, self._message):
            raise SerializationError(
                f"topic {topic!r}: a value of type {type(value).__name__} is no message {self._name}"
            )
        try:
            return self._place + value.SerializeToString(deterministic=self._is_key)  # type: ignore[no-any-return]
        except (EncodeError, ValueError, RecursionError) as e:
            raise SerializationError(f"topic {topic!r}: the message {self._name} cannot be written: {e}") from None


class ProtobufDeserializer(Generic[M]):
    """
    Decodes messages of one type. It asks no registry, since the class has the schema: fields of a later one are kept
    as unknown, and missing ones have their defaults.

    :param message: a class that ``protoc`` has made.
    :raise ConfigError: it is not such a class.
    """

    def __init__(self, message: type[M]) -> None:
        self._name = _descriptor(message).full_name
        self._message: type[M] = message

    def __call__(self, topic: str, data: bytes | None) -> M | None:
        """
        :raise SerializationError: the bytes are not framed, or no such message.
        """
        if data is None:
            return None
        schema_id, payload = unframe(topic, data)
        try:
            _, start = read_place(payload)
            message: M = self._message()
            message.ParseFromString(payload[start:])
        except (DecodeError, ValueError, RecursionError) as e:
            raise SerializationError(f"topic {topic!r}: not a {self._name}, of schema {schema_id}: {e}") from None
        return message


def _descriptor(message: Any) -> Any:
    if not (isinstance(message, type) and issubclass(message, Message) and message is not Message):
        raise ConfigError(f"{message!r} is no class of Protobuf messages: give one that protoc has made")
    descriptor: Any = message.DESCRIPTOR  # type: ignore[attr-defined]
    return descriptor


def _text(file: Any) -> str:
    """A file as registries take it: its descriptor in base64."""
    descriptor = FileDescriptorProto()
    file.CopyToProto(descriptor)
    return b64encode(descriptor.SerializeToString()).decode()


def _place(descriptor: Any) -> list[int]:
    """The indexes that lead to a message in its file, from the outer to the inner ones."""
    path = list[int]()
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = list(descriptor.file.message_types_by_name.values()) if outer is None else list(outer.nested_types)
        path.insert(0, siblings.index(descriptor))
        descriptor = outer
    return path

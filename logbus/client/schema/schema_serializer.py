"""
The base of the serializers of all formats: a schema that is registered for each topic, and values behind its id.

A serializer is told the id of its schema by the registry, once for each topic, and a deserializer the schema of an id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from logbus.client.schema.lru_cache import LruCache
from logbus.client.schema.schema_registry import RegistryError, SchemaReference, SchemaRegistry, frame, unframe
from logbus.client.serializers import SerializationError
from logbus.coroutines import returns_deferred
from logbus.errors import ConfigError

S = TypeVar("S")

Subject = Callable[[str, bool, str], str]
"""A subject name strategy: called with the topic, whether the schema is for keys, and its full name."""

JsonSchema = str | Mapping[str, Any] | bool
"""A JSON Schema, as text or parsed."""

_SCHEMAS = 1000


def topic_name(topic: str, is_key: bool, name: str) -> str:
    """
    The default strategy (TopicNameStrategy): a subject for each topic's keys and one for its values: ``orders-value``.
    """
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, name: str) -> str:
    """RecordNameStrategy: the record's full name, for all topics."""
    return name


def topic_record_name(topic: str, is_key: bool, name: str) -> str:
    """TopicRecordNameStrategy: topic and record name, for several kinds of records in a topic."""
    return f"{topic}-{name}"


class SchemaSerializer(ABC):
    """
    Encodes values of one schema.

    :param text: the schema, as it is registered.
    :param name: its full name; "" if it has none.
    :param schema_type: as for :meth:`logbus.client.schema.schema_registry.SchemaRegistry.register`.
    :raise ConfigError: a strategy needs a name, and there is none.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        text: str,
        name: str,
        schema_type: str,
        *,
        is_key: bool,
        subject: Subject,
        register: bool,
    ) -> None:
        if subject is not topic_name and not name:
            raise ConfigError("a schema without a name has the subject of its topic: subject=topic_name")
        self._registry = registry
        self._text = text
        self._name = name
        self._schema_type = schema_type
        self._is_key = is_key
        self._subject = subject
        self._register = register
        # Bounded, since there is a subject for each topic that the application writes to.
        self._ids: LruCache[str, int] = LruCache(_SCHEMAS)

    @returns_deferred
    async def prepare(self, topic: str) -> int:
        """
        Look up or register the schema for a topic.

        :returns: fires with the schema's id.
        :raise RegistryError: (in the Deferred) the schema is refused, or does not exist.
        :raise RegistryUnreachable: no registry answered.
        """
        known = self._ids.get(topic)
        if known is not None:
            return known
        subject = self._subject(topic, self._is_key, self._name)
        references = await self._references()
        if self._register:
            found = await self._registry.register(subject, self._text, self._schema_type, references)
        else:
            found = (await self._registry.lookup(subject, self._text, self._schema_type, references)).id
        return self._ids.put(topic, found)

    @returns_deferred
    async def serialize(self, topic: str, value: Any) -> bytes | None:
        """
        Encode a value, looking up the schema's id if needed.

        :raise SerializationError: (in the Deferred) the value does not fit the schema; and the errors of
            :meth:`prepare`.
        """
        if value is None:
            return None
        await self.prepare(topic)
        return self(topic, value)

    def __call__(self, topic: str, value: Any) -> bytes | None:
        """
        Encode a value, without waiting.

        :raise SerializationError: the value does not fit the schema, or the topic was not prepared.
        """
        if value is None:
            return None
        schema_id = self._ids.get(topic)
        if schema_id is None:
            raise SerializationError(f"topic {topic!r}: the schema's id is not known yet; await prepare({topic!r})")
        return frame(schema_id, self._write(topic, value))

    async def _references(self) -> Sequence[SchemaReference]:
        """The schemas that this one needs, after they were registered or looked up."""
        return ()

    @abstractmethod
    def _write(self, topic: str, value: Any) -> bytes:
        """
        Encode the value: the bytes after the schema's id.

        :raise SerializationError: the value does not fit the schema.
        """


class SchemaDeserializer(ABC, Generic[S]):
    """Decodes values of any schema in the registry."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._writers: LruCache[int, S] = LruCache(_SCHEMAS)

    @returns_deferred
    async def deserialize(self, topic: str, data: bytes | None) -> Any:
        """
        Decode a value, looking up its schema if needed.

        :raise SerializationError: (in the Deferred) the bytes are not framed, or do not fit their schema.
        :raise RegistryError: there is no such schema.
        :raise RegistryUnreachable: no registry answered.
        """
        if data is None:
            return None
        schema_id, _ = unframe(topic, data)
        if self._writer(schema_id) is None:
            text = await self._registry.schema(schema_id)
            try:
                self._writers.put(schema_id, self._parse(text, f"schema {schema_id}"))
            except ConfigError as e:
                raise RegistryError(f"topic {topic!r}: {e}", 200) from None
        return self(topic, data)

    def __call__(self, topic: str, data: bytes | None) -> Any:
        """
        Decode a value, without waiting.

        :raise SerializationError: the bytes do not fit their schema, or the schema was not looked up yet.
        """
        if data is None:
            return None
        schema_id, payload = unframe(topic, data)
        writer = self._writer(schema_id)
        if writer is None:
            raise SerializationError(f"topic {topic!r}: schema {schema_id} is not known yet; await deserialize()")
        return self._read(topic, payload, writer, f"schema {schema_id}")

    def _writer(self, schema_id: int) -> S | None:
        """The schema that a value was written with, if it is known."""
        return self._writers.get(schema_id)

    @abstractmethod
    def _parse(self, text: str, what: str) -> S:
        """
        A schema in the form that reading needs.

        :raise ConfigError: it is not one.
        """

    @abstractmethod
    def _read(self, topic: str, payload: bytes, writer: S, what: str) -> Any:
        """
        A value.

        :raise SerializationError: the bytes do not fit the schema.
        """

"""
A client of a schema registry for asyncio, and serializers for Avro that ask it. These need the extra ``avro``.

.. code-block:: python

    async with SchemaRegistry("http://127.0.0.1:8080/registry") as registry:
        orders = AvroSerializer(registry, ORDER)
        await producer.send("orders", await orders.serialize("orders", {"id": 42}))

        reading = AvroDeserializer(registry)
        order = await reading.deserialize(record.topic, record.value)

The registry is asked once for each schema. A producer's ``value_serializer`` cannot wait for it: await
:meth:`AvroSerializer.prepare` first, then pass the serializer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from twisted.web.client import URI, Agent, HTTPConnectionPool
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from logbus.client.aio.awaiting import awaited, outcome
from logbus.client.aio.event_loop import EventLoop, current
from logbus.client.aio.lifetime import Lifetime
from logbus.client.aio.transport import LoopEndpoint
from logbus.client.schema import schema_registry as core
from logbus.client.schema.schema_registry import RegisteredSchema, RegistryError, RegistryUnreachable

if TYPE_CHECKING:
    from logbus.client.schema import avro
    from logbus.client.schema.avro import Subject

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "RegisteredSchema",
    "RegistryError",
    "RegistryUnreachable",
    "SchemaRegistry",
]


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """The endpoints of URLs, on the loop."""

    def __init__(self, event_loop: EventLoop) -> None:
        self._event_loop = event_loop

    def endpointForURI(self, uri: URI) -> Any:
        host = uri.host.decode()
        endpoint = LoopEndpoint(self._event_loop, host, uri.port)
        if uri.scheme != b"https":
            return endpoint
        from twisted.internet.endpoints import wrapClientTLS
        from twisted.internet.ssl import optionsForClientTLS  # its packages are an extra

        return wrapClientTLS(optionsForClientTLS(host), endpoint)


class SchemaRegistry(Lifetime):
    """
    Registers and looks up schemas, with a cache.

    :param urls: the registry's URL; of several, the next is tried if one does not answer.
    :param auth: name and password (Basic); ``user:password@`` in a URL is refused.
    :param headers: sent with each request, such as ``{"Authorization": "Bearer ..."}``.
    :param timeout: seconds to wait for a response.
    :param attempts: the most attempts for a request, if no registry answers or it returns status 429 or 5xx.
    :param cache: the most schemas to cache.
    :raises ConfigError: a URL is invalid.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        auth: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        attempts: int = 4,
        cache: int = 1000,
    ) -> None:
        self._event_loop = EventLoop()
        self._pool = HTTPConnectionPool(self._event_loop)
        self._core = core.SchemaRegistry(
            self._event_loop,
            urls,
            auth=auth,
            headers=headers,
            timeout=timeout,
            attempts=attempts,
            cache=cache,
            agent=Agent.usingEndpointFactory(self._event_loop, _Endpoints(self._event_loop), self._pool),
        )

    async def start(self) -> Self:
        """Nothing: it connects when it is asked something."""
        current(self._event_loop)
        self._is_closed = False
        return self

    async def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        await outcome(self._core.close())
        await outcome(self._pool.closeCachedConnections())

    def __del__(self) -> None:
        if not self._is_closed:
            self._warn_unclosed("SchemaRegistry")

    schema = awaited(core.SchemaRegistry.schema)
    register = awaited(core.SchemaRegistry.register)
    lookup = awaited(core.SchemaRegistry.lookup)
    version = awaited(core.SchemaRegistry.version)
    subjects = awaited(core.SchemaRegistry.subjects)
    versions = awaited(core.SchemaRegistry.versions)


class AvroSerializer:
    """
    Encodes values of one schema.

    :param schema: as JSON text, or parsed.
    :param is_key: whether it is for keys.
    :param subject: the subject name strategy, of :mod:`logbus.client.schema.avro`; default: the topic's name.
    :param register: register the schema; if not, it must be registered already.
    :raises ConfigError: it is not an Avro schema.
    :raises ImportError: fastavro is missing.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Mapping[str, Any] | list[Any],
        *,
        is_key: bool = False,
        subject: Subject | None = None,
        register: bool = True,
    ) -> None:
        from logbus.client.schema import avro

        self._core = avro.AvroSerializer(
            registry._core, schema, is_key=is_key, subject=subject or avro.topic_name, register=register
        )

    async def prepare(self, topic: str) -> int:
        """
        Look up or register the schema for a topic.

        :returns: the schema's id.
        :raises RegistryError: the schema is refused, or does not exist.
        :raises RegistryUnreachable: no registry answered.
        """
        return await outcome(self._core.prepare(topic))

    async def serialize(self, topic: str, value: Any) -> bytes | None:
        """
        Encode a value, looking up the schema's id if needed.

        :raises SerializationError: the value does not fit the schema; and the errors of :meth:`prepare`.
        """
        return await outcome(self._core.serialize(topic, value))

    def __call__(self, topic: str, value: Any) -> bytes | None:
        """
        Encode a value, without waiting.

        :raises SerializationError: the value does not fit the schema, or the topic was not prepared.
        """
        return self._core(topic, value)


class AvroDeserializer:
    """
    Decodes values of any schema in the registry.

    :param schema: the reader's schema: other fields are dropped, missing ones get defaults (Avro schema resolution);
        default: the writer's schema.
    :raises ConfigError: it is not an Avro schema.
    :raises ImportError: fastavro is missing.
    """

    _core: avro.AvroDeserializer

    def __init__(self, registry: SchemaRegistry, schema: str | Mapping[str, Any] | list[Any] | None = None) -> None:
        from logbus.client.schema import avro

        self._core = avro.AvroDeserializer(registry._core, schema)

    async def deserialize(self, topic: str, data: bytes | None) -> Any:
        """
        Decode a value, looking up its schema if needed.

        :raises SerializationError: the bytes are not framed, or do not fit their schema.
        :raises RegistryError: there is no such schema.
        :raises RegistryUnreachable: no registry answered.
        """
        return await outcome(self._core.deserialize(topic, data))

    def __call__(self, topic: str, data: bytes | None) -> Any:
        """
        Decode a value, without waiting.

        :raises SerializationError: the bytes do not fit their schema, or the schema was not looked up yet.
        """
        return self._core(topic, data)

"""
A client of a schema registry for asyncio. Serializers that ask it are in :mod:`logbus.client.aio.schema_serializers`.

.. code-block:: python

    async with SchemaRegistry("http://127.0.0.1:8080/registry") as registry:
        schema_id = await registry.register("orders-value", '{"type": "string"}')

The registry is asked once for each schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from twisted.web.client import URI, Agent, HTTPConnectionPool
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from logbus.client.aio.awaiting import awaited, outcome
from logbus.client.aio.event_loop import EventLoop, current
from logbus.client.aio.lifetime import Lifetime
from logbus.client.aio.transport import LoopEndpoint
from logbus.client.schema import schema_registry as core
from logbus.client.schema.schema_registry import RegisteredSchema, RegistryError, RegistryUnreachable, SchemaReference

__all__ = ["RegisteredSchema", "RegistryError", "RegistryUnreachable", "SchemaReference", "SchemaRegistry"]


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

    def _check_loop(self) -> None:
        """
        Check that it is used in its own event loop.

        :raises RuntimeError: another one runs.
        """
        current(self._event_loop)

    async def start(self) -> Self:
        """Nothing: it connects when it is asked something."""
        self._check_loop()
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

"""
A client of a schema registry with Confluent's REST API (SchemaRegistryClient): subjects, versions, and schema ids.

.. code-block:: python

    registry = SchemaRegistry(reactor, "http://127.0.0.1:8081")
    schema_id = await registry.register("orders-value", '{"type": "string"}')
    schema = await registry.schema(schema_id)

The schema of an id never changes, so it is requested once and cached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from attrs import asdict, frozen
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.web.iweb import IAgent

from logbus.client.retry import Backoff
from logbus.client.schema.lru_cache import LruCache
from logbus.client.schema.registry_http import RegistryError, RegistryHttp, RegistryUnreachable, basic_auth
from logbus.client.schema.schema_frame import frame, unframe
from logbus.coroutines import returns_deferred

__all__ = [
    "RegisteredSchema",
    "RegistryError",
    "RegistryUnreachable",
    "SchemaReference",
    "SchemaRegistry",
    "frame",
    "unframe",
]

V = TypeVar("V")


@frozen
class SchemaReference:
    """
    Another schema that a schema needs.

    :ivar name: what the schema calls it: a file of Protobuf, a ``$ref``, the full name of a type in Avro.
    :ivar subject: where it is registered, and ``version`` there.
    """

    name: str
    subject: str
    version: int


@frozen
class RegisteredSchema:
    """
    A version of a subject.

    :ivar schema: as text; Avro as JSON.
    :ivar schema_type: ``AVRO``, ``JSON`` or ``PROTOBUF``.
    """

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = "AVRO"


_Key = tuple[str, str, str, tuple[SchemaReference, ...]]
"""Subject, text, type and references of a schema: the same text is another schema with others of these."""


class SchemaRegistry:
    """
    Registers and looks up schemas, with a cache.

    :param reactor: provides timers and connections.
    :param urls: the registry's URL; of several, the next is tried if one does not answer.
    :param auth: name and password (Basic); ``user:password@`` in a URL is refused.
    :param headers: sent with each request, such as ``{"Authorization": "Bearer ..."}``.
    :param timeout: seconds to wait for a response.
    :param attempts: the most attempts for a request, if no registry answers or it returns status 429 or 5xx.
    :param cache: the most schemas to cache.
    :param agent: sends the requests; default: Twisted's Agent with persistent connections.
    :raise ConfigError: a URL is invalid.
    """

    def __init__(
        self,
        reactor: Any,
        urls: str | Sequence[str],
        *,
        auth: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        attempts: int = 4,
        backoff: Backoff | None = None,
        cache: int = 1000,
        agent: IAgent | None = None,
    ) -> None:
        self._http = RegistryHttp(
            reactor,
            urls,
            headers={**(headers or {}), **basic_auth(auth)},
            timeout=timeout,
            attempts=attempts,
            backoff=backoff,
            agent=agent,
        )
        self._schemas: LruCache[int, str] = LruCache(cache)
        self._ids: LruCache[_Key, int] = LruCache(cache)
        self._asking: dict[int, list[Deferred[str]]] = {}
        self._fetches: dict[int, Deferred[None]] = {}

    def schema(self, schema_id: int) -> Deferred[str]:
        """
        The schema of an id, as text.

        :raise RegistryError: (in the Deferred) 40403: it does not exist; or it has references, which are not supported.
        :raise RegistryUnreachable: no registry answered; likewise for all other methods.
        """
        known = self._schemas.get(schema_id)
        if known is not None:
            return succeed(known)
        asking = self._asking.setdefault(schema_id, [])
        waiting: Deferred[str] = Deferred(asking.remove)
        asking.append(waiting)
        if len(asking) == 1 and schema_id not in self._fetches:
            fetch = self._fetches[schema_id] = Deferred.fromCoroutine(self._fetch_schema(schema_id))
            fetch.addCallback(self._fetched, schema_id)
        return waiting

    @returns_deferred
    async def register(
        self, subject: str, schema: str, schema_type: str = "AVRO", references: Sequence[SchemaReference] = ()
    ) -> int:
        """
        Register a schema as the next version of a subject, unless it is one already.

        :param references: the registered schemas that it needs.
        :returns: its id.
        :raise RegistryError: (in the Deferred) 409: it is not compatible with earlier versions; 42201: it is not a
            valid schema.
        """
        key = (subject, schema, schema_type, tuple(references))
        known = self._ids.get(key)
        if known is not None:
            return known
        body = _schema_body(schema, schema_type, references)
        answer = await self._http.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)
        found = _field(answer, "id", int)
        if not references:
            self._schemas.put(found, schema)
        return self._ids.put(key, found)

    @returns_deferred
    async def lookup(
        self, subject: str, schema: str, schema_type: str = "AVRO", references: Sequence[SchemaReference] = ()
    ) -> RegisteredSchema:
        """
        The version of a subject that has this schema; does not register it.

        :raise RegistryError: (in the Deferred) 40401: the subject does not exist; 40403: it has no such schema.
        """
        body = _schema_body(schema, schema_type, references)
        answer = await self._http.ask("POST", f"/subjects/{quote(subject, safe='')}", body)
        found = _registered(answer)
        self._ids.put((subject, schema, schema_type, tuple(references)), found.id)
        return found

    @returns_deferred
    async def version(self, subject: str, version: int | str = "latest") -> RegisteredSchema:
        """
        A version of a subject.

        :raise RegistryError: (in the Deferred) 40401: the subject does not exist; 40402: it has no such version.
        """
        return _registered(await self._http.ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}"))

    @returns_deferred
    async def subjects(self) -> list[str]:
        """All subjects."""
        return [str(each) for each in await self._http.ask("GET", "/subjects")]

    @returns_deferred
    async def versions(self, subject: str) -> list[int]:
        """
        The versions of a subject.

        :raise RegistryError: (in the Deferred) 40401: the subject does not exist.
        """
        return [int(each) for each in await self._http.ask("GET", f"/subjects/{quote(subject, safe='')}/versions")]

    def close(self) -> Deferred[None]:
        """Close the connections; fires when they are closed."""

        closed = self._http.close()
        for fetch in list(self._fetches.values()):
            fetch.cancel()
        return closed

    # Internals.

    async def _fetch_schema(self, schema_id: int) -> None:
        """Request a schema for all callers that wait for it; cancelling one does not affect the others."""
        result: str | Exception
        try:
            answer = await self._http.ask("GET", f"/schemas/ids/{schema_id}")
            result = _field(answer, "schema", str)
            if answer.get("references"):
                result = RegistryError(f"schema {schema_id} rests on others (references), which is not supported", 200)
            else:
                self._schemas.put(schema_id, result)
        except CancelledError:
            result = RegistryUnreachable("the client of the schema registry is closed")
        except Exception as e:
            result = e
        for each in self._asking.pop(schema_id):
            if isinstance(result, str):
                each.callback(result)
            else:
                each.errback(result)

    def _fetched(self, result: None, schema_id: int) -> None:
        del self._fetches[schema_id]


def _schema_body(schema: str, schema_type: str, references: Sequence[SchemaReference]) -> dict[str, Any]:
    # Avro is the default, also of old registries that know no schemaType.
    body: dict[str, Any] = (
        {"schema": schema} if schema_type == "AVRO" else {"schema": schema, "schemaType": schema_type}
    )
    return {**body, "references": [asdict(each) for each in references]} if references else body


def _field(answer: Any, name: str, kind: type[V]) -> V:
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, kind):
        raise RegistryError(f"the schema registry's answer has no {name!r}", 200)
    return value


def _registered(answer: Any) -> RegisteredSchema:
    return RegisteredSchema(
        _field(answer, "subject", str),
        _field(answer, "version", int),
        _field(answer, "id", int),
        _field(answer, "schema", str),
        str(answer.get("schemaType") or "AVRO"),
    )

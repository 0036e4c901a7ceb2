"""
The HTTP resource of the registry, which Confluent's clients use, mounted at ``/registry``.

twisted.web and the registry are imported with the first request, so that an unused registry costs no memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.plugin import IPlugin
from zope.interface import implementer

from logbus.admin.problem_details import HttpProblem
from logbus.admin.schema_registry import ISchemaRegistry, SchemaNotUsed, ValueSchema
from logbus.ilogbus import IAdminResource, IBroker
from logbus.registry.limits import RegistryLimits

if TYPE_CHECKING:
    from twisted.web.resource import IResource

    from logbus.admin.authorization import HttpAccess
    from logbus.registry.requests import RegistryRequest, RegistryResponse
    from logbus.registry.service import RegistryService


@implementer(IPlugin, IAdminResource)
class RegistryPlugin:
    """Mounts the registry below ``/registry`` of the admin listener."""

    path = b"registry"
    body_bytes = RegistryLimits().body_bytes
    authorizes = True

    def __init__(self) -> None:
        # A resource has its broker, so that a strong reference to it here would keep both for ever.
        self._made: WeakKeyDictionary[Any, ref[RegistryResource]] = WeakKeyDictionary()

    def resource(self, broker: IBroker) -> IResource:
        known = self._made.get(broker)
        made = None if known is None else known()
        if made is None:  # several admin listeners of a broker share one
            made = RegistryResource(broker)
            broker.answer_plugin("registry", made.answer_broker)
            self._made[broker] = ref(made)
        return made  # type: ignore[return-value]


@implementer(ISchemaRegistry)
@define(eq=False)
class RegistryResource:
    """A leaf resource that answers all paths below its own."""

    _broker: IBroker
    isLeaf: bool = field(default=True, init=False)
    _service: RegistryService | None = field(default=None, init=False)
    _log = Logger()

    @property
    def service(self) -> RegistryService:
        """The service, created on first use."""
        if self._service is None:
            from logbus.registry.service import RegistryService

            self._service = RegistryService(self._broker)
        return self._service

    def answer_broker(self, data: bytes) -> Deferred[bytes]:
        """Answer a request of another broker."""
        return self.service.answer_broker(data)

    def ask(
        self, method: str, path: Sequence[str], query: Mapping[str, str], body: bytes, access: HttpAccess
    ) -> Deferred[tuple[int, bytes]]:
        """Answer pages of this process."""
        from logbus.registry.errors import RegistryRefusal
        from logbus.registry.requests import RegistryRequest, RegistryResponse
        from logbus.registry.rights import check_rights

        request = RegistryRequest(method, tuple(path), query, body)
        try:
            check_rights(request, access)
        except RegistryRefusal as e:
            return succeed(_parts(RegistryResponse.refusal(e)))
        return self.service.answer(request).addCallback(_parts)

    def value_schema(self, number: int, access: HttpAccess) -> Deferred[ValueSchema | None]:
        """Return what reads values for pages of this process."""
        from logbus.registry.value_schemas import value_schema

        async def get(*path: str, **query: str) -> Mapping[str, Any]:
            status, data = await self.ask("GET", path, {"deleted": "true", **query}, b"", access)
            told: Mapping[str, Any] = json.loads(data)
            if status == HTTPStatus.NOT_FOUND:
                raise LookupError
            if status != HTTPStatus.OK:
                raise SchemaNotUsed(f"it cannot be looked up: {told['message']}")
            return told

        async def found() -> ValueSchema | None:
            try:
                return await value_schema(get, number)
            except LookupError:
                return None
            except HttpProblem as e:
                raise SchemaNotUsed(f"it cannot be looked up: {e.detail}") from None

        return Deferred.fromCoroutine(found())

    def render(self, http: Any) -> Any:
        """Answer an HTTP request."""
        from twisted.web.server import NOT_DONE_YET

        from logbus.registry.errors import RegistryRefusal
        from logbus.registry.requests import RegistryResponse
        from logbus.registry.rights import check_rights

        try:
            request = _request(http)
            check_rights(request, http.access)
        except RegistryRefusal as e:
            self._send(RegistryResponse.refusal(e), http)
            return NOT_DONE_YET
        answered = self.service.answer(request)
        gone = http.notifyFinish()
        gone.addCallbacks(lambda _: None, lambda _: answered.cancel())
        answered.addCallback(self._send, http)
        answered.addErrback(lambda failure: None if http._disconnected else self._log.failure("no answer", failure))
        return NOT_DONE_YET

    def _send(self, answer: RegistryResponse, http: Any) -> None:
        from logbus.registry.routes import allowed_methods
        from logbus.registry.routing import CONTENT_TYPE

        if http.finished or http._disconnected:
            return
        http.setResponseCode(answer.status)
        http.setHeader(b"Content-Type", CONTENT_TYPE.encode())
        http.setHeader(b"Content-Length", b"%d" % len(answer.body))
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            http.setHeader(b"Allow", ", ".join(allowed_methods(_path(http))).encode())
        elif answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            http.setHeader(b"Retry-After", b"1")
        http.write(answer.body)
        http.finish()


def _parts(answer: RegistryResponse) -> tuple[int, bytes]:
    return answer.status, answer.body


def _path(http: Any) -> tuple[str, ...]:
    """Return the segments of the path, without empty ones at the end."""
    path = [part.decode() for part in http.postpath]
    while path and not path[-1]:
        path.pop()
    return tuple(path)


def _request(http: Any) -> RegistryRequest:
    """
    Convert an HTTP request.

    :raise RegistryRefusal: its path or query is not UTF-8.
    """
    from logbus.registry.errors import Code, RegistryRefusal
    from logbus.registry.requests import RegistryRequest

    try:
        path = _path(http)
        query = {name.decode(): values[-1].decode() for name, values in (http.args or {}).items()}
    except UnicodeDecodeError:
        raise RegistryRefusal(Code.BAD_REQUEST, "The path or the query is not UTF-8") from None
    method = http.method.decode("ascii", "replace")
    return RegistryRequest("GET" if method == "HEAD" else method, path, query, http.content.read())

"""Guards: how they are declared and found, and how they stand before handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred

import logbus.handlers.authorization
from logbus.errors import ErrorCode, ProtocolError
from logbus.handlers.authorization.access import Access, Authorization
from logbus.handlers.request_router import Answer, Handler, response_of
from logbus.net.request_context import RequestContext
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.connection import Request

T = TypeVar("T")

Serve = Callable[[], Awaitable[Any]]
"""Has the request served, as it is now."""

Guard = Callable[[Access, Request, Serve], Awaitable[Any]]
"""Gives the response of a request, or of as much of it as is allowed."""

F = TypeVar("F", bound=Callable[..., Any])

ASKS_ITSELF = frozenset({0, 1, 78, 79})
"""Produce, Fetch, ShareFetch and ShareAcknowledge, whose handlers ask."""


def guards(*api_keys: int) -> Callable[[F], F]:
    """Declare that a function is the :data:`Guard` of APIs."""

    def mark(function: F) -> F:
        function.__guards__ = api_keys  # type: ignore[attr-defined]
        return function

    return mark


def all_guards() -> dict[int, Guard]:
    """
    The guards in the modules of this package, by API key.

    :raises ValueError: an API has two.
    """
    found: dict[int, Guard] = {}
    package = logbus.handlers.authorization
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(module.name)).values():
            for key in getattr(value, "__guards__", ()):
                if found.setdefault(key, value) is not value:
                    raise ValueError(f"API {key} has two guards, {found[key]} and {value}")
    return found


@frozen
class GuardedHandlers:
    """
    Puts guards before handlers.

    :param guards: by API key; :func:`unguarded` for an API without one.
    """

    _authorization: Authorization
    _guards: dict[int, Guard]

    def wrap(self, api_key: int, handler: Handler) -> Handler:
        """The handler behind the guard of its API."""
        if api_key in ASKS_ITSELF:
            return handler
        guard = self._guards.get(api_key, unguarded)

        def handle(context: RequestContext, request: Request) -> Answer:
            access = self._authorization.access(context, api_key)
            return Deferred.fromCoroutine(answered(access, request, handler, guard))

        return handle


async def answered(access: Access, request: Request, handler: Handler, guard: Guard) -> Any:
    """The response by way of a guard."""

    async def serve() -> Any:
        return await response_of(handler(access.context, request))

    return await guard(access, request, serve)


async def unguarded(access: Access, request: Request, serve: Serve) -> Any:
    """
    Serve an API without a guard to those who may alter the cluster only.

    :raises ProtocolError: the principal may not; the connection is closed, as no error response is known.
    """
    if access.allows_on_cluster(AclOperation.ALTER):
        return await serve()
    raise ProtocolError(f"{access.context.principal} may not use the API {request.api_key}")


def needs(
    operation: AclOperation,
    kind: ResourceType,
    refused: Callable[[Any, ErrorCode], Any],
    name: Callable[[Any], str],
    code: ErrorCode,
) -> Guard:
    """
    Build the guard of an API whose requests are for one resource.

    :param name: the name of the resource, given the request's message.
    :param refused: the response, given the message and ``code``.
    """

    async def guard(access: Access, request: Request, serve: Serve) -> Any:
        if access.allows(operation, kind, name(request.message)):
            return await serve()
        return refused(request.message, code)

    return guard


async def divided(
    access: Access, request: Request, elements: list[T], allowed: Callable[[T], bool]
) -> tuple[list[T], list[T]]:
    """Divide elements of a request into those that are allowed and those that are not."""
    kept: list[T] = []
    refused: list[T] = []
    async for each in access.context.time_slice(request).over(elements):
        (kept if allowed(each) else refused).append(each)
    return kept, refused


def on(access: Access, operation: AclOperation, kind: ResourceType) -> Callable[[str], bool]:
    """Whether an operation on a resource of a name is allowed."""
    return partial(access.allows, operation, kind)

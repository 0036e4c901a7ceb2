"""
Routes requests to the methods of views.

A view is a class whose methods declare their routes with :func:`route`. The router serves the table of all routes, and
:mod:`logbus.admin.openapi` documents the same table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred

from logbus.admin import strict_json
from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.json_schema import JsonSchema, schema_errors, string
from logbus.admin.problem_details import CONTENT_TYPE as PROBLEM
from logbus.admin.problem_details import HttpProblem, problem_of

JSON = "application/json"
MAX_FAULTS = 10
"""Errors of a body that are reported at once."""
FOR_ALL = "Everybody may ask this."
"""The rights of routes that tell nothing of the cluster."""

F = TypeVar("F", bound=Callable[..., Any])
Headers = Mapping[str, Sequence[str]]
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
LOCATION: Mapping[str, JsonSchema] = MappingProxyType(
    {"Location": string("Where it is: a path of this API.", pattern="^/", format="uri-reference")}
)
"""Header fields of a response to what has made something new."""


@frozen
class ViewResponse:
    """
    The response of a view.

    :ivar body: the bytes, or a callable whose iterator yields them in chunks, one per reactor turn; and Deferreds, of
        which it waits, and which do not fail.
    """

    status: HTTPStatus
    content_type: str
    body: bytes | Callable[[], Iterator[bytes | Deferred[None]]] = b""
    headers: Mapping[str, str] = _NO_HEADERS


PendingResponse = ViewResponse | Deferred[ViewResponse]


@frozen
class ViewRequest:
    """
    The validated request that a view gets.

    :ivar path: the variable parts of the path, by name.
    :ivar query: the query parameters, with defaults.
    :ivar body: the JSON value; None if the route has no body.
    :ivar headers: values by lower-case name.
    :ivar access: what the client may do.
    """

    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any
    headers: Headers
    access: HttpAccess


@frozen
class Route:
    """
    A method and path, and what is accepted and returned there.

    :ivar path: segments between slashes; ``{name}`` is variable.
    :ivar summary: one line, for the OpenAPI document.
    :ivar answer: the schema of a JSON answer; None if the answer is not JSON.
    :ivar content_types: content types of the answer.
    :ivar other_answers: the schemas of other JSON answers that are no problems, by status; None: without a body.
    :ivar body: the schema of the JSON body, if there is one.
    :ivar parameters: the schemas of variable parts and query parameters, by name.
    :ivar headers: the schemas of header fields that the view reads; all are optional.
    :ivar answer_headers: the schemas of header fields of a success; those with a default of None may be missing.
    :ivar status: the status of success.
    :ivar errors: error statuses of this route, besides those of all routes.
    :ivar right: the right that a client needs; None: the view asks itself, as ``rights`` says.
    :ivar rights: a sentence for the OpenAPI document, if there is more to say than ``right``.
    :ivar served_by: returns the broker that serves a request, given the view and the request; None: any. Other brokers
        relay it there.
    :ivar merged_by: of a list that each broker has a part of: the member that orders its rows; empty: no such list.
    :ivar call: gives an :class:`ViewResponse`, or a value that becomes a JSON one, or a Deferred of these.
    """

    method: str
    path: str
    summary: str
    answer: JsonSchema | None = None
    content_types: tuple[str, ...] = (JSON,)
    other_answers: Mapping[HTTPStatus, JsonSchema | None] = MappingProxyType({})
    body: JsonSchema | None = None
    parameters: Mapping[str, JsonSchema] = MappingProxyType({})
    headers: Mapping[str, JsonSchema] = MappingProxyType({})
    answer_headers: Mapping[str, JsonSchema] = MappingProxyType({})
    status: HTTPStatus = HTTPStatus.OK
    errors: tuple[HTTPStatus, ...] = ()
    right: Right | None = None
    rights: str = ""
    served_by: Callable[..., int | None] | None = None
    merged_by: str = ""
    call: Callable[[ViewRequest], Any] = NotImplemented

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments of the path."""
        return tuple(self.path.strip("/").split("/"))

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variable parts of the path."""
        return tuple(part[1:-1] for part in self.segments if part.startswith("{"))


def route(method: str, path: str, summary: str, **more: Any) -> Callable[[F], F]:
    """Declare the route of a view's method; the arguments are the fields of :class:`Route`."""

    def mark(function: F) -> F:
        function.__route__ = Route(method, path, summary, **more)  # type: ignore[attr-defined]
        return function

    return mark


class Relays(Protocol):
    """The part of :class:`.Relay` that the router needs."""

    broker_id: int

    @property
    def has_others(self) -> bool:
        """Whether there are other brokers."""

    async def send(
        self, broker_id: int, method: str, target: str, headers: Headers, body: bytes, access: HttpAccess
    ) -> ViewResponse:
        """Have another broker serve a request."""

    async def merge(self, route: Route, call: ViewRequest, target: str, own: ViewResponse) -> dict[str, Any]:
        """Merge the pages of all brokers."""


@define(eq=False)
class _Node:
    """A node in the tree of paths: children by name, a child for any name, routes by method."""

    named: dict[str, _Node] = field(factory=dict)
    variable: _Node | None = None
    methods: dict[str, Route] = field(factory=dict)


@define(eq=False, repr=False)
class Router:
    """
    The table of all routes.

    :ivar relay: passes requests on to the brokers that serve them; None: all are served here.
    """

    relay: Relays | None = None
    routes: list[Route] = field(factory=list, init=False)
    _root: _Node = field(factory=_Node, init=False)

    def add(self, views: Iterable[object]) -> None:
        """Add the routes of ``views``; two for one method and path are an error."""
        for view in views:
            for name, function in vars(type(view)).items():
                declared: Route | None = getattr(function, "__route__", None)
                if declared is not None:
                    by = declared.served_by
                    served_by = None if by is None else partial(by, view)
                    self._add(evolve(declared, call=getattr(view, name), served_by=served_by))

    def _add(self, bound: Route) -> None:
        if bound.right is None and not bound.rights:
            raise ValueError(f"{bound.method} {bound.path} does not say who may ask it")
        node = self._root
        for part in bound.segments:
            if part.startswith("{"):
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.named.setdefault(part, _Node())
        if bound.method in node.methods:
            raise ValueError(f"{bound.method} {bound.path} is there twice")
        node.methods[bound.method] = bound
        self.routes.append(bound)

    def find(self, path: str) -> tuple[Mapping[str, Route], list[str]]:
        """
        Return the routes of a path by method, and the values of its variable parts.

        :raise HttpProblem: the path does not exist.
        """
        node, values = self._root, list[str]()
        for part in path.removeprefix("/").split("/"):
            if part in node.named:
                node = node.named[part]
            elif node.variable is not None and part:
                node = node.variable
                values.append(_unquoted(part))
            else:
                raise _not_found(path)
        if not node.methods:
            raise _not_found(path)
        return node.methods, values

    def refuses(self, method: str, path: str) -> bool:
        """Whether a path exists, and does not answer a method."""
        try:
            methods, _ = self.find(path)
        except HttpProblem:
            return False
        return method not in methods

    def answer(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes,
        access: HttpAccess,
        *,
        is_relayed: bool = False,
    ) -> PendingResponse:
        """
        Answer a request; expected errors become answers, too.

        :param target: path and query, as received.
        :param access: what the client may do.
        :param is_relayed: whether another broker has sent it here: it is served here.
        :raise Exception: an unexpected error of a view, directly or through the Deferred.
        """
        try:
            path, _, query = target.partition("?")
            methods, values = self.find(path)
            chosen = methods.get("GET" if method == "HEAD" else method)
            if chosen is None:
                return _method_not_allowed(method, path, methods)
            variables = _read_path(chosen, values)
            if chosen.right is not None:
                access.require_right(chosen.right, variables)
            _check_headers(chosen, headers)
            call = ViewRequest(variables, _read_query(chosen, query), _read_body(chosen, body), headers, access)
            relay = None if is_relayed else self.relay
            serving = None if relay is None or chosen.served_by is None else chosen.served_by(call)
            if relay is not None and serving is not None and serving != relay.broker_id:
                result: Any = Deferred.fromCoroutine(relay.send(serving, method, target, headers, body, access))
            else:
                result = chosen.call(call)
                if relay is not None and chosen.merged_by and relay.has_others:
                    result = Deferred.fromCoroutine(relay.merge(chosen, call, target, result))
        except Exception as e:
            return error_response(e)
        if isinstance(result, Deferred):
            return result.addCallbacks(
                lambda value: _answer(chosen, value), lambda failure: error_response(failure.value)
            )
        return _answer(chosen, result)


def error_response(error: BaseException) -> ViewResponse:
    """
    Return the response for an expected error.

    :raise BaseException: ``error``, if it is not an expected one.
    """
    status, told, headers = problem_of(error)
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        raise error
    return ViewResponse(status, PROBLEM, strict_json.dumps(told), headers)


def failure_response(error: BaseException) -> ViewResponse:
    """Return the response for any error."""
    status, told, headers = problem_of(error)
    return ViewResponse(status, PROBLEM, strict_json.dumps(told), headers)


def _answer(chosen: Route, value: Any) -> ViewResponse:
    if isinstance(value, ViewResponse):
        return value
    if value is None:
        return ViewResponse(HTTPStatus.NO_CONTENT, "")
    return ViewResponse(chosen.status, JSON, strict_json.dumps(value))


def _method_not_allowed(method: str, path: str, methods: Mapping[str, Route]) -> ViewResponse:
    allowed = {*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}
    allow = {"Allow": ", ".join(sorted(allowed))}
    if method == "OPTIONS":
        return ViewResponse(HTTPStatus.NO_CONTENT, "", headers=allow)
    raise HttpProblem(
        HTTPStatus.METHOD_NOT_ALLOWED, f"{path} does not answer {method}; it answers {allow['Allow']}.", allow
    )


def _not_found(path: str) -> HttpProblem:
    return HttpProblem(
        HTTPStatus.NOT_FOUND, f"There is nothing at {path[:300]!r}; /api/v1/openapi.json tells what there is."
    )


def _unquoted(part: str) -> str:
    try:
        return unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The part {part[:100]!r} of the path is not UTF-8.") from None


def _value(shape: JsonSchema, text: str, where: str) -> Any:
    whole = shape["type"] == "integer" and re.fullmatch(r"-?[0-9]{1,19}", text)
    value = int(text) if whole else text
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, f"{where} is {value}; accepted: {-(2**63)} to {2**63 - 1}.")
    for fault in schema_errors(shape, value, where):
        raise HttpProblem(HTTPStatus.BAD_REQUEST, fault + ".")
    return value


def _read_path(chosen: Route, texts: Sequence[str]) -> dict[str, Any]:
    return {
        name: _value(chosen.parameters[name], text, f"The part {name!r} of the path")
        for name, text in zip(chosen.variables, texts, strict=True)
    }


def _check_headers(chosen: Route, headers: Headers) -> None:
    for name, shape in chosen.headers.items():
        given = headers.get(name.lower())
        if given is not None:
            _value(shape, ", ".join(given), f"The header field {name}")  # RFC 9110, 5.2


def _read_query(chosen: Route, query: str) -> dict[str, Any]:
    shapes = {name: shape for name, shape in chosen.parameters.items() if name not in chosen.variables}
    values = {name: shape.get("default") for name, shape in shapes.items()}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, "The query is not UTF-8, or has more than 20 fields.") from None
    seen: set[str] = set()
    for name, text in pairs:
        if name not in shapes or name in seen:
            what = "is there twice" if name in seen else "is unknown"
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST,
                f"The query parameter {name[:100]!r} {what}; accepted: {', '.join(shapes) or 'none'}.",
            )
        seen.add(name)
        values[name] = _value(shapes[name], text, f"The query parameter {name!r}")
    return values


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _read_body(chosen: Route, body: bytes) -> Any:
    if chosen.body is None:
        if body:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"{chosen.method} {chosen.path} takes no body.")
        return None
    try:
        value = strict_json.loads(body)
    except ValueError as e:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, _sentence(str(e))) from None
    wrong = [fault for fault, _ in zip(schema_errors(chosen.body, value), range(MAX_FAULTS), strict=False)]
    if wrong:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, _sentence("; ".join(wrong)))
    return value

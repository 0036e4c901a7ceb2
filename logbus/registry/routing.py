"""
The form of routes, which requests are matched with and the OpenAPI document is made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from attrs import frozen

from logbus.admin.json_schema import JsonSchema
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.requests import HandlerResult, HandlerSteps, RegistryContext, RegistryRequest

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
"""Of all bodies, as of Confluent's registry."""

METHODS = ("GET", "POST", "PUT", "DELETE")
"""All that there are routes of."""


@frozen
class RegistryRoute:
    """
    A method and path, and what is accepted and answered there.

    :ivar path: segments between slashes; ``{name}`` is variable.
    :ivar summary: one line.
    :ivar handle: answers; its arguments are the context and the variable parts of the path.
    :ivar answer: the JSON of a success.
    :ivar rights: what a client needs, a sentence.
    :ivar query: the query parameters by name; all may be missing, and others are ignored.
    :ivar body: the JSON of the body, if there is one.
    :ivar errors: codes of refusals, besides those of all routes.
    """

    method: str
    path: str
    summary: str
    handle: Callable[..., HandlerResult | HandlerSteps]
    answer: JsonSchema
    rights: str
    query: Mapping[str, JsonSchema] = MappingProxyType({})
    body: JsonSchema | None = None
    errors: tuple[Code, ...] = ()

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments of the path."""
        return tuple(part for part in self.path.split("/") if part)

    def values(self, path: tuple[str, ...]) -> list[str] | None:
        """Return the variable parts of a path; None: it is another one."""
        if len(path) != len(self.segments):
            return None
        pairs = list(zip(self.segments, path, strict=True))
        if any(part != given for part, given in pairs if not part.startswith("{")):
            return None
        return [given for part, given in pairs if part.startswith("{")]

    def answer_to(self, call: RegistryContext, values: Iterable[str]) -> HandlerResult | HandlerSteps:
        """
        Handle a request for this route.

        :raise RegistryRefusal: a query parameter is wrong, or the handler refuses.
        """
        for name, shape in self.query.items():
            if name in call.request.query:
                _check_parameter(name, shape, call.request.query[name])
        return self.handle(call, *values)


def find(routes: Iterable[RegistryRoute], request: RegistryRequest) -> tuple[RegistryRoute, list[str]]:
    """
    Return the route of a request, and the variable parts of its path.

    :raise RegistryRefusal: there is none.
    """
    others = list[str]()
    for each in routes:
        values = each.values(request.path)
        if values is not None:
            if each.method == request.method:
                return each, values
            others.append(each.method)
    if others or request.method not in METHODS:
        answered = f"; {', '.join(others)} is" if others else ""
        raise RegistryRefusal(Code.METHOD_NOT_ALLOWED, f"{request.method[:20]} is not answered here{answered}")
    path = "/".join(request.path)[:200]
    raise RegistryRefusal(Code.NOT_FOUND, f"There is nothing at {request.method} /{path}")


def _check_parameter(name: str, shape: JsonSchema, given: str) -> None:
    expected = ""
    if shape["type"] == "boolean":
        if given.lower() not in ("true", "false"):
            expected = "neither true nor false"
    elif shape["type"] == "integer":
        low, high = shape["minimum"], shape["maximum"]
        if not re.fullmatch(r"-?[0-9]{1,10}", given) or not low <= int(given) <= high:
            expected = f"no whole number from {low} to {high}"
    if expected:
        raise RegistryRefusal(Code.BAD_REQUEST, f"The parameter {name} is {given[:50]!r}, which is {expected}")

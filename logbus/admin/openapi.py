"""
Renders the table of routes as an OpenAPI 3.1 document (spec.openapis.org/oas/v3.1.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from attrs import frozen

import logbus
from logbus.admin.json_schema import JsonSchema, integer, object_schema, string
from logbus.admin.problem_details import CONTENT_TYPE as PROBLEM
from logbus.admin.problem_details import PASSING
from logbus.admin.routing import FOR_ALL, JSON, LOCATION, Route, Router, ViewRequest, route

PROBLEM_SHAPE = {
    **object_schema(
        "What went wrong (RFC 9457).",
        type=string("'about:blank': the status is the type."),
        title=string("The status's phrase."),
        status=integer("The status."),
        detail=string("What is wrong, and what is expected."),
        error=string("The name of Kafka's error, if there is one."),
        retriable={"type": "boolean", "description": "Whether the same request may succeed later."},
        optional=("error",),
    ),
    "additionalProperties": True,
}
RETRY_AFTER = integer("After how many seconds to try again.", minimum=0)
CHALLENGE = string("How to log in (RFC 9110, 11.6.1).")
SECURITY_SCHEMES = {
    "password": {"type": "http", "scheme": "basic", "description": "A user of SCRAM or PLAIN."},
    "token": {"type": "http", "scheme": "bearer", "description": "A token, as of OAUTHBEARER."},
}
SECURITY: Sequence[Mapping[str, Sequence[str]]] = [{}, *({name: ()} for name in SECURITY_SCHEMES)]
"""How clients log in, if they do."""
_FAILURES: Mapping[str, tuple[str, Mapping[str, JsonSchema]]] = MappingProxyType(
    {
        "Problem": ("The request failed.", {}),
        "Unauthorized": ("The client has to log in.", {"WWW-Authenticate": CHALLENGE}),
        "Unavailable": ("The same request may succeed later.", {"Retry-After": RETRY_AFTER}),
    }
)
"""What failures are, and the header fields that each of them has."""
_FAILURE_OF = {HTTPStatus.UNAUTHORIZED: "Unauthorized", **dict.fromkeys(PASSING, "Unavailable")}
FAILURES_OF_ALL = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""Failures of all routes."""


def document(
    router: Router,
    title: str = "logbus admin",
    description: str = "Metrics, health and administration of a logbus broker.",
    login: str | None = None,
) -> dict[str, Any]:
    """
    Return the document of a table of routes.

    :param login: the one of :data:`SECURITY_SCHEMES` that clients must use; None: any of them, or none.
    """
    paths: dict[str, dict[str, Any]] = {}
    for described in router.routes:
        paths.setdefault(described.path, {})[described.method.lower()] = _operation(described)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": logbus.__version__,
            "description": description,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": SECURITY if login is None else [{login: ()}],
        "paths": paths,
        "components": {
            "securitySchemes": SECURITY_SCHEMES if login is None else {login: SECURITY_SCHEMES[login]},
            "schemas": {"Problem": PROBLEM_SHAPE},
            "responses": {
                name: {
                    "description": description,
                    **header_fields(headers),
                    "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
                for name, (description, headers) in _FAILURES.items()
            },
        },
    }


@frozen
class OpenApiView:
    """Serves the document of its own table of routes."""

    router: Router

    @route(
        "GET",
        "/api/v1/openapi.json",
        "This interface, as an OpenAPI document",
        answer={"type": "object"},
        rights=FOR_ALL,
    )
    def openapi(self, call: ViewRequest) -> dict[str, Any]:
        return document(self.router)


def _operation(described: Route) -> dict[str, Any]:
    content = {kind: {"schema": described.answer or {"type": "string"}} for kind in described.content_types}
    success: dict[str, Any] = {"description": described.status.phrase, **header_fields(described.answer_headers)}
    if content:
        success["content"] = content
    responses: dict[str, Any] = {str(int(described.status)): success}
    for status, shape in described.other_answers.items():
        headers = (
            LOCATION if status is HTTPStatus.CREATED else {"Retry-After": RETRY_AFTER} if status in PASSING else {}
        )
        other: dict[str, Any] = {"description": status.phrase, **header_fields(headers)}
        if shape is not None:
            other["content"] = {JSON: {"schema": shape}}
        responses[str(int(status))] = other
    for status in sorted({*described.errors, *FAILURES_OF_ALL}):
        responses.setdefault(str(int(status)), {"$ref": f"#/components/responses/{_FAILURE_OF.get(status, 'Problem')}"})
    responses["default"] = {"$ref": "#/components/responses/Problem"}
    operation: dict[str, Any] = {
        "operationId": _operation_id(described),
        "summary": described.summary,
        "description": described.rights or f"Needs {described.right}.",
        "responses": responses,
    }
    parameters = [
        *(
            parameter(name, "path" if name in described.variables else "query", shape)
            for name, shape in described.parameters.items()
        ),
        *(parameter(name, "header", {**shape, "default": None}) for name, shape in described.headers.items()),
    ]
    if parameters:
        operation["parameters"] = parameters
    if described.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": described.body}}}
    return operation


def parameter(name: str, place: str, shape: JsonSchema) -> dict[str, Any]:
    """Return a parameter in the ``path``, the ``query`` or a ``header``."""
    return {
        "name": name,
        "in": place,
        "required": place == "path" or "default" not in shape,
        "description": shape.get("description", ""),
        "schema": _schema(shape),
    }


def header_fields(shapes: Mapping[str, JsonSchema]) -> dict[str, Any]:
    """Return the ``headers`` of a response, if it has any."""
    told = {
        name: {"description": shape["description"], "required": "default" not in shape, "schema": _schema(shape)}
        for name, shape in shapes.items()
    }
    return {"headers": told} if told else {}


def _schema(shape: JsonSchema) -> dict[str, Any]:
    return {word: value for word, value in shape.items() if (word, value) != ("default", None)}


def _operation_id(described: Route) -> str:
    words = re.findall(r"[a-z]+", described.path.removeprefix("/api/v1"))
    return "_".join([described.method.lower(), *(words or ["index"])])

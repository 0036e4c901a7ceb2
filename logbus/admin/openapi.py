"""
Renders the table of routes as an OpenAPI 3.1 document (spec.openapis.org/oas/v3.1.1).
"""

from __future__ import annotations

import re
from typing import Any

from attrs import frozen

import logbus
from logbus.admin.json_schema import integer, object_schema, string
from logbus.admin.problem_details import CONTENT_TYPE as PROBLEM
from logbus.admin.routing import FOR_ALL, JSON, Route, Router, ViewRequest, route

PROBLEM_SHAPE = {
    **object_schema(
        "What went wrong (RFC 9457).",
        type=string("'about:blank': the status is the type."),
        title=string("The status's phrase."),
        status=integer("The status."),
        detail=string("What is wrong, and what is expected."),
        error=string("The name of Kafka's error, if there is one."),
        retriable={"type": "boolean", "description": "Whether the same request may succeed later."},
        optional=("error", "retriable"),
    ),
    "additionalProperties": True,
}


def document(router: Router) -> dict[str, Any]:
    """Return the document of a table of routes."""
    paths: dict[str, dict[str, Any]] = {}
    for described in router.routes:
        paths.setdefault(described.path, {})[described.method.lower()] = _operation(described)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "logbus admin",
            "version": logbus.__version__,
            "description": "Metrics, health and administration of a logbus broker.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"password": []}, {"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "password": {"type": "http", "scheme": "basic", "description": "A user of SCRAM or PLAIN."},
                "token": {"type": "http", "scheme": "bearer", "description": "A token, as of OAUTHBEARER."},
            },
            "schemas": {"Problem": PROBLEM_SHAPE},
            "responses": {
                "Problem": {
                    "description": "The request failed.",
                    "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
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
    success: dict[str, Any] = {"description": described.status.phrase}
    if content:
        success["content"] = content
    responses: dict[str, Any] = {str(int(described.status)): success}
    for status in sorted(described.errors):
        responses[str(int(status))] = {"$ref": "#/components/responses/Problem"}
    responses["default"] = {"$ref": "#/components/responses/Problem"}
    operation: dict[str, Any] = {
        "operationId": _operation_id(described),
        "summary": described.summary,
        "description": described.rights or f"Needs {described.right}.",
        "responses": responses,
    }
    if described.parameters:
        operation["parameters"] = [
            {
                "name": name,
                "in": "path" if name in described.variables else "query",
                "required": name in described.variables or "default" not in shape,
                "description": shape.get("description", ""),
                "schema": {word: value for word, value in shape.items() if (word, value) != ("default", None)},
            }
            for name, shape in described.parameters.items()
        ]
    if described.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": described.body}}}
    return operation


def _operation_id(described: Route) -> str:
    words = re.findall(r"[a-z]+", described.path.removeprefix("/api/v1"))
    return "_".join([described.method.lower(), *(words or ["index"])])

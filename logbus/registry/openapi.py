"""
Renders the routes as an OpenAPI 3.1 document (spec.openapis.org/oas/v3.1.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import logbus
from logbus.admin import openapi as admin
from logbus.admin.problem_details import CONTENT_TYPE as PROBLEM
from logbus.registry import shapes
from logbus.registry.errors import Code
from logbus.registry.routing import CONTENT_TYPE, RegistryRoute

ERRORS_OF_ALL = (
    Code.BAD_REQUEST,
    Code.FORBIDDEN,
    Code.STORE,
    Code.TIMED_OUT,
    Code.FORWARDING_FAILED,
    Code.NO_LEADER,
    Code.BUSY,
)
"""Codes that every request may be refused with."""


def document(routes: Iterable[RegistryRoute]) -> dict[str, Any]:
    """Return the document of a table of routes."""
    paths: dict[str, dict[str, Any]] = {}
    for each in routes:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "logbus schema registry",
            "version": logbus.__version__,
            "description": "Schemas of records, with the REST interface of Confluent's registry.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/registry"}],
        "security": admin.SECURITY,
        "paths": paths,
        "components": {
            "securitySchemes": admin.SECURITY_SCHEMES,
            "schemas": {"Error": shapes.ERROR, "Problem": admin.PROBLEM_SHAPE},
            "responses": {
                "Unauthorized": {
                    "description": "The client has to log in.",
                    **admin.header_fields({"WWW-Authenticate": admin.CHALLENGE}),
                    "content": {PROBLEM: _refer("Problem")},
                }
            },
        },
    }


def _operation(route: RegistryRoute) -> dict[str, Any]:
    responses: dict[str, Any] = {
        "200": {"description": HTTPStatus.OK.phrase, "content": {CONTENT_TYPE: {"schema": route.answer}}},
        "401": {"$ref": "#/components/responses/Unauthorized"},
    }
    codes: dict[int, list[Code]] = {}
    for code in sorted({*route.errors, *ERRORS_OF_ALL}):
        codes.setdefault(code.status, []).append(code)
    for status, them in sorted(codes.items()):
        told = "; ".join(f"{int(each)}: {each.name.lower().replace('_', ' ')}" for each in them)
        responses[str(status)] = _refusal(f"{told}.", status)
    responses["default"] = _refusal("Any other error.")
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": route.rights,
        "responses": responses,
    }
    names = [part[1:-1] for part in route.segments if part.startswith("{")]
    parameters = [
        *(admin.parameter(name, "path", shapes.PATH[name]) for name in names),
        *({**admin.parameter(name, "query", shape), "required": False} for name, shape in route.query.items()),
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "description": "It may be of the type application/json, too.",
            "required": True,
            "content": {CONTENT_TYPE: {"schema": route.body}},
        }
    return operation


def _refusal(description: str, status: int = 0) -> dict[str, Any]:
    """Return a response: the registry's own error, or a problem that the listener has with the request before."""
    headers = {"Retry-After": admin.RETRY_AFTER} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    content = {CONTENT_TYPE: _refer("Error"), PROBLEM: _refer("Problem")}
    return {"description": description, **admin.header_fields(headers), "content": content}


def _refer(name: str) -> dict[str, Any]:
    return {"schema": {"$ref": f"#/components/schemas/{name}"}}


def _operation_id(route: RegistryRoute) -> str:
    return "_".join([route.method.lower(), *(re.findall(r"[a-z0-9]+", route.path) or ["registry"])])

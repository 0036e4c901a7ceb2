"""
Changes that are only checked, and changes of what nobody else has changed meanwhile.

``validate_only`` is a member of the body. Where the body is a map of names, or there is none, it is in the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from logbus.admin.entity_tags import IF_MATCH, Precondition
from logbus.admin.json_schema import JsonSchema, boolean, string
from logbus.admin.relay import live
from logbus.admin.routing import ViewRequest
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.net.request_context import NO_TERMS, ChangeTerms

VALIDATE_ONLY = boolean("Change nothing, but say whether it could be done.")
IN_QUERY: Mapping[str, JsonSchema] = MappingProxyType(
    {
        "validate_only": {
            **string("true: change nothing, but say whether it could be done.", enum=["true", "false"]),
            "default": "false",
        }
    }
)
"""Parameters of a route whose body cannot have the member."""


def is_only_checked(call: ViewRequest) -> bool:
    """Return whether a request asks for ``validate_only``."""
    body: Any = call.body
    in_body = isinstance(body, dict) and body.get("validate_only") is True
    return in_body or call.query.get("validate_only") == "true"


def terms_of(call: ViewRequest, condition: Precondition | None = None) -> ChangeTerms:
    """Return the terms of a change for the handler that makes it."""
    validate_only = is_only_checked(call)
    if condition is not None and condition.is_given:
        return ChangeTerms(validate_only, condition.check)
    return ChangeTerms(validate_only) if validate_only else NO_TERMS


def controller_of_terms(metadata: ClusterMetadata, call: ViewRequest) -> int | None:
    """
    Return the broker that serves a change: the controller, if the change has terms, which brokers cannot forward.

    Any broker can serve the others, and forwards them as Kafka's requests.
    """
    has_terms = is_only_checked(call) or IF_MATCH in call.headers
    return live(metadata, metadata.controller_id) if has_terms else None

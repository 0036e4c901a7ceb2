"""The routes of the registry, and what answers requests by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import logbus
from logbus.admin.json_schema import JsonSchema, array, boolean, object_schema, string
from logbus.admin.routing import FOR_ALL
from logbus.registry import deletion, lookup, registration, settings, shapes
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.limits import RegistryLimits
from logbus.registry.model import SCHEMA_TYPES
from logbus.registry.openapi import document
from logbus.registry.requests import HandlerResult, HandlerSteps, RegistryContext, RegistryRequest, RegistryResponse
from logbus.registry.rights import MAY_CHANGE, MAY_READ, MAY_REGISTER
from logbus.registry.routing import RegistryRoute, find
from logbus.registry.state import RegistryState

_NO_VERSION = (Code.SUBJECT_NOT_FOUND, Code.VERSION_NOT_FOUND, Code.INVALID_VERSION)
_NO_SCHEMA = (Code.NOT_FOUND, Code.SCHEMA_NOT_FOUND)
_WRONG_SCHEMA = (Code.UNPROCESSABLE, Code.INVALID_SCHEMA, Code.SCHEMA_TOO_LARGE, Code.NOT_IMPLEMENTED)


def answer(
    request: RegistryRequest, state: RegistryState, limits: RegistryLimits, cluster_id: str = ""
) -> HandlerSteps:
    """
    Handle a request; a refusal becomes an error response.

    :param state: the current state; not changed.
    """
    call = RegistryContext(request, state, limits, cluster_id)
    try:
        route, values = find(ROUTES, request)
        found = route.answer_to(call, values)
        return found if isinstance(found, HandlerResult) else (yield from found)
    except RegistryRefusal as e:
        return HandlerResult(RegistryResponse.refusal(e))


def allowed_methods(path: tuple[str, ...]) -> list[str]:
    """Return the methods that a path answers."""
    found = {each.method for each in ROUTES if each.values(path) is not None}
    return sorted({*found, "HEAD"} if "GET" in found else found)


def _of(value: Any) -> HandlerResult:
    return HandlerResult(RegistryResponse.of(value))


def _cluster_id(call: RegistryContext) -> HandlerResult:
    return _of({"id": call.cluster_id, "scope": {"path": [], "clusters": {}}})


def _settings_routes() -> list[RegistryRoute]:
    """Levels and modes: global ones, and those of subjects."""
    routes = []
    for path, of, codes in (("", "the global", ()), ("/{subject}", "a subject's", (Code.INVALID_SUBJECT,))):
        default: Mapping[str, JsonSchema] = shapes.DEFAULT_TO_GLOBAL if path else {}
        no_level = (Code.NO_COMPATIBILITY_OF_ITS_OWN,) if path else ()
        no_mode = (Code.NO_MODE_OF_ITS_OWN,) if path else ()
        unset = "the global one is valid then" if path else "the default is valid then"
        routes += [
            RegistryRoute(
                "GET",
                f"/config{path}",
                f"Read {of} compatibility level",
                lambda call, subject=None: settings.get_config(call, subject),
                shapes.LEVEL_ASKED,
                MAY_READ,
                default,
                errors=no_level,
            ),
            RegistryRoute(
                "PUT",
                f"/config{path}",
                f"Set {of} compatibility level",
                lambda call, subject=None: settings.put_config(call, subject),
                shapes.LEVEL_SET,
                MAY_CHANGE,
                body=shapes.CONFIG_BODY,
                errors=(Code.UNPROCESSABLE, Code.INVALID_COMPATIBILITY, Code.NOT_PERMITTED, *codes),
            ),
            RegistryRoute(
                "DELETE",
                f"/config{path}",
                f"Remove {of} compatibility level: {unset}",
                lambda call, subject=None: settings.delete_config(call, subject),
                shapes.LEVEL_ASKED,
                MAY_CHANGE,
                errors=(*no_level, Code.NOT_PERMITTED),
            ),
            RegistryRoute(
                "GET",
                f"/mode{path}",
                f"Read {of} mode",
                lambda call, subject=None: settings.get_mode(call, subject),
                shapes.MODE_ANSWER,
                MAY_READ,
                default,
                errors=no_mode,
            ),
            RegistryRoute(
                "PUT",
                f"/mode{path}",
                f"Set {of} mode",
                lambda call, subject=None: settings.put_mode(call, subject),
                shapes.MODE_ANSWER,
                MAY_CHANGE,
                {"force": boolean("Whether to set IMPORT though there are schemas.")},
                body=shapes.MODE_BODY,
                errors=(Code.INVALID_MODE, Code.NOT_PERMITTED, *codes),
            ),
            RegistryRoute(
                "DELETE",
                f"/mode{path}",
                f"Remove {of} mode: {unset}",
                lambda call, subject=None: settings.delete_mode(call, subject),
                shapes.MODE_ANSWER,
                MAY_CHANGE,
                errors=no_mode,
            ),
        ]
    return routes


ROUTES: tuple[RegistryRoute, ...] = (
    RegistryRoute("GET", "/", "Whether there is a registry", lambda call: _of({}), object_schema("Empty."), FOR_ALL),
    RegistryRoute(
        "GET",
        "/openapi.json",
        "This interface, as an OpenAPI document",
        lambda call: _of(document(ROUTES)),
        {"type": "object"},
        FOR_ALL,
    ),
    RegistryRoute("GET", "/v1/metadata/id", "The id of the cluster", _cluster_id, shapes.CLUSTER_ID, FOR_ALL),
    RegistryRoute(
        "GET",
        "/v1/metadata/version",
        "The version of the registry",
        lambda call: _of({"version": logbus.__version__}),
        shapes.REGISTRY_VERSION,
        FOR_ALL,
    ),
    RegistryRoute(
        "GET",
        "/contexts",
        "The contexts: the default one only",
        lambda call: _of(["."]),
        array("The contexts.", string("A context.")),
        FOR_ALL,
    ),
    RegistryRoute(
        "GET",
        "/schemas",
        f"All versions, at most {shapes.LIMITS.page_entries} or 2 MiB at a time",
        lookup.schemas,
        array("The versions.", shapes.VERSION),
        MAY_READ,
        {
            **shapes.PREFIX,
            **shapes.DELETED,
            "latestOnly": boolean("Whether to answer only the last version of each subject."),
            **shapes.PAGE,
        },
    ),
    RegistryRoute(
        "GET",
        "/schemas/types",
        "The types of schemas",
        lambda call: _of(list(SCHEMA_TYPES)),
        array("The types.", shapes.SCHEMA_TYPE),
        MAY_READ,
    ),
    RegistryRoute(
        "GET",
        "/schemas/ids/{id}",
        "A schema by its id",
        lookup.schema,
        shapes.SCHEMA,
        MAY_READ,
        {**shapes.FORMAT, "fetchMaxId": boolean("Whether to answer maxId.")},
        errors=_NO_SCHEMA,
    ),
    RegistryRoute(
        "GET",
        "/schemas/ids/{id}/schema",
        "A schema by its id, without anything around it",
        lookup.schema_text,
        shapes.SCHEMA_ALONE,
        MAY_READ,
        shapes.FORMAT,
        errors=_NO_SCHEMA,
    ),
    RegistryRoute(
        "GET",
        "/schemas/ids/{id}/subjects",
        "The subjects of a schema",
        lookup.schema_subjects,
        array("The names.", string("A name.")),
        MAY_READ,
        {"subject": string("Only this subject."), **shapes.DELETED, **shapes.PAGE},
        errors=_NO_SCHEMA,
    ),
    RegistryRoute(
        "GET",
        "/schemas/ids/{id}/versions",
        "The versions of a schema",
        lookup.schema_versions,
        array("The versions.", shapes.PLACE),
        MAY_READ,
        {"subject": string("Only this subject."), **shapes.DELETED, **shapes.PAGE},
        errors=_NO_SCHEMA,
    ),
    RegistryRoute(
        "GET",
        "/schemas/guids/{guid}",
        "A schema by its UUID",
        lookup.schema_of_guid,
        shapes.SCHEMA_OF_GUID,
        MAY_READ,
        shapes.FORMAT,
        errors=(Code.SCHEMA_NOT_FOUND,),
    ),
    RegistryRoute(
        "GET",
        "/subjects",
        "The subjects",
        lookup.subjects,
        array("The names.", string("A name.")),
        MAY_READ,
        {
            **shapes.PREFIX,
            **shapes.DELETED,
            **shapes.DELETED_ONLY,
            "deleted_only": boolean("As deletedOnly."),
            **shapes.PAGE,
        },
    ),
    RegistryRoute(
        "POST",
        "/subjects/{subject}",
        "Look up which version of a subject a schema is",
        registration.look_up,
        shapes.VERSION,
        MAY_READ,
        shapes.DELETED,
        body=shapes.SCHEMA_BODY,
        errors=(Code.SUBJECT_NOT_FOUND, Code.SCHEMA_NOT_FOUND, *_WRONG_SCHEMA),
    ),
    RegistryRoute(
        "DELETE",
        "/subjects/{subject}",
        "Delete a subject: softly first, then permanently",
        deletion.delete_subject,
        array("The numbers of the versions that are deleted.", shapes.NUMBER),
        MAY_CHANGE,
        shapes.PERMANENT,
        errors=(
            Code.SUBJECT_NOT_FOUND,
            Code.SUBJECT_SOFT_DELETED,
            Code.SUBJECT_NOT_SOFT_DELETED,
            Code.NOT_PERMITTED,
            Code.REFERENCE_EXISTS,
        ),
    ),
    RegistryRoute(
        "GET",
        "/subjects/{subject}/versions",
        "The versions of a subject",
        lookup.versions,
        array("The numbers.", shapes.NUMBER),
        MAY_READ,
        {**shapes.DELETED, **shapes.DELETED_ONLY, **shapes.PAGE},
        errors=(Code.SUBJECT_NOT_FOUND,),
    ),
    RegistryRoute(
        "POST",
        "/subjects/{subject}/versions",
        "Register a schema as a new version; one that is registered already keeps its number and id",
        registration.register,
        shapes.REGISTERED,
        MAY_REGISTER,
        body=shapes.REGISTER_BODY,
        errors=(
            Code.INCOMPATIBLE_SCHEMA,
            Code.INVALID_SUBJECT,
            Code.NOT_PERMITTED,
            Code.ID_DOES_NOT_MATCH,
            *_WRONG_SCHEMA,
        ),
    ),
    RegistryRoute(
        "GET",
        "/subjects/{subject}/versions/{version}",
        "A version",
        lookup.version,
        shapes.VERSION,
        MAY_READ,
        {**shapes.DELETED, **shapes.FORMAT},
        errors=_NO_VERSION,
    ),
    RegistryRoute(
        "DELETE",
        "/subjects/{subject}/versions/{version}",
        "Delete a version: softly first, then permanently",
        deletion.delete_version,
        shapes.NUMBER,
        MAY_CHANGE,
        shapes.PERMANENT,
        errors=(
            *_NO_VERSION,
            Code.VERSION_SOFT_DELETED,
            Code.VERSION_NOT_SOFT_DELETED,
            Code.NOT_PERMITTED,
            Code.REFERENCE_EXISTS,
        ),
    ),
    RegistryRoute(
        "GET",
        "/subjects/{subject}/versions/{version}/schema",
        "The schema of a version, without anything around it",
        lookup.version_text,
        shapes.SCHEMA_ALONE,
        MAY_READ,
        {**shapes.DELETED, **shapes.FORMAT},
        errors=_NO_VERSION,
    ),
    RegistryRoute(
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        "The ids of the schemas that refer to a version",
        lookup.referenced_by,
        array("The ids.", shapes.SCHEMA_ID),
        MAY_READ,
        {**shapes.DELETED, **shapes.PAGE},
        errors=_NO_VERSION,
    ),
    RegistryRoute(
        "POST",
        "/compatibility/subjects/{subject}/versions",
        "Test whether a schema would be accepted as a new version",
        lambda call, subject: registration.test(call, subject, None),
        shapes.COMPATIBLE,
        MAY_READ,
        shapes.VERBOSE,
        body=shapes.SCHEMA_BODY,
        errors=(Code.INVALID_SUBJECT, *_WRONG_SCHEMA),
    ),
    RegistryRoute(
        "POST",
        "/compatibility/subjects/{subject}/versions/{version}",
        "Test whether a schema is compatible with a version",
        registration.test,
        shapes.COMPATIBLE,
        MAY_READ,
        shapes.VERBOSE,
        body=shapes.SCHEMA_BODY,
        errors=(Code.VERSION_NOT_FOUND, Code.INVALID_VERSION, Code.INVALID_SUBJECT, *_WRONG_SCHEMA),
    ),
    *_settings_routes(),
)

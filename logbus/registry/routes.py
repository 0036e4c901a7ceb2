"""Routes requests of the registry to their handlers."""

from __future__ import annotations

import logbus
from logbus.registry import deletion, lookup, registration, settings
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.limits import RegistryLimits
from logbus.registry.model import SCHEMA_TYPES
from logbus.registry.requests import HandlerResult, HandlerSteps, RegistryContext, RegistryRequest, RegistryResponse
from logbus.registry.state import RegistryState


def answer(
    request: RegistryRequest, state: RegistryState, limits: RegistryLimits, cluster_id: str = ""
) -> HandlerSteps:
    """
    Handle a request; a refusal becomes an error response.

    :param state: the current state; not changed.
    """
    call = RegistryContext(request, state, limits)
    try:
        found = _find(call, cluster_id)
        return found if isinstance(found, HandlerResult) else (yield from found)
    except RegistryRefusal as e:
        return HandlerResult(RegistryResponse.refusal(e))


def _find(call: RegistryContext, cluster_id: str) -> HandlerResult | HandlerSteps:
    match call.request.method, call.request.path:
        case "GET", ():
            return HandlerResult(RegistryResponse.of({}))
        case "GET", ("v1", "metadata", "id"):
            return HandlerResult(RegistryResponse.of({"id": cluster_id, "scope": {"path": [], "clusters": {}}}))
        case "GET", ("v1", "metadata", "version"):
            return HandlerResult(RegistryResponse.of({"version": logbus.__version__}))
        case "GET", ("contexts",):
            return HandlerResult(RegistryResponse.of(["."]))
        case _, ("schemas", *_):
            return _schemas(call)
        case _, ("subjects", *_):
            return _subjects(call)
        case "POST", ("compatibility", "subjects", subject, "versions"):
            return registration.test(call, subject, None)
        case "POST", ("compatibility", "subjects", subject, "versions", version):
            return registration.test(call, subject, version)
        case _, (("config" | "mode"), *subject) if len(subject) <= 1:
            return _settings(call, subject[0] if subject else None)
    raise _nothing(call.request)


def _schemas(call: RegistryContext) -> HandlerResult | HandlerSteps:
    match call.request.method, call.request.path:
        case "GET", ("schemas",):
            return lookup.schemas(call)
        case "GET", ("schemas", "types"):
            return HandlerResult(RegistryResponse.of(list(SCHEMA_TYPES)))
        case "GET", ("schemas", "ids", number):
            return lookup.schema(call, number)
        case "GET", ("schemas", "ids", number, "schema"):
            return lookup.schema_text(call, number)
        case "GET", ("schemas", "ids", number, "subjects"):
            return lookup.schema_subjects(call, number)
        case "GET", ("schemas", "ids", number, "versions"):
            return lookup.schema_versions(call, number)
        case "GET", ("schemas", "guids", guid):
            return lookup.schema_of_guid(call, guid)
    raise _nothing(call.request)


def _subjects(call: RegistryContext) -> HandlerResult | HandlerSteps:
    match call.request.method, call.request.path:
        case "GET", ("subjects",):
            return lookup.subjects(call)
        case "POST", ("subjects", subject):
            return registration.look_up(call, subject)
        case "DELETE", ("subjects", subject):
            return deletion.delete_subject(call, subject)
        case "GET", ("subjects", subject, "versions"):
            return lookup.versions(call, subject)
        case "POST", ("subjects", subject, "versions"):
            return registration.register(call, subject)
        case "GET", ("subjects", subject, "versions", version):
            return lookup.version(call, subject, version)
        case "DELETE", ("subjects", subject, "versions", version):
            return deletion.delete_version(call, subject, version)
        case "GET", ("subjects", subject, "versions", version, "schema"):
            return lookup.version_text(call, subject, version)
        case "GET", ("subjects", subject, "versions", version, "referencedby"):
            return lookup.referenced_by(call, subject, version)
    raise _nothing(call.request)


def _settings(call: RegistryContext, subject: str | None) -> HandlerResult:
    match call.request.method, call.request.path[0]:
        case "GET", "config":
            return settings.get_config(call, subject)
        case "PUT", "config":
            return settings.put_config(call, subject)
        case "DELETE", "config":
            return settings.delete_config(call, subject)
        case "GET", "mode":
            return settings.get_mode(call, subject)
        case "PUT", "mode":
            return settings.put_mode(call, subject)
        case "DELETE", "mode":
            return settings.delete_mode(call, subject)
    raise _nothing(call.request)


def _nothing(request: RegistryRequest) -> RegistryRefusal:
    if request.method not in ("GET", "POST", "PUT", "DELETE"):
        return RegistryRefusal(Code.METHOD_NOT_ALLOWED, f"{request.method[:20]} is not answered")
    path = "/".join(request.path)[:200]
    return RegistryRefusal(Code.NOT_FOUND, f"There is nothing at {request.method} /{path}")

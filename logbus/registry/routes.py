"""From a request to what carries it out."""

from __future__ import annotations

import logbus
from logbus.registry import deleting, looking, registering, settings
from logbus.registry.calls import Answer, Call, Outcome, Request, Steps
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.limits import Limits
from logbus.registry.model import SCHEMA_TYPES
from logbus.registry.state import State


def answer(request: Request, state: State, limits: Limits, cluster_id: str = "") -> Steps:
    """
    Carry out a request; a refusal is an answer, too.

    :param state: what the log says; it is not changed.
    """
    call = Call(request, state, limits)
    try:
        found = _find(call, cluster_id)
        return found if isinstance(found, Outcome) else (yield from found)
    except RegistryRefusal as e:
        return Outcome(Answer.refusal(e))


def _find(call: Call, cluster_id: str) -> Outcome | Steps:
    match call.request.method, call.request.path:
        case "GET", ():
            return Outcome(Answer.of({}))
        case "GET", ("v1", "metadata", "id"):
            return Outcome(Answer.of({"id": cluster_id, "scope": {"path": [], "clusters": {}}}))
        case "GET", ("v1", "metadata", "version"):
            return Outcome(Answer.of({"version": logbus.__version__}))
        case "GET", ("contexts",):
            return Outcome(Answer.of(["."]))
        case _, ("schemas", *_):
            return _schemas(call)
        case _, ("subjects", *_):
            return _subjects(call)
        case "POST", ("compatibility", "subjects", subject, "versions"):
            return registering.test(call, subject, None)
        case "POST", ("compatibility", "subjects", subject, "versions", version):
            return registering.test(call, subject, version)
        case _, (("config" | "mode"), *subject) if len(subject) <= 1:
            return _settings(call, subject[0] if subject else None)
    raise _nothing(call.request)


def _schemas(call: Call) -> Outcome:
    match call.request.method, call.request.path:
        case "GET", ("schemas",):
            return looking.schemas(call)
        case "GET", ("schemas", "types"):
            return Outcome(Answer.of(list(SCHEMA_TYPES)))
        case "GET", ("schemas", "ids", number):
            return looking.schema(call, number)
        case "GET", ("schemas", "ids", number, "schema"):
            return looking.schema_text(call, number)
        case "GET", ("schemas", "ids", number, "subjects"):
            return looking.schema_subjects(call, number)
        case "GET", ("schemas", "ids", number, "versions"):
            return looking.schema_versions(call, number)
        case "GET", ("schemas", "guids", guid):
            return looking.schema_of_guid(call, guid)
    raise _nothing(call.request)


def _subjects(call: Call) -> Outcome | Steps:
    match call.request.method, call.request.path:
        case "GET", ("subjects",):
            return looking.subjects(call)
        case "POST", ("subjects", subject):
            return registering.look_up(call, subject)
        case "DELETE", ("subjects", subject):
            return deleting.delete_subject(call, subject)
        case "GET", ("subjects", subject, "versions"):
            return looking.versions(call, subject)
        case "POST", ("subjects", subject, "versions"):
            return registering.register(call, subject)
        case "GET", ("subjects", subject, "versions", version):
            return looking.version(call, subject, version)
        case "DELETE", ("subjects", subject, "versions", version):
            return deleting.delete_version(call, subject, version)
        case "GET", ("subjects", subject, "versions", version, "schema"):
            return looking.version_text(call, subject, version)
        case "GET", ("subjects", subject, "versions", version, "referencedby"):
            return looking.referenced_by(call, subject, version)
    raise _nothing(call.request)


def _settings(call: Call, subject: str | None) -> Outcome:
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


def _nothing(request: Request) -> RegistryRefusal:
    if request.method not in ("GET", "POST", "PUT", "DELETE"):
        return RegistryRefusal(Code.METHOD_NOT_ALLOWED, f"{request.method[:20]} is not answered")
    path = "/".join(request.path)[:200]
    return RegistryRefusal(Code.NOT_FOUND, f"There is nothing at {request.method} /{path}")

"""Handlers that read: subjects, their versions, schemas by id."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.model import PROTOBUF, Schema
from logbus.registry.parsed_schema import SchemaCheck, registered_schema
from logbus.registry.protobuf_schema import ProtobufFile
from logbus.registry.registration import version_json
from logbus.registry.requests import (
    LATEST,
    HandlerResult,
    HandlerSteps,
    RegistryContext,
    RegistryResponse,
    no_subject,
    no_version,
    version_number,
)


def subjects(call: RegistryContext) -> HandlerResult:
    """``GET /subjects``."""
    request, state = call.request, call.state
    prefix = request.query.get("subjectPrefix", "").removeprefix(":*:")
    only = request.flag("deletedOnly") or request.flag("deleted_only")
    names = sorted(
        name
        for name in state.subjects
        if name.startswith(prefix) and _is_listed(only, request.flag("deleted"), bool(state.versions(name)))
    )
    return HandlerResult(RegistryResponse.of(request.page(names)))


def versions(call: RegistryContext, subject: str) -> HandlerResult:
    """``GET /subjects/{subject}/versions``."""
    request = call.request
    only, deleted = request.flag("deletedOnly"), request.flag("deleted")
    there = call.state.versions(subject, deleted=True)
    numbers = [number for number, each in there.items() if _is_listed(only, deleted, not each.deleted)]
    if not numbers:
        raise no_subject(subject)
    return HandlerResult(RegistryResponse.of(request.page(numbers)))


def version(call: RegistryContext, subject: str, given: str) -> HandlerSteps:
    """``GET /subjects/{subject}/versions/{version}``."""
    number = _number(call, subject, given)
    schema_id = call.state.subjects[subject][number].id
    # Before a pause, in which others may delete it.
    found = version_json(call, subject, number, schema_id)
    text = yield from _text(call, call.state.schemas[schema_id])
    return HandlerResult(RegistryResponse.of({**found, "schema": text}))


def version_text(call: RegistryContext, subject: str, given: str) -> HandlerSteps:
    """``GET /subjects/{subject}/versions/{version}/schema``: the schema alone."""
    number = _number(call, subject, given)
    schema_id = call.state.subjects[subject][number].id
    return HandlerResult(RegistryResponse(200, (yield from _text(call, call.state.schemas[schema_id])).encode()))


def referenced_by(call: RegistryContext, subject: str, given: str) -> HandlerResult:
    """``GET /subjects/{subject}/versions/{version}/referencedby``: ids of schemas that refer to a version."""
    return HandlerResult(
        RegistryResponse.of(call.request.page(call.state.referrers(subject, _number(call, subject, given))))
    )


def schemas(call: RegistryContext) -> HandlerResult:
    """``GET /schemas``: versions with their schemas, up to the limits of an answer."""
    request, state, limits = call.request, call.state, call.limits
    prefix, deleted = request.query.get("subjectPrefix", "").removeprefix(":*:"), request.flag("deleted")
    places = list[tuple[str, int, int]]()
    for name in sorted(state.subjects):
        if name.startswith(prefix):
            there = list(state.versions(name, deleted).items())
            shown = there[-1:] if request.flag("latestOnly") else there
            places += [(name, number, each.id) for number, each in shown]
    found, size = list[dict[str, Any]](), 0
    for name, number, schema_id in request.page(places)[: limits.page_entries]:
        size += len(state.schemas[schema_id].text)
        if found and size > limits.page_bytes:
            break
        found.append(version_json(call, name, number, schema_id))
    return HandlerResult(RegistryResponse.of(found))


def schema(call: RegistryContext, given: str) -> HandlerSteps:
    """``GET /schemas/ids/{id}``."""
    found = _schema(call, given)
    answer = {**found.as_json, "schema": (yield from _text(call, found)), "guid": found.guid}
    if call.request.flag("fetchMaxId"):
        answer["maxId"] = call.state.highest_id
    return HandlerResult(RegistryResponse.of(answer))


def schema_of_guid(call: RegistryContext, guid: str) -> HandlerSteps:
    """``GET /schemas/guids/{guid}``."""
    schema_id = call.state.id_of_guid(guid.lower())
    if schema_id is None:
        raise RegistryRefusal(Code.SCHEMA_NOT_FOUND, f"Schema {guid[:50]} not found")
    found = call.state.schemas[schema_id]
    text = yield from _text(call, found)
    return HandlerResult(RegistryResponse.of({**found.as_json, "schema": text, "id": schema_id, "guid": guid.lower()}))


def schema_text(call: RegistryContext, given: str) -> HandlerSteps:
    """``GET /schemas/ids/{id}/schema``: the schema alone."""
    return HandlerResult(RegistryResponse(200, (yield from _text(call, _schema(call, given))).encode()))


def schema_subjects(call: RegistryContext, given: str) -> HandlerResult:
    """``GET /schemas/ids/{id}/subjects``."""
    names = dict.fromkeys(name for name, _ in _users(call, given))
    return HandlerResult(RegistryResponse.of(call.request.page(list(names))))


def schema_versions(call: RegistryContext, given: str) -> HandlerResult:
    """``GET /schemas/ids/{id}/versions``."""
    there = [{"subject": name, "version": number} for name, number in _users(call, given)]
    return HandlerResult(RegistryResponse.of(call.request.page(there)))


def _is_listed(only_deleted: bool, deleted: bool, live: bool) -> bool:
    return not live if only_deleted else live or deleted


def _number(call: RegistryContext, subject: str, given: str) -> int:
    number = version_number(given)
    deleted = call.request.flag("deleted")
    there = call.state.versions(subject, deleted)
    if not there:
        raise no_subject(subject)
    if number == LATEST:
        return max(there)
    if number not in there:
        raise no_version(number)
    return number


def _id(given: str) -> int:
    if not (given.isdecimal() and given.isascii() and len(given) <= 10):
        raise RegistryRefusal(Code.NOT_FOUND, f"The id {given[:50]!r} is no number")
    return int(given)


def _schema(call: RegistryContext, given: str) -> Schema:
    found = call.state.schemas.get(_id(given))
    if found is None:
        raise RegistryRefusal(Code.SCHEMA_NOT_FOUND, f"Schema {given} not found")
    return found


def _text(call: RegistryContext, schema: Schema) -> Generator[SchemaCheck | None, None, str]:
    """Return the text of a schema; Protobuf as its descriptor, if the request says ``format=serialized``."""
    if call.request.query.get("format") != "serialized" or schema.schema_type != PROTOBUF:
        return schema.text
    parsed = yield from registered_schema(schema, call.state.referenced, call.limits)
    assert isinstance(parsed.meaning, ProtobufFile)
    return parsed.meaning.serialized


def _users(call: RegistryContext, given: str) -> list[tuple[str, int]]:
    _schema(call, given)
    subject = call.request.query.get("subject")
    users = call.state.users(_id(given), call.request.flag("deleted"))
    return [each for each in users if subject is None or each[0] == subject]

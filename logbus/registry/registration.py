"""Handlers that register schemas, look them up, and test their compatibility."""

from __future__ import annotations

from typing import Any

from logbus.registry.compatibility import compatibility_problems, problems_with_versions
from logbus.registry.entries import SchemaEntry
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.model import HIGHEST_NUMBER, IMPORT
from logbus.registry.parsed_schema import ParsedSchema
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
from logbus.registry.settings import check_writable


def register(call: RegistryContext, subject: str) -> HandlerSteps:
    """``POST /subjects/{subject}/versions``; an existing schema keeps its version and id."""
    state = call.state
    call.subject(subject)
    body = call.request.json()
    given_id, given_version = _given(body, "id"), _given(body, "version")
    new = yield from call.schema()
    yield None
    versions = state.versions(subject)
    is_import = state.mode(subject) == IMPORT
    for number in reversed(versions):
        there = versions[number].id
        if state.schemas[there] == new.schema and (given_id in (None, there) or not is_import):
            return _registered(there, number, new)
    check_writable(state, subject)
    yield new.check
    known = state.id_of(new.schema)
    if is_import:
        chosen = _imported_id(call, given_id, known)
    else:
        if given_id is not None:
            raise RegistryRefusal(
                Code.NOT_PERMITTED, f"The body has an 'id', which subject '{subject}' takes in mode IMPORT only"
            )
        given_version = None
        wrong = yield from compatibility_problems(call, new, subject)
        if wrong:
            raise RegistryRefusal(
                Code.INCOMPATIBLE_SCHEMA,
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", at level '
                f"{state.level(subject)}: {'; '.join(wrong)}",
            )
        chosen = known if known is not None else state.highest_id + 1
    number = given_version or max(state.versions(subject, deleted=True), default=0) + 1
    if max(chosen, number) > HIGHEST_NUMBER:
        # Those of imported schemas are chosen by others.
        what = f"id {chosen}" if chosen > HIGHEST_NUMBER else f"version {number}"
        raise RegistryRefusal(Code.NOT_PERMITTED, f"There is no {what}: numbers end at {HIGHEST_NUMBER}")
    if number in state.versions(subject, deleted=True):
        raise RegistryRefusal(Code.NOT_PERMITTED, f"Subject '{subject}' has a version {number} already")
    _check_room(call, subject, new, known is None)
    schema = new.schema if known is None else state.schemas[known]
    return _registered(chosen, number, new, SchemaEntry(subject, number, chosen, schema))


def _registered(schema_id: int, number: int, new: ParsedSchema, *entries: SchemaEntry) -> HandlerResult:
    return HandlerResult(RegistryResponse.of({"id": schema_id, "version": number, "guid": new.schema.guid}), entries)


def look_up(call: RegistryContext, subject: str) -> HandlerSteps:
    """``POST /subjects/{subject}``: return the version of a schema."""
    deleted = call.request.flag("deleted")
    if not call.state.versions(subject, deleted):
        raise no_subject(subject)
    new = yield from call.schema()
    yield None
    versions = call.state.versions(subject, deleted)
    for number in reversed(versions):
        if call.state.schemas[versions[number].id] == new.schema:
            return HandlerResult(RegistryResponse.of(version_json(call, subject, number, versions[number].id)))
    raise RegistryRefusal(Code.SCHEMA_NOT_FOUND, "Schema not found")


def test(call: RegistryContext, subject: str, version: str | None) -> HandlerSteps:
    """``POST /compatibility/subjects/{subject}/versions[/{version}]``."""
    verbose = call.request.flag("verbose")
    call.subject(subject)
    versions = call.state.versions(subject)
    number = None if version is None else version_number(version)
    if number == LATEST:
        number = max(versions, default=None)
    elif number is not None and number not in versions:
        raise no_version(number)
    # Before the first pause, in which others may delete it.
    against = [] if number is None else [(number, call.state.schemas[versions[number].id])]
    call.given_schema()
    try:
        new = yield from call.schema()
        yield new.check
        if number is None:
            wrong = yield from compatibility_problems(call, new, subject)
        else:
            wrong = yield from problems_with_versions(call, new, call.state.level(subject), against)
    except RegistryRefusal as e:
        if not verbose or e.code is not Code.INVALID_SCHEMA:
            raise
        wrong = [e.message]
    answer: dict[str, Any] = {"is_compatible": not wrong}
    if verbose:
        answer["messages"] = wrong
    return HandlerResult(RegistryResponse.of(answer))


def version_json(call: RegistryContext, subject: str, number: int, schema_id: int) -> dict[str, Any]:
    """Return the JSON of a version."""
    schema = call.state.schemas[schema_id]
    found = {"subject": subject, "version": number, "id": schema_id, "guid": schema.guid, **schema.as_json}
    if call.state.subjects[subject][number].deleted:
        found["deleted"] = True
    return found


def _given(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None or value == -1 or (value == 0 and value is not False):
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= HIGHEST_NUMBER:
        raise RegistryRefusal(Code.UNPROCESSABLE, f"The {name!r} is {value!r:.50}, which is no number from 1 on")
    return value


def _imported_id(call: RegistryContext, given: int | None, known: int | None) -> int:
    """Return the id of a schema imported from another registry, which keeps its id."""
    if given is None:
        return known if known is not None else call.state.highest_id + 1
    if known not in (None, given):
        raise RegistryRefusal(Code.ID_DOES_NOT_MATCH, f"The schema has the id {known} here, not {given}")
    if known is None and given in call.state.schemas:
        raise RegistryRefusal(Code.ID_DOES_NOT_MATCH, f"The id {given} is another schema's")
    return given


def _check_room(call: RegistryContext, subject: str, new: ParsedSchema, is_new: bool) -> None:
    """
    Check the limits on stored schemas.

    :raise RegistryRefusal: the registry is full.
    """
    state, limits = call.state, call.limits
    full = None
    if subject not in state.subjects and len(state.subjects) >= limits.subjects:
        full = f"{limits.subjects} subjects"
    elif len(state.subjects.get(subject, ())) >= limits.versions:
        full = f"{limits.versions} versions of one subject"
    elif is_new and len(state.schemas) >= limits.schemas:
        full = f"{limits.schemas} schemas"
    elif is_new and state.stored_bytes + len(new.schema.text) > limits.stored_bytes:
        full = f"{limits.stored_bytes} characters of schemas"
    if full is not None:
        raise RegistryRefusal(
            Code.NOT_PERMITTED, f"The registry is full: it has {full}; what is deleted permanently makes room"
        )

"""Checks whether a new schema is compatible with earlier versions, at its subject's compatibility level."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial

from logbus.registry.errors import RegistryRefusal
from logbus.registry.model import Schema
from logbus.registry.parsed_schema import ParsedSchema, SchemaCheck, incompatibilities, registered_schema
from logbus.registry.requests import RegistryContext

Problems = Generator[SchemaCheck | None, None, list[str]]


def compatibility_problems(call: RegistryContext, new: ParsedSchema, subject: str) -> Problems:
    """
    Return why a schema cannot be the next version of a subject; pauses before each version.

    :return: sentences; empty if it can.
    """
    level = call.state.level(subject)
    versions = call.state.versions(subject)
    wanted = list(versions) if level.endswith("_TRANSITIVE") else list(versions)[-1:]
    return (
        yield from problems_with_versions(call, new, level, [(n, call.state.schemas[versions[n].id]) for n in wanted])
    )


def problems_with_versions(
    call: RegistryContext, new: ParsedSchema, level: str, versions: Iterable[tuple[int, Schema]]
) -> Problems:
    """Do the same against certain versions, from the last to the first."""
    wrong: list[str] = []
    kind = level.partition("_")[0]
    for number, schema in reversed(list(versions)):
        if kind == "NONE" or len(wrong) >= call.limits.messages:
            break
        if schema == new.schema:
            continue
        yield None
        try:
            old = yield from registered_schema(schema, call.state.referenced, call.limits)
        except RegistryRefusal as e:
            wrong.append(f"version {number} cannot be compared: {e.message}")
            continue
        yield partial(_compare, wrong, kind, number, new, old)
    return wrong[: call.limits.messages]


def _compare(wrong: list[str], kind: str, number: int, new: ParsedSchema, old: ParsedSchema) -> None:
    """Add what is wrong; large schemas take some time, so it may run in a thread."""
    if kind in ("BACKWARD", "FULL"):
        wrong += [f"reading version {number} with the new schema: {each}" for each in incompatibilities(new, old)]
    if kind in ("FORWARD", "FULL"):
        wrong += [f"reading the new schema with version {number}: {each}" for each in incompatibilities(old, new)]

"""The schema that columns have, by subject and version or as text, and what happens to values that do not fit it."""

from __future__ import annotations

from logbus.pipeline.blocking.schema_registry import RegisteredSchema, RegistryClient
from logbus.pipeline.errors import OptionError

FAILFAST, PERMISSIVE = "FAILFAST", "PERMISSIVE"
"""Modes, as of Spark's functions: a value that cannot be read is an error, or null."""

LATEST = "latest"

_NO_ID = -1
"""Of a schema that is given as text."""


def client_of(registry: RegistryClient | str) -> RegistryClient:
    """The client of a registry, which may be given as its URL."""
    return RegistryClient(registry) if isinstance(registry, str) else registry


def checked_mode(mode: str) -> str:
    """
    The mode in upper case.

    :raise OptionError: there is no such mode.
    """
    if mode.upper() not in (FAILFAST, PERMISSIVE):
        raise OptionError(f"mode is {mode!r}; it takes {FAILFAST} or {PERMISSIVE}")
    return mode.upper()


def reading_schema(
    registry: RegistryClient, schema_type: str, subject: str, version: int | str, text: str
) -> RegisteredSchema:
    """
    The schema of the columns.

    :param text: of the schema; "": it is ``version`` of ``subject``.
    :raise OptionError: there is neither a subject nor a text, or both; or the version is none.
    :raise RegistryFailed: the registry does not have it, or does not answer.
    """
    if bool(subject) == bool(text):
        raise OptionError(
            "the schema of the columns is either a version of a subject, such as 'orders-value', or given as text"
        )
    if text:
        return RegisteredSchema(_NO_ID, schema_type, text)
    if version != LATEST and (isinstance(version, bool) or not isinstance(version, int) or version < 1):
        raise OptionError(f"version is {version!r}; it takes a number from 1, or 'latest'")
    return registry.version(subject, version, schema_type)


def writing_schema(
    registry: RegistryClient, schema_type: str, subject: str, version: int | str, text: str, register: bool
) -> RegisteredSchema:
    """
    The schema that values are written with.

    :param text: of the schema, which is looked up under the subject; "": it is ``version`` of it.
    :param register: register the text first.
    :raise OptionError: there is no subject, or nothing to register.
    :raise RegistryFailed: the registry does not have it, refuses it, or does not answer.
    """
    if not subject:
        raise OptionError("values are written with a schema of a subject, such as 'orders-value', and none is given")
    if register and not text:
        raise OptionError("there is no schema to register; give its text")
    if not text:
        return reading_schema(registry, schema_type, subject, version, "")
    call = registry.register if register else registry.look_up
    return registry.find(call(subject, text, schema_type), schema_type)

"""Makes values of JSON by the schemas of a registry, for ``logbus produce --registry``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from logbus.admin.schema_registry import SchemaNotUsed
from logbus.cli.input_records import InputFormat, InputRecord
from logbus.cli.registry_address import Registry, Subjects
from logbus.cli.runner import CommandFailed
from logbus.client.schema.registry_http import RegistryError
from logbus.client.schema.schema_frame import MAGIC, frame

_NO_SUBJECT, _NO_VERSION = 40401, 40402


async def encoded_by_registry(plain: InputFormat, registry: Registry, topic: str, subjects: Subjects) -> InputFormat:
    """
    Return a format whose records have their keys and values encoded.

    :raise CommandFailed: there is no such schema, or it cannot be used.
    """
    key = await _encoder(registry, subjects.key or f"{topic}-key", "--key-schema", subjects.key is not None)
    value = await _encoder(registry, subjects.value or f"{topic}-value", "--value-schema", True)

    def read(line: bytes) -> InputRecord | None:
        record = plain(line)
        if record is None:
            return None
        return record._replace(key=_encoded("key", record.key, key), value=_encoded("value", record.value, value))

    return read


def _encoded(what: str, text: bytes | None, encode: Callable[[Any], bytes] | None) -> bytes | None:
    # 'logbus consume --registry' prints what it cannot decode as it is: no JSON begins with a zero.
    if encode is None or text is None or text[:1] == bytes([MAGIC]):
        return text
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f'its {what} is no JSON, such as {{"id": 7}} or, of a text, "seven"') from None
    try:
        return encode(content)
    except ValueError as e:
        raise ValueError(f"its {what} does not fit the schema: {e}") from None


async def _encoder(registry: Registry, subject: str, option: str, is_needed: bool) -> Callable[[Any], bytes] | None:
    from logbus.registry.value_schemas import value_writer

    name, version = _split(subject)
    try:
        number = int((await registry.get("subjects", name, "versions", version))["id"])
        write = await value_writer(registry.get, number)
    except RegistryError as e:
        if e.error_code not in (_NO_SUBJECT, _NO_VERSION):
            raise
        if not is_needed:
            return None
        raise CommandFailed(
            f"the registry has no schema {subject!r}: register it, or name another one's subject with {option}"
        ) from None
    except SchemaNotUsed as e:
        raise CommandFailed(f"schema {subject!r}: {e}") from None
    return lambda value: frame(number, write(value))


def _split(subject: str) -> tuple[str, str]:
    name, colon, version = subject.rpartition(":")
    return (name, version) if colon and version.isdecimal() else (subject, "latest")

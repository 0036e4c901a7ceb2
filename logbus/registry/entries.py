"""
The records of the registry's topic ``_schemas``.

Keys and values are JSON in the format of Confluent's registry, and compaction keeps the last record of each version,
setting and mode. There are two additions: the ``digest`` of a schema, which identifies equivalent texts, and
``HIGHEST_ID``, so that an id is not reused after its schema was deleted and compacted away.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import frozen

from logbus.registry.json_text import compact
from logbus.registry.model import AVRO, HIGHEST_NUMBER, LEVELS, MODES, Reference, Schema, digest_of


@frozen
class SchemaEntry:
    """A version of a subject and its schema; None: permanently deleted."""

    subject: str
    version: int
    id: int = 0
    schema: Schema | None = None
    deleted: bool = False


@frozen
class ConfigEntry:
    """The compatibility level of a subject, or the global one (subject None); level None: removed."""

    subject: str | None
    level: str | None


@frozen
class ModeEntry:
    """The mode of a subject, or the global one (subject None); mode None: removed."""

    subject: str | None
    mode: str | None


@frozen
class DeleteSubjectEntry:
    """All versions of a subject up to one are soft-deleted. Only Confluent's registry writes this record."""

    subject: str
    version: int


@frozen
class HighestIdEntry:
    """The highest id that was ever used."""

    id: int


Entry = SchemaEntry | ConfigEntry | ModeEntry | DeleteSubjectEntry | HighestIdEntry


def encode(entry: Entry) -> tuple[bytes, bytes | None]:
    """Encode an entry as key and value."""
    value: dict[str, Any] | None
    match entry:
        case SchemaEntry():
            key = {"keytype": "SCHEMA", "subject": entry.subject, "version": entry.version, "magic": 1}
            value = None
            if entry.schema is not None:
                place = {"subject": entry.subject, "version": entry.version, "id": entry.id}
                value = {**place, **entry.schema.as_json, "deleted": entry.deleted, "digest": entry.schema.digest}
        case ConfigEntry():
            key = {"keytype": "CONFIG", "subject": entry.subject, "magic": 0}
            value = None if entry.level is None else {"subject": entry.subject, "compatibilityLevel": entry.level}
        case ModeEntry():
            key = {"keytype": "MODE", "subject": entry.subject, "magic": 0}
            value = None if entry.mode is None else {"subject": entry.subject, "mode": entry.mode}
        case DeleteSubjectEntry():
            key = {"keytype": "DELETE_SUBJECT", "subject": entry.subject, "magic": 0}
            value = {"subject": entry.subject, "version": entry.version}
        case HighestIdEntry():
            key = {"keytype": "HIGHEST_ID", "magic": 0}
            value = {"id": entry.id}
    return compact(key).encode(), None if value is None else compact(value).encode()


def decode(key: bytes | None, value: bytes | None) -> Entry | None:
    """
    Decode a record; None: it has no meaning here, like Confluent's ``NOOP``.

    :raise ValueError: it is not a record of a registry.
    """
    try:
        given = json.loads(key or b"")
        content = None if value is None else json.loads(value)
        if not isinstance(given, dict) or not (content is None or isinstance(content, dict)):
            raise ValueError("no JSON object")
        return _decoded(given, content)
    except (KeyError, TypeError, RecursionError) as e:
        raise ValueError(f"{type(e).__name__}: {e}") from None


def _decoded(key: dict[str, Any], value: dict[str, Any] | None) -> Entry | None:
    match key.get("keytype"):
        case "SCHEMA":
            subject, version = _text(key["subject"]), _number(key["version"])
            if value is None:
                return SchemaEntry(subject, version)
            references = tuple(
                Reference(_text(each["name"]), _text(each["subject"]), _number(each["version"]))
                for each in value.get("references") or ()
            )
            text = _text(value["schema"])
            schema_type, digest = _text(value.get("schemaType") or AVRO), _text(value.get("digest") or digest_of(text))
            schema = Schema(text, digest, schema_type, references)
            return SchemaEntry(subject, version, _number(value["id"]), schema, value.get("deleted") is True)
        case "CONFIG":
            level = None if value is None else value.get("compatibilityLevel")
            return ConfigEntry(_subject(key), _one_of(level, LEVELS))
        case "MODE":
            return ModeEntry(_subject(key), _one_of(None if value is None else value.get("mode"), MODES))
        case "DELETE_SUBJECT":
            return None if value is None else DeleteSubjectEntry(_text(key["subject"]), _number(value["version"]))
        case "HIGHEST_ID":
            return None if value is None else HighestIdEntry(_number(value["id"]))
    return None


def _subject(key: dict[str, Any]) -> str | None:
    return None if key.get("subject") is None else _text(key["subject"])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is no text")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= HIGHEST_NUMBER:
        raise ValueError(f"{value!r:.50} is no number from 1 on")
    return value


def _one_of(value: Any, known: tuple[str, ...]) -> str | None:
    if value is not None and value not in known:
        raise ValueError(f"{value!r:.50} is none of {', '.join(known)}")
    return None if value is None else str(value)

"""
The state of the registry: a state machine over the records of its log.

Only :meth:`RegistryState.apply` changes it, record by record, so that every broker that reads the log gets the same
state.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from logbus.registry.entries import (
    ConfigEntry,
    DeleteSubjectEntry,
    Entry,
    HighestIdEntry,
    ModeEntry,
    SchemaEntry,
)
from logbus.registry.model import DEFAULT_LEVEL, DEFAULT_MODE, Reference, Schema, Version


@define(eq=False)
class RegistryState:
    """
    Subjects, schemas and settings.

    :ivar subjects: versions by number, by subject, both in order of their first record.
    :ivar schemas: schemas by id, including those of deleted versions.
    :ivar levels: compatibility levels by subject; None: the global one.
    :ivar modes: likewise.
    :ivar highest_id: the highest id ever used.
    :ivar stored_bytes: total length of the schemas.
    """

    subjects: dict[str, dict[int, Version]] = field(factory=dict, init=False)
    schemas: dict[int, Schema] = field(factory=dict, init=False)
    levels: dict[str | None, str] = field(factory=dict, init=False)
    modes: dict[str | None, str] = field(factory=dict, init=False)
    highest_id: int = field(default=0, init=False)
    stored_bytes: int = field(default=0, init=False)
    _users: dict[int, set[tuple[str, int]]] = field(factory=dict, init=False)
    _ids: dict[Schema, int] = field(factory=dict, init=False)
    _guids: dict[str, int] = field(factory=dict, init=False)
    _referrers: dict[tuple[str, int], set[int]] = field(factory=dict, init=False)

    def apply(self, entry: Entry) -> None:
        """Apply a record."""
        match entry:
            case SchemaEntry():
                self._forget(entry.subject, entry.version)
                if entry.schema is not None:
                    self._learn(entry, entry.schema)
            case ConfigEntry():
                _set(self.levels, entry.subject, entry.level)
            case ModeEntry():
                _set(self.modes, entry.subject, entry.mode)
            case DeleteSubjectEntry():
                versions = self.subjects.get(entry.subject, {})
                for number, version in versions.items():
                    if number <= entry.version:
                        versions[number] = Version(version.id, True)
            case HighestIdEntry():
                self.highest_id = max(self.highest_id, entry.id)

    def _learn(self, entry: SchemaEntry, schema: Schema) -> None:
        self.highest_id = max(self.highest_id, entry.id)
        self.subjects.setdefault(entry.subject, {})[entry.version] = Version(entry.id, entry.deleted)
        self._users.setdefault(entry.id, set()).add((entry.subject, entry.version))
        if entry.id not in self.schemas:
            self.schemas[entry.id] = schema
            self.stored_bytes += len(schema.text)
            self._ids.setdefault(schema, entry.id)
            self._guids.setdefault(schema.guid, entry.id)
            for each in schema.references:
                self._referrers.setdefault((each.subject, each.version), set()).add(entry.id)

    def _forget(self, subject: str, number: int) -> None:
        version = self.subjects.get(subject, {}).pop(number, None)
        if version is None:
            return
        if not self.subjects[subject]:
            del self.subjects[subject]
        users = self._users[version.id]
        users.discard((subject, number))
        if users:
            return
        del self._users[version.id]
        schema = self.schemas.pop(version.id)
        self.stored_bytes -= len(schema.text)
        if self._ids.get(schema) == version.id:
            del self._ids[schema]
            self._guids.pop(schema.guid, None)
        for each in schema.references:
            referrers = self._referrers[each.subject, each.version]
            referrers.discard(version.id)
            if not referrers:
                del self._referrers[each.subject, each.version]

    # Queries.

    def versions(self, subject: str, deleted: bool = False) -> dict[int, Version]:
        """Return a subject's versions in order, with or without deleted ones."""
        versions = self.subjects.get(subject, {})
        return {number: versions[number] for number in sorted(versions) if deleted or not versions[number].deleted}

    def id_of(self, schema: Schema) -> int | None:
        """Return the id of a schema with this text, type and references."""
        return self._ids.get(schema)

    def id_of_guid(self, guid: str) -> int | None:
        """Return the id of the schema with this GUID."""
        return self._guids.get(guid)

    def users(self, schema_id: int, deleted: bool = False) -> Iterator[tuple[str, int]]:
        """Yield the subjects and versions with a schema, in order."""
        for subject, number in sorted(self._users.get(schema_id, ())):
            if deleted or not self.subjects[subject][number].deleted:
                yield subject, number

    def referrers(self, subject: str, number: int, deleted: bool = False) -> list[int]:
        """Return the ids of the schemas in use that refer to a version, in order."""
        ids = self._referrers.get((subject, number), ())
        return sorted(each for each in ids if next(self.users(each, deleted), None) is not None)

    def referenced(self, reference: Reference) -> Schema | None:
        """Resolve a reference, possibly to a deleted version."""
        version = self.subjects.get(reference.subject, {}).get(reference.version)
        return None if version is None else self.schemas[version.id]

    def level(self, subject: str) -> str:
        """Return the effective compatibility level of a subject."""
        return self.levels.get(subject) or self.levels.get(None, DEFAULT_LEVEL)

    def mode(self, subject: str | None) -> str:
        """Return the effective mode of a subject."""
        return self.modes.get(subject) or self.modes.get(None, DEFAULT_MODE)


def _set(settings: dict[str | None, str], subject: str | None, value: str | None) -> None:
    if value is None:
        settings.pop(subject, None)
    else:
        settings[subject] = value

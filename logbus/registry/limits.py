"""Limits of the registry, which protect a broker's memory and reactor."""

from __future__ import annotations

from attrs import frozen


@frozen
class RegistryLimits:
    """
    Limits of a registry.

    :ivar body_bytes: longest body of a request.
    :ivar schema_bytes: longest text of a schema.
    :ivar depth: levels of JSON in a schema.
    :ivar references: schemas that a schema may refer to, including indirect references.
    :ivar referenced_bytes: total length of these.
    :ivar subjects: number of subjects, including deleted ones; also of subjects with their own settings.
    :ivar versions: versions of a subject, including deleted ones.
    :ivar schemas: number of schema ids.
    :ivar stored_bytes: total length of their texts.
    :ivar name_length: longest name of a subject, in characters.
    :ivar page_entries: longest list of schemas in one answer.
    :ivar page_bytes: length of the schemas in one answer.
    :ivar messages: incompatibilities reported in an answer.
    :ivar requests: requests waiting or in progress.
    :ivar seconds: timeout of a request.
    """

    body_bytes: int = 393_216
    schema_bytes: int = 262_144
    depth: int = 100
    references: int = 100
    referenced_bytes: int = 1_048_576
    subjects: int = 10_000
    versions: int = 1_000
    schemas: int = 50_000
    stored_bytes: int = 134_217_728
    name_length: int = 249
    page_entries: int = 1_000
    page_bytes: int = 2_097_152
    messages: int = 20
    requests: int = 100
    seconds: float = 30.0

"""What the registry takes, so that nobody can fill a broker's memory or stop its reactor with schemas."""

from __future__ import annotations

from attrs import frozen


@frozen
class RegistryLimits:
    """
    :ivar body_bytes: longest body of a request.
    :ivar schema_bytes: longest text of a schema.
    :ivar depth: levels of JSON in a schema.
    :ivar references: schemas that one schema may rest on, those of those included.
    :ivar referenced_bytes: length of all of these together.
    :ivar subjects: how many, deleted ones included; also of subjects with settings of their own.
    :ivar versions: of one subject, deleted ones included.
    :ivar schemas: with an id of their own.
    :ivar stored_bytes: length of all their texts.
    :ivar name_length: longest name of a subject, in characters.
    :ivar page_entries: longest list of schemas in one answer.
    :ivar page_bytes: length of the schemas in one answer.
    :ivar messages: sentences about what is not compatible.
    :ivar requests: that wait or are at work at a time.
    :ivar seconds: that a request may take.
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

"""The values of the registry: schemas, references, versions; levels and modes."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from attrs import field, frozen

TOPIC = "_schemas"
"""What all is stored in."""

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
SCHEMA_TYPES = (JSON, PROTOBUF, AVRO)

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
DEFAULT_LEVEL = "BACKWARD"

READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"
MODES = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT)
DEFAULT_MODE = READWRITE

HIGHEST_NUMBER = (1 << 31) - 1
"""The highest id and version: clients have int32."""

_GUIDS = uuid.UUID("6f0f1b3c-2f0e-5c53-9a44-3f4f6b1d7c10")


@frozen
class Reference:
    """
    A reference of a schema to a version of a subject.

    :ivar name: its name in the schema: an Avro type's full name, the ``$ref``, or the file that is imported.
    """

    name: str
    subject: str
    version: int

    @property
    def as_json(self) -> dict[str, Any]:
        """Return its form in requests, answers and the log."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@frozen
class Schema:
    """
    A schema with an id; immutable.

    Schemas with equivalent texts are equal.

    :ivar text: the text as first registered; JSON without insignificant white space.
    :ivar digest: :func:`digest_of` the text's normal form.
    :ivar schema_type: ``AVRO``, ``JSON`` or ``PROTOBUF``.
    """

    text: str = field(eq=False)
    digest: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()

    @property
    def guid(self) -> str:
        """A UUID that is the same in every registry."""
        parts = [self.schema_type, *(f"{each.name}\0{each.subject}\0{each.version}" for each in self.references)]
        return str(uuid.uuid5(_GUIDS, "\0".join([*parts, self.digest])))

    @property
    def as_json(self) -> dict[str, Any]:
        """Return its form in answers and the log, which omits the type AVRO and empty references."""
        members: dict[str, Any] = {}
        if self.schema_type != AVRO:
            members["schemaType"] = self.schema_type
        if self.references:
            members["references"] = [each.as_json for each in self.references]
        return {**members, "schema": self.text}


@frozen
class Version:
    """
    A version of a subject.

    :ivar deleted: whether it is soft-deleted: hidden by default, with its schema still available.
    """

    id: int
    deleted: bool = False


def digest_of(normal: str) -> str:
    """Return the digest of a schema's normal form."""
    return hashlib.sha256(normal.encode()).hexdigest()[:32]

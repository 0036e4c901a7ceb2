"""The nouns of the registry."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from attrs import field, frozen

AVRO, JSON = "AVRO", "JSON"
SCHEMA_TYPES = (JSON, AVRO)

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

_GUIDS = uuid.UUID("6f0f1b3c-2f0e-5c53-9a44-3f4f6b1d7c10")


@frozen
class Reference:
    """
    What one schema rests on.

    :ivar name: by which it is called in the schema: an Avro type's full name, or what stands in a ``$ref``.
    """

    name: str
    subject: str
    version: int

    @property
    def as_json(self) -> dict[str, Any]:
        """As it stands in requests, answers and the log."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@frozen
class Schema:
    """
    What an id stands for, for ever.

    Two are the same whose texts mean the same.

    :ivar text: of the schema, as it was first registered, without white space that means nothing.
    :ivar digest: of what the text means: :func:`digest_of` its normal form.
    :ivar schema_type: ``AVRO`` or ``JSON``.
    """

    text: str = field(eq=False)
    digest: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()

    @property
    def guid(self) -> str:
        """An id that is the same in every registry."""
        told = [self.schema_type, *(f"{each.name}\0{each.subject}\0{each.version}" for each in self.references)]
        return str(uuid.uuid5(_GUIDS, "\0".join([*told, self.digest])))

    @property
    def as_json(self) -> dict[str, Any]:
        """As it stands in answers and the log: what is Avro, and rests on nothing, does not say so."""
        told: dict[str, Any] = {}
        if self.schema_type != AVRO:
            told["schemaType"] = self.schema_type
        if self.references:
            told["references"] = [each.as_json for each in self.references]
        return {**told, "schema": self.text}


@frozen
class Version:
    """
    A version of a subject.

    :ivar deleted: softly: it can be asked for by who says that he wants it, and its schema is still there.
    """

    id: int
    deleted: bool = False


def digest_of(normal: str) -> str:
    """Stands for the normal form of a schema."""
    return hashlib.sha256(normal.encode()).hexdigest()[:32]

"""
JSON Schemas of what requests and answers are made of.
"""

from __future__ import annotations

from collections.abc import Mapping

from logbus.admin.json_schema import JsonSchema, array, boolean, integer, nullable, object_schema, string
from logbus.registry.limits import RegistryLimits
from logbus.registry.model import LEVELS, MODES, SCHEMA_TYPES

LIMITS = RegistryLimits()
HIGHEST = (1 << 31) - 1

SUBJECT = string(
    "The name of a subject: characters that can be printed; it does not begin with ':.'.",
    minLength=1,
    maxLength=LIMITS.name_length,
    examples=["orders-value"],
)
SCHEMA_ID = integer("The id of a schema.", minimum=1, maximum=HIGHEST, examples=[1])
NUMBER = integer("The number of a version.", minimum=1, maximum=HIGHEST)
GUID = string("The UUID of a schema, the same in every registry.")
SCHEMA_TYPE = string("The type of a schema; AVRO is left out of answers.", enum=list(SCHEMA_TYPES))
LEVEL = string("A compatibility level.", enum=list(LEVELS))
MODE = string("A mode.", enum=list(MODES))

PATH: Mapping[str, JsonSchema] = {
    "subject": SUBJECT,
    "version": string(
        "The number of a version; 'latest' or -1: the last one.",
        pattern="^(latest|-1|[1-9][0-9]{0,9})$",
        examples=["latest"],
    ),
    "id": SCHEMA_ID,
    "guid": string("The UUID of a schema.", minLength=1),
}
"""The variable parts of paths."""

# Query parameters.

PAGE: Mapping[str, JsonSchema] = {
    "offset": integer("How many to leave out at the beginning.", minimum=0, maximum=HIGHEST, default=0),
    "limit": integer("How many to answer at most; -1: all.", minimum=-1, maximum=HIGHEST, default=-1),
}
DELETED: Mapping[str, JsonSchema] = {"deleted": boolean("Whether to count what is soft-deleted.")}
DELETED_ONLY: Mapping[str, JsonSchema] = {"deletedOnly": boolean("Whether to count only what is soft-deleted.")}
PREFIX: Mapping[str, JsonSchema] = {"subjectPrefix": string("How the names of the subjects begin.")}
FORMAT: Mapping[str, JsonSchema] = {
    "format": string("serialized: Protobuf as its descriptor in base64.", examples=["serialized"])
}
PERMANENT: Mapping[str, JsonSchema] = {"permanent": boolean("Whether to remove what is soft-deleted.")}
VERBOSE: Mapping[str, JsonSchema] = {"verbose": boolean("Whether to say what is incompatible.")}
DEFAULT_TO_GLOBAL: Mapping[str, JsonSchema] = {
    "defaultToGlobal": boolean("Whether to answer the global one if the subject has none.")
}

# Bodies.

_REFERENCE = object_schema(
    "A version of a subject that a schema refers to.",
    name=string("Its name in the schema: an Avro type's full name, the $ref, or the file that is imported."),
    subject=string("Its subject."),
    version=integer("Its number; -1: the last one."),
)
_REFERENCES = array("The schemas that it refers to.", _REFERENCE, maxItems=LIMITS.references)


def _open(shape: JsonSchema) -> JsonSchema:
    """Return an object that may have other members, which are ignored."""
    return {**shape, "additionalProperties": True}


_GIVEN: Mapping[str, JsonSchema] = {
    "schema": string("The text of the schema.", minLength=1, maxLength=LIMITS.schema_bytes, examples=['"string"']),
    "schemaType": nullable({**SCHEMA_TYPE, "enum": [*SCHEMA_TYPES, None], "description": "AVRO if it is missing."}),
    "references": nullable({**_REFERENCES, "items": _open(_REFERENCE)}),
}
SCHEMA_BODY = _open(object_schema("A schema.", optional=("schemaType", "references"), **_GIVEN))
REGISTER_BODY = _open(
    object_schema(
        "A schema; with its id and number in mode IMPORT.",
        optional=("schemaType", "references", "id", "version"),
        **_GIVEN,
        id=nullable(integer("The id that it has elsewhere; -1 or 0: none.", minimum=-1, maximum=HIGHEST)),
        version=nullable(integer("The number that it has elsewhere; -1 or 0: none.", minimum=-1, maximum=HIGHEST)),
    )
)
CONFIG_BODY: JsonSchema = {
    **object_schema("A compatibility level, in upper or lower case.", compatibility=LEVEL),
    "additionalProperties": {"type": "null", "description": "Settings that are not supported."},
}
MODE_BODY = _open(object_schema("A mode, in upper or lower case.", mode=MODE))

# Answers.

_SCHEMA: Mapping[str, JsonSchema] = {
    "schemaType": SCHEMA_TYPE,
    "references": _REFERENCES,
    "schema": string("The text of the schema."),
    "guid": GUID,
}
VERSION = object_schema(
    "A version of a subject.",
    optional=("schemaType", "references", "deleted"),
    subject=string("Its subject."),
    version=NUMBER,
    id=SCHEMA_ID,
    **_SCHEMA,
    deleted=boolean("Whether it is soft-deleted."),
)
SCHEMA = object_schema(
    "A schema.",
    optional=("schemaType", "references", "maxId"),
    **_SCHEMA,
    maxId=integer("The highest id that was ever used, if fetchMaxId asks for it.", minimum=0),
)
SCHEMA_OF_GUID = object_schema("A schema.", optional=("schemaType", "references"), **_SCHEMA, id=SCHEMA_ID)
REGISTERED = object_schema("What is registered.", id=SCHEMA_ID, version=NUMBER, guid=GUID)
PLACE = object_schema("Where a schema is.", subject=string("The subject."), version=NUMBER)
SCHEMA_ALONE: JsonSchema = {"description": "The text of the schema: JSON, or of Protobuf the file or its descriptor."}
COMPATIBLE = object_schema(
    "Whether a schema would be accepted.",
    optional=("messages",),
    is_compatible=boolean("Whether it would be."),
    messages=array("Why not, if verbose asks for it.", string("One reason.")),
)
LEVEL_ASKED = object_schema("A compatibility level.", compatibilityLevel=LEVEL)
LEVEL_SET = object_schema("A compatibility level.", compatibility=LEVEL)
MODE_ANSWER = object_schema("A mode.", mode=MODE)
CLUSTER_ID = object_schema(
    "The id of the cluster.",
    id=string("The id."),
    scope=object_schema(
        "As of Confluent's.",
        path=array("Empty.", string("None.")),
        clusters=object_schema("Empty."),
    ),
)
REGISTRY_VERSION = object_schema("The version of the registry.", version=string("The version."))
ERROR = object_schema(
    "What went wrong.",
    error_code=integer("Confluent's code; its first three digits are the status.", minimum=400, maximum=59999),
    message=string("What is wrong, and what is expected."),
)

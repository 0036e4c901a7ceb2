"""
Parses the text of a schema for comparison (Confluent: ParsedSchema).

fastavro and jsonschema must accept the schema as well, so that clients can use it with them. That may take seconds, so
the caller runs it in a thread: :attr:`ParsedSchema.check`. So it does what compiles Protobuf, without which nothing is
known of a schema: see :data:`ParseSteps`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from attrs import frozen

from logbus.extras import install_hint
from logbus.registry import avro_compatibility, json_compatibility, protobuf_compatibility, protobuf_compiler
from logbus.registry.avro_schema import AvroType, read_avro
from logbus.registry.errors import Code, RegistryRefusal, invalid_schema
from logbus.registry.json_schema import JsonDocument, read_json_schema
from logbus.registry.json_text import compact, loads, normal
from logbus.registry.limits import RegistryLimits
from logbus.registry.model import AVRO, PROTOBUF, SCHEMA_TYPES, Reference, Schema, digest_of
from logbus.registry.protobuf_schema import ProtobufFile, read_protobuf

ReferenceLookup = Callable[[Reference], Schema | None]
"""Resolves a reference; returns None if it has no target."""


SchemaCheck = Callable[[], None]

INLINE_CHARACTERS = 16_384
"""Characters of schemas that are parsed where they are asked for, in a few milliseconds; more are in a thread."""


@frozen(eq=False)
class ParsedSchema:
    """
    A parsed schema.

    :ivar check: validates the schema with the library of its type, and raises RegistryRefusal if it is invalid; may run
        in a thread.
    """

    schema: Schema
    meaning: AvroType | JsonDocument | ProtobufFile
    check: SchemaCheck


ParseSteps = Generator[SchemaCheck | None, None, ParsedSchema]
"""Parses a schema. It yields what may run in a thread, whose exception is thrown into the generator."""


def read_schema(
    text: str, schema_type: str, references: tuple[Reference, ...], find: ReferenceLookup, limits: RegistryLimits
) -> ParseSteps:
    """
    Parse a schema.

    :param text: as :attr:`Schema.text`; of Protobuf also the descriptor in base64.
    :raise RegistryRefusal: it is invalid, too large, or refers to a missing schema; or the library of its type is not
        installed.
    """
    if len(text.encode("utf-8", "replace")) > limits.schema_bytes:
        raise RegistryRefusal(
            Code.SCHEMA_TOO_LARGE, f"The schema has more than {limits.schema_bytes} bytes, which is the most"
        )
    found = _Dependencies(find, limits)
    if schema_type == PROTOBUF:
        return (yield from _read_protobuf(text, references, found))
    if schema_type not in SCHEMA_TYPES:
        raise invalid_schema(f"the schemaType {schema_type!r:.50} is unknown; known are {', '.join(SCHEMA_TYPES)}")
    before = found.all_of(references)  # checks the limits
    made: list[ParsedSchema] = []
    parse = partial(_read_json_text, made, text, schema_type, references, before, _Dependencies(before.find, limits))
    if len(text) + sum(len(each.text) for each in before.ordered) < INLINE_CHARACTERS:
        parse()
    else:
        yield parse
    return made[0]


def _read_json_text(
    made: list[ParsedSchema],
    text: str,
    schema_type: str,
    references: tuple[Reference, ...],
    before: _Resolved,
    found: _Dependencies,
) -> None:
    """
    Parse a schema of Avro or of JSON Schema, and add it to ``made``.

    Large ones take a tenth of a second, so it may run in a thread: it looks up nothing but what was found before.
    """
    depth = found.limits.depth
    value = loads(text, depth)
    meaning: AvroType | JsonDocument
    if schema_type == AVRO:
        schemas = [loads(each.text, depth) for each in before.ordered]
        known: dict[str, AvroType] = {}
        for each in schemas:
            known.update(read_avro(each, known).names)
        avro = read_avro(value, known)
        meaning, means, check = avro.type, avro.normal, _avro_check([*schemas, value])
    else:
        meaning = read_json_schema(value, found.documents(references))
        means, check = value, _json_check(meaning)
    schema = Schema(compact(value), digest_of(normal(means)), schema_type, references)
    made.append(ParsedSchema(schema, meaning, check))


def registered_schema(schema: Schema, find: ReferenceLookup, limits: RegistryLimits) -> ParseSteps:
    """
    Parse a registered schema.

    :raise RegistryRefusal: as for :func:`read_schema`; schemas it refers to may have been deleted.
    """
    return (yield from read_schema(schema.text, schema.schema_type, schema.references, find, limits))


def incompatibilities(reader: ParsedSchema, writer: ParsedSchema) -> list[str]:
    """Return why data written with one schema cannot always be read with another; empty if it can."""
    if isinstance(reader.meaning, AvroType) and isinstance(writer.meaning, AvroType):
        return avro_compatibility.incompatibilities(reader.meaning, writer.meaning)
    if isinstance(reader.meaning, JsonDocument) and isinstance(writer.meaning, JsonDocument):
        return json_compatibility.incompatibilities(reader.meaning, writer.meaning)
    if isinstance(reader.meaning, ProtobufFile) and isinstance(writer.meaning, ProtobufFile):
        return protobuf_compatibility.incompatibilities(reader.meaning.files, writer.meaning.files)
    return [f"what is written is {writer.schema.schema_type}, and the reader wants {reader.schema.schema_type}"]


@frozen
class _Resolved:
    """
    The schemas that a schema refers to.

    :ivar ordered: each after those it refers to.
    :ivar find: resolves what they and it refer to.
    """

    ordered: tuple[Schema, ...]
    find: ReferenceLookup


@frozen
class _Dependencies:
    """Loads the schemas that a schema refers to, recursively."""

    find: ReferenceLookup
    limits: RegistryLimits

    def one(self, reference: Reference) -> Schema:
        """
        Return the target of a reference.

        :raise RegistryRefusal: it does not exist.
        """
        found = self.find(reference)
        if found is None:
            raise invalid_schema(
                f"there is no version {reference.version} of subject {reference.subject!r}, "
                f"which the reference {reference.name!r} means"
            )
        return found

    def all_of(self, references: tuple[Reference, ...]) -> _Resolved:
        """
        Look up all of them.

        :raise RegistryRefusal: one does not exist, or they are too many or too long.
        """
        ordered: dict[Schema, None] = {}
        entered: set[Schema] = set()
        resolved: dict[Reference, Schema] = {}

        def one(reference: Reference) -> Schema:
            return resolved.setdefault(reference, self.one(reference))

        stack = [(one(each), False) for each in reversed(references)]
        size = 0
        while stack:
            schema, behind = stack.pop()
            if behind:
                ordered[schema] = None
            elif schema not in entered:
                entered.add(schema)
                size += len(schema.text)
                self.check(len(entered), size)
                stack.append((schema, True))
                stack += [(one(each), False) for each in reversed(schema.references)]
        return _Resolved(tuple(ordered), resolved.get)

    def documents(self, references: tuple[Reference, ...]) -> dict[str, JsonDocument]:
        """Return the documents of JSON Schema, by the names of the references."""
        done: dict[Schema, JsonDocument] = {}

        def document(schema: Schema) -> JsonDocument:
            if schema not in done:
                others = {each.name: document(self.one(each)) for each in schema.references}
                done[schema] = read_json_schema(loads(schema.text, self.limits.depth), others)
            return done[schema]

        return {each.name: document(self.one(each)) for each in references}

    def files(self, references: tuple[Reference, ...]) -> dict[str, str]:
        """
        Return the texts of Protobuf files, and of those that these import, by the names of the references.

        :raise RegistryRefusal: one is no Protobuf, or two are imported under one name.
        """
        found: dict[str, Schema] = {}
        stack, size = list(references), 0
        while stack:
            each = stack.pop()
            schema = self.one(each)
            if each.name in found:
                if found[each.name] != schema:
                    raise invalid_schema(f"two different schemas are imported as {each.name!r}")
                continue
            if schema.schema_type != PROTOBUF:
                raise invalid_schema(f"the reference {each.name!r} is to a schema of type {schema.schema_type}")
            protobuf_compiler.check_file_name(each.name)
            found[each.name] = schema
            size += len(schema.text)
            self.check(len(found), size)
            stack += schema.references
        return {name: schema.text for name, schema in found.items()}

    def check(self, count: int, size: int) -> None:
        """
        Check the limits.

        :raise RegistryRefusal: one is exceeded.
        """
        if count > self.limits.references or size > self.limits.referenced_bytes:
            raise invalid_schema(
                f"it rests on more than {self.limits.references} schemas, or on more than "
                f"{self.limits.referenced_bytes} bytes of them"
            )


def _avro_check(schemas: list[Any]) -> SchemaCheck:
    try:
        import fastavro
    except ImportError:
        raise _missing("Avro", "fastavro") from None

    def check() -> None:
        names: dict[str, Any] = {}
        try:
            for each in schemas:
                fastavro.parse_schema(each, named_schemas=names, _write_hint=False)
        except Exception as e:  # fastavro raises its own errors and some of Python's
            raise invalid_schema(f"fastavro cannot read it: {type(e).__name__}: {e}") from None

    return check


def _json_check(document: JsonDocument) -> SchemaCheck:
    try:
        import jsonschema
    except ImportError:
        raise _missing("JSON Schema", "jsonschema") from None
    dialects = {
        4: jsonschema.Draft4Validator,
        6: jsonschema.Draft6Validator,
        7: jsonschema.Draft7Validator,
        2019: jsonschema.Draft201909Validator,
        2020: jsonschema.Draft202012Validator,
    }
    validator = dialects[document.dialect]

    def check() -> None:
        try:
            error = next(iter(validator(validator.META_SCHEMA).iter_errors(document.root)), None)
        except Exception as e:  # jsonschema raises its own errors and some of Python's
            raise invalid_schema(f"jsonschema cannot read it: {type(e).__name__}: {e}") from None
        if error is not None:
            where = "".join(f"/{each}" for each in error.absolute_path)
            raise invalid_schema(f"at {where or '/'!r}: {error.message}")

    return check


def _read_protobuf(text: str, references: tuple[Reference, ...], found: _Dependencies) -> ParseSteps:
    protobuf_compiler.check_installed()
    imports = found.files(references)
    made = list[ParsedSchema]()

    def compile_it() -> None:
        file = read_protobuf(text, imports)
        schema = Schema(file.text, digest_of(file.serialized), PROTOBUF, references)
        made.append(ParsedSchema(schema, file, lambda: None))

    yield compile_it
    return made[0]


def _missing(what: str, package: str) -> RegistryRefusal:
    return RegistryRefusal(
        Code.NOT_IMPLEMENTED,
        f"This broker cannot read {what}, as {package} is not installed: {install_hint('registry')}",
    )

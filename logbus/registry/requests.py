"""Requests and responses of the registry, independent of HTTP: also sent between brokers."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from attrs import frozen

from logbus.admin import strict_json
from logbus.registry.entries import Entry
from logbus.registry.errors import Code, RegistryRefusal, invalid_schema
from logbus.registry.limits import RegistryLimits
from logbus.registry.model import AVRO, SCHEMA_TYPES, Reference
from logbus.registry.parsed_schema import ParseSteps, SchemaCheck, read_schema
from logbus.registry.state import RegistryState

V = TypeVar("V")

LATEST = -1


@frozen
class RegistryRequest:
    """
    A request.

    :ivar path: the decoded segments.
    :ivar query: the last value of each parameter.
    """

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""

    @property
    def writes(self) -> bool:
        """Whether the request may change something."""
        return self.method in ("PUT", "DELETE") or (
            self.method == "POST" and self.path[:1] == ("subjects",) and self.path[-1:] == ("versions",)
        )

    def flag(self, name: str) -> bool:
        """Return whether a query parameter is ``true``."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a query parameter as an integer."""
        return int(self.query.get(name, default))

    def page(self, entries: list[Any]) -> list[Any]:
        """Apply the parameters ``offset`` and ``limit`` to a list."""
        offset, limit = self.number("offset", 0), self.number("limit", -1)
        return entries[offset:] if limit < 0 else entries[offset : offset + limit]

    def json(self) -> dict[str, Any]:
        """
        Parse the body.

        :raise RegistryRefusal: it is not a JSON object.
        """
        try:
            value = strict_json.loads(self.body)
        except ValueError as e:
            raise RegistryRefusal(Code.BAD_REQUEST, f"{str(e)[:1].upper()}{str(e)[1:]}") from None
        if not isinstance(value, dict):
            raise RegistryRefusal(Code.BAD_REQUEST, "The body is no JSON object")
        return value

    def as_bytes(self) -> bytes:
        """For another broker."""
        fields = {
            "method": self.method,
            "path": self.path,
            "query": dict(self.query),
            "body": self.body.decode("latin-1"),
        }
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> RegistryRequest:
        """From another broker."""
        fields = json.loads(data)
        return cls(fields["method"], tuple(fields["path"]), fields["query"], fields["body"].encode("latin-1"))


@frozen
class RegistryResponse:
    """A response: a status, and a body of JSON or text."""

    status: int
    body: bytes

    @classmethod
    def of(cls, value: Any) -> RegistryResponse:
        """Make a successful response."""
        return cls(200, json.dumps(value, separators=(",", ":")).encode())

    @classmethod
    def refusal(cls, error: RegistryRefusal) -> RegistryResponse:
        """Make an error response."""
        return cls(error.status, json.dumps({"error_code": int(error.code), "message": error.message}).encode())

    def as_bytes(self) -> bytes:
        """For another broker."""
        return b"%d\n" % self.status + self.body

    @classmethod
    def from_bytes(cls, data: bytes) -> RegistryResponse:
        """From another broker."""
        status, _, body = data.partition(b"\n")
        return cls(int(status), body)


@frozen
class HandlerResult:
    """
    The result of a handler.

    :ivar answer: sent after the entries are in the log.
    :ivar entries: appended atomically.
    """

    answer: RegistryResponse
    entries: tuple[Entry, ...] = ()


HandlerSteps = Generator[SchemaCheck | None, None, HandlerResult]
"""
A running handler. It yields None to pause, so that the broker can do other work, or a check to run, in a thread if
there is one; an exception of the check is thrown into the generator.
"""


@frozen
class RegistryContext:
    """A request with the state and the limits it is handled with."""

    request: RegistryRequest
    state: RegistryState
    limits: RegistryLimits
    cluster_id: str = ""

    def subject(self, name: str) -> str:
        """
        Check the name of a subject.

        :raise RegistryRefusal: it is invalid.
        """
        if not name or len(name) > self.limits.name_length or not name.isprintable() or name.startswith(":."):
            raise RegistryRefusal(
                Code.INVALID_SUBJECT,
                f"The specified subject {name[:100]!r} is not a valid one: a name has 1 to {self.limits.name_length} "
                "characters that can be printed, and does not begin with ':.' (contexts are not supported)",
            )
        return name

    def schema(self) -> ParseSteps:
        """
        Parse the schema in the body.

        :raise RegistryRefusal: it is invalid.
        """
        return (yield from read_schema(*self.given_schema(), self.state.referenced, self.limits))

    def given_schema(self) -> tuple[str, str, tuple[Reference, ...]]:
        """
        Return the text, the type and the references in the body.

        :raise RegistryRefusal: one of them is missing, or of another kind.
        """
        body = self.request.json()
        text, schema_type = body.get("schema"), AVRO if body.get("schemaType") is None else body["schemaType"]
        if not isinstance(text, str) or not text.strip():
            raise invalid_schema("the body has no 'schema', which is the schema as a text")
        if schema_type not in SCHEMA_TYPES:
            raise invalid_schema(f"the schemaType {schema_type!r:.50} is unknown; known are {', '.join(SCHEMA_TYPES)}")
        for name in ("metadata", "ruleSet"):
            if body.get(name):
                raise RegistryRefusal(Code.UNPROCESSABLE, f"The body has {name!r}, which is not supported here")
        references = [] if body.get("references") is None else body["references"]
        if not isinstance(references, list) or len(references) > self.limits.references:
            raise invalid_schema(f"the 'references' are no array of at most {self.limits.references}")
        parsed = tuple(self._reference(each) for each in references)
        if len({each.name for each in parsed}) != len(parsed):
            raise invalid_schema("two references have the same name")
        return text, schema_type, parsed

    def _reference(self, value: Any) -> Reference:
        match value:
            case {"name": str(name), "subject": str(subject), "version": int(version)} if not isinstance(version, bool):
                if version == LATEST:
                    version = max(self.state.versions(subject), default=LATEST)
                return Reference(name, subject, version)
        raise invalid_schema(f"the reference {value!r:.200} does not have the form {{name, subject, version}}")


def version_number(given: str) -> int:
    """
    Parse the version in a path: a number, or :data:`LATEST`.

    :raise RegistryRefusal: it is neither.
    """
    if given in ("latest", "-1"):
        return LATEST
    if given.isdecimal() and given.isascii() and len(given) <= 10 and 0 < int(given) < 1 << 31:
        return int(given)
    raise RegistryRefusal(
        Code.INVALID_VERSION,
        f"The specified version {given[:50]!r} is not a valid version id: a number from 1 to 2147483647, or 'latest'",
    )


def no_subject(name: str) -> RegistryRefusal:
    """Return the error for an unknown subject."""
    return RegistryRefusal(Code.SUBJECT_NOT_FOUND, f"Subject '{name}' not found.")


def no_version(given: object) -> RegistryRefusal:
    """Return the error for an unknown version."""
    return RegistryRefusal(Code.VERSION_NOT_FOUND, f"Version {given} not found.")


def run(steps: Generator[SchemaCheck | None, None, V]) -> V:
    """Run a handler, or a part of it, to its end, without pauses."""
    problem: RegistryRefusal | None = None
    while True:
        try:
            check = next(steps) if problem is None else steps.throw(problem)
        except StopIteration as e:
            outcome: V = e.value
            return outcome
        problem = None
        if check is not None:
            try:
                check()
            except RegistryRefusal as e:
                problem = e

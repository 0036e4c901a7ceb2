"""
Parses JSON Schemas into documents that resolve their references (json-schema.org/specification).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from logbus.registry.errors import invalid_schema

DIALECTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
DEFAULT_DIALECT = 7
"""The dialect of schemas without ``$schema``, as in Confluent's registry."""

REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
MOST_HOPS = 50


class UnresolvedReference(Exception):
    """A ``$ref`` has no target, or is circular."""


@frozen(eq=False)
class JsonDocument:
    """
    A schema with those it refers to.

    :ivar dialect: its version of JSON Schema: 4, 6, 7, 2019 or 2020.
    :ivar others: referenced documents, by the name in ``$ref``.
    """

    root: Any
    dialect: int
    others: Mapping[str, JsonDocument]

    @property
    def embeds(self) -> bool:
        """Whether a subschema has its own ``$id``, to which ``$ref`` is relative."""
        return any(each is not self.root and isinstance(each.get("$id"), str) for each in objects(self.root))

    def follow(self, ref: str) -> tuple[JsonDocument, Any]:
        """
        Resolve a ``$ref`` of this document.

        :raise UnresolvedReference: it has no target.
        """
        base, _, place = ref.partition("#")
        other = self._document(base)
        if place and not place.startswith("/"):
            for each in objects(other.root):
                if each.get("$anchor") == place or each.get("$id") == f"#{place}":
                    return other, each
            raise UnresolvedReference(f"nothing in the schema has the anchor {place[:100]!r}")
        found = other.root
        for part in place.split("/")[1:]:
            name = _unescaped(part)
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise UnresolvedReference(f"there is nothing at {ref[:100]!r}")
        if not isinstance(found, dict | bool):
            raise UnresolvedReference(f"what is at {ref[:100]!r} is no schema")
        return other, found

    def _document(self, base: str) -> JsonDocument:
        if not base or (isinstance(self.root, dict) and self.root.get("$id", "").rstrip("#") == base):
            return self
        if base in self.others:
            return self.others[base]
        raise UnresolvedReference(f"{base[:200]!r} is neither the schema nor among its references")


def read_json_schema(value: Any, others: Mapping[str, JsonDocument]) -> JsonDocument:
    """
    Parse a schema's JSON; does not validate it against its dialect.

    :param others: the referenced documents, by the names of the references.
    :raise RegistryRefusal: it is not a schema, has an unknown dialect, or has a ``$ref`` without a target.
    """
    if not isinstance(value, dict | bool):
        raise invalid_schema("a JSON Schema is an object, or true or false")
    given = value.get("$schema") if isinstance(value, dict) else None
    dialect = DEFAULT_DIALECT if given is None else DIALECTS.get(str(given).rstrip("#"))
    if dialect is None:
        raise invalid_schema(f"the $schema {given!r:.200} is unknown; known are {', '.join(DIALECTS)}")
    if isinstance(value, dict) and not isinstance(value.get("$id", ""), str):
        raise invalid_schema("the $id is no text")
    document = JsonDocument(value, dialect, others)
    for each in objects(value):
        ref = each.get("$ref")
        if isinstance(ref, str) and not document.embeds:
            try:
                document.follow(ref)
            except UnresolvedReference as e:
                raise invalid_schema(f"$ref: {e}") from None
    return document


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a value, including itself."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def has_references(value: Any) -> bool:
    """Return whether it has references."""
    return any(name in each for each in objects(value) for name in REFERENCE_KEYWORDS)


def _unescaped(part: str) -> str:
    from urllib.parse import unquote

    return unquote(part).replace("~1", "/").replace("~0", "~")

"""
Compatibility of JSON Schemas: whether a reader provably accepts every value that a writer accepts.

That is not decidable in general, so the rules are conservative: schemas they accept are compatible, and some that they
reject are compatible, too. Each keyword of the reader must follow from the writer's: more types, wider bounds, fewer
required properties, and recursively compatible schemas of properties and items. A property that only the reader
describes may have been written with any value, unless the writer has ``additionalProperties: false``. Rarer keywords
must be equal on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field

from logbus.registry.json_bounds import NormalForms, implies_bound, types_of
from logbus.registry.json_schema import MOST_HOPS, JsonDocument, UnresolvedReference, has_references
from logbus.registry.json_text import normal

COMPARED = frozenset(
    (
        *("$dynamicRef", "$recursiveRef", "contains", "contentEncoding", "contentMediaType", "contentSchema"),
        *("dependencies", "dependentRequired", "dependentSchemas", "else", "format", "if", "maxContains"),
        *("minContains", "not", "oneOf", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    )
)
"""Keywords that must be equal on both sides; unknown keywords do not constrain values."""

TOGETHER = {
    "if": ("if", "then", "else"),
    "then": ("if", "then", "else"),
    "else": ("if", "then", "else"),
    "contains": ("contains", "minContains", "maxContains"),
    "minContains": ("contains", "minContains", "maxContains"),
    "maxContains": ("contains", "minContains", "maxContains"),
}
"""Keywords that have a meaning only together."""

DEEPEST = 100
MOST_STEPS = 20_000
MOST_KEYWORDS = 500_000
"""Levels, pairs of schemas, and keywords in all of these, after which two schemas are refused as too complex."""

_ANYTHING: dict[str, Any] = {}
_NOTHING: dict[str, Any] = {"type": []}

SchemaNode = tuple[JsonDocument, Any]


def incompatibilities(reader: JsonDocument, writer: JsonDocument) -> list[str]:
    """
    Return the reasons why ``reader`` may not accept all values of ``writer``; empty if it does.

    :return: sentences, each with a path such as ``$.lines[].price``.
    """
    if reader.dialect != writer.dialect:
        return [f"$: the schemas speak different versions of JSON Schema ({writer.dialect}, {reader.dialect})"]
    if reader.embeds or writer.embeds:
        same = normal(reader.root) == normal(writer.root)
        return [] if same else ["$: a schema inside has an $id of its own; such schemas are compatible if equal"]
    try:
        return _Containment(reader.dialect).holds((reader, reader.root), (writer, writer.root), "$", 0, 0)
    except _TooIntricateError as e:
        return [str(e)]


class _TooIntricateError(Exception):
    """The comparison was given up; its message says where."""

    def __init__(self, path: str) -> None:
        super().__init__(_too_intricate(path))


def _too_intricate(path: str) -> str:
    return f"{path}: the schemas are too intricate to be compared"


@define
class _Containment:
    """
    Proves that a reader's schema contains a writer's.

    :ivar in_progress: pairs that are being compared, with their depth in the data: a pair met again at a greater depth
        is assumed to hold (induction over the depth of the data).
    """

    dialect: int
    in_progress: dict[tuple[int, int], int] = field(factory=dict)
    steps: int = 0
    keywords: int = 0
    forms: NormalForms = field(factory=NormalForms)
    _referring: dict[int, bool] = field(factory=dict)

    def holds(self, reader: SchemaNode, writer: SchemaNode, path: str, level: int, depth: int) -> list[str]:
        """Return the reasons why the reader may not accept all values of the writer."""
        pair = (id(reader[1]), id(writer[1]))
        self.steps += 1
        if self.in_progress.get(pair, level) < level:
            return []
        if self.steps > MOST_STEPS:
            raise _TooIntricateError(path)  # a mere reason would let the next million pairs be tried
        if depth > DEEPEST or pair in self.in_progress:
            return [_too_intricate(path)]
        before = len(self.in_progress)
        self.in_progress[pair] = level
        wrong = self._holds(reader, writer, path, level, depth + 1)
        # This pair, and those whose comparison assumed that it holds.
        for each in list(self.in_progress)[before:]:
            del self.in_progress[each]
        return wrong

    def _holds(self, reader: SchemaNode, writer: SchemaNode, path: str, level: int, depth: int) -> list[str]:
        wanted = reader[1]
        if writer[1] is False or wanted is True:
            return []
        if wanted is False:
            return [f"{path}: the reader accepts nothing here"]
        try:
            conjuncts = list(self._conjuncts(writer, 0))
            wrong = []
            for keyword in wanted:
                wrong += self._keyword(keyword, reader, conjuncts, path, level, depth)
        except UnresolvedReference as e:
            return [f"{path}: {e}"]
        if wrong:
            for document, one in conjuncts:
                for keyword in ("anyOf", "oneOf"):
                    if keyword in one:
                        # Every value matches one of these branches.
                        return [
                            each
                            for branch in one[keyword]
                            for each in self.holds(reader, (document, branch), path, level, depth)
                        ]
        return wrong

    def _conjuncts(self, writer: SchemaNode, hops: int) -> Iterator[tuple[JsonDocument, dict[str, Any]]]:
        """Yield the schemas that every value matches: the writer's, those it refers to, those in ``allOf``."""
        document, one = writer
        if hops > MOST_HOPS:
            raise UnresolvedReference("references lead in circles")
        if one is True:
            yield document, _ANYTHING
        elif one is False:
            yield document, _NOTHING
        elif "$ref" in one:
            # Dialects differ about keywords beside ``$ref``; they can only narrow the writer.
            yield from self._conjuncts(document.follow(one["$ref"]), hops + 1)
        else:
            yield document, one
            for branch in one.get("allOf", ()):
                yield from self._conjuncts((document, branch), hops + 1)

    def _keyword(
        self,
        keyword: str,
        reader: SchemaNode,
        writers: list[tuple[JsonDocument, dict[str, Any]]],
        path: str,
        level: int,
        depth: int,
    ) -> list[str]:
        document, wanted = reader
        value = wanted[keyword]
        self.keywords += len(writers)
        if self.keywords > MOST_KEYWORDS:
            raise _TooIntricateError(path)
        types = set.intersection(*(types_of(each) for _, each in writers))
        below: Callable[[Any, SchemaNode, str], list[str]] = lambda schema, place, where: self.holds(  # noqa: E731
            (document, schema), place, path + where, level + 1, depth
        )
        if keyword == "$ref":
            target = document.follow(value)
            # References that lead back here without descending into the data would not end.
            return self._all_of(target, writers, path, level, depth)
        if keyword == "allOf":
            return [wrong for each in value for wrong in self._all_of((document, each), writers, path, level, depth)]
        if keyword == "anyOf" or (keyword == "oneOf" and _are_disjoint(value)):
            if any(not self._all_of((document, each), writers, path, level, depth) for each in value):
                return []
            same = self._same((keyword,), reader, writers)
            return [] if same else [f"{path}: none of the reader's {keyword!r} holds all that may be written"]
        if keyword in ("properties", "patternProperties", "additionalProperties"):
            if "object" not in types:
                return []
            return self._first(writers, lambda place: _objects(keyword, wanted, place, below))
        if keyword in ("items", "prefixItems", "additionalItems"):
            if "array" not in types:
                return []
            return self._first(writers, lambda place: _arrays(self.dialect, wanted, place, below))
        shown = implies_bound(keyword, wanted, [each for _, each in writers], types, self.dialect, self.forms)
        if shown is None:
            together = TOGETHER.get(keyword, (keyword,))
            if keyword.startswith("unevaluated"):
                # Evaluated properties depend on all keywords beside it, on both sides.
                together = tuple({*wanted, *(name for _, one in writers for name in one)})
            shown = keyword not in COMPARED or self._same(together, reader, writers)
        return [] if shown else [f"{path}: the reader's {keyword!r} ({self.forms.text(value)[:80]}) does not follow"]

    def _all_of(
        self, reader: SchemaNode, writers: list[tuple[JsonDocument, dict[str, Any]]], path: str, level: int, depth: int
    ) -> list[str]:
        document, one = writers[0]
        if len(writers) == 1:
            return self.holds(reader, (document, one), path, level, depth)
        if depth > DEEPEST:
            return [_too_intricate(path)]
        if isinstance(reader[1], bool):
            return [] if reader[1] else [f"{path}: the reader accepts nothing here"]
        return [
            wrong for keyword in reader[1] for wrong in self._keyword(keyword, reader, writers, path, level, depth + 1)
        ]

    @staticmethod
    def _first(
        writers: list[tuple[JsonDocument, dict[str, Any]]], shows: Callable[[tuple[JsonDocument, Any]], list[str]]
    ) -> list[str]:
        wrong: list[str] = []
        for place in writers:
            wrong = shows(place)
            if not wrong:
                return []
        return wrong

    def _same(
        self, keywords: tuple[str, ...], reader: SchemaNode, writers: list[tuple[JsonDocument, dict[str, Any]]]
    ) -> bool:
        """Return whether a writer has the same keywords with the same meaning."""
        document, wanted = reader
        text, mine = self.forms.text, [name for name in keywords if name in wanted]
        for other, one in writers:
            theirs = [name for name in keywords if name in one]
            if mine == theirs and all(text(wanted[name]) == text(one[name]) for name in mine):
                return not any(self._refers(wanted[name]) for name in mine) or (
                    text(document.root) == text(other.root) and not document.others and not other.others
                )
        return False

    def _refers(self, value: Any) -> bool:
        """Whether there are references in a part of a schema."""
        found = self._referring.get(id(value))
        if found is None:
            found = self._referring[id(value)] = has_references(value)
        return found


def _are_disjoint(branches: list[Any]) -> bool:
    """Return whether no value matches two branches, since their types are disjoint."""
    seen: set[str] = set()
    for each in branches:
        if not isinstance(each, dict) or "type" not in each:
            return False
        types = types_of(each)
        if types & seen:
            return False
        seen |= types
    return True


def _objects(
    keyword: str, wanted: dict[str, Any], place: SchemaNode, below: Callable[[Any, SchemaNode, str], list[str]]
) -> list[str]:
    """Compare the reader's keywords for objects with one writer's schema."""
    document, one = place
    properties, patterns = one.get("properties", {}), one.get("patternProperties", {})
    others = one.get("additionalProperties", True)
    wrong: list[str] = []
    if keyword == "properties":
        for name, schema in wanted["properties"].items():
            if name in properties:
                wrong += below(schema, (document, properties[name]), f".{name}")
                continue
            for each in (others, *patterns.values()):
                wrong += below(schema, (document, each), f".{name}")
    elif keyword == "patternProperties":
        for pattern, schema in wanted["patternProperties"].items():
            written = [patterns[pattern]] if pattern in patterns else [others, *properties.values(), *patterns.values()]
            for each in written:
                wrong += below(schema, (document, each), f"./{pattern}/")
    else:
        schema = wanted["additionalProperties"]
        known = wanted.get("properties", {})
        for name, each in properties.items():
            if name not in known:
                wrong += below(schema, (document, each), f".{name}")
        for pattern, each in patterns.items():
            if pattern not in wanted.get("patternProperties", {}):
                wrong += below(schema, (document, each), f"./{pattern}/")
        wrong += below(schema, (document, others), ".*")
    return wrong


def _arrays(
    dialect: int, wanted: dict[str, Any], place: SchemaNode, below: Callable[[Any, SchemaNode, str], list[str]]
) -> list[str]:
    """Compare the reader's keywords for arrays with one writer's schema."""
    document, one = place
    first, rest = _items(dialect, wanted)
    written, others = _items(dialect, one)
    wrong: list[str] = []
    for index in range(max(len(first), len(written))):
        schema = first[index] if index < len(first) else rest
        each = written[index] if index < len(written) else others
        wrong += below(schema, (document, each), f"[{index}]")
    return wrong + below(rest, (document, others), "[]")


def _items(dialect: int, one: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the schemas of the first items, and of all others."""
    if dialect >= 2020:
        return one.get("prefixItems", []), one.get("items", True)
    items = one.get("items", True)
    return (items, one.get("additionalItems", True)) if isinstance(items, list) else ([], items)

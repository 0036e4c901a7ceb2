"""
Compatibility of Avro schemas, by the rules of "Schema Resolution" (avro.apache.org/docs/1.12.0/specification).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from logbus.registry.avro_schema import NAMED, AvroType

PROMOTED = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""Types that a value can be promoted to, by type."""

DEEPEST = 200
MOST_STEPS = 30_000
"""Levels, and pairs of types, after which two schemas are refused as too complex to compare."""

MOST_NAMES = 10
"""Names in a sentence."""


def incompatibilities(reader: AvroType, writer: AvroType) -> list[str]:
    """
    Return the reasons why data written with ``writer`` cannot always be read with ``reader``; empty if it can.

    :return: sentences, each with a path such as ``Order.lines[].price``.
    """
    try:
        return _Comparison().compare(reader, writer, reader.simple_name, 0)
    except _TooIntricateError as e:
        return [str(e)]


class _TooIntricateError(Exception):
    """The comparison was given up; its message says where."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: the schemas are too intricate to be compared")


@define
class _Comparison:
    """
    Compares two graphs of types.

    :ivar readable: pairs known to be readable, or assumed to be while they are compared (a recursive record is readable
        if the rest of it is); in the order in which they were met.
    """

    readable: dict[tuple[AvroType, AvroType], None] = field(factory=dict)
    steps: int = 0

    def compare(self, reader: AvroType, writer: AvroType, path: str, depth: int) -> list[str]:
        pair = (reader, writer)
        if pair in self.readable:
            return []
        self.steps += 1
        if depth > DEEPEST or self.steps > MOST_STEPS:
            raise _TooIntricateError(path)  # a mere reason would let the next million pairs be tried
        before = len(self.readable)
        self.readable[pair] = None
        wrong = self._compare(reader, writer, path, depth + 1)
        if wrong:
            # Pairs found readable since then may depend on the assumption about this one.
            for each in list(self.readable)[before:]:
                del self.readable[each]
        return wrong

    def _compare(self, reader: AvroType, writer: AvroType, path: str, depth: int) -> list[str]:
        if writer.kind == "union":
            return [wrong for branch in writer.branches for wrong in self.compare(reader, branch, path, depth)]
        if reader.kind == "union":
            return self._in_union(reader, writer, path, depth)
        if reader.kind != writer.kind:
            if reader.kind in PROMOTED.get(writer.kind, ()):
                return []
            return [f"{path}: {_type_text(writer)} is written, and cannot be read as {_type_text(reader)}"]
        if reader.kind in NAMED and not _same_name(reader, writer):
            return [f"{path}: {_type_text(writer)} is written, and the reader wants {_type_text(reader)}"]
        if reader.decimal is not None and writer.decimal is not None and reader.decimal != writer.decimal:
            return [f"{path}: {_decimal(writer)} is written, and the reader wants {_decimal(reader)}"]
        match reader.kind:
            case "record":
                return self._records(reader, writer, path, depth)
            case "enum":
                return _enums(reader, writer, path)
            case "fixed" if reader.size != writer.size:
                return [f"{path}: {writer.size} bytes are written, and the reader wants {reader.size}"]
            case "array" | "map":
                assert reader.element is not None and writer.element is not None
                below = path + ("[]" if reader.kind == "array" else "{}")
                return self.compare(reader.element, writer.element, below, depth)
        return []

    def _in_union(self, reader: AvroType, writer: AvroType, path: str, depth: int) -> list[str]:
        """Compare with the branch that readers take: that of the same name, else the first of the same kind."""
        close = [each for each in reader.branches if each.kind == writer.kind]
        exact = [each for each in close if each.name == writer.name]
        nearest: list[str] = []
        for branch in dict.fromkeys([*exact, *close, *reader.branches]):
            wrong = self.compare(branch, writer, path, depth)
            if not wrong:
                return []
            if branch in close and not nearest and (branch.kind not in NAMED or _same_name(branch, writer)):
                nearest = wrong
        if nearest:
            return nearest
        names = _few([_type_text(branch) for branch in reader.branches[: MOST_NAMES + 1]])
        return [f"{path}: {_type_text(writer)} is written, and the reader's union has only {names}"]

    def _records(self, reader: AvroType, writer: AvroType, path: str, depth: int) -> list[str]:
        written = {each.name: each for each in writer.fields}
        taken: dict[str, str] = {}
        wrong: list[str] = []
        for wanted in reader.fields:
            below = f"{path}.{wanted.name}"
            there = [name for name in dict.fromkeys((wanted.name, *wanted.aliases)) if name in written]
            claims = [taken.setdefault(name, wanted.name) for name in there]
            if len(there) > 1 or claims not in ([], [wanted.name]):
                # Readers differ in the field they take, and some fail.
                wrong.append(f"{below}: the names and aliases of the reader's fields leave open which is {there[0]!r}")
            elif there:
                wrong += self.compare(wanted.type, written[there[0]].type, below, depth)
            elif not wanted.has_default:
                wrong.append(f"{below}: the field is not written, and the reader has no default for it")
        return wrong


def _same_name(reader: AvroType, writer: AvroType) -> bool:
    return reader.simple_name == writer.simple_name or writer.name in reader.aliases


def _enums(reader: AvroType, writer: AvroType, path: str) -> list[str]:
    known = set(reader.symbols)
    missing = [each for each in writer.symbols if each not in known]
    if not missing or reader.default is not None:
        return []
    return [
        f"{path}: the symbols {_few(missing)} may be written, which the reader does not have, "
        "and it has no default symbol"
    ]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")


def _type_text(one: AvroType) -> str:
    return f"{one.kind} {one.name}" if one.name else f"'{one.kind}'"


def _decimal(one: AvroType) -> str:
    assert one.decimal is not None
    return f"decimal({one.decimal[0]}, {one.decimal[1]})"

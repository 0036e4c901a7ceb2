"""
How much work it is to compare schemas: it grows with their size, not with its square.

Who may register one schema could otherwise keep a processor busy for minutes with 200 KB.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logbus.registry import avro_compatibility, json_bounds, json_compatibility, protobuf_compatibility
from logbus.registry.avro_schema import AvroType
from logbus.registry.json_text import normal
from logbus.registry.parsed_schema import incompatibilities
from logbus.registry.protobuf_compiler import compiled
from logbus.registry.protobuf_text import proto_text
from tests.registry.test_avro_compatibility import avro, record
from tests.registry.test_json_compatibility import wrong

SMALL, LARGE = 50, 100


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python run, loops of comprehensions included."""
    count, before = 0, sys.gettrace()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class Counted(tuple[str, ...]):
    """Texts that count how often all of them are gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


class AvroTests(SynchronousTestCase):
    def test_enums(self) -> None:
        """A reader's symbols are gone through once, not for each of the writer's."""
        kind = avro({"type": "enum", "name": "E", "symbols": ["a", "b", "c"]}).meaning
        assert isinstance(kind, AvroType)
        symbols = Counted(kind.symbols)
        self.assertEqual(avro_compatibility.incompatibilities(evolve(kind, symbols=symbols), kind), [])
        self.assertEqual(symbols.times, 1)

    def unions(self, count: int) -> list[str]:
        def union(letter: str) -> Any:
            return avro(record(("u", [record(name=f"{letter}{each}") for each in range(count)])))

        return incompatibilities(union("A"), union("B"))

    def test_unions(self) -> None:
        """The branches of a large union are not all named for each of another's, and not all compared."""
        told = self.unions(20)
        self.assertEqual(len(told), 20)
        self.assertTrue(all("record A9, …" in each and "A10" not in each for each in told), told)
        (reason,) = self.unions(200)
        self.assertIn("too intricate", reason)


class JsonTests(SynchronousTestCase):
    def written(self, reader: Any, writer: Any) -> int:
        """How many characters of normal forms a comparison makes."""
        made: list[int] = []

        def counted(value: Any) -> str:
            text = normal(value)
            made.append(len(text))
            return text

        with (
            mock.patch.object(json_compatibility, "normal", counted),
            mock.patch.object(json_bounds, "normal", counted),
        ):
            wrong(reader, writer)
        return sum(made)

    def test_branches(self) -> None:
        """What a reader says is brought into its normal form once, not for each of the writer's branches."""

        def branches(count: int, kind: str) -> list[Any]:
            return [{"type": "object", "required": [f"p{each}"], "title": kind} for each in range(count)]

        def one_of(count: int) -> int:
            return self.written({"oneOf": branches(count, "a")}, {"oneOf": branches(count, "b")})

        def enum(count: int) -> int:
            return self.written({"enum": list(range(count))}, {"anyOf": [{"const": each} for each in range(count)]})

        for work in (one_of, enum):
            self.assertLess(work(LARGE), 3 * work(SMALL))

    def test_too_intricate(self) -> None:
        """What would take for ever to compare is given up, at once and with one reason."""

        def any_of(kind: str) -> Any:
            return {"anyOf": [{"type": "object", "properties": {f"p{each}": {"type": kind}}} for each in range(200)]}

        (told,) = wrong(any_of("string"), any_of("integer"))
        self.assertIn("too intricate", told)
        many = {f"x{each}": 1 for each in range(3000)}  # unknown keywords
        (told,) = wrong({**many, "type": "string"}, {"anyOf": [{"type": "integer", "title": "t"}] * 300})
        self.assertIn("too intricate", told)


class ProtobufTests(SynchronousTestCase):
    def check(self, text: Callable[[int], str]) -> None:
        """Check the work to compare a message with itself, and to write it as text."""
        by_size = {count: compiled(f'syntax = "proto3"; message M {{ {text(count)} }}', {}) for count in (SMALL, LARGE)}
        for work in (
            lambda files: protobuf_compatibility.incompatibilities(files, files),
            lambda files: proto_text(files[-1]),
        ):
            small, large = (lines_run(partial(work, by_size[count])) for count in (SMALL, LARGE))
            self.assertLess(large, 3 * small)

    def test_oneofs(self) -> None:
        """Many oneofs, and many fields of one."""
        self.check(lambda count: " ".join(f"oneof o{each} {{ int32 f{each} = {each + 1}; }}" for each in range(count)))
        self.check(lambda count: f"oneof o {{ {' '.join(f'int32 f{n} = {n + 1};' for n in range(count))} }}")

    def test_maps(self) -> None:
        """Each map has a message for its entries."""
        self.check(lambda count: " ".join(f"map<int32, string> f{n} = {n + 1};" for n in range(count)))

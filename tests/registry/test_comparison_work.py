"""
How much work it is to read and to compare schemas: it grows with their size, not with its square, and what is long is
read in a thread.

Who may register one schema could otherwise keep a processor busy for minutes with 200 KB.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logbus.registry import avro_compatibility, json_bounds, json_compatibility, parsed_schema, protobuf_compatibility
from logbus.registry.avro_schema import AvroType
from logbus.registry.json_text import loads, normal
from logbus.registry.limits import RegistryLimits
from logbus.registry.model import Reference, Schema
from logbus.registry.parsed_schema import INLINE_CHARACTERS, incompatibilities, read_schema
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


class ParseTests(SynchronousTestCase):
    def steps(self, text: str, schema_type: str, targets: dict[Reference, Schema]) -> list[int]:
        """Parse a schema; how many texts were read after each step that may run in a thread, and none before."""
        read, found = [0], []
        lookups = [0]

        def counted(text: str, depth: int) -> Any:
            read[0] += 1
            return loads(text, depth)

        def find(reference: Reference) -> Schema | None:
            lookups[0] += 1
            return targets.get(reference)

        with mock.patch.object(parsed_schema, "loads", counted):
            steps = read_schema(text, schema_type, tuple(targets), find, RegistryLimits())
            try:
                while (step := next(steps)) is not None:
                    self.assertEqual(read[0], 0)
                    before = lookups[0]
                    step()
                    self.assertEqual(lookups[0], before)
                    found.append(read[0])
            except StopIteration:
                pass
        return found

    def test_large_ones_in_a_thread(self) -> None:
        """What is long is read where it holds up nobody, and looks up nothing there; so is what it refers to."""
        word = "a" * INLINE_CHARACTERS
        for schema_type, small, long in (
            ("AVRO", '{"type": "enum", "name": "E", "symbols": ["a"]}', record(("x", "int"), doc=word)),
            ("JSON", '{"type": "string"}', {"type": "string", "title": word}),
        ):
            self.assertEqual(self.steps(small, schema_type, {}), [])
            self.assertEqual(self.steps(json.dumps(long), schema_type, {}), [1])
            target = Schema(json.dumps(long), "", schema_type)
            self.assertEqual(self.steps(small, schema_type, {Reference("r", "s", 1): target}), [2])


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

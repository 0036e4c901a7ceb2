"""Tests of :mod:`logbus.attrs_code`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, ModuleType
from typing import Any

import attr._make
import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus import attrs_code
from logbus.attrs_code import CodeFile, code_path, kept_attrs_code

HASHED_CLASSES = """
import sys
from pathlib import Path

import attrs

from logbus.attrs_code import kept_attrs_code

with kept_attrs_code(lambda: Path(sys.argv[1])):

    @attrs.frozen
    class Point:
        x: int

    @attrs.frozen(cache_hash=True)
    class Line:
        start: Point
        end: Point

assert len({Point(1), Point(1), Point(2), Line(Point(1), Point(2)), Line(Point(1), Point(2))}) == 3
"""
"""Declares classes that have ``__hash__``, given the path of the file."""


def value(code: CodeType) -> Any:
    """What a program that was compiled sets ``x`` to."""
    names: dict[str, Any] = {}
    exec(code, names)
    return names["x"]


class CodeFileCase(SynchronousTestCase):
    """A file, written also where Python is told not to write bytecode."""

    def setUp(self) -> None:
        self.path = Path(self.enterContext(TemporaryDirectory())) / "below" / "code"
        self.patch(sys, "dont_write_bytecode", False)

    @contextmanager
    def file(self) -> Iterator[CodeFile]:
        """The file, read before and written afterwards."""
        file = CodeFile(self.path)
        yield file
        file.close()

    def compiled(self, *sources: str) -> int:
        """Compile programs by the file; the number that were not in it."""
        with self.file() as file:
            for source in sources:
                self.assertEqual(value(file.compile(source, "<x>", "exec")), value(compile(source, "<x>", "exec")))
            return len(file.added)


class CodeFileTests(CodeFileCase):
    """Code in a file."""

    def test_kept(self) -> None:
        """Compiled once; then taken from the file, beside what is new."""
        self.assertEqual(self.compiled("x = 1", "x = 2"), 2)
        self.assertEqual(self.compiled("x = 1", "x = 2"), 0)
        self.assertEqual(self.compiled("x = 3", "x = 2"), 1)
        self.assertEqual(self.compiled("x = 3", "x = 2", "x = 1"), 0)

    def test_names(self) -> None:
        """Code has the name of its file, which tracebacks show."""
        for name in ("<a>", "<b>", "<a>"):
            with self.file() as file:
                self.assertEqual(file.compile("x = 1", name, "exec").co_filename, name)

    def test_other_uses_of_compile(self) -> None:
        """Anything else is compiled as ever."""
        with self.file() as file:
            self.assertEqual(eval(file.compile("1 + 1", "<x>", "eval")), 2)
            self.assertEqual(value(file.compile(b"x = 1", "<x>", "exec")), 1)
            self.assertEqual(value(file.compile("x = 1", "<x>", "exec", dont_inherit=True)), 1)
            self.assertRaises(SyntaxError, file.compile, "x = ", "<x>", "exec")
            self.assertEqual(file.added, {})

    def test_too_many(self) -> None:
        """What is not used is dropped when there is too much."""
        self.patch(attrs_code, "MAX_ENTRIES", 3)
        self.assertEqual(self.compiled("x = 0", "x = 1"), 2)
        self.assertEqual(self.compiled("x = 2"), 1)
        self.assertEqual(self.compiled("x = 0"), 0)
        self.assertEqual(self.compiled("x = 0", "x = -1"), 1)
        self.assertEqual(self.compiled("x = 0", "x = -1"), 0)
        self.assertEqual(self.compiled("x = 1"), 1)

    @given(st.integers(0, 200), st.binary(max_size=40))
    def test_damaged(self, at: int, damage: bytes) -> None:
        """A file that is cut short is none, nor is one of something else; the next one is whole again."""
        self.compiled("x = 1", "x = 2")
        whole = self.path.read_bytes()
        for bad in (whole[:at], damage, damage + whole, whole[:4] + damage):
            self.path.write_bytes(bad)
            self.compiled("x = 1", "x = 2")
            self.assertEqual(self.compiled("x = 1", "x = 2"), 0)

    def test_not_writable(self) -> None:
        """Where it cannot be written, all is compiled each time."""
        self.path.mkdir(parents=True)
        for _ in range(2):
            self.assertEqual(self.compiled("x = 1"), 1)
        self.assertEqual(list(self.path.parent.iterdir()), [self.path])

    def test_not_wanted(self) -> None:
        """Where Python must not write bytecode, this is not written either."""
        self.patch(sys, "dont_write_bytecode", True)
        self.compiled("x = 1")
        self.assertFalse(self.path.exists())


class KeptAttrsCodeTests(CodeFileCase):
    """The methods of attrs classes."""

    def make(self) -> Any:
        """A class that is declared within the context."""
        with kept_attrs_code(lambda: self.path):

            @attrs.frozen
            class Point:
                x: int
                y: list[int] = attrs.field(factory=list)

        return Point

    def test_same_class(self) -> None:
        """A class from the file is like one that was compiled."""
        first = self.make()
        written = self.path.stat()
        self.assertGreater(written.st_size, 500)
        second = self.make()
        self.assertEqual(self.path.stat().st_mtime_ns, written.st_mtime_ns)
        for cls in (first, second):
            self.assertEqual(cls(1), cls(x=1, y=[]))
            self.assertNotEqual(cls(1), cls(2))
            self.assertIn("Point(x=1, y=[])", repr(cls(1)))
            self.assertRaises(attrs.exceptions.FrozenInstanceError, setattr, cls(1), "x", 2)
            self.assertRaises(TypeError, cls)
        self.assertEqual(first.__init__.__code__, second.__init__.__code__)

    def test_another_process(self) -> None:
        """Two processes hash names by different numbers, and the second compiles nothing."""
        written = [self.written_by_process(seed) for seed in ("1", "2")]
        self.assertEqual(written[0], written[1])

    def written_by_process(self, seed: str) -> tuple[int, int]:
        """What identifies the file after a process that declares classes."""
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run([sys.executable, "-c", HASHED_CLASSES, str(self.path)], env=environment, check=True)
        status = self.path.stat()
        return status.st_ino, status.st_mtime_ns

    def test_afterwards(self) -> None:
        """attrs compiles by itself afterwards, also if the context ended by an error."""
        self.make()
        self.assertNotIn("compile", vars(attr._make))
        with self.assertRaises(ZeroDivisionError), kept_attrs_code(lambda: self.path):
            _ = 1 / 0
        self.assertNotIn("compile", vars(attr._make))

    def test_nested(self) -> None:
        """Only the outer context matters."""
        with kept_attrs_code(lambda: self.path):
            self.make()
            self.assertIn("compile", vars(attr._make))

    def test_ended_by_another_thread(self) -> None:
        """A context that another thread's has ended, too, ends without an error."""
        with kept_attrs_code(lambda: self.path):
            del vars(attr._make)["compile"]
        self.assertNotIn("compile", vars(attr._make))

    def test_another_attrs(self) -> None:
        """Where attrs does not compile by itself, nothing happens."""
        module = ModuleType("make")
        with kept_attrs_code(lambda: self.path, module):
            pass
        self.assertFalse(self.path.exists())

    def test_path(self) -> None:
        """The file lies beside bytecode, and belongs to this version of Python."""
        self.assertIn(str(sys.implementation.cache_tag), code_path().name)

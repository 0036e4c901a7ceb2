"""Builds and compiles the source of Python functions: indentation, temporaries, constants."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

from attrs import define, field

ELEMENTS_PER_STEP = 64
"""Array elements that an incremental encoder or decoder handles between two yields: about 0.1 ms of work."""


@define
class FunctionSource:
    """
    The source of one function under construction, with the objects that its global names refer to.

    :ivar is_incremental: it is a generator, which yields after every :data:`ELEMENTS_PER_STEP` elements.

    Every temporary has a number of its own, so that nested loops and tag buffers never share one.
    """

    names: dict[str, Any]
    is_incremental: bool
    lines: list[str] = field(factory=list)
    _depth: int = 0
    _count: int = 0
    _by_value: dict[tuple[str, object], str] = field(factory=dict)

    def line(self, text: str) -> None:
        """Add one line at the current depth."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Add ``opening``, and indent the lines added within."""
        self.line(opening)
        before = len(self.lines)
        self._depth += 1
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    def step(self, before: str = "") -> None:
        """
        Add the end of an array element: yield, if the function is incremental and has handled enough elements since it
        last did.

        :param before: lines to add before the yield.
        """
        if not self.is_incremental:
            return
        self.line("left -= 1")
        with self.block("if not left:"):
            if before:
                self.line(before)
            self.line("yield")
            self.line(f"left = {ELEMENTS_PER_STEP}")

    def temporary(self, hint: str) -> str:
        """A local name not used before."""
        self._count += 1
        return f"{hint}{self._count}"

    def constant(self, hint: str, value: object, key: object) -> str:
        """A global name for ``value``; the same one for equal ``(hint, key)``."""
        known = self._by_value.get((hint, key))
        if known is None:
            known = self._by_value[hint, key] = f"{hint}_{len(self._by_value)}"
            self.names[known] = value
        return known

    def struct(self, codes: list[str], method: str) -> str:
        """A global name for ``pack`` or ``unpack_from`` of the big-endian struct with these formats."""
        packing = Struct(">" + "".join(codes))
        return self.constant(method, getattr(packing, method), packing.format)

    def literal(self, value: object) -> str:
        """An expression for a default value."""
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return repr(value)
        return self.constant("default", value, id(value))

    def compile(self, name: str, title: str) -> Callable[..., Any]:
        """
        Compile the source, and return its function ``name``. Tracebacks show the generated lines, under ``title``.
        """
        text = "\n".join(self.lines) + "\n"
        filename = f"<logbus.wire: {title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        exec(compile(text, filename, "exec"), self.names)
        function: Callable[..., Any] = self.names[name]
        return function

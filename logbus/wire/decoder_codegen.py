"""
Generates decoders: one function for one version of one message, nested structs inlined.

Fields of fixed size are merged into one ``unpack_from``, together with the first byte (compact) or the whole (plain) of
the length that follows. Slots are assigned without calling ``__init__``. The end of a string or records field may lie
beyond the buffer: a later read, or the check at the very end, detects that. **That last check must stay.**
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from struct import error as struct_error
from typing import Any

from attrs import define, field

from logbus.wire import decoder_runtime
from logbus.wire.codegen import ELEMENTS_PER_STEP, FunctionSource
from logbus.wire.declaration import MessageSpec
from logbus.wire.element_budget import REQUEST_ELEMENTS, RESPONSE_ELEMENTS, element_budget
from logbus.wire.layout import Array, FieldLayout, StructLayout, message_layout
from logbus.wire.wire_types import BYTES, FORMAT_SIZES, RECORDS, STRING, WireType


@cache
def generate_decoder(spec: MessageSpec, version: int, *, incremental: bool = False) -> Callable[..., Any]:
    """
    Compile ``decode(buf, pos=0, budget=None) -> (message, pos)`` for one version of a message.

    :param incremental: compile a generator instead, which yields after every :data:`ELEMENTS_PER_STEP` elements and
        returns the same.
    :raises SchemaError: the message has no such version, or its declaration makes no sense.
    """
    layout = message_layout(spec, version)
    title = f"{spec.cls.__name__} v{version}"
    limit = RESPONSE_ELEMENTS if spec.kind == "response" else REQUEST_ELEMENTS
    names = vars(decoder_runtime) | {
        "new": object.__new__,
        "element_budget": element_budget,
        "struct_error": struct_error,
    }
    source = FunctionSource(names, incremental)
    with source.block("def decode(buf, pos=0, budget=None):"):
        if incremental:
            source.line(f"left = {ELEMENTS_PER_STEP}")
            source.line("yield")
        source.line("size = len(buf)")
        with source.block("if budget is None:"):
            source.line(f"budget = element_budget(size - pos, {limit})")
        with source.block("try:"):
            preamble = len(source.lines)
            body = _Body(source)
            result = body.struct(layout)
            body.flush()
            if body.views:
                indent = " " * (len(source.lines[preamble]) - len(source.lines[preamble].lstrip()))
                source.lines.insert(preamble, indent + "view = memoryview(buf)")
        with source.block("except (IndexError, struct_error):"):
            source.line(f"raise cut_short({title!r}, size) from None")
        with source.block("except UnicodeDecodeError as e:"):
            source.line(f"raise not_utf8({title!r}, e) from None")
        with source.block("if pos > size:"):
            source.line(f"raise cut_short({title!r}, size)")
        source.line(f"return {result}, pos")
    return source.compile("decode", f"decode {title}{' incrementally' if incremental else ''}")


@define
class _Body:
    """The part of a decoder between ``try`` and ``except``. ``_run`` holds (format, target) pairs not yet unpacked."""

    _source: FunctionSource
    _run: list[tuple[str, str]] = field(factory=list)
    views: bool = False

    def struct(self, layout: StructLayout) -> str:
        """Read a struct; its last fields may still be in the run. Returns the name that holds it."""
        source = self._source
        me = source.temporary("o")
        source.line(f"{me} = new({source.constant(layout.cls.__name__, layout.cls, layout.cls)})")
        self._defaults(me, layout)
        for each in layout.fields:
            self._field(each, f"{me}.{each.name}", layout)
        if layout.flexible:
            self._tags(me, layout)
        return me

    def flush(self) -> None:
        """Unpack the run."""
        source = self._source
        if not self._run:
            return
        codes = [code for code, _ in self._run]
        targets = [target for _, target in self._run]
        self._run.clear()
        if codes == ["B"]:
            source.line(f"{targets[0]} = buf[pos]")
            source.line("pos += 1")
            return
        unpack = source.struct(codes, "unpack_from")
        source.line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(buf, pos)")
        source.line(f"pos += {sum(FORMAT_SIZES[code] for code in codes)}")

    def _defaults(self, me: str, layout: StructLayout) -> None:
        """Set fields that this version lacks, and defaults of tagged fields."""
        equal: dict[str, list[str]] = {}
        for each in (*layout.absent, *layout.tagged):
            if each.spec.factory is list:
                self._source.line(f"{me}.{each.name} = []")
            elif each.spec.factory is not None:
                make = self._source.constant("make", each.spec.factory, id(each.spec.factory))
                self._source.line(f"{me}.{each.name} = {make}()")
            else:
                equal.setdefault(self._source.literal(each.spec.default), []).append(f"{me}.{each.name}")
        for value, targets in equal.items():
            self._source.line(f"{' = '.join(targets)} = {value}")

    def _field(self, each: FieldLayout, target: str, layout: StructLayout) -> None:
        shape = each.shape
        if isinstance(shape, Array):
            self._array(each, shape, target, layout)
        elif isinstance(shape, WireType):
            self._primitive(shape, str(each), target, each.nullable, layout.flexible)
        elif each.marked:
            mark = self._source.temporary("n")
            self._run.append(("b", mark))
            self.flush()
            # In the tag section it is an unsigned varint, as a length would be: 0 for null.
            with self._source.block(f"if {mark} < 0:" if each.spec.tag is None else f"if not {mark}:"):
                self._source.line(f"{target} = None")
            with self._source.block("else:"):
                inner = self.struct(layout.nested(shape))
                self.flush()
                self._source.line(f"{target} = {inner}")
        else:
            inner = self.struct(layout.nested(shape))
            self._source.line(f"{target} = {inner}")

    def _primitive(self, type: WireType, name: str, target: str, nullable: bool, compact: bool) -> None:
        if type.code:
            self._run.append((type.code, target))
            return
        source = self._source
        n = self._length(compact, "h" if type == STRING else "i")
        if compact and type == STRING and not nullable:
            with source.block(f"if not 0 < {n} < 128:"):
                source.line(f"{n}, pos = read_string_length(buf, pos, {n}, {name!r})")
            self._contents(type, n, compact, target)
            return
        if compact:
            with source.block(f"if {n} > 127:"):
                source.line(f"{n}, pos = read_rest(buf, pos, {n})")
                if type == STRING:
                    with source.block(f"if {n} > {decoder_runtime.MAX_STRING_LENGTH + 1}:"):
                        source.line(f"raise string_too_long({name!r}, {n} - 1)")
        with self._unless_null(n, compact, name, target, nullable):
            self._contents(type, n, compact, target)

    def _contents(self, type: WireType, n: str, compact: bool, target: str) -> None:
        """Read the bytes of a string, bytes or records field."""
        source = self._source
        end = source.temporary("e")
        source.line(f"{end} = pos + {n} - 1" if compact else f"{end} = pos + {n}")
        if type == RECORDS:
            self.views = True
            source.line(f"{target} = view[pos:{end}]")
        elif type == BYTES:
            source.line(f"{target} = bytes(buf[pos:{end}])")
        else:
            source.line(f"{target} = str(buf[pos:{end}], 'utf-8')")
        source.line(f"pos = {end}")

    def _length(self, compact: bool, code: str) -> str:
        """Read a length, or its first byte, with the run before it. Returns the name that holds it."""
        n = self._source.temporary("n")
        self._run.append(("B" if compact else code, n))
        self.flush()
        return n

    @contextmanager
    def _unless_null(self, n: str, compact: bool, name: str, target: str, nullable: bool) -> Iterator[None]:
        """Handle null; the lines added within are for other lengths."""
        source = self._source
        with source.block(f"if {n} == 0:" if compact else f"if {n} < 0:"):
            refusal = f"raise unexpected_null({name!r})" if compact else f"raise negative_length({name!r}, {n})"
            if not compact and nullable:
                with source.block(f"if {n} != -1:"):
                    source.line(refusal)
            source.line(f"{target} = None" if nullable else refusal)
        with source.block("else:") if nullable else nullcontext():
            yield

    def _array(self, each: FieldLayout, shape: Array, target: str, layout: StructLayout) -> None:
        source = self._source
        name = str(each)
        n = self._length(layout.flexible, "i")
        if layout.flexible:
            with source.block(f"if {n} > 127:"):
                source.line(f"{n}, pos = read_rest(buf, pos, {n})")
        with self._unless_null(n, layout.flexible, name, target, each.nullable):
            self._elements(shape, name, n, target, layout)

    def _elements(self, shape: Array, name: str, n: str, target: str, layout: StructLayout) -> None:
        source = self._source
        if layout.flexible:
            source.line(f"{n} -= 1")
        with source.block(f"if {n} > budget:"):
            source.line(f"raise over_budget({name!r}, {n}, budget)")
        source.line(f"budget -= {n}")
        element = shape.element
        if isinstance(element, WireType) and element.code and element.code != "16s":
            source.line(f"{target}, pos = read_numbers(buf, pos, {n}, {element.code!r})")
            return
        items = source.temporary("v")
        source.line(f"{target} = {items} = []")
        with source.block(f"for _ in range({n}):"):
            if isinstance(element, WireType):
                item = source.temporary("s")
                self._primitive(element, name, item, False, layout.flexible)
            else:
                item = self.struct(layout.nested(element))
            self.flush()
            source.line(f"{items}.append({item})")
            source.step()

    def _tags(self, me: str, layout: StructLayout) -> None:
        """Read the tag section; its count comes with the run before it."""
        source = self._source
        n = self._length(True, "")
        struct = layout.cls.__name__
        if not layout.tagged:
            with source.block(f"if {n}:"):
                source.line(f"pos, budget = skip_tags(buf, pos, {n}, budget, {struct!r})")
            return
        tag, last, end = source.temporary("t"), source.temporary("l"), source.temporary("e")
        with source.block(f"if {n}:"):
            with source.block(f"if {n} > 127:"):
                source.line(f"{n}, pos = read_rest(buf, pos, {n})")
            with source.block(f"if {n} > budget:"):
                source.line(f"raise over_budget({struct!r}, {n}, budget)")
            source.line(f"budget -= {n}")
            source.line(f"{last} = -1")
            with source.block(f"for _ in range({n}):"):
                for name in (tag, end):
                    source.line(f"{name} = buf[pos]")
                    source.line("pos += 1")
                    with source.block(f"if {name} > 127:"):
                        source.line(f"{name}, pos = read_rest(buf, pos, {name})")
                source.line(f"{end} += pos")
                with source.block(f"if {tag} <= {last}:"):
                    source.line(f"raise tag_order({struct!r}, {tag}, {last})")
                source.line(f"{last} = {tag}")
                for index, each in enumerate(layout.tagged):
                    with source.block(f"{'el' if index else ''}if {tag} == {each.spec.tag}:"):
                        self._field(each, f"{me}.{each.name}", layout)
                        self.flush()
                        with source.block(f"if pos != {end}:"):
                            source.line(f"raise tag_size({str(each)!r}, pos, {end})")
                with source.block("else:"):
                    source.line(f"pos = {end}")

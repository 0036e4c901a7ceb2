"""
Generates encoders: one function for one version of one message, nested structs inlined.

Fields of fixed size are merged into one ``pack``, with the length that follows if it fits. Packed bytes go to a list
that is joined once; only slices of files remain separate parts. A tag section is encoded before the run that it ends,
so that the number of its tags can be packed with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from struct import error as struct_error
from typing import Any

from attrs import define, field

from logbus.wire import encoder_runtime
from logbus.wire.codegen import ELEMENTS_PER_STEP, FunctionSource
from logbus.wire.declaration import MessageSpec
from logbus.wire.encode_diagnosis import diagnose
from logbus.wire.layout import Array, FieldLayout, StructLayout, message_layout
from logbus.wire.wire_types import RECORDS, STRING, UUID, WireType

#: What an incremental encoder does with its parts before it yields: there would be too many to join in the end.
_SET_ASIDE = "done += join_bytes(out); out.clear()"

NULL_STRUCT, NULL_TAGGED_STRUCT = b"\xff", b"\0"


@cache
def generate_encoder(spec: MessageSpec, version: int, *, incremental: bool = False) -> Callable[..., Any]:
    """
    Compile ``encode(message) -> parts`` for one version of a message.

    :param incremental: compile a generator instead, which yields after every :data:`ELEMENTS_PER_STEP` elements and
        returns the same.
    :raises SchemaError: the message has no such version, or its declaration makes no sense.
    """
    layout = message_layout(spec, version)
    names = vars(encoder_runtime) | {"refuse": diagnose, "layout": layout, "struct_error": struct_error}
    source = FunctionSource(names, incremental)
    with source.block("def encode(o):"):
        if incremental:
            source.line(f"left = {ELEMENTS_PER_STEP}")
            source.line("done = []")
            source.line("yield")
        source.line("out = []")
        source.line("put = out.append")
        with source.block("try:"):
            start = len(source.lines)
            body = _Body(source)
            body.struct("o", layout)
            body.flush()
            if incremental:
                source.line(_SET_ASIDE)
                source.line("out = done")
            if body.has_records:
                source.lines.insert(start, source.lines[start - 1].replace("try:", "    sliced = False"))
                with source.block("if sliced:"):
                    source.line("return join_bytes(out)")
            source.line("return [b''.join(out)]")
        with source.block("except (struct_error, TypeError, AttributeError, ValueError) as e:"):
            source.line("raise refuse(o, layout, e) from e")
    title = f"encode {spec.cls.__name__} v{version}{' incrementally' if incremental else ''}"
    return source.compile("encode", title)


@define
class _Body:
    """
    The part of an encoder between ``try`` and ``except``.

    ``_run`` holds (format, expression) pairs not yet packed; ``_put`` is what appends to the list in use.
    """

    _source: FunctionSource
    _run: list[tuple[str, str]] = field(factory=list)
    _put: str = "put"
    has_records: bool = False

    def struct(self, me: str, layout: StructLayout) -> None:
        """Write the struct in the name ``me``; its last fields may still be in the run."""
        for each in layout.absent:
            if not each.spec.ignorable:
                self._refuse_unless_default(each, f"{me}.{each.name}")
        for each in layout.fields:
            self._field(each, f"{me}.{each.name}", layout)
        if layout.flexible:
            self._tags(me, layout)

    def flush(self) -> None:
        """Pack the run."""
        if self._run:
            self._source.line(f"{self._put}({self._packed()})")

    def _packed(self) -> str:
        """An expression for the run, which is emptied."""
        codes = [code for code, _ in self._run]
        values = [value for code, value in self._run if code != "x"]
        self._run.clear()
        if not values:
            return repr(bytes(len(codes)))
        if codes == ["B"]:
            return f"BYTES[{values[0]}]"
        return f"{self._source.struct(codes, 'pack')}({', '.join(values)})"

    def _refuse_unless_default(self, each: FieldLayout, value: str) -> None:
        if each.spec.factory is list:
            condition = value
        elif each.spec.default is None:
            condition = f"{value} is not None"
        else:
            condition = f"{value} != {self._source.literal(each.spec.make_default())}"
        with self._source.block(f"if {condition}:"):
            self._source.line(f"raise ValueError({f'{each} is not in this version'!r})")

    def _field(self, each: FieldLayout, value: str, layout: StructLayout) -> None:
        shape = each.shape
        source = self._source
        if isinstance(shape, Array):
            self._array(each, shape, value, layout)
        elif isinstance(shape, WireType):
            self._primitive(shape, value, each.nullable, layout.flexible)
        else:
            inner = source.temporary("o")
            source.line(f"{inner} = {value}")
            if not each.marked:
                self.struct(inner, layout.nested(shape))
                return
            self.flush()
            with source.block(f"if {inner} is None:"):
                # In the tag section it is an unsigned varint, as a length would be.
                source.line(f"{self._put}({(NULL_STRUCT if each.spec.tag is None else NULL_TAGGED_STRUCT)!r})")
            with source.block("else:"):
                self._run.append(("b", "1"))
                self.struct(inner, layout.nested(shape))
                self.flush()

    def _primitive(self, type: WireType, value: str, nullable: bool, compact: bool) -> None:
        source = self._source
        if type == UUID:
            taken = source.temporary("u")
            source.line(f"{taken} = {value}")
            with source.block(f"if len({taken}) != 16:"):
                source.line("raise ValueError('a UUID has 16 bytes')")
            self._run.append((type.code, taken))
        elif type.code:
            self._run.append((type.code, value))
        elif type == RECORDS:
            self._records(value, nullable, compact)
        else:
            self._string(type, value, nullable, compact)

    def _string(self, type: WireType, value: str, nullable: bool, compact: bool) -> None:
        source = self._source
        content, n = source.temporary("s"), source.temporary("n")
        encode = ".encode()" if type == STRING else ""
        source.line(f"{content} = {value}{'' if nullable else encode}")
        with self._unless_null(content, "b''", n, nullable, compact):
            if nullable and encode:
                source.line(f"{content} = {content}{encode}")
            source.line(f"{n} = len({content}){' + 1' if compact else ''}")
        self._length(n, compact, "h" if type == STRING else "i", "string_length" if type == STRING else "uvarint")
        source.line(f"{self._put}({content})")

    def _records(self, value: str, nullable: bool, compact: bool) -> None:
        source = self._source
        self.has_records = True
        content, n = source.temporary("r"), source.temporary("n")
        source.line(f"{content} = {value}")
        one = " + 1" if compact else ""
        with self._unless_null(content, "b''", n, nullable, compact):
            with source.block(f"if {content}.__class__ is list:"):
                source.line(f"{n} = sum(map(len, {content})){one}")
            with source.block("else:"):
                source.line(f"{n} = len({content}){one}")
        self._length(n, compact, "i", "uvarint")
        with source.block(f"if {content}.__class__ is bytes or {content}.__class__ is memoryview:"):
            source.line(f"put({content})")
        with source.block(f"elif put_records(out, {content}):"):
            source.line("sliced = True")

    @contextmanager
    def _unless_null(self, value: str, empty: str, n: str, nullable: bool, compact: bool) -> Iterator[None]:
        """Spell null as an empty value with a length of its own; the lines added within are for other values."""
        source = self._source
        if nullable:
            with source.block(f"if {value} is None:"):
                source.line(f"{value} = {empty}")
                source.line(f"{n} = {0 if compact else -1}")
        with source.block("else:") if nullable else nullcontext():
            yield

    def _length(self, n: str, compact: bool, code: str, long: str) -> None:
        """Write a length with the run before it. A compact one in ``n`` is one more than the length, 0 for null."""
        source = self._source
        if not compact:
            self._run.append((code, n))
            self.flush()
            return
        before = list(self._run)
        self._run.append(("B", n))
        short = self._packed()
        self._run.extend(before)
        far = f"{self._packed()} + {long}({n})" if before else f"{long}({n})"
        source.line(f"{self._put}({short} if {n} < 128 else {far})")

    def _array(self, each: FieldLayout, shape: Array, value: str, layout: StructLayout) -> None:
        source = self._source
        items, n = source.temporary("v"), source.temporary("n")
        source.line(f"{items} = {value}")
        with self._unless_null(items, "()", n, each.nullable, layout.flexible):
            source.line(f"{n} = len({items}){' + 1' if layout.flexible else ''}")
        self._length(n, layout.flexible, "i", "uvarint")
        element = shape.element
        if isinstance(element, WireType) and element.code and element.code != "16s":
            source.line(f"{self._put}(numbers({items}, {element.code!r}))")
            return
        item = source.temporary("o")
        with source.block(f"for {item} in {items}:"):
            if isinstance(element, WireType):
                self._primitive(element, item, False, layout.flexible)
            else:
                self.struct(item, layout.nested(element))
            self.flush()
            source.step(_SET_ASIDE)

    def _tags(self, me: str, layout: StructLayout) -> None:
        """Write the tag section; the number of its tags is left in the run, or packed if the tags had to follow."""
        if not layout.tagged:
            self._run.append(("x", ""))
            return
        source = self._source
        count, spelt = source.temporary("t"), source.temporary("g")
        source.line(f"{count} = 0")
        source.line(f"{spelt} = b''")
        for each in layout.tagged:
            value = source.temporary("w")
            source.line(f"{value} = {me}.{each.name}")
            with source.block(f"if {self._differs(each, value)}:"):
                self._tag(each, value, count, spelt, layout)
        self._run.append(("B", count))
        self.flush()
        with source.block(f"if {count}:"):
            source.line(f"{self._put}({spelt})")

    def _tag(self, each: FieldLayout, value: str, count: str, spelt: str, layout: StructLayout) -> None:
        source = self._source
        run, put = self._run, self._put
        pieces = source.temporary("c")
        self._run, self._put = [], source.temporary("put")
        source.line(f"{pieces} = []")
        source.line(f"{self._put} = {pieces}.append")
        self._field(each, value, layout)
        self.flush()
        source.line(f"{pieces} = b''.join({pieces})")
        source.line(f"{count} += 1")
        source.line(f"{spelt} += {encoder_runtime.uvarint(each.spec.tag or 0)!r} + uvarint(len({pieces})) + {pieces}")
        self._run, self._put = run, put

    def _differs(self, each: FieldLayout, value: str) -> str:
        """A condition: the field differs from its default."""
        if each.spec.factory is list:
            return value
        if each.spec.factory is not None:
            return f"{value} != {self._source.constant('default', each.spec.factory(), each.spec.factory)}"
        if each.spec.default is not None:
            return f"{value} != {self._source.literal(each.spec.make_default())}"
        condition = f"{value} is not None"
        if isinstance(each.shape, type) and not each.marked:
            # A struct equal to its own default is the same as an absent tag.
            condition += f" and {value} != {self._source.constant('default', each.shape(), each.shape)}"
        return condition

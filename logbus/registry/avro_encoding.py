"""
JSON as Avro values: the other way of :mod:`~logbus.registry.avro_values` ("Binary Encoding" in
avro.apache.org/docs/1.12.0/specification).

A value of a union is written as it is read: plain, as the first branch that it fits.  Where none does, an object with
one member names the branch, as in the specification's own JSON: ``{"string": "a"}``. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from logbus.registry.avro_schema import RANGES, AvroType
from logbus.registry.avro_values import DEEPEST

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_LATER = {"bytes": 1, "fixed": 1, "float": 1}
"""Branches that are tried after the others: text is text before it is hexadecimal, and a double loses no digits."""


def encode_value(value: Any, schema: AvroType) -> bytes:
    """
    Encode a value of JSON: decimals are text or numbers, other bytes hexadecimal text.

    :raise ValueError: it is no value of the schema; the message says where.
    """
    out = bytearray()
    _encode(value, schema, "it", 0, out)
    return bytes(out)


def _encode(value: Any, wanted: AvroType, where: str, depth: int, out: bytearray) -> None:
    if depth > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    match wanted.kind, value:
        case "union", _:
            _put_branch(value, wanted, where, depth, out)
        case "null", None:
            pass
        case "boolean", bool():
            out.append(value)
        case _, bool():
            raise _unfit(value, wanted, where)
        case (("int" | "long"), int()) if _is_within(value, RANGES[wanted.kind]):
            _put_long(value, out)
        case (("float" | "double"), (int() | float() | str())):
            out += _number(value, wanted, where)
        case "string", str():
            _put_bytes(_utf_8(value, where), out)
        case (("bytes" | "fixed"), (str() | int() | float())):
            _put_binary(value, wanted, where, out)
        case "enum", str() if value in wanted.symbols:
            _put_long(wanted.symbols.index(value), out)
        case "array", list():
            _put_items([("", each) for each in value], wanted, where, depth, out)
        case "map", dict():
            _put_items(list(value.items()), wanted, where, depth, out)
        case (("record" | "error"), dict()):
            _put_fields(value, wanted, where, depth, out)
        case _:
            raise _unfit(value, wanted, where)


def _is_within(value: int, bound: int) -> bool:
    return -bound <= value < bound


def _put_long(value: int, out: bytearray) -> None:
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _put_bytes(data: bytes, out: bytearray) -> None:
    _put_long(len(data), out)
    out += data


def _utf_8(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where} has half of a surrogate pair, which is no character") from None


def _number(value: float | str, wanted: AvroType, where: str) -> bytes:
    if isinstance(value, str) and value not in ("nan", "inf", "-inf"):
        raise _unfit(value, wanted, where)
    try:
        return (_FLOAT if wanted.kind == "float" else _DOUBLE).pack(float(value))
    except OverflowError:
        raise _unfit(value, wanted, where) from None


def _put_binary(value: float | str, wanted: AvroType, where: str, out: bytearray) -> None:
    data = _decimal(value, wanted, where) if wanted.decimal is not None else _hexadecimal(value, wanted, where)
    if wanted.kind == "bytes":
        _put_bytes(data, out)
        return
    if wanted.decimal is not None:
        data = data.rjust(wanted.size, b"\xff" if data[0] > 0x7F else b"\0")
    if len(data) != wanted.size:
        raise ValueError(f"{where} has {len(data)} bytes; {_named(wanted)} has {wanted.size}")
    out += data


def _hexadecimal(value: float | str, wanted: AvroType, where: str) -> bytes:
    try:
        return bytes.fromhex(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise _unfit(value, wanted, where) from None


def _decimal(value: float | str, wanted: AvroType, where: str) -> bytes:
    assert wanted.decimal is not None
    precision, scale = wanted.decimal
    exact = Context(prec=max(precision, 1), traps=[InvalidOperation])
    try:
        unscaled = int(Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=exact).scaleb(scale, exact))
        if Decimal(unscaled).scaleb(-scale, exact) != Decimal(str(value)):
            raise InvalidOperation
    except (InvalidOperation, ValueError, OverflowError):
        raise ValueError(
            f"{where} is {_shown(value)}, no decimal of {precision} digits, {scale} of them behind the point"
        ) from None
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


def _put_branch(value: Any, wanted: AvroType, where: str, depth: int, out: bytearray) -> None:
    order = sorted(range(len(wanted.branches)), key=lambda i: _LATER.get(wanted.branches[i].kind, 0))
    tries = [(value, i) for i in order]
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        tries += [(inner, i) for i in order if name in (wanted.branches[i].name, wanted.branches[i].kind)]
    problem = None
    for each, i in tries:
        branch = bytearray()
        try:
            _encode(each, wanted.branches[i], where, depth + 1, branch)
        except ValueError as e:
            # Of an object the record's own error says more than that it fits no branch.
            problem = problem or (e if isinstance(each, dict) and wanted.branches[i].fields else None)
            continue
        _put_long(i, out)
        out += branch
        return
    raise problem or _unfit(value, wanted, where)


def _put_items(items: list[tuple[str, Any]], wanted: AvroType, where: str, depth: int, out: bytearray) -> None:
    assert wanted.element is not None
    if items:
        _put_long(len(items), out)
        for number, (key, each) in enumerate(items):
            if wanted.kind == "map":
                _put_bytes(_utf_8(key, f"a key of {where}"), out)
            _encode(each, wanted.element, f"{where}[{key or number!r}]", depth + 1, out)
    _put_long(0, out)


def _put_fields(value: Mapping[str, Any], wanted: AvroType, where: str, depth: int, out: bytearray) -> None:
    names = [each.name for each in wanted.fields]
    if missing := [name for name in names if name not in value]:
        raise ValueError(f"{where} has no {missing[0]!r}, a field of {wanted.name}")
    if len(value) > len(names):
        unknown = next(name for name in value if name not in names)
        raise ValueError(f"{where} has {unknown!r}, no field of {wanted.name}: it has {', '.join(names)}")
    for each in wanted.fields:
        _encode(value[each.name], each.type, f"{where}.{each.name}".removeprefix("it."), depth + 1, out)


def _unfit(value: Any, wanted: AvroType, where: str) -> ValueError:
    return ValueError(f"{where} is {_shown(value)}, no {_named(wanted)}")


def _shown(value: Any) -> str:
    return (
        f"{value!r:.60}"
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else _JSON.get(type(value), "null" if value is None else str(value).lower())
    )


_JSON: dict[type, str] = {dict: "an object", list: "an array"}


def _named(wanted: AvroType) -> str:
    if wanted.kind == "union":
        return " or ".join(_named(each) for each in wanted.branches)
    if wanted.kind == "enum":
        return f"symbol of {wanted.name} ({', '.join(wanted.symbols[:10])}{', …' if len(wanted.symbols) > 10 else ''})"
    if wanted.kind in ("bytes", "fixed") and wanted.decimal is None:
        return f"{wanted.name or 'bytes'} in hexadecimal"
    return f"{wanted.kind} {wanted.name}".strip()

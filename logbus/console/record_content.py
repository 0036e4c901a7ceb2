"""
Keys, values and headers of records as people read them: JSON indented, text, or hexadecimal. This module is pure.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from attrs import frozen

from logbus.console.figures import printable, size

FORMS = {"auto": "Fitting", "text": "Text", "hex": "Hexadecimal"}
HEX_BYTES = 1024
FRAME = 5
_DEEP = 60


@frozen
class Content:
    """
    The shown form of a key, a value or a header.

    :ivar form: ``JSON``, ``text``, ``hex`` or ``null``.
    :ivar note: what else there is to say, as the size.
    """

    text: str
    form: str
    note: str = ""


class ValueSchema(Protocol):
    """
    A schema of the registry.

    :ivar form: of its values: ``Avro``, ``JSON`` or ``Protobuf``.
    :ivar read: makes JSON of the bytes of a value, or raises ValueError if they are none; None: they are JSON.
    """

    @property
    def form(self) -> str: ...

    @property
    def read(self) -> Callable[[bytes], Any] | None: ...


Schemas = Mapping[int, ValueSchema | str | None]
"""Schemas by id; a text: why there is none; None: there is none of that id."""


def content_of(shown: Mapping[str, Any] | None, form: str = "auto", schemas: Schemas = MappingProxyType({})) -> Content:
    """
    Return bytes as the HTTP API gives them for people.

    :param schemas: those that values may be of, by the ids in front of them.
    """
    if shown is None:
        return Content("null", "null")
    cut = f"the first bytes of {size(shown['size'])}" if shown["cut"] else size(shown["size"])
    data = _bytes(shown)
    found = schema_id(shown)
    schema = "" if found is None else f", schema id {found}"
    if found is not None and form == "auto" and not shown["cut"] and (known := schemas.get(found)) is not None:
        if isinstance(known, str):
            schema += f": {known}"
        else:
            try:
                return Content(_json(_read(data, known)), known.form, cut + schema)
            except ValueError as e:
                schema += f", of which it is no value: {e}"
    if form == "hex" or (form != "text" and ("base64" in shown or found is not None)):
        return Content(_hex(data[:HEX_BYTES]), "hex", cut + schema)
    text = data.decode("utf-8", "replace")
    if form == "auto" and not shown["cut"] and text[:1] in ("{", "["):
        indented = _indented(text)
        if indented is not None:
            return Content(indented, "JSON", cut)
    return Content("\n".join(map(printable, text.split("\n"))), "cut text" if shown["cut"] else "text", cut + schema)


def schema_id(shown: Mapping[str, Any] | None) -> int | None:
    """Return the id of the schema that bytes may be of: behind a byte 0, in four bytes (Confluent's wire format)."""
    if shown is None:
        return None
    data = _bytes(shown)
    return int.from_bytes(data[1:FRAME], "big") if len(data) > FRAME and data[0] == 0 else None


def decoded(shown: Mapping[str, Any] | None, schemas: Schemas) -> Mapping[str, Any] | None:
    """Return bytes as the HTTP API gives them, with the member ``decoded`` if they are a whole value of a schema."""
    found = schema_id(shown)
    known = None if found is None else schemas.get(found)
    if shown is None or shown["cut"] or known is None or isinstance(known, str):
        return shown
    try:
        return {**shown, "schema_id": found, "decoded": _read(_bytes(shown), known)}
    except ValueError:
        return shown


def _read(data: bytes, schema: ValueSchema) -> Any:
    return read_json(data[FRAME:].decode()) if schema.read is None else schema.read(data[FRAME:])


def _bytes(shown: Mapping[str, Any]) -> bytes:
    return b64decode(shown["base64"]) if "base64" in shown else shown["text"].encode("utf-8", "replace")


def _indented(text: str) -> str | None:
    try:
        return _json(read_json(text))
    except ValueError:
        return None


def read_json(text: str) -> Any:
    """
    Read JSON that is not nested so deeply that its indentation would be far longer than it is.

    :raise ValueError: it is, or is no JSON.
    """
    depth = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if depth > _DEEP:
            raise ValueError(f"it is nested more than {_DEEP} deep")
    return json.loads(text)


def _json(value: Any) -> str:
    return "\n".join(map(printable, json.dumps(value, indent=2, ensure_ascii=False).split("\n")))


def _hex(data: bytes) -> str:
    rows = [data[at : at + 16] for at in range(0, len(data), 16)]
    return "\n".join(
        f"{16 * number:04x}  {row.hex(' '):<47}  {''.join(chr(byte) if 32 <= byte < 127 else '.' for byte in row)}"
        for number, row in enumerate(rows)
    )

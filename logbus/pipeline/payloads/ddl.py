"""
Parses schemas in Spark's DDL (``user STRING, at TIMESTAMP``), to find mistakes before Spark starts. Pure.

Only Spark knows all of its types. Anything unknown here is left to Spark.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from attrs import define

from logbus.pipeline.errors import OptionError

EXAMPLE = "'user STRING, at TIMESTAMP'"

_TYPES = {
    name: name
    for name in (
        *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string", "char", "varchar"),
        *("binary", "date", "time", "timestamp", "timestamp_ntz", "interval", "void", "variant"),
        *("geometry", "geography"),
    )
} | {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "character": "char",
    "timestamp_ltz": "timestamp",
}
"""Spark's types by all of their names."""

_NESTED = ("array", "map", "struct")
_CLAUSES = ("collate", "default", "generated", "not", "comment")
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")|(?P<word>\w+)|(?P<mark>\S))"
)
_DEEPEST = 100


class _Unsure(Exception):
    """Syntax that only Spark can judge."""


def fields_of(schema: str) -> list[dict[str, Any]] | None:
    """
    The fields of a schema, as in Spark's JSON, with ``name`` and ``type`` only.

    :returns: None: only Spark can tell whether this is a valid schema.
    :raise OptionError: it is invalid.
    """
    try:
        return _Reader(schema, [*_tokens(schema), ("end", "")]).schema()
    except _Unsure:
        return None


def _tokens(schema: str) -> list[tuple[str, str]]:
    return [(str(found.lastgroup), str(found[str(found.lastgroup)])) for found in _TOKEN.finditer(schema.strip())]


@define
class _Reader:
    text: str
    tokens: list[tuple[str, str]]
    at: int = 0
    depth: int = 0

    def schema(self) -> list[dict[str, Any]]:
        if self.is_word("struct") and self.tokens[1][1] == "<":
            found: Any = self.type()
            self.expect("end", "")
            return list(found["fields"])
        return self.fields(("end", ""))

    def fields(self, ends: tuple[str, str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            found.append(self.field())
            if self.tokens[self.at] == ends:
                self.at += 1
                return found
            self.expect("mark", ",", f"a comma or the end behind the field {found[-1]['name']!r}")

    def field(self) -> dict[str, Any]:
        kind, name = self.tokens[self.at]
        if kind not in ("word", "quoted"):
            raise self.wrong(f"a field's name is missing {self.place()}")
        self.at += 1
        if kind == "quoted":
            name = name[1:-1].replace("``", "`")
        if self.tokens[self.at] == ("mark", ":"):
            self.at += 1
        if self.tokens[self.at][0] != "word":
            raise self.wrong(f"the field {name!r} has no type")
        found = {"name": name, "type": self.type()}
        if self.is_word("not"):
            self.at += 1
            if not self.is_word("null"):
                raise self.wrong(f"NULL is missing behind NOT {self.place()}")
            self.at += 1
        if self.is_word("comment"):
            self.at += 1
            if self.tokens[self.at][0] != "text":
                raise self.wrong(f"the comment of {name!r} is no text in quotes")
            self.at += 1
        if self.tokens[self.at][0] == "word":
            if self.is_field():
                raise self.wrong(f"a comma is missing {self.place()}")
            raise _Unsure  # COLLATE, DEFAULT and what else there may be.
        return found

    def type(self) -> Any:
        name = self.tokens[self.at][1].lower()
        self.at += 1
        if name in _NESTED:
            self.depth += 1
            if self.depth > _DEEPEST:
                raise _Unsure
            found = self.nested(name)
            self.depth -= 1
            return found
        if name not in _TYPES:
            close = difflib.get_close_matches(name, [*_TYPES, *_NESTED], 1)
            hint = f"; did you mean {close[0].upper()}?" if close else ""
            raise self.wrong(f"there is no type {name.upper()}{hint}")
        if name == "interval":
            raise _Unsure
        if self.tokens[self.at] == ("mark", "("):
            while self.tokens[self.at] != ("mark", ")"):
                if self.tokens[self.at][0] == "end":
                    raise self.wrong("a bracket is not closed")
                self.at += 1
            self.at += 1
        return _TYPES[name]

    def nested(self, name: str) -> Any:
        self.expect("mark", "<", f"{name}<...> with what is in it")
        if name == "struct":
            if self.tokens[self.at] == ("mark", ">"):
                raise _Unsure
            return {"type": "struct", "fields": self.fields(("mark", ">"))}
        inner = [self.inner(name)]
        if name == "map":
            self.expect("mark", ",", "map<KEY, VALUE>")
            inner.append(self.inner(name))
        self.expect("mark", ">", f"a > behind what is in {name}<...>")
        return {"type": name, "of": inner}

    def inner(self, name: str) -> Any:
        if self.tokens[self.at][0] != "word":
            raise self.wrong(f"{name}<...> has a type in it")
        return self.type()

    def is_field(self) -> bool:
        """Whether a name and its type follow."""
        (_, name), (kind, after) = self.tokens[self.at : self.at + 2]
        return name.lower() not in _CLAUSES and kind == "word" and after.lower() in (*_TYPES, *_NESTED)

    def is_word(self, word: str) -> bool:
        kind, text = self.tokens[self.at]
        return kind == "word" and text.lower() == word

    def expect(self, kind: str, text: str, what: str = "the end") -> None:
        if self.tokens[self.at] != (kind, text):
            raise self.wrong(f"{what} is missing {self.place()}")
        self.at += 1

    def place(self) -> str:
        kind, text = self.tokens[self.at]
        return "at the end" if kind == "end" else f"before {text!r}"

    def wrong(self, problem: str) -> OptionError:
        return OptionError(f"{self.text!r} is no schema such as {EXAMPLE}: {problem}")

"""
Checks the types of what must be equal in a join. Pure.

Spark compares a text with a number by reading the text as one, and fails at the first that is none, whichever event
it is of. So such keys are refused: which comparison is meant, only the user knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.event_stream import EVENT_TIME
from logbus.pipeline.payloads.payload import Payload, type_at

_TEXTS = ("string", "char", "varchar")
_READ_FROM_TEXT = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    **{name: name.upper() for name in ("float", "double", "decimal", "boolean", "date", "timestamp", "timestamp_ntz")},
}
"""Types that Spark makes of a text to compare it with them, and SQL's names of them."""

_PART = re.compile(r"`((?:[^`]|``)+)`|([^\W\d]\w*)")


def types_of(payload: Payload) -> Mapping[str, Any]:
    """The types of the columns of events, as in Spark's JSON, as far as they are known before Spark runs."""
    fields = payload.table_fields(headers=True) or ()
    return {**{each["name"].lower(): each["type"] for each in fields}, EVENT_TIME: "timestamp"}


def type_of(expression: str, types: Mapping[str, Any]) -> Any:
    """The type of an expression that is a column or a field of one; None: only Spark knows it."""
    text = expression.strip()
    names: list[str] = []
    at = 0
    while part := _PART.match(text, at):
        names.append(part[2] or part[1].replace("``", "`"))
        if part.end() == len(text):
            fields = [{"name": name, "type": each} for name, each in types.items()]
            return type_at({"type": "struct", "fields": fields}, names, any_case=True)
        if text[part.end()] != ".":
            return None
        at = part.end() + 1
    return None


def check_key(mine: str, my_type: Any, theirs: str, their_type: Any) -> None:
    """
    Check that two expressions can be compared.

    :param my_type: as in Spark's JSON; None: it is not known.
    :raise OptionError: one is a text, and Spark would read it as what the other is.
    """
    if _is_text(my_type) and _is_read(their_type):
        kind = _sql(their_type)
        texts, values = f"{mine}=cast({theirs} AS STRING)", f"try_cast({mine} AS {kind})={theirs}"
    elif _is_read(my_type) and _is_text(their_type):
        kind = _sql(my_type)
        texts, values = f"cast({mine} AS STRING)={theirs}", f"{mine}=try_cast({theirs} AS {kind})"
    else:
        return
    raise OptionError(
        f"the key {mine}={theirs}: {mine} is {_sql(my_type)}, and {theirs} {_sql(their_type)}. Spark would read the "
        f"text as {kind}, and fail at the first that is none. Compare texts (--on '{texts}') or values (--on "
        f"'{values}', where other text matches nothing)"
    )


def _base(kind: Any) -> str:
    """The name of a type without its length; "": it is nested, or not known."""
    return kind.partition("(")[0].lower() if isinstance(kind, str) else ""


def _is_text(kind: Any) -> bool:
    return _base(kind) in _TEXTS


def _is_read(kind: Any) -> bool:
    # How long a decimal is, only Spark's own types say.
    return _base(kind) in _READ_FROM_TEXT and kind != "decimal"


def _sql(kind: str) -> str:
    return _READ_FROM_TEXT.get(kind, kind.upper())

"""
Finds mistakes in SQL expressions before Spark starts: brackets, quotes, names of columns and functions.

Only Spark knows all of SQL. What is not certainly wrong is left to it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from attrs import evolve, frozen

from logbus.pipeline.errors import OptionError

_TOKEN = re.compile(
    r"\s*(?:(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<quoted>`(?:[^`]|``)*`)|(?P<number>\.?\d[\w.]*)|(?P<word>[^\W\d]\w*)|(?P<mark>->|=>|::|\S))",
    re.DOTALL,
)
_OPEN, _CLOSED = "([", {")": "(", "]": "["}
_UNSURE = frozenset(["->", "=>", "::", "select", "{", "}", ":", "?", "$", ";"])
"""Lambdas, named arguments, subqueries and parameters: their names are not those of columns."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BESIDE = _set(
    "( [ ) ] , + - * / % = < > ! | & ^ ~ and or not is in like rlike ilike between case when then else end as distinct "
    "div escape null true false asc desc"
)
"""What is beside a column's name where nothing else can be meant by it."""

_VALUES = _set(
    "null true false current_date current_time current_timestamp current_user current_catalog current_database "
    "current_schema localtimestamp user session_user all distinct"
)
"""Names that need no brackets, and are no columns."""

_UNITS = _set(
    "year yearofweek quarter month week day dayofweek dayofyear dow doy hour minute second millisecond microsecond "
    "nanosecond"
)
_WORDS = _set(
    "and or not in is like rlike ilike regexp between any some all exists over filter within interval values using on "
    "when then else case end as by from select where distinct div struct array map row both leading trailing for"
)
"""Words that may be before a bracket, and are no functions."""

_OTHER_FUNCTIONS = _set(
    "int integer bigint smallint tinyint string boolean binary double float real decimal dec numeric date timestamp "
    "timestamp_ltz timestamp_ntz time char varchar cast try_cast extract if position overlay trim timestampadd "
    "timestampdiff dateadd date_diff datediff percentile_cont percentile_disc collations localtime schema_of_avro"
)
"""Functions of SQL that Spark's Python does not have, and whose names are like those of others."""

_SHORT = 3
"""Names of so many letters are too much like others, such as ``mod`` and ``pmod``."""

_NESTED = frozenset(["array", "map", "struct"])

_BETWEEN = frozenset(["=", "<", ">", "|", "&", "^", "/", "%", "->", "=>", "::"])
"""Marks that need something on both sides; words such as ``and`` can be names."""
_BEFORE = (_BETWEEN | {"+", "-", "!", "~"}) - {">"}
"""Those that need something behind them; a bracket > may end a type."""

AGGREGATES = _set(
    "count count_if count_min_sketch sum try_sum avg mean try_avg min max min_by max_by any_value first first_value "
    "last last_value collect_list collect_set array_agg listagg string_agg stddev stddev_pop stddev_samp std variance "
    "var_pop var_samp corr covar_pop covar_samp skewness kurtosis mode median percentile percentile_approx "
    "approx_percentile approx_count_distinct bool_and bool_or bit_and bit_or bit_xor every histogram_numeric "
    "regr_count regr_slope regr_r2 regr_avgx regr_avgy regr_intercept"
)
"""Functions of many rows, which make one value of them."""

_NO_COLUMNS = _VALUES | _UNITS | _BESIDE | _WORDS


@frozen
class Columns:
    """
    The columns that an expression may use.

    :ivar names: of those without a qualifier; None: they are not known.
    :ivar sides: those of each qualifier, such as ``l``; None for one whose columns are not known.
    """

    names: Collection[str] | None
    sides: Mapping[str, Collection[str] | None] = {}


def check_expressions(what: str, expressions: Mapping[str, str], columns: Columns, functions: Collection[str]) -> None:
    """
    Check expressions by the names of their results, as far as that is possible without Spark.

    :param what: an expression is, for the error.
    :param functions: names of functions that are known, in lower case; a name like one of them is a mistake.
    :raise OptionError: one is certainly wrong.
    """
    for name, text in expressions.items():
        if problem := _problem(_tokens(text), columns, functions):
            # One that has no expression is the column of its name, in quotation marks of SQL.
            said = "" if [_name(*each) for each in _tokens(text)] == [name] else f" is {text!r}"
            raise OptionError(f"{what} {name!r}{said}: {problem}")
        if columns.names is not None:
            # Spark knows it in those behind it.
            columns = evolve(columns, names=[*columns.names, name])


def known_functions() -> Collection[str]:
    """Those of Spark's Python, in lower case."""
    from pyspark.sql import functions

    return {name.lower() for name in dir(functions) if not name.startswith("_")}


def check_single(what: str, expressions: Mapping[str, str]) -> None:
    """
    Check that expressions are of a single event.

    :param what: an expression is, for the error.
    :raise OptionError: one has an aggregate.
    """
    for name, text in expressions.items():
        tokens = _tokens(text)
        words = {token.lower() for kind, token in tokens if kind == "word"}
        # A subquery, or a window of SQL, has rows of its own.
        if words & {"select", "over"}:
            continue
        for (kind, token), (_, after) in pairwise(tokens):
            if kind == "word" and after == "(" and token.lower() in AGGREGATES:
                said = "" if text == name else f" is {text!r}"
                raise OptionError(f"{what} {name!r}{said}: {token} is of many events, and here there is one at a time")


def check_aggregates(aggregates: Mapping[str, str], by: Collection[str], columns: Columns) -> None:
    """
    Check that each aggregate is one.

    :param by: the expressions that are grouped by, which may also be where an aggregate is expected.
    :raise OptionError: one is of a single event's column.
    """
    grouped = {_name(*each).lower() for text in by for each in _tokens(text)}
    known = {each.lower() for each in columns.names or ()} - grouped
    for name, text in aggregates.items():
        tokens = _tokens(text)
        if any(kind == "mark" and token in _OPEN for kind, token in tokens) or _is_unsure(tokens):
            continue
        words = [_name(*each) for each in tokens if each[0] in ("word", "quoted")]
        if single := [word for word in words if word.lower() in known]:
            raise OptionError(
                f"the aggregate {name!r} is {text!r}: {single[0]!r} has a value for each event, of which a window has "
                f"many; such as max({single[0]}) has one"
            )


def _tokens(text: str) -> list[tuple[str, str]]:
    found = [(str(each.lastgroup), str(each[str(each.lastgroup)])) for each in _TOKEN.finditer(text.strip())]
    return [each for each in found if each[0] != "comment"]


def _name(kind: str, token: str) -> str:
    return token[1:-1].replace("``", "`") if kind == "quoted" else token


def _is_unsure(tokens: Sequence[tuple[str, str]]) -> bool:
    if any(token.lower() in _UNSURE for kind, token in tokens if kind in ("word", "mark")):
        return True
    # A type has names of fields, and of other types.
    return any(token.lower() in _NESTED and after == "<" for (_, token), (_, after) in pairwise(tokens))


def _problem(tokens: Sequence[tuple[str, str]], columns: Columns, functions: Collection[str]) -> str:
    """What is wrong; "": nothing that can be known."""
    if not tokens:
        return "there is nothing in it"
    for kind, token in tokens:
        if kind == "mark" and token in "'\"`":
            return f"a quotation mark {token} is not closed"
    if problem := _bracket_problem(tokens):
        return problem
    if problem := _operand_problem(tokens):
        return problem
    for (kind, token), (_, after) in pairwise(tokens):
        if kind == "word" and after == "(" and (problem := _function_problem(token, functions)):
            return problem
    if _is_unsure(tokens):
        return ""
    for path in _paths(tokens):
        if problem := _column_problem(path, columns):
            return problem
    return ""


def _bracket_problem(tokens: Sequence[tuple[str, str]]) -> str:
    opened: list[str] = []
    for kind, token in tokens:
        if kind != "mark":
            continue
        if token in _OPEN:
            opened.append(token)
        elif token in _CLOSED and (not opened or opened.pop() != _CLOSED[token]):
            return f"there is a {token} too many"
    return f"a bracket {opened[-1]} is not closed" if opened else ""


def _operand_problem(tokens: Sequence[tuple[str, str]]) -> str:
    """What an operator at the end or the beginning, also within brackets, lacks."""
    end = ("mark", "")
    for (_, before), (kind, token), (_, after) in zip([end, *tokens], tokens, [*tokens[1:], end], strict=False):
        if kind != "mark":
            continue
        is_last, is_first = after in ("", ")", "]", ","), before in ("", "(", "[", ",")
        is_product = token == "*" and not is_first and before != "."
        if is_last and (token in _BEFORE or is_product):
            return f"there is nothing behind {token}"
        if is_first and token in _BETWEEN:
            return f"there is nothing before {token}"
    return ""


def _function_problem(name: str, functions: Collection[str]) -> str:
    lower = name.lower()
    if len(name) <= _SHORT or lower in functions or lower in _WORDS or lower in _OTHER_FUNCTIONS:
        return ""
    # Others may be of an extension of Spark.
    close = difflib.get_close_matches(lower, functions, 1, 0.8)
    return f"there is no function {name}; did you mean {close[0]}?" if close else ""


def _paths(tokens: Sequence[tuple[str, str]]) -> Iterator[list[str]]:
    """The names that must be those of columns: each with what follows it behind points."""
    at = 0
    while at < len(tokens):
        if tokens[at][0] not in ("word", "quoted"):
            at += 1
            continue
        start, path = at, [_name(*tokens[at])]
        while at + 2 < len(tokens) and tokens[at + 1] == ("mark", ".") and tokens[at + 2][0] in ("word", "quoted"):
            at += 2
            path.append(_name(*tokens[at]))
        at += 1
        before = "(" if start == 0 else tokens[start - 1][1].lower()
        after = ")" if at == len(tokens) else tokens[at][1].lower()
        lower = path[0].lower()
        is_word = tokens[start][0] == "word"
        if is_word and len(path) == 1 and lower in _NO_COLUMNS:
            continue
        # Behind "as" there is a type or a name; before a bracket, a function.
        if before in _BESIDE and before not in ("as", "]") and after in _BESIDE and after != "(":
            yield path


def _column_problem(path: Sequence[str], columns: Columns) -> str:
    first = path[0].lower()
    if first in columns.sides and len(path) > 1:
        known, name = columns.sides[first], path[1]
    elif first in columns.sides:
        return ""
    else:
        known, name = columns.names, path[0]
    if known is None or name.lower() in {each.lower() for each in known}:
        return ""
    close = difflib.get_close_matches(name, known, 1)
    whose = f" in {path[0]}" if first in columns.sides else ""
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    return f"there is no column {name!r}{whose}; {hint}"

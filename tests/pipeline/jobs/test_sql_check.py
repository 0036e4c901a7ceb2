"""Tests the look at SQL expressions before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.joins import JoinOptions
from logbus.pipeline.jobs.sql_check import Columns, check_aggregates, check_expressions, check_single, known_functions
from logbus.pipeline.jobs.streaming_query import QuerySettings
from logbus.pipeline.jobs.windows import TumblingWindow, WindowsOptions
from logbus.pipeline.payloads.payload import JsonPayload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FUNCTIONS = known_functions()
EVENT = Columns(["origin", "delay", "at", "page", "event_time"])
JOIN = Columns({"origin", "delay", "wind"}, {"l": ["origin", "delay"], "r": ["origin", "wind"]})

RIGHT = [
    "count(*)",
    "origin",
    "ORIGIN",
    "`origin`",
    "upper(origin) || '-' || 'it''s (a bracket'",
    "round(avg(delay), 1) FILTER (WHERE delay > 0)",
    "sum(CASE WHEN delay > 15 AND origin IN ('JFK', 'LGA') THEN 1 ELSE 0 END)",
    "cast(delay AS INT) / 1e3",
    "count(DISTINCT origin, delay)",
    "date_trunc('hour', at) + INTERVAL 1 HOUR",
    "extract(hour FROM at)",
    "timestampadd(HOUR, 1, at)",
    "DATE '2013-01-01' < at",
    "page.url.host[0].name",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY delay)",
    "transform(array(1, 2), x -> x + 1)",
    "(SELECT max(nobody_knows) FROM elsewhere)",
    "delay IS NOT NULL AND NOT delay <=> 1 -- nonsense",
    "avg( -- nonsense (\n delay)",
    "position('x' IN origin)",
    "trim(BOTH 'x' FROM origin)",
    "current_date",
    "main.ours.function_of_a_catalog(origin)",
    "an_extension(origin)",
    "int(delay) DIV 5 * 5",
    "-delay * -1",
    "cast(page AS array<int>)",
    "struct(page.*)",
    "CASE WHEN NOT delay > 1 THEN ~1 END",
]
WRONG = {
    "orign": "there is no column 'orign'; did you mean origin?",
    "xyzzy": "there is no column 'xyzzy'; there are origin, delay, at, page, event_time",
    "`at time`": "there is no column 'at time'",
    "avg(delya)": "there is no column 'delya'; did you mean delay?",
    "sum(CASE WHEN dely > 1 THEN 1 END)": "there is no column 'dely'; did you mean delay?",
    "cuont(*)": "there is no function cuont; did you mean count?",
    "avg(delay": "a bracket ( is not closed",
    "avg(delay))": "there is a ) too many",
    "upper('origin)": "a quotation mark ' is not closed",
    "": "there is nothing in it",
    "delay +": "there is nothing behind +",
    "delay *": "there is nothing behind *",
    "round(delay /)": "there is nothing behind /",
    "coalesce(delay %, 1)": "there is nothing behind %",
    "= delay": "there is nothing before =",
    "abs(/ delay)": "there is nothing before /",
}


@pytest.mark.parametrize("text", RIGHT)
def test_right(text: str) -> None:
    """What may be right is left to Spark."""
    check_expressions("the group", {"name": text}, EVENT, FUNCTIONS)


@pytest.mark.parametrize("text", ["count(offset)", "1 + MAX (delay)", "coalesce(first(origin), 'x')"])
def test_aggregates_of_one_event(text: str) -> None:
    """A key of a join, its columns, and groups have one event at a time."""
    with pytest.raises(OptionError, match="is of many events, and here there is one at a time"):
        check_single("the left key", {text: text})


@pytest.mark.parametrize(
    "text",
    ["l.count", "greatest(l.max, 1)", "(SELECT max(x) FROM y)", "sum(delay) OVER (PARTITION BY origin)", "count"],
)
def test_no_aggregates(text: str) -> None:
    """Names of columns, and what Spark may know."""
    check_single("the column", {"name": text})


@pytest.mark.parametrize("text", WRONG)
def test_wrong(text: str) -> None:
    """What is certainly wrong is said with what would be right."""
    with pytest.raises(OptionError) as raised:
        check_expressions("the group", {"name": text}, EVENT, FUNCTIONS)
    assert str(raised.value).startswith(f"the group 'name' is {text!r}: {WRONG[text]}")


def test_columns_in_quotation_marks() -> None:
    """A column that is an expression by its name alone is named once, without the quotation marks of SQL."""
    for name, text in {"usr id": "`usr id`", "a`b": "`a``b`", "usr": "usr"}.items():
        with pytest.raises(OptionError) as raised:
            check_expressions("the group", {name: text}, EVENT, FUNCTIONS)
        assert str(raised.value).startswith(f"the group {name!r}: there is no column {name!r}")


def test_sides_of_joins() -> None:
    """Each side has its own columns; a side of unknown columns has any."""
    for text in ("l.delay + r.wind", "wind", "l.*", "l"):
        check_expressions("the column", {"c": text}, JOIN, FUNCTIONS)
    with pytest.raises(OptionError, match="there is no column 'wind' in l; there are origin, delay"):
        check_expressions("the column", {"c": "l.wind"}, JOIN, FUNCTIONS)
    check_expressions("the column", {"c": "l.wind + any"}, Columns(None, {"l": None, "r": []}), FUNCTIONS)


def test_earlier_result() -> None:
    """An expression may use the result of one before it."""
    check_expressions("the column", {"a": "l.delay", "b": "a + 1"}, JOIN, FUNCTIONS)
    with pytest.raises(OptionError, match="there is no column 'b'"):
        check_expressions("the column", {"a": "b + 1", "b": "l.delay"}, JOIN, FUNCTIONS)


def test_aggregates() -> None:
    """A column of single events is no aggregate, unless it is grouped by."""
    for text in ("max(delay)", "origin", "'text'", "1"):
        check_aggregates({"n": text}, ["upper(origin)"], EVENT)
    with pytest.raises(OptionError, match=r"the aggregate 'n' is 'delay \+ 1': 'delay' has a value for each event"):
        check_aggregates({"n": "delay + 1"}, ["origin"], EVENT)


def test_functions_of_spark(spark: SparkSession) -> None:
    """None of Spark's own functions is taken for a mistake."""
    names = [row[0] for row in spark.sql("SHOW FUNCTIONS").collect() if row[0].replace("_", "").isalnum()]
    assert len(names) > 300
    for name in names:
        check_expressions("the group", {"name": f"{name}(origin)"}, EVENT, FUNCTIONS)


def test_before_spark(tmp_path: Path) -> None:
    """Jobs look at their expressions and checkpoints before they ask any broker."""
    source = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "events"}
    events = EventStream(source=source, payload=JsonPayload(schema="origin STRING, at TIMESTAMP", event_time="at"))

    def windows(checkpoint: object = tmp_path, **more: Any) -> None:
        settings = QuerySettings(str(checkpoint))
        WindowsOptions(stream=events, window=TumblingWindow("1 hour"), outputs=[], running=settings, **more).check(
            print
        )

    def join(**more: Any) -> None:
        given = {"on": {"origin": "origin"}, "select": {"at": "l.at"}, **more}
        settings = QuerySettings(str(tmp_path))
        JoinOptions(left=events, right=events, outputs=[], running=settings, **given).check(print)

    for checked, problem in (
        (lambda: windows(by={"o": "orign"}), r"the group 'o' is 'orign': .* did you mean origin\?"),
        (lambda: windows(aggregates={"n": "max(offst)"}), r"the aggregate 'n' is .* did you mean offset\?"),
        (lambda: windows(aggregates={"n": "origin"}), r"'origin' has a value for each event"),
        (
            lambda: join(on={"origin": "orign"}),
            r"the right key 'orign': there is no column 'orign'; did you mean origin\?",
        ),
        (lambda: join(on={"count(offset)": "offset"}), r"the left key 'count\(offset\)': count is of many events"),
        (lambda: join(select={"x": "l.offset +"}), r"the column 'x' is 'l.offset \+': there is nothing behind \+"),
        (lambda: join(select={"x": "max(l.offset)"}), r"the column 'x' is .*: max is of many events"),
        (lambda: windows(by={"n": "count(*)"}), r"the group 'n' is .*: count is of many events"),
        (lambda: join(select={"w": "r.wind"}), r"the column 'w' is 'r.wind': there is no column 'wind' in r"),
    ):
        with pytest.raises(OptionError, match=problem):
            checked()
    with pytest.raises(LakeError, match="'x' is no port"):
        windows("hdfs://host:x/checkpoint")

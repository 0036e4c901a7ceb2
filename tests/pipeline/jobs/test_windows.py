"""Tests windows on a real Spark with a real broker: counts, late events, and each window once."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.backlog import StreamPlan
from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.late_events import TooManyLate
from logbus.pipeline.jobs.outputs import Output, ToTable
from logbus.pipeline.jobs.record_counts import CountsDiffer
from logbus.pipeline.jobs.streaming_query import QueryReport, QuerySettings
from logbus.pipeline.jobs.windows import SessionWindow, SlidingWindow, TumblingWindow, WindowsOptions, run
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.load_fixtures import ask
from tests.pipeline.query_fixtures import (
    SCHEMA,
    Seen,
    at,
    event,
    in_table,
    put,
    stream,
    time_zone,
    to_topic,
    topics,
    written,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def options(broker: Broker, topic: str, outputs: list[Output], checkpoint: Path, **more: Any) -> WindowsOptions:
    """Views by page and hour, unless something else is asked for."""
    given: dict[str, Any] = {
        "stream": stream(broker, topic),
        "window": TumblingWindow("1 hour"),
        "by": {"page": "page"},
        "aggregates": {"views": "count(*)", "paid": "sum(price)"},
        "running": QuerySettings(str(checkpoint), max_late_share=1),
    }
    return WindowsOptions(outputs=outputs, **{**given, **more})


STACK = "\tat java.base/java.lang.Thread.run(Thread.java:1583)\n"
"""A line of an error of Java."""

ONE = {"count": "count(*)"}


def did(report: QueryReport) -> tuple[int, int, int, int]:
    """The numbers of rows read, windows written, unreadable rows and late events."""
    return report.rows_in, report.rows_out, report.unreadable, report.late


def row(start: str, end: str, **more: Any) -> dict[str, Any]:
    """A window as outputs have it."""
    return {"window_start": f"{at(start)[:-1]}.000000Z", "window_end": f"{at(end)[:-1]}.000000Z", **more}


def test_hours_to_a_topic_and_a_table(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Windows are written when the watermark has passed them, by whichever run; late ones and nonsense are counted."""
    topics(broker, "views", "hourly")
    asked = options(
        broker,
        "views",
        [to_topic(broker, "hourly", "window_start", "page"), ToTable(str(tmp_path / "table"), ("page",))],
        tmp_path / "checkpoint",
    )
    put(
        broker,
        "views",
        [
            event("00:10", user="ann", page="/tea", price=3),
            event("00:50", user="ben", page="/tea"),
            event("00:59:59.999", user="ann", page="/cake", price=1),
            b"no JSON",
            event("01:00", user="ann", page="/tea"),
            event("01:15", user="cid", page=None, price=2),
        ],
    )
    with time_zone(spark, "America/New_York"):
        assert did(run(spark, asked)) == (6, 2, 1, 0)
    first = [
        row("00:00", "01:00", page="/cake", views=1, paid=1),
        row("00:00", "01:00", page="/tea", views=2, paid=3),
    ]
    assert written(broker, "hourly") == first
    # The first comes too late; the second not: its window is not closed.
    put(
        broker,
        "views",
        [event("00:59", page="/tea"), event("01:05", page="/tea", price=5), event("04:00", page="/end"), b"{"],
    )
    with pytest.raises(OptionError, match="its time zone is 'America/New_York', and now it is 'UTC'"):
        run(spark, asked)
    with time_zone(spark, "America/New_York"):
        again = run(spark, asked)
    assert did(again) == (4, 2, 1, 1)
    assert (again.open_before, again.readable, again.counted, again.still_open) == (2, 3, 3, 1)
    both = [
        *first,
        row("01:00", "02:00", page="/tea", views=2, paid=5),
        row("01:00", "02:00", page=None, views=1, paid=2),
    ]
    assert written(broker, "hourly") == sorted(both, key=repr)
    assert in_table(spark, tmp_path / "table") == sorted(
        [{**{k: v for k, v in each.items() if k != "page"}, "page": each["page"]} for each in both], key=repr
    )
    # Nothing is new.
    with time_zone(spark, "America/New_York"):
        idle = run(spark, asked)
    assert (*did(idle), idle.counted, idle.still_open) == (0, 0, 0, 0, 0, 1)
    assert len(written(broker, "hourly")) == 4


def test_sliding_windows_and_sessions(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """An event is in several windows, or in the visit that it belongs to."""
    topics(broker, "visits")
    put(
        broker,
        "visits",
        [
            event("00:10", user="ann"),
            event("00:35", user="ann"),
            event("00:20", user="ben"),
            event("01:06", user="ann"),
            event("09:00", user="end"),
        ],
    )
    seen = Seen({})
    sliding = options(
        broker,
        "visits",
        [seen],
        tmp_path / "sliding",
        window=SlidingWindow("1 hour", "30 minutes"),
        by={},
        aggregates={"count": "count(*)"},
    )
    run(spark, sliding)
    counts = {
        (each[0].strftime("%d %H:%M"), each[1].strftime("%H:%M")): each[2]
        for rows in seen.batches.values()
        for each in rows
    }
    assert counts == {
        ("31 23:30", "00:30"): 2,
        ("01 00:00", "01:00"): 3,
        ("01 00:30", "01:30"): 2,
        ("01 01:00", "02:00"): 1,
    }
    # The event's time may be something to group by.
    seen = Seen({})
    run(spark, options(broker, "visits", [seen], tmp_path / "times", by={"at_all": "event_time"}, aggregates=ONE))
    assert sorted(each[2].strftime("%H:%M") for rows in seen.batches.values() for each in rows) == [
        *("00:10", "00:20", "00:35", "01:06")
    ]
    seen = Seen({})
    visits = options(
        broker,
        "visits",
        [seen],
        tmp_path / "sessions",
        window=SessionWindow("30 minutes"),
        by={"who.it is": "user"},
        aggregates={"count": "count(*)"},
    )
    run(spark, visits)
    found = sorted(each for rows in seen.batches.values() for each in rows)
    assert [(each[0].strftime("%H:%M"), each[1].strftime("%H:%M"), *each[2:]) for each in found] == [
        ("00:10", "01:05", "ann", 2),
        ("00:20", "00:50", "ben", 1),
        ("01:06", "01:36", "ann", 1),
    ]


def test_field_called_topic(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """An event may have a field with the name of a column of records, also one that is null or empty."""
    topics(broker, "called-topic")
    put(broker, "called-topic", [event("00:10", topic=each) for each in (None, "", "orders")])
    seen = Seen({})
    asked = options(
        broker,
        "called-topic",
        [seen],
        tmp_path / "checkpoint",
        stream=stream(broker, "called-topic", "topic STRING, at TIMESTAMP"),
        window=SlidingWindow("1 hour", "1 hour"),
        by={"of": "topic"},
        aggregates=ONE,
        running=QuerySettings(str(tmp_path / "checkpoint"), close_open=True),
    )
    report = run(spark, asked)
    assert (report.readable, report.rows_out) == (3, 3)
    assert sorted((row[2:] for rows in seen.batches.values() for row in rows), key=repr) == [
        ("", 1),
        ("orders", 1),
        (None, 1),
    ]


BATCH = 8
CLOCKS = [f"{hour:02}:{10 * tens:02}" for hour in range(6) for tens in range(6)]


def late_of(clocks: list[str], until: Callable[[float], float], watermark: float = 600) -> int:
    """
    What is late by the rule: a batch drops what belongs to windows that the watermark before its own has passed.

    :param until: the end of the first window of an event, in seconds of the day, as all times.
    """
    seconds = [3600.0 * int(each[:2]) + 60 * int(each[3:]) for each in clocks]
    late, marks = 0, [-1e9, -1e9]
    for start in range(0, len(seconds), BATCH):
        some = seconds[start : start + BATCH]
        late += sum(until(each) <= marks[-2] for each in some)
        marks.append(max(marks[-1], max(some) - watermark))
    return late


def test_late_events_are_counted(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event is late, in a window, or in an open one; and too many late ones are an error."""
    # As if all of it had come while the job ran.
    monkeypatch.setattr(StreamPlan, "is_long", False)
    clocks = random.Random(3).sample(CLOCKS, 2 * BATCH)
    clocks = [*clocks, *[min(clocks)] * BATCH, "23:00"]
    topics(broker, "late")
    put(broker, "late", [event(each, user="u") for each in clocks])
    given = {"by": {}, "aggregates": {"n": "count(*)"}, "stream": stream(broker, "late", maxOffsetsPerTrigger="8")}
    sessions = {**given, "by": {"user": "user"}, "window": SessionWindow("15 minutes")}
    report = run(spark, options(broker, "late", [Seen({})], tmp_path / "sessions", **sessions))
    assert report.late == late_of(clocks, lambda at: at + 900)
    # Of hours, whose events are few enough to fail at the end only.
    seen, wanted = Seen({}), late_of(clocks, lambda at: (at // 3600 + 1) * 3600)
    checkpoint = tmp_path / "hours"
    running = QuerySettings(str(checkpoint), max_late_share=0.05)
    strict = options(broker, "late", [seen], checkpoint, **given, running=running)
    with pytest.raises(
        TooManyLate, match=f"^{wanted} of the {len(clocks)} events were late .*max_late_share 0.05"
    ) as e:
        run(spark, strict)
    assert "Start over, with another checkpoint" in str(e.value)
    assert (e.value.report["rows_in"], e.value.report["late"]) == (len(clocks), wanted)
    inside = sum(row[-1] for rows in seen.batches.values() for row in rows)
    assert inside + wanted + 1 == len(clocks)
    assert wanted >= BATCH
    # Another attempt does not make it good; what is told to help does.
    with pytest.raises(TooManyLate, match="events that an earlier run has read were late"):
        run(spark, strict)
    assert did(run(spark, options(broker, "late", [seen], checkpoint, **given))) == (0, 0, 0, 0)
    needed = re.search("With a watermark of (.*) [(]--watermark; it is 10 minutes[)]", str(e.value))
    assert needed is not None
    patient = {**given, "stream": stream(broker, "late", watermark=needed[1], maxOffsetsPerTrigger="8")}
    report = run(spark, options(broker, "late", [Seen({})], tmp_path / "patient", **patient))
    assert (report.rows_in, report.late) == (len(clocks), 0)


def test_the_first_window_of_an_event(spark: SparkSession) -> None:
    """Its end is that of the first of Spark's windows, also before 1970 and where windows begin at odd times."""
    from pyspark.sql import functions as f

    times = spark.range(-40, 40).select(f.timestamp_micros(f.col("id") * 7 * 60_000_000).alias("event_time"))
    for window in (
        TumblingWindow("1 hour"),
        TumblingWindow("50 minutes"),
        SlidingWindow("1 hour", "20 minutes"),
        SlidingWindow("1 hour", "7 minutes"),
    ):
        ends = times.select("event_time", window.column().alias("w")).groupBy("event_time")
        found = ends.agg(f.unix_micros(f.min("w.end")).alias("end"))
        ours = window.first_end(f.unix_micros(f.col("event_time")))
        assert found.where(f.col("end") != ours).collect() == [], window
        assert found.count() == 80


def test_repeated_batch(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """One output has it and the other not, or all have and Spark does not know: in the end each has it once."""
    topics(broker, "again", "counted")
    put(broker, "again", [event("00:10", page="/tea"), event("03:00", page="/end")])
    broken = Seen({}, breaks=True)
    checkpoint = tmp_path / "checkpoint"
    asked = options(
        broker, "again", [to_topic(broker, "counted"), ToTable(str(tmp_path / "table")), broken], checkpoint
    )
    with pytest.raises(PipelineError, match=r"^batch 1: the disk is full$"):
        run(spark, asked)
    once = [row("00:00", "01:00", page="/tea", views=1, paid=None)]
    assert written(broker, "counted") == in_table(spark, tmp_path / "table") == once
    broken.breaks = False
    run(spark, asked)
    assert [len(rows) for rows in broken.batches.values()] == [1]
    number = next(iter(broken.batches))
    for name in (f"{number}", f".{number}.crc"):
        (checkpoint / "commits" / name).unlink()
    broken.batches.clear()
    run(spark, asked)
    assert list(broken.batches) == [number]
    assert written(broker, "counted") == in_table(spark, tmp_path / "table") == once
    # What is open belongs to the query as it was.
    other = stream(broker, "again", SCHEMA.replace("INT", "DOUBLE"))
    for more, words in (
        ({"window": TumblingWindow("2 hours")}, "its windows is 'of 1 hour', and now it is 'of 2 hours'"),
        ({"by": {}}, "its groups is"),
        ({"stream": other}, "its result is '.*paid:bigint>', .*double"),
        ({"stream": stream(broker, "counted")}, "its topics is 'again', and now it is 'counted'"),
    ):
        with pytest.raises(OptionError, match=f"checkpoint is the checkpoint of another query: {words}"):
            run(spark, options(broker, "again", [broken], checkpoint, **more))
    (checkpoint / "logbus.json").unlink()
    with pytest.raises(OptionError, match="which is no job of logbus: give this one a directory of its own"):
        run(spark, asked)
    (checkpoint / "logbus.json").write_text("{")
    with pytest.raises(PipelineError, match=r"logbus\.json is damaged"):
        run(spark, asked)


def test_set_back(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A checkpoint older than an output is refused: the output would skip the next batch, which has other records."""
    topics(broker, "back", "to-topic")
    put(broker, "back", [event("00:10", page="/tea"), event("03:00", page="/end")])
    checkpoint, older = tmp_path / "checkpoint", tmp_path / "older"
    both: list[Output] = [to_topic(broker, "to-topic"), ToTable(str(tmp_path / "table"))]
    run(spark, options(broker, "back", both, checkpoint))
    shutil.copytree(checkpoint, older)
    put(broker, "back", [event("03:10", page="/tea"), event("06:00", page="/end")])
    run(spark, options(broker, "back", both, checkpoint))
    put(broker, "back", [event("06:10", page="/tea"), event("09:00", page="/end")])
    shutil.rmtree(checkpoint)
    shutil.copytree(older, checkpoint)
    for output, name in zip(both, ("the topic to-topic", "the table .*/table"), strict=True):
        with pytest.raises(
            PipelineError,
            match=f"checkpoint was set back, .*: {name} has batch 3 of .*, and the last .* is 1.*; restore",
        ):
            run(spark, options(broker, "back", [output], checkpoint))


def test_damaged_state(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The error names what is damaged, and says what to do; nothing is written."""
    topics(broker, "state")
    put(broker, "state", [event("00:10", page="/tea"), event("03:00", page="/end")])
    checkpoint, seen = tmp_path / "checkpoint", Seen({})
    run(spark, options(broker, "state", [seen], checkpoint))
    put(broker, "state", [event("03:10", page="/tea"), event("06:00", page="/end")])
    seen.batches.clear()

    def refused(name: str, words: str, damage: Callable[[Path], object]) -> None:
        damaged = tmp_path / name
        shutil.copytree(checkpoint, damaged)
        damage(damaged / "state")
        with pytest.raises(PipelineError, match=f"^{damaged}/{words}.*restore all of the checkpoint"):
            run(spark, options(broker, "state", [seen], damaged))

    def cut(state: Path) -> None:
        found = max(state.glob("0/*/[0-9]*"), key=lambda file: file.stat().st_size)
        found.write_bytes(found.read_bytes()[: found.stat().st_size // 2])

    refused("gone", "state is damaged: it is missing or empty", shutil.rmtree)
    refused("cut", r"state/0/\d/\d.\w+ is damaged: its content has not the checksum in \.", cut)
    assert seen.batches == {}


def test_long_errors(spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gets no long text of Java: its regular expression would overflow the stack if the query is stopped."""
    monkeypatch.delenv("LOGBUS_DEBUG", raising=False)
    topics(broker, "long")
    put(broker, "long", [event("00:10", page="/tea"), event("03:00", page="/end")])

    class Broken(Seen):
        def write(self, rows: DataFrame, query: str, number: int) -> None:
            """Fail with a long text, as Java's is."""
            raise ValueError(f"py4j.protocol.Py4JJavaError: An error occurred while calling o1.save\n{STACK * 10_000}")

    with pytest.raises(PipelineError, match=r"^batch .*Py4JJavaError") as error:
        run(spark, options(broker, "long", [Broken({})], tmp_path / "checkpoint"))
    assert STACK * 2 not in str(error.value.__cause__)


def test_damaged_checkpoints(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A file that Spark left is found damaged before Spark reads it, and as it was it is not."""
    topics(broker, "damaged")
    put(broker, "damaged", [event("00:10", page="/tea"), event("03:00", page="/end")])
    checkpoint = tmp_path / "checkpoint"
    asked = options(broker, "damaged", [Seen({})], checkpoint)
    run(spark, asked)
    last = max(int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdigit())
    for file in ("metadata", f"offsets/{last}", f"commits/{last}"):
        path = checkpoint / file
        whole = path.read_bytes()
        for cut in (0, 1, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:cut])
            with pytest.raises(PipelineError, match=f"^{checkpoint}/{file} is damaged: .* start over with another"):
                asked.check([].append)
        with pytest.raises(PipelineError, match=f"/{file} is damaged"):
            run(spark, asked)
        path.write_bytes(whole)
    asked.check([].append)
    assert run(spark, asked).rows_in == 0


def test_lost_events(spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a readable event gets into no window, the job fails, with its report."""
    topics(broker, "lossy")
    put(broker, "lossy", [event("00:10", page="/tea"), event("00:20", page="/lost"), event("03:00", page="/end")])
    whole = EventStream.events
    monkeypatch.setattr(EventStream, "events", lambda *of, **more: whole(*of, **more).where("page <> '/lost'"))
    with pytest.raises(
        CountsDiffer, match=r"0 events .* 3 came in; 0 were late, 1 are in .* written, and 1 in"
    ) as error:
        run(spark, options(broker, "lossy", [Seen({})], tmp_path / "checkpoint", aggregates=ONE))
    assert (error.value.report["counted"], error.value.report["still_open"]) == (1, 1)


def test_invalid_expressions(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Expressions and columns, before the query begins."""
    topics(broker, "wrong")

    def refused(words: str, **more: Any) -> None:
        given: dict[str, Any] = {"outputs": [Seen({})], "checkpoint": tmp_path / "checkpoint", **more}
        with pytest.raises(OptionError, match=words):
            run(spark, options(broker, "wrong", given.pop("outputs"), given.pop("checkpoint"), **given))
        assert not (tmp_path / "checkpoint" / "offsets").exists()

    refused("windows cannot be computed: .*column.*`city` cannot be resolved.*`page`", by={"city": "city"})
    refused("windows cannot be computed: .PARSE_SYNTAX_ERROR. Syntax error", aggregates={"n": "count("})
    refused("windows cannot be computed: .*MISSING_AGGREGATION", aggregates={"n": "price"})
    refused("the key is of the column 'city', which is not there", outputs=[to_topic(broker, "x", "city")])
    refused(r"a directory \(--partition-by\) is of the column 'city'", outputs=[ToTable(str(tmp_path / "t"), ["city"])])
    refused("a query needs an output: a topic or a table", outputs=[])
    # What was mistyped and never began is nobody's checkpoint.
    checkpoint = tmp_path / "mended"
    with pytest.raises(PipelineError, match="there is no topic 'nowhere', which is to be read"):
        run(spark, options(broker, "nowhere", [Seen({})], checkpoint))
    run(spark, options(broker, "wrong", [Seen({})], checkpoint, window=TumblingWindow("2 hours")))
    assert json.loads((checkpoint / "logbus.json").read_text())["windows"] == "of 2 hours"
    with Broker({"auto.create.topics.enable": "false"}) as strict, pytest.raises(PipelineError, match="no topic 'x'"):
        run(spark, options(broker, "wrong", [to_topic(strict, "x")], tmp_path / "checkpoint"))
    assert not (tmp_path / "checkpoint" / "offsets").exists()
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "wrong"}
    named = JsonPayload(schema="user STRING, event_time TIMESTAMP", event_time="event_time")
    events = EventStream(source=source, payload=named).events(spark)
    assert events.columns[-2:] == ["user", "event_time"]


def test_continuous_query(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The current batch is finished, and the next one not started."""
    topics(broker, "endless")
    watch = JobControl()
    put(broker, "endless", [event("00:10", page="/tea"), event("03:00", page="/end")])

    class Stops(Seen):
        def write(self, rows: Any, query: str, number: int) -> None:
            super().write(rows, query, number)
            watch.stop()

    seen = Stops({})
    running = QuerySettings(str(tmp_path / "checkpoint"), every=0.1)
    report = run(spark, options(broker, "endless", [seen], tmp_path, running=running), watch)
    assert report.stopped
    assert did(report)[:2] == (2, 1)
    assert len(seen.batches) == 1


def test_stopped_and_resumed_backlog(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Batches that were planned and not begun are those of the next run."""
    topics(broker, "backlog")
    put(broker, "backlog", [event(f"{hour:02}:30", page="/tea") for hour in range(12)])
    watch = JobControl(lambda line: watch.stop())
    seen = Seen({})
    asked = options(
        broker, "backlog", [seen], tmp_path, by={}, stream=stream(broker, "backlog", maxOffsetsPerTrigger="1")
    )
    assert run(spark, asked, watch).stopped
    assert not run(spark, asked).stopped
    starts = [each[0].hour for number in sorted(seen.batches) for each in seen.batches[number]]
    assert sorted(starts) == list(range(11))


@pytest.mark.spark
def test_the_command(broker: Broker, tmp_path: Path) -> None:
    """It says what it does, and ends in order when all of its processes get the signal, as supervisors send it."""
    topics(broker, "commanded", "commanded-hourly")
    put(broker, "commanded", [event("00:10", page="/tea"), *[event("03:00", page="/end")] * 99])
    command = [
        *(sys.executable, "-c", "from logbus.cli import main; main()", "pipeline", "windows", "commanded"),
        *("--bootstrap", broker.bootstrap),
        *("--payload", "json", "--schema", "page STRING, at TIMESTAMP", "--event-time", "at"),
        *("--size", "1 hour", "--by", "page", "--to-topic", "commanded-hourly", "--every", "0.2"),
        *("--source", "maxOffsetsPerTrigger=60"),
        *("--checkpoint", "checkpoint", "--report", "report.json", "--master", "local[1]"),
        *("--spark", "spark.ui.enabled=false", "--spark", "spark.sql.shuffle.partitions=1"),
    ]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ},
        start_new_session=True,
    ) as job:
        ends = threading.Timer(300, job.kill)
        ends.start()
        said = ""
        assert job.stderr is not None and job.stdout is not None
        # Two batches have the events, and the last one writes the window.
        while "batch 3:" not in said and (line := job.stderr.readline()):
            said += line
        os.killpg(job.pid, signal.SIGTERM)
        out, rest = job.communicate()
        ends.cancel()
    assert job.returncode == 0, said + rest
    assert " WARN " not in said
    # On a busy machine it says how many tasks are done, too.
    lines = [line for line in said.splitlines() if line.startswith("windows: ") and not line.endswith("tasks are done")]
    assert lines[0] == "windows: starts Spark"
    assert re.fullmatch("windows: Spark 4[0-9.]* runs on local.1.", lines[1])
    assert lines[2:4] == [
        "windows: commanded: 100 offsets of 1 partition to read, in 2 batches or more, from where a new query begins",
        "windows: the watermark is held until all of this is read, so that none of it is late",
    ]
    assert re.fullmatch(r"windows: batch 0: 60 rows read, [0-9.,]+ rows/s; 40 offsets are left", lines[4])
    assert "windows: stopping after what is under way" in rest
    report = json.loads(out)
    assert report == json.loads((tmp_path / "report.json").read_text())
    assert (report["rows_out"], report["stopped"]) == (1, True)
    assert report["rows_in"] == 100
    assert [each["page"] for each in written(broker, "commanded-hourly")] == ["/tea"]
    assert not re.search("Traceback|ERROR", rest), rest


def test_allowed_losses(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Offsets that were gone are counted, by no record: what is left adds up, and nothing of it is late."""
    topics(broker, "short")
    put(broker, "short", [event("05:30", page="x", price=1)] * 7)
    ask(broker.bootstrap, "delete_records", [TopicPartition("short", 0, 4)])
    read = stream(broker, "short", startingOffsets='{"short": {"0": 1}}', failOnDataLoss="false")
    seen, told = Seen({}), list[str]()
    running = QuerySettings(str(tmp_path), close_open=True)
    report = run(
        spark, options(broker, "short", [seen], tmp_path, stream=read, running=running), JobControl(told.append)
    )
    assert (report.lost, report.rows_in, report.late, report.counted, report.still_open) == (3, 3, 0, 3, 0)
    assert [row[-2:] for rows in seen.batches.values() for row in rows] == [(3, 3)]
    assert len([each for each in told if "3 rows read" in each and ", 3 offsets lost" in each]) == 1

"""Tests joins on a real Spark with a real broker: of two streams, and of a stream and a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from logbus.pipeline.errors import OptionError
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.joins import JoinOptions, run
from logbus.pipeline.jobs.outputs import ToTable
from logbus.pipeline.jobs.streaming_query import QuerySettings
from logbus.pipeline.jobs.table_topic import TableTopic
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.load_fixtures import ask
from tests.pipeline.query_fixtures import Seen, event, in_table, nycflights, put, stream, to_topic, topics, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "user STRING, page STRING, at TIMESTAMP"
BUY = "who STRING, price INT, at TIMESTAMP"


def fill(broker: Broker, views: str, buys: str) -> None:
    """Events before, within and after the times that count; the last ones let the others be done."""
    topics(broker, views, buys)
    put(broker, views, [event("01:00", user=user, page="/tea") for user in ("ann", "ben", "cid", None)])
    put(
        broker,
        buys,
        [
            event("01:30", who="ann", price=1),
            event("02:00", who="ann", price=2),
            event("02:00:01", who="ann", price=3),
            event("00:55", who="ben", price=4),
            event("00:54:59", who="ben", price=5),
            event("01:00", who="dan", price=6),
            event("01:00", who=None, price=7),
            b"no JSON",
        ],
    )
    put(broker, views, [event("09:00", user="end"), b"[]"])
    put(broker, buys, [event("09:00", who="other end")])


def streams(broker: Broker, views: str, buys: str, checkpoint: Path, **more: Any) -> JoinOptions:
    """Joins purchases from five minutes before a view until an hour after it."""
    given: dict[str, Any] = {
        "left": stream(broker, views, VIEW),
        "right": stream(broker, buys, BUY),
        "on": {"upper(user)": "upper(who)"},
        "select": {"user": "l.user", "price": "r.price"},
        "before": "5 minutes",
        "after": "1 hour",
        "running": QuerySettings(str(checkpoint), max_late_share=1),
    }
    return JoinOptions(**{**given, **more})


def bought(user: str, price: int | None) -> dict[str, Any]:
    """A row."""
    return {"user": user, "price": price}


FOUND = [bought("ann", 1), bought("ann", 2), bought("ben", 4)]


def test_two_streams(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Events match by key and time, whichever side was read first."""
    fill(broker, "views", "buys")
    table = tmp_path / "table"
    asked = streams(broker, "views", "buys", tmp_path / "checkpoint", outputs=[ToTable(str(table))])
    report = run(spark, asked)
    assert (report.rows_in, report.rows_out, report.unreadable, report.late) == (15, 3, 2, 0)
    assert in_table(spark, table) == sorted(FOUND, key=repr)
    # A partner for the last view comes in the next run; one for the first comes too late.
    put(broker, "buys", [event("09:10", who="end", price=8), event("01:10", who="cid", price=9)])
    report = run(spark, asked)
    assert (report.rows_in, report.rows_out, report.late) == (2, 1, 1)
    assert in_table(spark, table) == sorted([*FOUND, bought("end", 8)], key=repr)
    # The events' times may be what is equal, and be selected from both sides.
    seen = Seen({})
    times = {"mine": "l.event_time", "theirs": "r.event_time"}
    on = {"event_time": "event_time"}
    run(spark, streams(broker, "views", "buys", tmp_path / "times", on=on, select=times, outputs=[seen]))
    found = [tuple(each.strftime("%H:%M") for each in row) for rows in seen.batches.values() for row in rows]
    assert sorted(found) == [*[("01:00", "01:00")] * 8, ("09:00", "09:00")]


def test_rows_without_a_partner(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """It is there once it can have none any more, or at the end of a run that is told so."""
    fill(broker, "left-views", "left-buys")
    topics(broker, "joined")
    asked = streams(
        broker, "left-views", "left-buys", tmp_path, outputs=[to_topic(broker, "joined", "user")], kind="right"
    )
    run(spark, asked)
    alone = [{"user": None, "price": price} for price in (3, 5, 6, 7)]
    assert written(broker, "joined") == sorted([*FOUND, *alone], key=repr)
    with pytest.raises(OptionError, match="another query: its kind is 'right', and now it is 'inner'"):
        run(spark, streams(broker, "left-views", "left-buys", tmp_path, outputs=asked.outputs))
    # Of both sides, of which each is read in several batches.
    seen, full = Seen({}), tmp_path / "full"
    limits = {
        "left": stream(broker, "left-views", VIEW, maxOffsetsPerTrigger="3"),
        "right": stream(broker, "left-buys", BUY, maxOffsetsPerTrigger="4"),
        "running": QuerySettings(str(full), close_open=True),
    }
    select = {"user": "l.user", "who": "r.who", "price": "r.price"}
    report = run(
        spark, streams(broker, "left-views", "left-buys", full, outputs=[seen], kind="full", select=select, **limits)
    )
    assert report.late == 0
    matches = [("ann", "ann", 1), ("ann", "ann", 2), ("ben", "ben", 4)]
    views = [("cid", None, None), (None, None, None), ("end", None, None)]
    buys = [("ann", 3), ("ben", 5), ("dan", 6), (None, 7), ("other end", None)]
    wanted = [*matches, *views, *((None, *buy) for buy in buys)]
    assert sorted((row for rows in seen.batches.values() for row in rows), key=repr) == sorted(wanted, key=repr)


def test_a_topic_without_events(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """What waits for them is neither written nor forgotten, and the job says so, until there are some."""
    topics(broker, "lone-views", "no-buys")
    put(broker, "lone-views", [event("01:00", user="ann"), event("09:00", user="ben")])
    seen, told = Seen({}), list[str]()
    asked = streams(broker, "lone-views", "no-buys", tmp_path, outputs=[seen], kind="left")
    for _ in range(2):
        told.clear()
        assert run(spark, asked, JobControl(told.append)).rows_out == 0
        assert [each for each in told if each.startswith("no-buys: there is no event yet")]
    put(broker, "no-buys", [event("09:05", who="ben", price=1)])
    put(broker, "lone-views", [event("09:10", user="cid")])
    told.clear()
    assert run(spark, asked, JobControl(told.append)).rows_out == 2
    assert sorted(row for rows in seen.batches.values() for row in rows) == [("ann", None), ("ben", 1)]
    assert not [each for each in told if "no event yet" in each]


def test_as_of(spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each flight has the last weather report before it, as pandas finds it; a key of three values is told of."""
    import pandas as pd

    flights, weather = nycflights("flights"), nycflights("weather")
    flights = flights[(flights["month"] == 1) & (flights["day"] < 8)].iloc[::10].copy()
    flights["at"] = flights["time_hour"] + pd.to_timedelta(flights["minute"], unit="min")
    weather = weather[(weather["month"] == 1) & (weather["day"] < 9)].sample(frac=0.3, random_state=1)
    weather = weather.rename(columns={"time_hour": "at"})
    topics(broker, "flights", "weather")
    for topic, frame in (
        ("flights", flights[["origin", "flight", "at"]].sample(frac=1, random_state=2)),
        ("weather", weather[["origin", "wind_speed", "at"]]),
    ):
        times = frame["at"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
        put(broker, topic, (json.dumps(row).encode() for row in frame.assign(at=times).to_dict("records")))
    monkeypatch.setattr("logbus.pipeline.jobs.joins.LEAST_PAIRS", 0)
    monkeypatch.setattr("logbus.pipeline.jobs.join_estimate.MANY", 1)
    told: list[str] = []
    seen = Seen({})
    report = run(
        spark,
        JoinOptions(
            left=stream(broker, "flights", "origin STRING, flight INT, at TIMESTAMP", maxOffsetsPerTrigger="300"),
            right=stream(broker, "weather", "origin STRING, wind_speed DOUBLE, at TIMESTAMP"),
            on={"origin": "origin"},
            as_of="4 hours",
            kind="left",
            select={"at": "l.event_time", "origin": "l.origin", "flight": "l.flight", "wind": "r.wind_speed"},
            outputs=[seen],
            running=QuerySettings(str(tmp_path / "checkpoint"), close_open=True),
        ),
        JobControl(told.append),
    )
    assert (report.late, report.rows_out) == (0, len(flights))
    by_pandas = pd.merge_asof(
        flights.sort_values("at"),
        weather[["origin", "at", "wind_speed"]].sort_values("at"),
        on="at",
        by="origin",
        tolerance=pd.Timedelta("4h"),
    )
    wanted = by_pandas.assign(at=by_pandas["at"].dt.tz_localize(None))[["at", "origin", "flight", "wind_speed"]]
    assert 0 < wanted["wind_speed"].isna().sum() < len(wanted) / 2
    rows = [(at, *rest, None if pd.isna(wind) else wind) for at, *rest, wind in wanted.itertuples(index=False)]
    found = [row for rows in seen.batches.values() for row in rows]
    assert sorted(found, key=repr) == sorted(((at.to_pydatetime(), *rest) for at, *rest in rows), key=repr)
    (warned,) = [line for line in told if line.startswith("warning: ")]
    assert "for each event: origin=origin has 3 different values among" in warned


def test_fields_named_as_a_records(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """An event may have fields called topic, offset, or as columns of a job: which event it is, its record says."""
    topics(broker, "moves", "states")
    own: dict[str, Any] = {"partition": 1, "offset": 1, "key": "a", "_place": 1, "_bucket": 1}
    put(
        broker, "moves", [event("01:00", topic=topic, user=user, **own) for topic, user in [(None, "ann"), ("", "ben")]]
    )
    put(broker, "states", [event("00:50", topic=None, offset=offset, key="a") for offset in (2, 1)])
    seen = Seen({})
    asked = JoinOptions(
        left=stream(
            broker,
            "moves",
            "topic STRING, partition INT, offset INT, key STRING, user STRING, at TIMESTAMP, _place INT, _bucket INT, "
            "_key0 INT, _punctuation INT",
        ),
        right=stream(broker, "states", "topic STRING, offset INT, key STRING, at TIMESTAMP, _place INT"),
        on={"key": "key"},
        as_of="1 hour",
        select={"user": "l.user", "offset": "r.offset", "of": "l.kafka.offset", "place": "l._place"},
        outputs=[seen],
        running=QuerySettings(str(tmp_path / "checkpoint"), close_open=True),
    )
    run(spark, asked)
    # Of two at the same time it is the one behind in the topic.
    assert sorted(row for rows in seen.batches.values() for row in rows) == [("ann", 1, 0, 1), ("ben", 1, 1, 1)]


def test_changing_table(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Each batch is joined with what the table is then: its newest values, without what was deleted."""
    topics(broker, "logins", "users")

    def name(user: str, name: str | None) -> tuple[str, bytes | None]:
        return user, None if name is None else f'{{"id": "{user}", "name": "{name}"}}'.encode()

    def logins(*users: str) -> None:
        put(broker, "logins", [event("01:00", user=user) for user in users])

    put(broker, "users", [name("a", "old"), name("b", "Ben"), name("a", "Ann"), name("c", "Cid"), ("d", b"no JSON")])
    put(broker, "users", [b'{"id": "e", "name": "no key"}'])
    logins("a", "b", "c", "d", "e")
    watch = JobControl()

    class Steps(Seen):
        """Changes the table when a batch is done."""

        def write(self, rows: DataFrame, query: str, number: int) -> None:
            super().write(rows, query, number)
            if number == 0:
                put(broker, "users", [name("b", None), name("c", "Cyd"), name("d", "Dan")])
                logins("a", "b", "c", "d")
            if sum(map(len, self.batches.values())) == 9:
                watch.stop()

    def join(seen: Seen, every: float | None = None, **more: Any) -> JoinOptions:
        source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "users"}
        given: dict[str, Any] = {
            "left": stream(broker, "logins", "user STRING, at TIMESTAMP"),
            "right": TableTopic(source=source, payload=JsonPayload(schema="id STRING, name STRING")),
            "on": {"user": "id"},
            "select": {"user": "l.user", "name": "r.name"},
            "kind": "left",
            "running": QuerySettings(str(tmp_path), every),
        }
        return JoinOptions(outputs=[seen], **{**given, **more})

    seen = Steps({})
    report = run(spark, join(seen, every=0.1), watch)
    assert (report.stopped, report.rows_in, report.rows_out) == (True, 9, 9)
    assert seen.batches.pop(0) == [("a", "Ann"), ("b", "Ben"), ("c", "Cid"), ("d", None), ("e", None)]
    # Mostly one batch, but who knows when the broker gets them.
    later = sorted((row for rows in seen.batches.values() for row in rows), key=repr)
    assert [name for _, name in later] == ["Ann", None, "Cyd", "Dan"]
    # Nothing waits for the table, so what is selected may change.
    logins("c", "x")
    after, told = Seen({}), list[str]()
    ask(broker.bootstrap, "delete_records", [TopicPartition("users", 0, 3)])
    ask(broker.bootstrap, "delete_records", [TopicPartition("logins", 0, len("abcde") + len("abcd") + 1)])
    logins("a", "c")
    of_what_is_left = stream(broker, "logins", "user STRING, at TIMESTAMP", failOnDataLoss="false")
    report = run(
        spark, join(after, kind="inner", select={"who": "r.name"}, left=of_what_is_left), JobControl(told.append)
    )
    assert list(after.batches.values()) == [[("Cyd",)]]
    assert len([each for each in told if "users-0 begins at offset 3: keys whose last record was" in each]) == 1
    # Of the stream the record of "c" is gone, and those of "x", "a" and "c" are left.
    assert (report.lost, report.rows_in, report.rows_out) == (1, 3, 1)


def test_invalid_expressions(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Expressions, before the query begins."""
    topics(broker, "one", "two")
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "two"}
    table = TableTopic(source=source, payload=JsonPayload(schema=BUY))

    def refused(words: str, **more: Any) -> None:
        for right in ({}, {"right": table}):
            with pytest.raises(OptionError, match=f"the join cannot be computed: .*{words}"):
                run(spark, streams(broker, "one", "two", tmp_path, outputs=[Seen({})], **right, **more))

    refused("`name` cannot be resolved", on={"name": "who"})
    refused("`l`.`price` cannot be resolved", select={"price": "l.price"})
    refused("`at` is ambiguous", select={"at": "at"})
    refused("PARSE_SYNTAX_ERROR", on={"user": "who ="})
    with pytest.raises(OptionError, match=r"the key upper\(user\)=price: upper\(user\) is STRING, and price INT"):
        run(spark, streams(broker, "one", "two", tmp_path, outputs=[Seen({})], on={"upper(user)": "price"}))
    assert not list(tmp_path.iterdir())

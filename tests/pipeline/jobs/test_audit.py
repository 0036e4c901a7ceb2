"""Tests the audit job: it finds planted losses and duplicates, and nothing else."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from confluent_kafka import TopicPartition

from logbus.cli.commands.pipeline_audit import audit
from logbus.cli.pipeline_job import Job
from logbus.client.audit.audit_comparison import AuditComparison, AuditVerdict
from logbus.client.audit.event_decoder import encode_avro
from logbus.client.audit.monitoring_event import AVRO_SCHEMA, CONSUMER, PRODUCER, MonitoringEvent, encode_event
from logbus.client.serializers import SerializationError
from logbus.pipeline.blocking.schema_registry import NoSuchSchema, RegistryClient
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.audit import LAKE, AuditOptions, AuditReport, run
from logbus.pipeline.jobs.audit_event_reader import AuditEventReader
from logbus.pipeline.jobs.audit_event_sums import rows_of
from logbus.pipeline.jobs.audit_limits import AuditLimits
from logbus.pipeline.jobs.audit_page import page
from logbus.pipeline.jobs.audit_tables import notes_of
from logbus.pipeline.jobs.cancellation import JobStopped
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.lake.commit_log import CommitKind
from logbus.pipeline.lake.layout import QUARANTINE
from logbus.pipeline.lake.load_state import LoadState, TopicOffsets
from logbus.pipeline.lake.offset_set import OffsetSet
from logbus.pipeline.lake.table import Table
from logbus.pipeline.payloads.payload import JsonPayload
from logbus.testing import Broker
from tests.pipeline.load_fixtures import ask, fill, load, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW = 600_000
FIRST = 1_700_000_400_000
"""The beginning of a window."""

FAR = 4_000_000_000_000
"""When all windows are over."""

Row = tuple[str, int, int, int]
"""Topic, partition, offset and time of a record."""


def _event(application: str, role: str, counts: Mapping[str, int], **more: Any) -> MonitoringEvent:
    fields = {"id": uuid.uuid4().hex, "host": "h", "window_start": FIRST, "window_ms": WINDOW, **more}
    return MonitoringEvent(application=application, role=role, counts=counts, **fields)


def _publish(broker: Broker, events: Iterable[bytes]) -> str:
    topic = make(broker, 1)
    fill(broker, topic, events)
    return topic


def _table(spark: SparkSession, path: Path, rows: Iterable[Row], odd: Iterable[Row] = ()) -> str:
    """A table with rows of topic, partition, offset and milliseconds, and with some in quarantine."""
    table = Table.at(spark, str(path))
    table.claim()
    offsets: dict[str, dict[int, OffsetSet]] = {}
    number = 0
    for some, place in ((list(rows), ""), (list(odd), f"/{QUARANTINE}")):
        if not some:
            continue
        schema = "topic string, partition int, offset long, timestamp timestamp"
        timed = [
            (*each[:3], datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=each[3]))
            for each in some
        ]
        spark.createDataFrame(timed, schema).coalesce(1).write.mode("append").parquet(table.staging_url + place)
        number += len(some)
        for topic, partition, offset, _ in some:
            held = offsets.setdefault(topic, {})
            held[partition] = held.get(partition, OffsetSet()) | OffsetSet.of((offset, offset + 1))
    table.commit(
        CommitKind.LOAD,
        table.staged(),
        offsets={topic: TopicOffsets("", held) for topic, held in offsets.items()},
        records=number,
    )
    return str(path)


def _run(spark: SparkSession, broker: Broker, events: str, **more: Any) -> AuditReport:
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": events}
    return run(spark, AuditOptions(source=source, **more), now_ms=lambda: FAR)


def _verdicts(report: AuditReport) -> dict[tuple[str, int, str], tuple[str, int]]:
    return {
        (each.topic, (each.window_start - FIRST) // WINDOW, each.application): (each.verdict.value, each.missing)
        for each in report.comparisons
    }


class TestPlanted:
    def test_planted_errors_are_found(self, spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
        """Losses and duplicates at random, of consumers and of a table, in some of many windows and two topics."""
        random = Random(7)
        events: list[bytes] = []
        rows: list[Row] = []
        odd: list[Row] = []
        expected: dict[tuple[str, int, str], tuple[str, int]] = {}
        again: Counter[str] = Counter()
        next_offset: Counter[tuple[str, int]] = Counter()

        def verdict(missing: int) -> tuple[str, int]:
            return ("missing" if missing > 0 else "duplicated" if missing < 0 else "complete"), missing

        for topic in ("one", "two"):
            for window in range(8):
                published = random.randrange(5, 20)
                start = FIRST + window * WINDOW
                # One producer has shorter windows, and there are two.
                part = random.randrange(published)
                for at, length, count in ((start, WINDOW, part), (start + 300_000, 300_000, published - part)):
                    event = _event("shop", PRODUCER, {topic: count}, window_start=at, window_ms=length)
                    code = random.choice([encode_event, encode_avro])
                    events += [code(event)] * random.choice([1, 1, 2])
                for reader in ("kitchen", "books"):
                    missing = random.choice([0, 0, 0, 2, -3])
                    event = _event(reader, CONSUMER, {topic: published - missing}, window_start=start)
                    events.append(encode_event(event))
                    expected[topic, window, reader] = verdict(missing)
                lost, twice = random.choice([(0, 0), (0, 0), (0, 0), (2, 0), (0, 3), (1, 1)])
                here = []
                for number in range(published - lost):
                    partition = number % 2
                    here.append((topic, partition, next_offset[topic, partition], start + random.randrange(WINDOW)))
                    next_offset[topic, partition] += 1
                odd.append(here[0])
                rows += here[1:] + here[1 : 1 + twice]
                again[topic] += twice
                expected[topic, window, "lake"] = verdict(lost or -twice)
        random.shuffle(events)
        table = _table(spark, tmp_path / "t", rows, odd)
        report = _run(spark, broker, _publish(broker, events), tables={"lake": table})
        assert _verdicts(report) == expected
        assert {each.role for each in report.comparisons if each.application == "lake"} == {LAKE}
        assert report.doubled == {"lake": dict(again)}
        assert report.has_loss
        assert report.has_duplicates
        beyond = sum(-missing for verdict, missing in expected.values() if verdict == "duplicated")
        partly = sum(again.values()) - sum(-n for (*_, who), (_, n) in expected.items() if who == "lake" and n < 0)
        assert report.surplus == beyond + partly
        (sentence,) = report.exceeded
        assert sentence.startswith(f"{report.surplus} of the {report.counted} counted records are there more than once")
        assert (report.events, report.unreadable, report.unknown) == (len(events), 0, [])
        assert len({bytes(each) for each in events}) == report.events - report.repeated

    def test_complete_counts(self, spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
        """Also records without a time, which count as of 1970; and with those in quarantine."""
        rows = [("t", 0, 0, -1), ("t", 0, 1, FIRST), ("t", 0, 2, FIRST + WINDOW - 1)]
        events = [
            _event("shop", PRODUCER, {"t": 1}, window_start=0),
            _event("shop", PRODUCER, {"t": 3, "other": 5}),
        ]
        topic = _publish(broker, map(encode_event, events))
        table = _table(spark, tmp_path / "t", rows, [("t", 0, 3, FIRST + 1)])
        report = _run(spark, broker, topic, tables={"lake": table})
        assert [each.verdict for each in report.comparisons] == [AuditVerdict.COMPLETE] * 2
        assert not report.has_failed
        assert not report.has_duplicates
        early = AuditOptions(source={"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic})
        still_open = run(spark, early, now_ms=lambda: FIRST)
        assert not still_open.has_loss

    def test_table_without_a_topic(self, spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
        """It is missed where it is expected, or where the table has the topic at other times, but not outside of the
        time that is asked for; and a topic that nobody tells of is not taken for complete."""
        later = FIRST + 5 * WINDOW
        table = _table(spark, tmp_path / "t", [("half", 0, 7, later), ("untold", 0, 0, FIRST)])
        events = [
            _event("shop", PRODUCER, {"half": 4, "absent": 2}),
            _event("shop", PRODUCER, {"half": 1}, window_start=later),
        ]
        topic = _publish(broker, map(encode_event, events))
        report = _run(spark, broker, topic, tables={"lake": table}, expected=[("lake", "absent")])
        assert _verdicts(report) == {
            ("absent", 0, "lake"): ("missing", 2),
            ("half", 0, "lake"): ("missing", 4),
            ("half", 5, "lake"): ("complete", 0),
            ("untold", 0, "lake"): ("unknown", -1),
        }
        assert {each.role for each in report.comparisons} == {LAKE}
        assert report.notes == {"lake": ["half-0: it begins at offset 7"]}
        typed = _run(spark, broker, topic, topics=["hlaf", "half"], expected=[("lake", "abesnt"), ("lake", "half")])
        assert typed.unknown == ["no monitoring event is about topic 'hlaf'"]
        assert typed.has_loss
        typed = _run(spark, broker, topic, expected=[("kitchen", "abesnt")])
        assert typed.unknown == ["no monitoring event is about topic 'abesnt'"]
        only = _run(spark, broker, topic, tables={"lake": table}, topics=["half"], since_ms=later)
        assert _verdicts(only) == {("half", 5, "lake"): ("complete", 0)}
        assert not only.has_loss

    def test_client_load_and_audit(self, spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
        """A real producer and a real consumer count; the table lacks what was deleted before it was loaded."""
        topic, events = make(broker), make(broker)
        done = subprocess.run(
            [sys.executable, "-c", CLIENTS, broker.bootstrap, topic, events],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        whole, part = tmp_path / "whole", tmp_path / "part"
        load(spark, broker, whole, topic)
        ask(broker.bootstrap, "delete_records", [TopicPartition(topic, 0, 30)])
        load(spark, broker, part, topic)
        report = _run(spark, broker, events, tables={"whole": str(whole), "part": str(part)})
        found: Counter[tuple[str, str]] = Counter()
        for each in report.comparisons:
            found[each.application, each.verdict.value] += each.missing
        # Should a window end meanwhile, there are two of each.
        assert {who: sum(n for (name, _), n in found.items() if name == who) for who, _ in found} == {
            "kitchen": 0,
            "whole": 0,
            "part": 30,
        }
        assert ("part", "missing") in found
        assert {verdict for who, verdict in found if who != "part"} == {"complete"}
        assert report.notes["part"] == [f"{topic}-0: it begins at offset 30"]

    def test_tables_of_other_formats(self, spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
        """Of Delta Lake and Iceberg, with their quarantines; and what other programs do to the rows is found."""
        polars = pytest.importorskip("polars")
        for name in ("pyiceberg", "deltalake"):
            pytest.importorskip(name)
        from pyiceberg.catalog import load_catalog

        from tests.pipeline.lake.iceberg.fixtures import NAME, catalog_in

        topic, delta = make(broker), str(tmp_path / "delta")
        values = [b'{"e": %d}' % number if number % 5 else b"odd" for number in range(20)]
        fill(broker, topic, values, times=lambda number: FIRST + number)
        events = _publish(broker, [encode_event(_event("shop", PRODUCER, {topic: 20}))])
        with catalog_in(tmp_path) as catalog:
            into = {"payload": JsonPayload(schema="e INT"), "partition_by": ""}
            assert load(spark, broker, Path(delta), topic, format="delta", **into).quarantined == 4
            load(spark, broker, Path(NAME), topic, format="iceberg", catalog=catalog, **into)
            asked = {"tables": {"delta": delta}, "iceberg_tables": {"ice": NAME}, "catalog": catalog}
            report = _run(spark, broker, events, **asked)
            assert _verdicts(report) == {(topic, 0, name): ("complete", 0) for name in ("delta", "ice")}
            assert not report.has_failed
            rows = polars.read_delta(delta).filter(polars.col("offset") < 3)
            rows.write_delta(delta, mode="append")
            load_catalog(catalog).load_table(NAME).delete("e < 3")
            report = _run(spark, broker, events, **asked)
            assert _verdicts(report) == {(topic, 0, "delta"): ("duplicated", -2), (topic, 0, "ice"): ("missing", 2)}
            assert report.doubled == {"delta": {topic: 2}, "ice": {}}
            with pytest.raises(OptionError, match=r"there is no table at lake\.other"):
                _run(spark, broker, events, iceberg_tables={"ice": "lake.other"}, catalog=catalog)


CLIENTS = """
import random, sys, time
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from logbus.client import Cluster, Consumer, Producer
from logbus.client.audit.audit_interceptor import CONSUMER, PRODUCER, AuditInterceptor

bootstrap, topic, events = sys.argv[1:]

async def main(reactor):
    cluster = Cluster(reactor, bootstrap)
    audit = AuditInterceptor(cluster, application="shop", role=PRODUCER, topic=events)
    producer = Producer(cluster, wall_clock=time.time, random=random.Random(), interceptors=[audit])
    for number in range(100):
        producer.send(topic, b"order %d" % number)
    await producer.close()
    await audit.close()
    audit = AuditInterceptor(cluster, application="kitchen", role=CONSUMER, topic=events)
    consumer = Consumer(cluster, topic, auto_offset_reset="earliest", interceptors=[audit])
    consumer.subscribe([topic])
    left = 100
    async for batch in consumer.batches():
        left -= len(batch.records)
        if not left:
            break
    await consumer.close()
    await audit.close()
    await cluster.close()

react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
"""


class TestBadInput:
    def test_no_events_are_no_good_news(self, spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
        """An empty topic, records that are no events, and a topic that is not there."""
        empty = _run(spark, broker, make(broker))
        assert empty.has_loss
        assert empty.unknown == ["there are no monitoring events"]
        topic = _publish(broker, [b"hello", None, encode_event(_event("shop", PRODUCER, {"t": 1}))])
        huge = [_event("shop", PRODUCER, {"t": 2**63 - 1}, failed={"t": 2**63 - 1}) for _ in range(3)]
        much = _run(spark, broker, _publish(broker, map(encode_event, huge)), expected=[("kitchen", "t")])
        assert [(each.published, each.failed) for each in much.comparisons] == [(3 * (2**63 - 1),) * 2]
        noisy = _run(spark, broker, topic)
        assert (noisy.events, noisy.unreadable, noisy.has_loss) == (1, 2, False)
        assert noisy.problem.startswith(f"{topic}-0 at offset 0: ")
        assert noisy.has_failed
        assert [each.partition(" (")[0] for each in noisy.exceeded] == ["2 of the 3 records are no monitoring events"]
        assert not _run(spark, broker, topic, limits=AuditLimits(max_unreadable_share=0.67)).has_failed
        with pytest.raises(PipelineError, match="cannot be read: there is no topic 'nowhere'"):
            _run(spark, broker, "nowhere")
        with pytest.raises(OptionError, match=f"there is no table at .*{tmp_path}/typo"):
            # Before any event is looked for.
            _run(spark, broker, "nowhere", tables={"lake": str(tmp_path / "typo")})

    def test_incomparable_windows_and_tables(self, spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
        """Both are named."""
        table = Table.at(spark, str(tmp_path / "t"))
        table.claim()
        spark.range(3).coalesce(1).write.parquet(table.staging_url)
        table.commit(CommitKind.LOAD, table.staged(), records=3)
        topic = _publish(broker, [encode_event(_event("shop", PRODUCER, {"t": 1}))])
        with pytest.raises(OptionError, match="has no column 'topic': tables that topics are loaded into"):
            _run(spark, broker, topic, tables={"lake": str(tmp_path / "t")})
        odd = _event("shop", PRODUCER, {"t": 1}, window_start=0, window_ms=450_000)
        topic = _publish(broker, map(encode_event, [odd, _event("shop", PRODUCER, {"t": 1})]))
        with pytest.raises(OptionError, match="windows of 450000 ms do not fit"):
            _run(spark, broker, topic, tables={"lake": str(tmp_path / "t")})

    def test_stopped_audit_has_no_result(self, spark: SparkSession, broker: Broker) -> None:
        """Half an audit would be taken for a whole one."""
        watch = JobControl()
        watch.stop()
        source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": make(broker)}
        with pytest.raises(JobStopped):
            run(spark, AuditOptions(source=source), watch)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"grace": -1}, "grace is -1"),
            ({"since_ms": 5, "until_ms": 5}, "before it begins"),
            ({"tables": {"lake": ""}}, "it takes a name, and a directory"),
            ({"tables": {"lake": "a"}, "iceberg_tables": {"lake": "a.b"}}, "'lake' is there twice"),
            ({"iceberg_tables": {"lake": "views"}}, "a table of Iceberg is NAMESPACE.TABLE in a catalog"),
            ({"iceberg_tables": {"lake": "a.b"}, "catalog": "none"}, "there is no catalog 'none'"),
            ({"source": {"nonsense": "1"}}, "'nonsense' is not known"),
        ],
    )
    def test_invalid_options(self, given: dict[str, Any], said: str) -> None:
        """Before Spark is asked for anything."""
        with pytest.raises(OptionError, match=said):
            AuditOptions(**{"source": {"kafka.bootstrap.servers": "127.0.0.1:1"}, **given})

    def test_only_relevant_events_are_read(self) -> None:
        """Those that were published before the time that is asked for cannot tell of it, but for clocks that differ."""
        source = {"kafka.bootstrap.servers": "127.0.0.1:1"}
        assert AuditOptions(source=source, since_ms=FIRST).source["startingTimestamp"] == str(FIRST - 3_600_000)
        assert "startingTimestamp" not in AuditOptions(source=source).source
        own = AuditOptions(source={**source, "startingoffsets": "earliest"}, since_ms=FIRST).source
        assert "startingTimestamp" not in own


class _Schemas(RegistryClient):
    """A registry that has one schema, and counts how often it is asked."""

    asked: ClassVar[list[int]] = []

    def schema(self, schema_id: int) -> str:
        self.asked.append(schema_id)
        if schema_id != 7:
            raise NoSuchSchema("none")
        return json.dumps(dict(AVRO_SCHEMA))


class TestReading:
    def test_an_event_is_the_same_in_whichever_coding(self) -> None:
        """JSON, also behind blanks; Avro; Avro behind an id, for which the registry is asked once."""
        event = _event("shop", PRODUCER, {"t": 3}, failed={"t": 1}, uncounted=2)
        _Schemas.asked.clear()
        reading = AuditEventReader(_Schemas("http://127.0.0.1:1"))
        framed = b"\0\0\0\0\x07" + encode_avro(event)
        for coded in (encode_event(event), b" \n" + encode_event(event), encode_avro(event), framed, framed):
            assert reading.event(coded) == event
        assert _Schemas.asked == [7]

    def test_invalid_events(self) -> None:
        """Whatever the bytes are, there is one kind of error."""
        event = encode_avro(_event("shop", PRODUCER, {"t": 3}))
        reading = AuditEventReader(_Schemas("http://127.0.0.1:1"))
        for coded, said in (
            (None, "a monitoring event is an object"),
            (b"", "not JSON"),
            (b"{}", "has text as 'id'"),
            (event[:-1], "neither JSON nor"),
            (event + b"x", "1 bytes follow"),
            (b"\0\0", "2 bytes are no framed value"),
            (b"\0\0\0\0\x08" + event, "the registry has no schema 8"),
            (b"\xff" * 40, "neither JSON nor"),
        ):
            with pytest.raises(SerializationError, match=said):
                reading.event(coded)
        with pytest.raises(SerializationError, match="say where the registry is"):
            AuditEventReader().event(b"\0\0\0\0\x07" + event)

    def test_a_record_becomes_rows(self) -> None:
        """One for the event, and one for each topic; what no column can have is no event."""
        event = _event("shop", PRODUCER, {"t": 3, "u": 1}, failed={"t": 1, "v": 2}, uncounted=5)
        same = {
            "id": event.id,
            "application": "shop",
            "role": PRODUCER,
            "window_start": FIRST,
            "window_ms": WINDOW,
        }
        assert rows_of(AuditEventReader(), encode_event(event)) == [
            {**same, "uncounted": 5},
            {**same, "topic": "t", "counted": 3, "failed": 1},
            {**same, "topic": "u", "counted": 1, "failed": None},
            {**same, "topic": "v", "counted": None, "failed": 2},
        ]
        for value in (b"{}", encode_event(event).replace(b"shop", rb"\ud800")):
            ((name, text),) = rows_of(AuditEventReader(), value)[0].items()
            assert name == "problem"
            assert text.encode()


class TestLimits:
    def test_shares(self) -> None:
        """Up to the share all is well, also of nothing; beyond it there is a sentence with the option and a remedy."""
        nothing = {"events": 0, "unreadable": 0, "counted": 0, "surplus": 0}
        some = {"events": 98, "unreadable": 2, "counted": 200, "surplus": 3}
        assert AuditLimits().exceeded(**nothing) == []
        assert AuditLimits(0.02, 0.015).exceeded(**some) == []
        unreadable, twice = AuditLimits(0.019, 0.0149).exceeded(**some)
        assert unreadable.startswith(
            "2 of the 100 records are no monitoring events (2.0%), more than max_unreadable_share 0.019 "
            "(--max-unreadable-share). "
        )
        assert twice.startswith(
            "3 of the 200 counted records are there more than once (1.5%), more than max_duplicate_share 0.0149 "
            "(--max-duplicate-share): "
        )
        assert len(AuditLimits().exceeded(**{**nothing, "unreadable": 1})) == 1
        assert AuditLimits(1, 1).exceeded(**{**some, "events": 0, "surplus": 200}) == []

    def test_invalid(self) -> None:
        """A percentage is no share."""
        with pytest.raises(OptionError, match="max_duplicate_share is 5; it takes a share of the records, from 0 to 1"):
            AuditLimits(max_duplicate_share=5)


class TestNotes:
    def test_known_gaps_of_tables(self) -> None:
        """The beginning that was not asked for, gaps, and what was lost; not more than anybody reads."""
        offsets = {0: OffsetSet.of((5, 10), (20, 30)), 1: OffsetSet.of((0, 3))}
        lost = {"t": TopicOffsets("", {1: OffsetSet.of((0, 2))})}
        state = LoadState(offsets={"t": TopicOffsets("", offsets)}, lost=lost)
        assert notes_of(state) == (
            "t-0: it begins at offset 5",
            "t-0: offsets 10 to 19 are not loaded",
            "t-1: 2 offsets were gone before they could be loaded",
        )
        many = LoadState(offsets={"t": TopicOffsets("", {n: OffsetSet.of((1, 2)) for n in range(50)})})
        assert len(notes_of(many)) == 11
        assert notes_of(many)[-1] == "and 40 more of this kind"


class _Page(HTMLParser):
    """Sees that tags are closed in order, and gathers what is in a page."""

    VOID: ClassVar[set[str]] = {"meta", "br"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _found(window: int, published: int, counted: int, **more: Any) -> AuditComparison:
    verdict = AuditVerdict.COMPLETE if published == counted else AuditVerdict.MISSING
    fields = {"topic": "t", "application": "kitchen", "role": CONSUMER, "failed": 0, "verdict": verdict, **more}
    return AuditComparison(
        window_start=FIRST + window * WINDOW, window_ms=WINDOW, published=published, counted=counted, **fields
    )


class TestPage:
    def test_names_are_text_whatever_they_are(self) -> None:
        """Names come from outside."""
        evil = "<script>alert('&')</script>\"'"
        report = AuditReport(
            [_found(0, 3, 2, topic=evil, application=evil, role=evil), _found(10**11, 1, 1)],
            doubled={evil: {evil: 3}},
            unknown=[evil],
            notes={evil: [evil]},
            unreadable=1,
            problem=evil,
        )
        seen = _Page(page(report, made_ms=FIRST))
        assert "script" not in {tag for tag, _ in seen.tags}
        assert "Audit: records are missing, and some are there more than once" in seen.text
        assert sum(evil in text for text in seen.text) >= 6
        assert any(text.endswith(" ms") for text in seen.text)

    def test_plots_have_the_points(self) -> None:
        """The first window to the left, the last to the right, none at the bottom, the most on top."""
        report = AuditReport([_found(0, 10, 10), _found(1, 20, 5), _found(4, 0, 0)])
        seen = _Page(page(report, made_ms=FIRST))
        lines = [attrs["points"] for tag, attrs in seen.tags if tag == "polyline"]
        assert lines == [
            "70.0,130.0 275.0,20.0 890.0,240.0",
            "70.0,130.0 275.0,185.0 890.0,240.0",
        ]
        assert sum(tag == "circle" for tag, _ in seen.tags) == 6
        (svg,) = (attrs for tag, attrs in seen.tags if tag == "svg")
        assert svg["viewbox"] == "0 0 900 278"

    def test_legend_lines(self) -> None:
        """Many applications take several lines, and the page stays as wide as it is."""
        report = AuditReport([_found(0, 1, 1, application=f"reader {n}") for n in range(40)])
        seen = _Page(page(report, made_ms=FIRST))
        (svg,) = (attrs for tag, attrs in seen.tags if tag == "svg")
        _, _, width, height = (float(each) for each in str(svg["viewbox"]).split())
        places = [(float(str(a["x"])), float(str(a["y"]))) for t, a in seen.tags if t == "text" and "style" in a]
        assert len(set(places)) == len(places) == 25
        assert all(x < width - 150 and y <= height for x, y in places)
        assert "Not all applications are drawn." in seen.text

    def test_heading(self) -> None:
        """Nothing that is unknown is called good."""
        complete, still_open = _found(0, 1, 1), _found(0, 1, 0, verdict=AuditVerdict.OPEN)
        unknown = _found(0, 0, 1, verdict=AuditVerdict.UNKNOWN)
        for report, said in (
            (AuditReport([complete, still_open]), "nothing is missing"),
            (AuditReport([still_open]), "there is nothing to judge yet"),
            (AuditReport([]), "there is nothing to judge yet"),
            (AuditReport([complete, unknown]), "it is unknown whether records are missing"),
            (AuditReport([complete], unknown=["why"]), "it is unknown whether records are missing"),
        ):
            assert f"Audit: {said}" in _Page(page(report, made_ms=FIRST)).text

    def test_incomplete_windows_come_first(self) -> None:
        """Those that are complete make room."""
        report = AuditReport([_found(0, 2, 1)] + [_found(n, 1, 1) for n in range(1, 5101)])
        seen = _Page(page(report, made_ms=FIRST))
        assert sum(tag == "tr" for tag, _ in seen.tags) == 1 + 1 + 5000
        assert "100 older windows that are complete are not shown." in seen.text
        assert sum(attrs.get("class") == "missing" for _, attrs in seen.tags) == 1


def test_the_command_ends_with_1_where_records_are_missing(
    broker: Broker, tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    """It prints a table, and writes its report and its page."""
    events = [_event("shop", PRODUCER, {"t": 3}), _event("küche", CONSUMER, {"t": 2})]
    topic = _publish(broker, map(encode_event, events))
    asked = ["audit", "--topic", topic, "-b", broker.bootstrap, "--quiet"]
    asked += ["--report", str(tmp_path / "report.json"), "--page", str(tmp_path / "page.html")]
    status, out, said = command(*asked)
    assert (status, said) == (1, "logbus: 1 record is missing, of t\n")
    assert out.splitlines()[1].split() == [
        *("t", "2023-11-14T22:20:00Z", "küche", "consumer", "3", "2", "1", "0", "missing")
    ]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["loss"] is True
    assert [each["verdict"] for each in report["comparisons"]] == ["missing"]
    assert (report["failed"], report["exceeded"]) == (True, [])
    assert "Audit: records are missing" in _Page((tmp_path / "page.html").read_text(encoding="utf-8")).text


_MISSING = AuditComparison("t", FIRST, 600_000, "lake", "lake", 5, 0, 3, AuditVerdict.MISSING)
_UNKNOWN = AuditComparison("u", FIRST, 600_000, "lake", "lake", 0, 0, 3, AuditVerdict.UNKNOWN)


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        (AuditReport(), []),
        (AuditReport(exceeded=["far too many"]), ["far too many"]),
        (
            AuditReport([_MISSING, _UNKNOWN], exceeded=["far too many"]),
            ["2 records are missing, of t", "3 records are perhaps missing or duplicated, of u", "far too many"],
        ),
    ],
)
def test_the_command_ends_with_1_where_something_is_wrong(
    report: AuditReport, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says all of it: who allows the duplicates should know of the losses."""
    monkeypatch.setattr(Job, "run", lambda *_: report)
    assert audit.main(["--quiet"], standalone_mode=False) == bool(lines)
    assert capsys.readouterr().err.splitlines() == [f"logbus: {each}" for each in lines]

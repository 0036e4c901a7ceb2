"""Tests that wrong options of a query are reported before anything runs, without Spark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast
from unittest import TestCase

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException

from logbus.cli.commands.pipeline import pipeline
from logbus.model import TopicPartition
from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.durations import MAX_DURATION, duration_micros, readable_duration, spark_duration
from logbus.pipeline.jobs.event_stream import EventStream
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.join_keys import check_key, type_of, types_of
from logbus.pipeline.jobs.joins import JoinOptions
from logbus.pipeline.jobs.outputs import ToTopic
from logbus.pipeline.jobs.progress import offset_lines, plan_line, rates, report_progress, tasks_done
from logbus.pipeline.jobs.query_starts import run_writer
from logbus.pipeline.jobs.streaming_query import QueryReport, QuerySettings
from logbus.pipeline.jobs.table_topic import TableTopic
from logbus.pipeline.jobs.windows import SessionWindow, SlidingWindow, TumblingWindow, WindowsOptions
from logbus.pipeline.payloads.payload import JsonPayload

UNITS = {"second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86400 * 10**6}
KAFKA = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
SOURCE = {**KAFKA, "subscribe": "views"}


class DurationTests(TestCase):
    """Durations in options."""

    @given(st.lists(st.tuples(st.integers(0, 9999), st.sampled_from(sorted(UNITS)), st.booleans()), min_size=1))
    def test_parts_are_added(self, parts: list[tuple[int, str, bool]]) -> None:
        """Several numbers with units, one or many, are one duration; as we spell it, it is the same."""
        text = " ".join(f"{number} {unit}{'s' if many else ''}" for number, unit, many in parts)
        wanted = sum(number * UNITS[unit] for number, unit, _ in parts)
        if wanted <= MAX_DURATION:
            self.assertEqual(duration_micros("x", text, least=0), wanted)
            self.assertEqual(duration_micros("x", spark_duration(wanted), least=0), wanted)
            self.assertEqual(duration_micros("x", readable_duration(wanted), least=0), wanted)

    def test_how_they_are_spelled(self) -> None:
        """As people would, so that errors can be read."""
        for text, wanted in (
            ("90 minutes", "1 hour 30 minutes"),
            ("0 seconds", "0 seconds"),
            ("8 days 1 microsecond", "1 week 1 day 1 microsecond"),
            ("120 seconds", "2 minutes"),
        ):
            self.assertEqual(readable_duration(duration_micros("x", text, least=0)), wanted)

    @given(st.text(max_size=20))
    def test_arbitrary_durations(self, text: str) -> None:
        """Whatever is said, it is a duration or an error that names the option."""
        try:
            self.assertLessEqual(1, duration_micros("the size", text))
        except OptionError as e:
            self.assertTrue(str(e).startswith(f"the size is {text!r}; it "))

    def test_durations_that_spark_reads_differently(self) -> None:
        """Months, which vary; negative ones; conditions; numbers that Spark cannot hold."""
        for text in ("1 month", "-1 hours", "1 hour OR TRUE", "hour", "5", "1hour", "٣ hours", "9" * 5000 + " hours"):
            with self.subTest(text[:20]), self.assertRaisesRegex(OptionError, "takes a duration such as '10 minutes'"):
                duration_micros("x", text)
        with self.assertRaisesRegex(OptionError, "it must be longer"):
            duration_micros("x", "0 seconds")
        with self.assertRaisesRegex(OptionError, "it must be shorter"):
            duration_micros("x", "999999999 weeks")


class OptionTests(TestCase):
    """Options that constructors refuse."""

    def refused(self, words: str, make: Callable[[], Any]) -> None:
        """It is refused with these words."""
        with self.assertRaisesRegex(OptionError, re.escape(words)):
            make()

    def test_streams(self) -> None:
        """They begin at the first committed record, unless something else is said."""
        stream = EventStream(source=SOURCE)
        self.assertEqual(stream.source["startingOffsets"], "earliest")
        self.assertEqual(stream.source["kafka.isolation.level"], "read_committed")
        self.assertEqual(stream.topics, "views")
        other = EventStream(source={**SOURCE, "startingTimestamp": "5", "Kafka.Isolation.Level": "read_uncommitted"})
        self.assertNotIn("startingOffsets", other.source)
        self.assertNotIn("kafka.isolation.level", other.source)
        self.refused("the watermark is 'soon'", lambda: EventStream(source=SOURCE, watermark="soon"))
        self.refused("endingOffsets", lambda: EventStream(source={**SOURCE, "endingOffsets": "latest"}))
        self.refused("subscribe", lambda: EventStream(source=KAFKA))

    def test_windows(self) -> None:
        """Sizes, and names of columns."""
        self.refused("the size of a window is '1 month'", lambda: TumblingWindow("1 month"))
        self.refused("the gap of sessions is '0 seconds'; it must be longer", lambda: SessionWindow("0 seconds"))
        self.refused("the slide of windows is 'x'", lambda: SlidingWindow("1 hour", "x"))
        self.refused("the slide is at most the size", lambda: SlidingWindow("1 hour", "2 hours"))
        self.refused("each event is in 3600 of them", lambda: SlidingWindow("1 hour", "1 second"))

        def windows(**more: Any) -> WindowsOptions:
            given: dict[str, Any] = {
                "stream": EventStream(source=SOURCE),
                "window": TumblingWindow("1 hour"),
                "outputs": [ToTopic({**KAFKA, "topic": "hourly"})],
                "running": QuerySettings("checkpoint"),
            }
            return WindowsOptions(**{**given, **more})

        self.assertEqual(windows(by={"page": "page"}).columns, ["window_start", "window_end", "page", "count"])
        self.refused("at least one aggregate, such as count(*)", lambda: windows(aggregates={}))
        self.refused("say what to group by, such as the user", lambda: windows(window=SessionWindow("1 hour")))
        self.refused(
            "the column 'Count' is there twice", lambda: windows(by={"count": "page"}, aggregates={"Count": ""})
        )
        self.refused("'window_start' is there twice", lambda: windows(by={"window_start": "page"}))
        self.refused(
            "closed at the end of a run that has one", lambda: QuerySettings("checkpoint", every=1, close_open=True)
        )
        self.refused("the column '_events' is of this job's own", lambda: windows(by={"_Events": "page"}))
        same = windows(window=TumblingWindow("60 minutes"), running=QuerySettings("c", every=1))
        self.assertEqual(same.identity, windows().identity)
        for more in (
            {"window": TumblingWindow("61 minutes")},
            {"by": {"page": "page"}},
            {"window": SlidingWindow("2 hours", "1 hour")},
            {"stream": EventStream(source=SOURCE, payload=JsonPayload(schema="at TIMESTAMP", event_time="at"))},
        ):
            self.assertNotEqual(windows(**more).identity, windows().identity)

    def test_joins(self) -> None:
        """Kinds, keys, columns, times; what a table cannot have."""

        def join(**more: Any) -> JoinOptions:
            given: dict[str, Any] = {
                "left": EventStream(source=SOURCE),
                "right": TableTopic(source={**KAFKA, "subscribe": "users"}),
                "on": {"key": "key"},
                "select": {"user": "l.key"},
                "outputs": [],
                "running": QuerySettings("checkpoint"),
            }
            return JoinOptions(**{**given, **more})

        self.refused("the kind of a join with a table is inner or left, not 'right'", lambda: join(kind="right"))
        self.refused("the kind of a join is inner, left, right, full, not 'outer'", lambda: join(kind="outer"))
        self.refused("an as-of join is one of two streams", lambda: join(as_of="1 hour"))
        views = EventStream(source=SOURCE)
        self.refused("the kind of an as-of join is", lambda: join(right=views, as_of="1 hour", kind="full"))
        self.refused("as_of is 'soon'", lambda: join(right=views, as_of="soon"))
        self.refused("what must be equal on both sides, such as user=user", lambda: join(on={}))
        self.refused("which columns the join has, such as user=l.user", lambda: join(select={}))
        self.refused("the column 'A' is there twice", lambda: join(select={"a": "l.key", "A": "r.key"}))
        self.refused("before is 'x'", lambda: join(before="x"))
        self.refused("after is '-1 hours'", lambda: join(after="-1 hours"))
        for name in ("startingOffsets", "endingTimestamp"):
            self.refused(
                f"option '{name}': a table is all of its topic",
                lambda name=name: TableTopic(source={**SOURCE, name: "1"}),
            )
        self.refused("did you mean subscribe", lambda: TableTopic(source={**KAFKA, "subscribed": "users"}))
        # Nothing waits for a table: its columns may change while a checkpoint lives. Those of streams may not.
        self.assertEqual(join(select={"a": "l.key"}).identity, join().identity)
        both = {"right": EventStream(source=SOURCE)}
        self.assertNotEqual(join(select={"a": "l.key"}, **both).identity, join(**both).identity)
        self.assertNotEqual(join(after="2 hours", **both).identity, join(**both).identity)

    def test_keys_of_different_types(self) -> None:
        """Text is no number, though Spark would take it for one; names of columns are those of the schemas."""

        def keys(mine: str, theirs: str, into: str = "") -> None:
            schema = "user STRING, id INT, b BINARY, v VARCHAR(9), at TIMESTAMP, `a b` BIGINT, d DECIMAL(9, 2), "
            schema += "s STRUCT<n: INT>"
            side = EventStream(source=SOURCE, payload=JsonPayload(schema=schema, event_time="at", into=into))
            types = types_of(side.payload)
            check_key(mine, type_of(mine, types), theirs, type_of(theirs, types))

        for mine, theirs in (
            ("id", "`a b`"),
            ("user", "b"),
            ("user", "V"),
            ("id", "s.n"),
            ("user", "d"),
            ("cast(id AS STRING)", "user"),
        ):
            keys(mine, theirs)
        self.refused(
            "the key user=ID: user is STRING, and ID INT. Spark would read the text as INT, and fail at the first that "
            "is none. Compare texts (--on 'user=cast(ID AS STRING)') or values (--on 'try_cast(user AS INT)=ID', where "
            "other text matches nothing)",
            lambda: keys("user", "ID"),
        )
        self.refused("`a b` is BIGINT, and v VARCHAR. Spark", lambda: keys("`a b`", "v"))
        self.refused(
            "(--on 'cast(at AS STRING)=user') or values (--on 'at=try_cast(user AS ", lambda: keys("at", "user")
        )
        self.refused("s.n is INT, and user STRING", lambda: keys("s.n", "user"))
        self.refused("=try_cast(b AS DECIMAL(9,2))", lambda: check_key("a", "decimal(9,2)", "b", "string"))
        self.refused("event_time is TIMESTAMP, and e.user STRING", lambda: keys("event_time", "e.user", "e"))
        self.refused("offset is BIGINT, and user STRING", lambda: keys("offset", "user"))

    def test_names_of_jobs(self) -> None:
        """A few names are of the jobs' own columns."""
        for name in ("_logbus_place", "_LOGBUS_x"):
            payload = JsonPayload(schema=f"{name} STRING")
            for side in (EventStream, TableTopic):
                self.refused(
                    f"the column {name!r} has the name of a job's own (_logbus_...): put the event into a column of",
                    lambda side=side, payload=payload: side(source=SOURCE, payload=payload),
                )

    def test_outputs_and_running(self) -> None:
        """A topic, tasks, a checkpoint, seconds."""
        self.refused("an output to a topic needs the option 'topic'", lambda: ToTopic(KAFKA))
        self.refused("at least one task, not 0", lambda: ToTopic({**KAFKA, "topic": "x"}, tasks=0))
        self.refused("option 'topics' is not known", lambda: ToTopic({**KAFKA, "topics": "x"}))
        self.refused("a query needs a checkpoint: a directory of its own", lambda: QuerySettings(""))
        for every in (-1, float("nan"), float("inf")):
            self.refused("it takes seconds", lambda every=every: QuerySettings("x", every))


class CommandTests(TestCase):
    """Options that the commands refuse, before they start Spark."""

    def refused(self, words: str, *arguments: str) -> None:
        """The command ends with these words, as a wrong use or a wrong option."""
        done = CliRunner().invoke(pipeline, arguments, env={"JAVA_HOME": "/nowhere"})
        said = " ".join(f"{done.output} {done.exception}".split())
        self.assertIn(words, said)
        self.assertNotIn("JAVA_HOME", said)
        self.assertNotEqual(done.exit_code, 0)

    def test_windows(self) -> None:
        """Windows, outputs and aggregates."""
        one = ("windows", "views", "--checkpoint", "c", "--to-topic", "hourly")
        for wrong in ((), ("--size", "1 hour", "--session", "1 hour"), ("--session", "1 hour", "--slide", "1 hour")):
            self.refused("say how windows are made: --size, --size with --slide, or --session", *one, *wrong)
        self.refused("the size of a window is 'x'; it takes a duration", *one, "--size", "x")
        self.refused("the watermark is 'x'", *one, "--size", "1 hour", "--watermark", "x")
        self.refused("sessions are of something", *one, "--session", "1 hour")
        self.refused(
            "'count' is not NAME=VALUE, such as paid=sum(price)", *one, "--size", "1 hour", "--aggregate", "count"
        )
        twice = ("--aggregate", "n=count(*)", "--aggregate", "n=sum(price)")
        self.refused("--aggregate: 'n' is there twice", *one, "--size", "1 hour", *twice)
        self.refused("--by: 'n' is of nothing", *one, "--size", "1 hour", "--by", "n=")
        self.refused("--source: 'x' is not NAME=VALUE, such as maxOffsets", *one, "--size", "1 hour", "--source", "x")
        self.refused("'endingOffsets'", *one, "--size", "1 hour", "--source", "endingOffsets=latest")
        self.refused(
            "--source: 'Subscribe' is not for this command", *one, "--size", "1 hour", "--source", "Subscribe=other"
        )
        self.refused("option 'kafka.acks'", *one, "--size", "1 hour", "--kafka", "acks=0")
        self.refused("--payload json needs --schema", *one, "--size", "1 hour", "--payload", "json")
        schema = ("--payload", "json", "--schema", "@/no/such.ddl")
        self.refused("the schema @/no/such.ddl is in no file that can be read", *one, "--size", "1 hour", *schema)
        sized = (*one, "--size", "1 hour")
        tabled = ("windows", "views", "--checkpoint", "c", "--to-table", "t", "--size", "1 hour")
        self.refused("2.0 is not in the range 0<=x<=1", *sized, "--max-late-share", "2")
        self.refused(
            "--partition-by, --format, --catalog and --store-option are for --to-table",
            *sized,
            "--partition-by",
            "page",
        )
        self.refused("--sink and --tasks are for --to-topic", *tabled, "--sink", "includeHeaders=true")
        self.refused("--sink and --tasks are for --to-topic", *tabled, "--tasks", "2")
        self.refused("option 'kafka.acks': deliveryGuarantee exactly-once needs", *sized, "--sink", "kafka.acks=1")
        itself = ("windows", "views", "hourly", "--checkpoint", "c", "--to-topic", "hourly", "--size", "1 hour")
        reads = "--to-topic: the job reads 'hourly', so that it would read what it writes; give another topic"
        self.refused(reads, *itself)
        # The topic of other brokers is another one.
        self.refused("--by: 'n' is of nothing", *itself, "--sink", "kafka.bootstrap.servers=h:1", "--by", "n=")
        self.refused("say where the result goes", "windows", "views", "--checkpoint", "c", "--size", "1 hour")

    def test_joins(self) -> None:
        """Keys, columns, times."""
        one = ("join", "views", "users", "--checkpoint", "c", "--to-topic", "named", "--on", "key=key")
        two = (*one, "--select", "user=l.key")
        self.refused("Missing option '--select'", *one)
        self.refused("--on: 'key' is there twice", *two, "--on", "key=id")
        self.refused("--select: 'user' is there twice", *two, "--select", "user=r.id")
        self.refused("--key name: there is no such --select; there are user", *two, "--key", "name")
        self.refused("--to-topic: the job reads 'users'", *two[:6], "users", *two[7:])
        self.refused("--left-time at needs --left-schema, with a field of this name", *two, "--left-time", "at")
        self.refused("after is 'soon'", *two, "--after", "soon")
        self.refused("'outer' is not one of 'inner', 'left', 'right', 'full'", *two, "--kind", "outer")
        for useless in (("--after", "1 hour"), ("--watermark", "1 hour"), ("--close-open",), ("--max-late-share", "1")):
            self.refused(f"{useless[0]} is for two streams: with --table no event waits", *two, "--table", *useless)
        self.refused(
            "'--to-topic': it is empty; give TOPIC, or leave it out", *two, "--to-table", "t", "--to-topic", ""
        )
        self.refused("'--to-table': it is empty; give DIR, or leave it out", *two, "--to-table", "")
        self.refused("it takes no --before and --after", *two, "--as-of", "1 hour", "--after", "1 hour")
        schemas = ("--left-schema", "key STRING, n INT", "--right-schema", "key INT")
        self.refused("the key key=key: key is STRING, and key INT. Spark would read the text as INT", *two, *schemas)

    def test_schemas(self) -> None:
        """Types that there are not, and names that are taken: with what would be right."""
        out = ("--checkpoint", "c", "--to-topic", "x")
        windows = ("windows", "views", *out, "--size", "1 hour", "--payload", "json", "--schema")
        load = ("load", "views", "--table", "t", "--payload", "json", "--schema")
        join = ("join", "views", "users", *out, "--on", "key=key", "--select", "a=l.a")
        for command in (windows, load, (*join, "--left-schema"), (*join, "--right-schema")):
            self.refused("'a STRNG' is no schema such as 'user STRING, at TIMESTAMP': there is no", *command, "a STRNG")
        for command in (windows, load):
            for name in ("Key", "offset", "timestamp", "topic"):
                self.refused(
                    f"the event's field {name!r} has the name of one of the record's own columns (headers, key, "
                    f"offset, partition, timestamp, timestampType, topic): put the event into a column of its own, "
                    f"such as --into event, where the field is event.{name}",
                    *(*command, f"a INT, {name} STRING", "--metadata-as", "columns"),
                )
            self.refused(
                "the event's field 'Meta' has the name of the column of the record's metadata (--metadata-as) (meta)",
                *(*command, "Meta STRING", "--metadata-as", "meta"),
            )
            self.refused(
                "metadata is 'a b'; it takes columns, or the name of a column of letters, digits and _, such as kafka",
                *(*command, "a INT", "--metadata-as", "a b"),
            )
        by_hour = (*load[:-1], "--partition-by", "hour", "--schema")
        for name in ("hour", "date"):
            self.refused(
                f"the event's field {name!r} has the name of a directory (date, hour): put the event into a column of "
                "its own, such as --into event",
                *(*by_hour, f"a INT, {name} STRING"),
            )
        columns = ("--metadata-as", "columns")
        self.refused("'key' has the name of one of the record's own", *load, "a INT", "--into", "key", *columns)
        self.refused("'hour' has the name of a directory", *by_hour, "a INT", "--into", "hour")
        self.refused("no field 'at' for the event's time", *load, "a INT", "--event-time", "at")
        self.refused("'at' is of type string; it must be a timestamp", *load, "at STRING", "--event-time", "at")
        self.refused("no field 'a.x' for the event's time", *load, "a array<int>", "--event-time", "a.x")
        self.refused("'Event_Time' is the event's time: say that it is", *windows, "Event_Time TIMESTAMP")
        self.refused("--right-into x needs --right-schema", *join, "--right-into", "x")
        self.refused("--left-metadata-as m needs --left-schema", *join, "--left-metadata-as", "m")
        left = (*join, "--left-metadata-as", "meta", "--left-schema", "Meta INT")
        self.refused("--left-schema: the event's field 'Meta' has the name of the column of the record's", *left)
        # Where there are no directories, the names are free.
        hours = ("--by", "hour", "--aggregate", "n", "--left-into", "event")
        self.refused("No such option '--left-into'", *windows, "date DATE, hour INT", *hours)
        self.refused("'n' is not NAME=VALUE", *windows, "date DATE, hour INT", *hours[:-2])

    def test_unwritable_files(self) -> None:
        """They are refused before the work, and not after it."""
        one = ("windows", "views", "--checkpoint", "c", "--to-topic", "hourly", "--size", "1 hour")
        self.refused("'--report': /nowhere/x.json: there is no directory /nowhere", *one, "--report", "/nowhere/x.json")
        self.refused("'--page': /nowhere/x.html: there is no directory /nowhere", "audit", "--page", "/nowhere/x.html")

    def test_audits_and_mirrors(self) -> None:
        """Pairs, and settings of the other side."""
        self.refused("--expect: 'x' is not NAME=VALUE, such as warehouse=orders", "audit", "--expect", "x")
        self.refused("--table: 'x' is not NAME=VALUE, such as lake=lake/orders", "audit", "--table", "x")
        twice = ("--table", "lake=a", "--table", "lake=b")
        self.refused("--table: 'lake' is there twice", "audit", *twice)
        self.refused("--iceberg: 'x' is not NAME=VALUE, such as lake=shop.orders", "audit", "--iceberg", "x")
        self.refused("--catalog is for --iceberg", "audit", "--table", "lake=a", "--catalog", "demo")
        self.refused("--store-option is for --table", "audit", "--store-option", "AWS_REGION=eu-north-1")
        one = ("mirror-check", "orders", "--mirror", "127.0.0.1:1")
        self.refused("--mirror-kafka: 'x' is not NAME=VALUE, such as security", *one, "--mirror-kafka", "x")
        self.refused("--rename: 'x' is not NAME=VALUE, such as orders=here.orders", *one, "--rename", "x")

    def test_loads(self) -> None:
        """They share what is said of values."""
        one = ("load", "views", "--table", "lake")
        self.refused("--into and --metadata-as are for --payload json and avro", *one, "--into", "event")
        self.refused("--registry and --subject are for --payload avro", *one, "--subject", "views-value")
        self.refused("--payload avro needs --registry", *one, "--payload", "avro")
        registry = ("--payload", "avro", "--registry", "http://127.0.0.1:8080/registry")
        self.refused("of several topics --payload avro needs --schema or --subject", *one, "more", *registry)


class InterruptTests(TestCase):
    """Ctrl-C before there is a Spark that could be asked to stop."""

    def test_interrupt_ends_at_once(self) -> None:
        """By the signal, and without a word of Spark's, which would have a handler of its own in the main thread."""
        code = (
            "import os, signal, threading\n"
            "import logbus.pipeline.session as module\n"
            "from logbus.cli.pipeline_job import Job\n"
            "def session(*_, **__):\n"
            "    assert threading.current_thread() is not threading.main_thread()\n"
            "    os.kill(os.getpid(), signal.SIGINT)\n"
            "    threading.Event().wait(60)\n"
            "module.session = session\n"
            "Job('x').run(lambda spark, watch: None)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGINT, "x: starts Spark\n"))

    def interrupted(self, job: str, times: int) -> subprocess.CompletedProcess[str]:
        """
        Interrupt a job several times while it waits for good in a library, where Python calls no handler. The signal
        wakes no other thread, as if it came just before the main thread began to wait.

        :param job: a call of ``wait()`` in a function of it.
        """
        code = (
            "import ctypes, os, signal, sys, threading\n"
            "from types import SimpleNamespace\n"
            "import logbus.pipeline.session as module\n"
            "from logbus.cli.pipeline_job import Job\n"
            "context = SimpleNamespace(uiWebUrl='', master='here', _gateway=None)\n"
            "module.session = lambda *_, **__: SimpleNamespace(sparkContext=context, version='4', _jvm=None)\n"
            "waits, said = threading.Event(), threading.Semaphore(0)\n"
            "class Said:\n"
            "    def write(self, text):\n"
            "        if 'once more' in text: said.release()\n"
            "        return sys.__stderr__.write(text)\n"
            "    def flush(self): pass\n"
            "    def isatty(self): return False\n"
            "sys.stderr = Said()\n"
            "def interrupt():\n"
            "    waits.wait()\n"
            f"    for number in range({times}):\n"
            "        if number: said.acquire(timeout=20)\n"
            "        signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
            "threading.Thread(target=interrupt, daemon=True).start()\n"
            "def wait():\n"
            "    lock = ctypes.create_string_buffer(64)\n"
            "    ctypes.CDLL(None).pthread_mutex_lock(lock)\n"
            "    waits.set()\n"
            "    ctypes.CDLL(None).pthread_mutex_lock(lock)\n"
            f"{job}\n"
        )
        environ = {**os.environ, "LOGBUS_DEBUG": "1"}  # Else Spark would be asked to be quiet.
        command = [sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, env=environ)

    def test_store_that_is_silent_before_spark(self) -> None:
        """A check that waits for a store does not keep a job from ending at once."""
        done = self.interrupted("Job('x').run(lambda spark, watch: None, lambda tell: wait())", 1)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGINT, ""))

    def test_store_that_is_silent_for_a_job(self) -> None:
        """A job that waits for a store is asked to stop by the first signal, and ended by the second."""
        done = self.interrupted("Job('x').run(lambda spark, watch: wait())", 2)
        self.assertEqual(done.returncode, -signal.SIGINT, done.stderr)
        told = ["x: starts Spark", "x: Spark 4 runs on here"]
        told.append("x: stopping after what is under way; once more to stop at once")
        self.assertEqual(done.stderr.splitlines(), told)


class StartTests(TestCase):
    """A query that Spark starts, or does not."""

    def ends(self, *says: str, failures: Sequence[str] = (), watch: JobControl | None = None) -> int:
        """The number of starts of a query that fails with these messages in turn, and then succeeds."""
        left = list(says)
        starts = 0

        class Started:
            recentProgress = ()

            def awaitTermination(self, seconds: float) -> bool:
                if left:
                    raise StreamingQueryException(message=left.pop(0))
                return True

            def stop(self) -> None:
                """It has ended."""

        class Writer:
            def start(self) -> Started:
                nonlocal starts
                starts += 1
                return Started()

        run_writer(cast(Any, Writer()), QueryReport(), watch or JobControl(), failures)
        return starts

    def test_busy_machine(self) -> None:
        """Spark gives up soon on a Python process; it is started again, and not for ever."""
        slow = "[STREAM_FAILED] Python worker failed to connect back."
        self.assertEqual(self.ends(), 1)
        self.assertEqual(self.ends(slow, slow), 3)
        with self.assertRaisesRegex(PipelineError, "failed to connect back"):
            self.ends(*[slow] * 5)

    def test_other_failures(self) -> None:
        """They are told at once, as the batch that failed says it."""
        with self.assertRaisesRegex(PipelineError, "^the first line$"):
            self.ends("the first line\nand more")
        with self.assertRaisesRegex(PipelineError, "^batch 3: the disk is full$"):
            self.ends("[STREAM_FAILED] long words", failures=["batch 3: the disk is full"])

    def test_failures_of_a_stopped_job(self) -> None:
        """Whoever stops it may have ended Spark's processes: what failed of that is told, and is no failure."""
        told = list[str]()
        watch = JobControl(told.append)
        watch.stop()
        self.assertEqual(self.ends("[STREAM_FAILED] Query x terminated with exception: gone", watch=watch), 1)
        self.assertEqual(told, ["the batch under way was given up, and is left to the next run: gone"])


class ProgressTests(TestCase):
    """Progress messages of a job."""

    def test_plans(self) -> None:
        """The number of offsets to read, and of batches."""
        one, two = TopicPartition("views", 0), TopicPartition("views", 1)
        self.assertEqual(
            plan_line("views", {one: 5}, {one: 25, two: 10}, 20, "behind batch 3"),
            "views: 30 offsets of 2 partitions to read, in 2 batches or more, behind batch 3",
        )
        self.assertEqual(plan_line("views", {}, {one: 0}, None, "new"), "views: 0 offsets of 1 partition to read, new")

    def test_rates(self) -> None:
        """Of a batch that took some time, and of one that took none that can be measured."""
        self.assertEqual(rates(10_000, 2_400_000, 2.0), "2.0 s, 5,000 records/s, 1.2 MB/s")
        self.assertEqual(rates(1, 0, 0.0), "0.0 s, 1,000 records/s, 0.0 MB/s")

    def test_offsets_of_a_checkpoint(self) -> None:
        """As Spark writes them; where it has none for a source, or writes them otherwise, nothing is known."""
        log = b'v1\n{"batchWatermarkMs":0}\n{"t": {"0": 5}}\n-'
        self.assertEqual(offset_lines(log, 2), [{"t": {"0": 5}}, None])
        for odd in (log, b"v2\n{}\nwhat is this", b""):
            self.assertEqual(offset_lines(odd, 1), [None])

    def test_long_stages(self) -> None:
        """They are told of while they last, and those that do not last are not."""
        told = list[str]()
        stages: list[Any] = []
        looks = threading.Semaphore(0)

        class Tracker:
            def getActiveStageIds(self) -> list[int]:
                looks.release()
                return [at for at, _ in enumerate(stages)]

            def getStageInfo(self, at: int) -> Any:
                return stages[at]

        class Context:
            def statusTracker(self) -> Tracker:
                return Tracker()

        stage = SimpleNamespace(stageId=7, numCompletedTasks=3, numTasks=8)
        spark = cast(Any, SimpleNamespace(sparkContext=Context()))
        self.assertEqual(tasks_done(spark.sparkContext), (set(), ""))
        stages.append(stage)
        self.assertEqual(tasks_done(spark.sparkContext), ({7}, "3 of 8 tasks are done"))
        with report_progress(spark, JobControl(told.append), every=0.001):
            for _ in range(6):
                looks.acquire()
        self.assertEqual(told, ["3 of 8 tasks are done"])


class ErrorMessageTests(TestCase):
    """The message about a failure."""

    def test_relevant_line_of_an_error(self) -> None:
        """Our own error, wherever it is in Spark's; else the first line that says something."""
        ours = "[FOREACH_BATCH] failed\n  at x\nlogbus.pipeline.errors.LakeError: the table is damaged\n at y"
        self.assertEqual(short_message(ours), "the table is damaged")
        self.assertEqual(
            short_message("\n[PARSE_SYNTAX_ERROR] Syntax error\n\n== SQL =="), "[PARSE_SYNTAX_ERROR] Syntax error"
        )
        failed = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [ODD] That is odd."
        self.assertEqual(short_message(failed), "[ODD] That is odd.")
        self.assertEqual(
            short_message("worker:\nlogbus.pipeline.blocking.schema_registry.RegistryFailed: no answer"), "no answer"
        )
        stack = (
            "[SOME] Failed: Traceback (most recent call last):\n  File x\n    y()\nAttributeError: no y\n SQLSTATE: 1"
        )
        self.assertEqual(short_message(stack), "AttributeError: no y")
        self.assertEqual(short_message("\n"), "Spark failed without a message")

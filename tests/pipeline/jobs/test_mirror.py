"""Tests the mirror job on a real Spark: it finds every difference, and nothing else."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from threading import Timer
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from logbus.pipeline.errors import OptionError, PipelineError
from logbus.pipeline.jobs.cancellation import JobStopped, stoppable
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.mirror import MirrorOptions, TopicMirror, run, topics_kept, topics_of
from logbus.pipeline.jobs.time_text import time_text
from logbus.testing import Broker
from tests.pipeline.load_fixtures import BASE, SECONDS, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Record = tuple[int, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
"""Partition, key, value, time and headers."""


@pytest.fixture(scope="module")
def copy() -> Iterator[Broker]:
    """The cluster with the copies."""
    with Broker() as broker:
        yield broker


def _name() -> str:
    return f"m-{uuid.uuid4().hex[:8]}"


def _write(broker: Broker, topic: str, records: Iterable[Record], **settings: Any) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **settings})
    if settings:
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
    for partition, key, value, at, headers in records:
        producer.produce(topic, value, key, partition, timestamp=at, headers=list(headers))
    assert producer.flush(SECONDS) == 0
    return producer


def _record(number: int = 0, **changes: Any) -> Record:
    whole = {
        "partition": 0,
        "key": b"key %d" % number,
        "value": b"value %d" % number,
        "at": BASE + number,
        "headers": (),
        **changes,
    }
    return whole["partition"], whole["key"], whole["value"], whole["at"], whole["headers"]


def _side(broker: Broker, *topics: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": ",".join(topics), **more}


def _pattern(broker: Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribePattern": f"^{topic}$"}


def _delete(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for each in admin.delete_topics([topic]).values():
        each.result(SECONDS)


def _check(spark: SparkSession, broker: Broker, copy: Broker, topic: str, **more: Any) -> TopicMirror:
    (found,) = run(spark, MirrorOptions(source=_side(broker, topic), mirror=_side(copy, topic), **more)).topics
    return found


ODD = [
    _record(0, key=None),
    _record(0, key=b""),
    _record(0, value=None),
    _record(0, value=b""),
    _record(0, key=None, value=None),
    _record(0, key=b"key 0value 0", value=b""),
    _record(0),
    _record(0, headers=(("a", None),)),
    _record(0, headers=(("a", b""),)),
    _record(0, headers=(("a", None), ("b", b"c"))),
    _record(0, headers=(("a", b"b"), ("c", None))),
    _record(0, headers=(("b", b"c"), ("a", None))),
    _record(0, headers=(("a", b"\xff\xfe"),)),
    _record(0, headers=(("a", b"\xff\xfd"),)),
    _record(0, headers=(('","', b""),)),
    _record(0, at=BASE + 1),
    _record(0, partition=1),
]
"""Records of which no two are the same."""


class TestRecords:
    def test_every_difference_is_found(self, spark: SparkSession, broker: Broker, copy: Broker) -> None:
        """Each is on one side only but for one: nulls, empty contents, and bytes that are not UTF-8."""
        topic = _name()
        for each in (broker, copy):
            make(each, 2, topic)
        _write(broker, topic, ODD[:9])
        _write(copy, topic, ODD[8:])
        found = _check(spark, broker, copy, topic, examples=100)
        assert (found.source, found.mirror, found.missing, found.extra) == (9, len(ODD) - 8, 8, len(ODD) - 9)
        assert [(each.partition, each.offset) for each in found.missing_examples] == [(0, n) for n in range(8)]
        same = _check(spark, broker, broker, topic)
        assert same.is_same
        assert same.source == 9

    def test_planted_errors_are_found(self, spark: SparkSession, broker: Broker, copy: Broker) -> None:
        """Records are left out, doubled, changed and added at random: the numbers are those of multisets."""
        for seed in (1, 2):
            random, topic = Random(seed), _name()
            for each in (broker, copy):
                make(each, 3, topic)
            whole = [_record(random.randrange(80), partition=random.randrange(3)) for _ in range(200)]
            other = []
            for each in whole:
                kind = random.choice(["same"] * 6 + ["lost", "doubled", "changed", "moved", "late"])
                partition, key, value, at, headers = each
                other += {
                    "same": [each],
                    "lost": [],
                    "doubled": [each, each],
                    "changed": [(partition, key, b"other", at, headers)],
                    "moved": [((partition + 1) % 3, key, value, at, headers)],
                    "late": [(partition, key, value, at + 1000, headers)],
                }[kind]
            _write(broker, topic, whole)
            _write(copy, topic, other)
            for partitions, timestamps in ((True, True), (False, False)):

                def seen(records: list[Record], exact: bool = partitions) -> Counter[Any]:
                    return Counter(each if exact else each[1:3] for each in records)

                found = _check(spark, broker, copy, topic, partitions=partitions, timestamps=timestamps, examples=3)
                missing, extra = seen(whole) - seen(other), seen(other) - seen(whole)
                assert (found.source, found.mirror) == (len(whole), len(other))
                assert (found.missing, found.extra) == (missing.total(), extra.total())
                assert len(found.missing_examples) == 3
                assert not found.is_same


class TestTopics:
    def test_renamed_and_repartitioned_copies(self, spark: SparkSession, broker: Broker, copy: Broker) -> None:
        """Two topics that have swapped their names are the same as the originals, in whatever partitions."""
        one, two = _name(), _name()
        make(broker, 2, one, two)
        make(copy, 3, one, two)
        _write(broker, one, [_record(n, partition=n % 2) for n in range(10)])
        _write(broker, two, [_record(n, partition=n % 2) for n in range(100, 120)])
        _write(copy, two, [_record(n, partition=n % 3) for n in range(10)])
        _write(copy, one, [_record(n, partition=n % 3) for n in range(100, 120)])
        sides = {"source": _side(broker, one, two), "mirror": _side(copy, one, two)}
        done = run(spark, MirrorOptions(**sides, rename={one: two, two: one}, partitions=False))
        assert done.is_same
        assert {each.topic: (each.source, each.mirror) for each in done.topics} == {one: (10, 10), two: (20, 20)}
        assert {(each.source_partitions, each.mirror_partitions) for each in done.topics} == {(2, 3)}

    def test_two_topics_that_would_be_one_copy(self, spark: SparkSession, broker: Broker, copy: Broker) -> None:
        """What a pattern finds beside the renamed copy is not taken for a part of it."""
        base = _name()
        make(broker, 1, f"{base}-a")
        make(copy, 1, f"{base}-a", f"{base}-b")
        _write(broker, f"{base}-a", [_record()])
        _write(copy, f"{base}-a", [_record()])
        given = [{"kafka.bootstrap.servers": each.bootstrap, "subscribePattern": base} for each in (broker, copy)]
        with pytest.raises(OptionError, match=f"the mirror has a topic '{base}-a' as well"):
            run(spark, MirrorOptions(source=given[0], mirror=given[1], rename={f"{base}-a": f"{base}-b"}))

    def test_topic_missing_on_one_side(self, spark: SparkSession, broker: Broker, copy: Broker) -> None:
        """Named, it is an error that says which side; of a pattern it is a difference, although it is empty."""
        base = _name()
        make(broker, 1, f"{base}-a", f"{base}-b")
        make(copy, 1, f"{base}-a")
        with pytest.raises(PipelineError, match=rf"the mirror \(127.0.0.1:\d+\): there is no topic '{base}-b'"):
            _check(spark, broker, copy, f"{base}-b")
        none = {"subscribePattern": f"^{base}x"}
        sides = [{"kafka.bootstrap.servers": each.bootstrap, **none} for each in (broker, copy)]
        with pytest.raises(PipelineError, match=rf"on the mirror no topic matches the pattern '\^{base}x'; there are "):
            run(spark, MirrorOptions(source=sides[0], mirror=sides[1]))
        pattern = {"subscribePattern": f"^{base}-"}
        sides = [{"kafka.bootstrap.servers": each.bootstrap, **pattern} for each in (broker, copy)]
        done = run(spark, MirrorOptions(source=sides[0], mirror=sides[1]))
        assert [(each.topic, each.is_same, each.mirror_partitions) for each in done.topics] == [
            (f"{base}-a", True, 1),
            (f"{base}-b", False, 0),
        ]
        assert not done.is_same
        assert json.loads(json.dumps(done.as_json()))["topics"][1]["mirror_partitions"] == 0

    def test_aborted_records(self, spark: SparkSession, broker: Broker, copy: Broker) -> None:
        """An aborted transaction of the original has no copy, and what is committed has one."""
        topic = _name()
        for each in (broker, copy):
            make(each, 1, topic)
        settings = {"transactional.id": topic}
        _write(broker, topic, [_record(1)], **settings).commit_transaction(SECONDS)
        _write(broker, topic, [_record(2)], **settings).abort_transaction(SECONDS)
        _write(copy, topic, [_record(1)])
        found = _check(spark, broker, copy, topic)
        assert found.is_same
        assert found.source == 1

    def test_of_compacted_topics_the_last_record_of_each_key_counts(
        self, spark: SparkSession, broker: Broker, copy: Broker
    ) -> None:
        """Records that only compaction removed from the copy are no difference; another last value is."""
        topic = _name()
        for each in (broker, copy):
            make(each, 1, topic)
        old, new, gone = _record(1, key=b"a"), _record(2, key=b"a"), _record(3, key=b"b", value=None)
        _write(broker, topic, [old, _record(1, key=b"b"), new, gone, _record(4, key=b"c")])
        _write(copy, topic, [new, _record(4, key=b"c")])
        found = _check(spark, broker, copy, topic, compacted=True)
        assert found.is_same
        assert (found.source, found.mirror) == (2, 2)
        assert _check(spark, broker, copy, topic).missing == 3
        _write(copy, topic, [old])
        assert _check(spark, broker, copy, topic, compacted=True).missing == 1

    def test_records_are_selected_by_time(self, spark: SparkSession, broker: Broker, copy: Broker) -> None:
        """A record that lies behind later ones is compared if its time says so; beyond that time sides may differ."""
        topic = _name()
        for each in (broker, copy):
            make(each, 1, topic)
        inside, late, after = _record(10), _record(5), _record(100)
        _write(broker, topic, [_record(0), inside, after, late, _record(200)])
        _write(copy, topic, [late, inside])
        found = _check(spark, broker, copy, topic, since_ms=BASE + 5, until_ms=BASE + 50)
        assert found.is_same
        assert found.source == 2
        assert _check(spark, broker, copy, topic, since_ms=BASE + 5).missing == 2

    def test_last_of_a_key_is_older(self, spark: SparkSession, broker: Broker, copy: Broker) -> None:
        """Which record of a key is the last one is known by its offset: that one is older than what is compared."""
        topic = _name()
        for each in (broker, copy):
            make(each, 1, topic)
        last = _record(1, key=b"key", at=BASE)
        _write(broker, topic, [_record(0, key=b"key", at=BASE + 10), last, _record(2, at=BASE + 20)])
        _write(copy, topic, [last, _record(2, at=BASE + 20)])
        found = _check(spark, broker, copy, topic, since_ms=BASE + 5, compacted=True)
        assert (found.source, found.mirror, found.missing) == (1, 1, 0)


class TestStopping:
    def test_stopped_check_has_no_result(self, spark: SparkSession, broker: Broker, copy: Broker) -> None:
        """Half a comparison would be taken for a whole one."""
        topic = _name()
        for each in (broker, copy):
            make(each, 1, topic)
        watch = JobControl()
        watch.stop()
        with pytest.raises(JobStopped, match="stopped before it was done"):
            run(spark, MirrorOptions(source=_side(broker, topic), mirror=_side(copy, topic)), watch)

    def test_stop_cancels_spark_jobs(self, spark: SparkSession) -> None:
        """Spark is told, and does not go on for minutes."""
        watch, ended = JobControl(), []
        Timer(1, watch.stop).start()
        with pytest.raises(JobStopped), stoppable(spark, watch):
            ended.append(spark.range(10**11).selectExpr("sum(id % 7)").collect())
        assert not ended

    def test_progress(self, spark: SparkSession, tmp_path: Path) -> None:
        """While Spark is at something: these tasks end when it has been told of them."""
        told = tmp_path / "told"
        said: list[str] = []

        def tell(line: str) -> None:
            said.append(line)
            told.touch()

        def wait(batches: Iterator[Any]) -> Iterator[Any]:
            while not told.exists():
                time.sleep(0.05)  # in another process
            yield from batches

        with stoppable(spark, JobControl(tell), every=0):
            assert spark.range(0, 6, numPartitions=2).mapInArrow(wait, "id bigint").count() == 6
        assert said[0].endswith(" of 2 tasks are done")


class TestOptions:
    GIVEN: dict[str, str] = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a,b"}

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"examples": -1}, "examples is -1"),
            ({"late": -1}, "late is -1"),
            ({"rename": {"c": "d"}}, r"topic 'c' has another name in the copy \(--rename\), and is not compared"),
            ({"rename": {"a": "b"}}, r"two topics cannot have the same name in the copy \(--rename\)"),
            ({"since_ms": 5, "until_ms": 5}, r"before it begins \(--since, --until\)"),
            ({"since_ms": 5, "timestamps": False}, "leave --since and --until out"),
            ({"until_ms": 5, "compacted": True}, "leave --until out"),
            ({"source": {**GIVEN, "nonsense": "1"}}, "^the source: option 'nonsense' is not known"),
            ({"mirror": {**GIVEN, "nonsense": "1"}}, "^the mirror: option 'nonsense' is not known"),
            ({"mirror": {**GIVEN, "includeHeaders": "false"}}, "includeHeaders is the same"),
            ({"mirror": {**GIVEN, "endingtimestamp": "7"}, "until_ms": 6}, "--since and --until say that"),
        ],
    )
    def test_invalid_options(self, given: dict[str, Any], said: str) -> None:
        """Before Spark is asked for anything."""
        with pytest.raises(OptionError, match=said):
            MirrorOptions(**{"source": self.GIVEN, "mirror": self.GIVEN, **given})

    def test_a_pattern_that_matches_nothing(self, broker: Broker, copy: Broker) -> None:
        """It is said before Spark is started."""
        none = {"subscribePattern": _name()}
        sides = [{"kafka.bootstrap.servers": each.bootstrap, **none} for each in (broker, copy)]
        with pytest.raises(PipelineError, match="there is no topic to compare: on the source no topic matches"):
            MirrorOptions(source=sides[0], mirror=sides[1]).check(print)

    def test_times_beyond_any_calendar_are_written_as_numbers(self) -> None:
        """A record's time may be any number of 64 bits."""
        assert time_text(BASE) == "2023-11-14T22:13:20Z"
        assert time_text(-1) == "1969-12-31T23:59:59.999Z"
        assert time_text(2**63 - 1) == "9223372036854775807 ms"


class TestTopicsThatGo:
    """A topic that is deleted, or made anew, while it is compared is an error that names the side."""

    @pytest.mark.parametrize("by", ["name", "pattern"])
    def test_deleted(self, broker: Broker, copy: Broker, by: str) -> None:
        """Of a pattern nothing would be read on either side, and nothing is missing then."""
        topic = _name()
        for each in (broker, copy):
            make(each, 1, topic)
        options = MirrorOptions(
            source=_side(broker, topic) if by == "name" else _pattern(broker, topic),
            mirror=_side(copy, topic) if by == "name" else _pattern(copy, topic),
        )
        said = f"the mirror ({copy.bootstrap}): topic '{topic}' was deleted while it was compared"
        with pytest.raises(PipelineError) as found, topics_kept(options, topics_of(options)):
            _delete(copy, topic)
        assert str(found.value) == said

    def test_made_anew(self, broker: Broker, copy: Broker) -> None:
        """The error of a worker names no side."""
        topic = _name()
        for each in (broker, copy):
            make(each, 1, topic)
        options = MirrorOptions(source=_side(broker, topic), mirror=_side(copy, topic))
        said = (
            f"the source ({broker.bootstrap}): topic '{topic}' was deleted while it was compared, and another made "
            "with its name"
        )
        with pytest.raises(PipelineError) as found, topics_kept(options, topics_of(options)):
            _delete(broker, topic)
            make(broker, 1, topic)
            raise ValueError(f"logbus.pipeline.errors.OffsetLost: {topic}-0: offset 7 cannot be read")
        assert str(found.value) == said

    def test_another_error(self, broker: Broker, copy: Broker) -> None:
        """An error that is not of a topic is not changed, and nor is one of a topic that is still there."""
        topic = _name()
        for each in (broker, copy):
            make(each, 1, topic)
        options = MirrorOptions(source=_side(broker, topic), mirror=_side(copy, topic))
        for error in ("Disconnected", "OffsetLost"):
            with pytest.raises(ValueError, match=error), topics_kept(options, topics_of(options)):
                raise ValueError(error)


def test_the_command_ends_with_1_where_sides_differ(
    broker: Broker, copy: Broker, tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    """It prints a table and the differences, and writes its report."""
    topic = _name()
    for each in (broker, copy):
        make(each, 1, topic)
    _write(broker, topic, [_record(1), _record(2)])
    _write(copy, topic, [_record(1)])
    asked = ["mirror-check", topic, "-b", broker.bootstrap, "--mirror", copy.bootstrap, "--quiet"]
    status, out, said = command(*asked, "--report", tmp_path / "report.json")
    assert status == 1, said
    assert out, said
    assert [line.split() for line in out.splitlines()[:2]] == [
        ["topic", "source", "mirror", "missing", "extra"],
        [topic, "2", "1", "1", "0"],
    ]
    assert f"{topic}-0 offset 1 of {time_text(BASE + 2)}: missing, 1x" in out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["same"] is False
    assert report["topics"][0]["missing_examples"] == [{"partition": 0, "offset": 1, "at_ms": BASE + 2, "more": 1}]

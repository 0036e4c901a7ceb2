"""
The mirror job: checks that topics of two clusters hold the same records.

Records are equal if their key, value, headers, partition and time are; partition and time can be left out. Offsets are
ignored, since a mirror has its own. A record that occurs several times must occur as often on the other side. Records
are compared by a 128-bit hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, frozen

from logbus.client.cluster.topic_metadata import TopicMetadata
from logbus.errors import ApiError, LogbusError
from logbus.pipeline.errors import OffsetLost, OptionError, PipelineError
from logbus.pipeline.jobs.broker_check import check_topics
from logbus.pipeline.jobs.cancellation import stoppable
from logbus.pipeline.jobs.job_control import JobControl
from logbus.pipeline.jobs.mirror_record_counts import (
    SIDES,
    Place,
    examples_of,
    hashed_records,
    record_counts,
    totals_of,
)
from logbus.pipeline.jobs.slow_workers import retried
from logbus.pipeline.jobs.time_text import time_text
from logbus.pipeline.source.offset_reader import OffsetReader
from logbus.pipeline.source.options import SourceOptions, Subscribe, SubscribePattern
from logbus.pipeline.source.options import read_source_options as read_options
from logbus.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMMITTED = "kafka.isolation.level"
_KAFKA_OPTIONS = {"source": "--kafka", "mirror": "--mirror-kafka"}
_OF_TOPICS = (OffsetLost.__name__, ApiError.__name__)
"""Names of errors that a topic which is gone may have caused. Spark's error has the text of a worker's."""


@frozen(kw_only=True)
class MirrorOptions:
    """
    The options of the comparison.

    :ivar source: options of ``format("logbus")`` for the original;  ``mirror``: for the copy. By default only committed
        records are read.
    :ivar rename: the copy's topic names, by the original's, where they differ.
    :ivar partitions: whether a record must be in the partition of the same number.
    :ivar timestamps: whether it must have the same time.
    :ivar since_ms, until_ms: compare records with times in between, in milliseconds since 1970. While records are
        being written, choose an end in the past.
    :ivar late: seconds by which a record may be older than earlier ones of its partition; that much more is read after
        ``until_ms``.
    :ivar compacted: compare only the last record of each key, and no null values, since the sides are compacted at
        different times.
    :ivar examples: the number of differences to show for each topic and side.
    :raise OptionError: an option is wrong.
    """

    source: Mapping[str, str]
    mirror: Mapping[str, str]
    rename: Mapping[str, str] = field(factory=dict)
    partitions: bool = True
    timestamps: bool = True
    since_ms: int | None = None
    until_ms: int | None = None
    late: float = 3600.0
    compacted: bool = False
    examples: int = 10
    reading: Mapping[str, SourceOptions] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._check_numbers()
        reading = {}
        for side in SIDES:
            given = self._completed(getattr(self, side))
            object.__setattr__(self, side, given)
            try:
                reading[side] = read_options(given, streaming=False)
            except OptionError as e:
                raise OptionError(f"the {side}: {e}") from None
        object.__setattr__(self, "reading", reading)
        if reading["source"].include_headers != reading["mirror"].include_headers:
            raise OptionError("includeHeaders is the same for both sides")
        named = _named(reading["source"])
        if unknown := self.rename.keys() - named if named is not None else ():
            raise OptionError(f"topic {min(unknown)!r} has another name in the copy (--rename), and is not compared")
        copies = [self.rename.get(name, name) for name in named or self.rename]
        if len(set(copies)) < len(copies):
            raise OptionError("two topics cannot have the same name in the copy (--rename)")

    def check(self, tell: Callable[[str], None]) -> int:
        """
        Check topics and offsets of both sides without Spark; see :func:`.check_topics` and :func:`partitions_of`.

        :raise PipelineError: names the side.
        """
        offsets = self.offsets_to_read(tell)
        partitions_of(self, topics_of(self))
        return offsets

    def offsets_to_read(self, tell: Callable[[str], None]) -> int:
        """
        Return how many offsets of both sides there are to read.

        :raise PipelineError: names the side.
        """
        offsets = 0
        for side, reading in self.reading.items():
            with _errors_of(side, reading):
                offsets += check_topics(reading, tell, option=_KAFKA_OPTIONS[side]) or 0
        return offsets

    def _check_numbers(self) -> None:
        if self.examples < 0:
            raise OptionError(f"examples is {self.examples}; it takes a number from 0")
        if not 0 <= self.late < 1e11:
            raise OptionError(f"late is {self.late}; it takes seconds, from 0")
        if self.since_ms is not None and self.until_ms is not None and self.until_ms <= self.since_ms:
            raise OptionError(f"it would end at {time_text(self.until_ms)}, before it begins (--since, --until)")
        if not self.timestamps and (self.since_ms, self.until_ms) != (None, None):
            raise OptionError(
                "where times may differ, they cannot say what to compare: leave --since and --until out, or --any-time"
            )
        if self.compacted and self.until_ms is not None:
            raise OptionError(
                "what was the last of its key then is not kept in a compacted topic: leave --until out, or --compacted"
            )

    def _completed(self, given: Mapping[str, str]) -> dict[str, str]:
        ours = {_COMMITTED: "read_committed", "includeHeaders": "true"}
        if self.since_ms is not None:
            ours |= {"startingTimestamp": str(self.since_ms), "startingOffsetsByTimestampStrategy": "latest"}
        if self.until_ms is not None:
            ours["endingTimestamp"] = str(min(self.until_ms + int(self.late * 1000), 2**63 - 1))
        lower = {name.lower() for name in given}
        if twice := [name for name in ours if name.endswith("Timestamp") and name.lower() in lower]:
            raise OptionError(f"option {twice[0]!r}: --since and --until say that for both sides")
        return {**{name: value for name, value in ours.items() if name.lower() not in lower}, **given}


@frozen
class Difference:
    """
    The position of a record that the other side lacks, or has less often.

    :ivar at_ms: its time, in milliseconds since 1970.
    :ivar more: how many more of it there are on this side.
    """

    partition: int
    offset: int
    at_ms: int
    more: int


@frozen
class TopicMirror:
    """
    The result for one topic, by its name in the original.

    :ivar source, mirror: the number of records on either side.
    :ivar missing: records that the copy lacks;  ``extra``: records that the original lacks.
    :ivar source_partitions, mirror_partitions: 0: this side has no such topic.
    """

    topic: str
    source: int
    mirror: int
    missing: int
    extra: int
    source_partitions: int
    mirror_partitions: int
    missing_examples: tuple[Difference, ...] = ()
    extra_examples: tuple[Difference, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether the records are equal; the number of partitions may differ."""
        is_there = self.source_partitions > 0 and self.mirror_partitions > 0
        return is_there and not self.missing and not self.extra


@frozen
class MirrorReport:
    """The result for all topics, sorted by name."""

    topics: tuple[TopicMirror, ...]

    @property
    def is_same(self) -> bool:
        """Whether all topics are equal."""
        return all(each.is_same for each in self.topics)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"same": self.is_same, **asdict(self)}


def topics_of(options: MirrorOptions) -> Mapping[str, Mapping[str, TopicMetadata]]:
    """
    Return the topics of each side.

    :raise PipelineError: a named topic does not exist.
    """
    found = {}
    for side, reading in options.reading.items():
        with _errors_of(side, reading):
            found[side] = OffsetReader(reading).topics()
    return found


def partitions_of(
    options: MirrorOptions, there: Mapping[str, Mapping[str, TopicMetadata]]
) -> Mapping[str, Mapping[str, int]]:
    """
    Return the number of partitions of each topic that is compared, by the side and the topic's name in the source.

    :param there: the topics of each side.
    :raise OptionError: a topic of the mirror has the name of one that has another name there.
    :raise PipelineError: no topic matches the pattern.
    """
    ours = {copy: name for name, copy in options.rename.items()}
    if both := [name for name in there["mirror"] if name in options.rename and name not in ours]:
        copy = options.rename[both[0]]
        raise OptionError(
            f"topic {both[0]!r} has the name {copy!r} in the copy (--rename), and the mirror has a topic {both[0]!r} "
            "as well: choose a pattern without it"
        )
    if not any(there.values()):
        raise PipelineError(f"there is no topic to compare: {_no_match(options)}")
    return {
        "source": {name: len(topic.partitions) for name, topic in there["source"].items()},
        "mirror": {ours.get(name, name): len(topic.partitions) for name, topic in there["mirror"].items()},
    }


def run(spark: SparkSession, options: MirrorOptions, watch: JobControl | None = None) -> MirrorReport:
    """
    Compare the topics.

    :raise PipelineError: a named topic does not exist, or no topic matches the pattern; or a topic was deleted or made
        anew meanwhile.
    :raise JobStopped: it was asked to stop.
    """
    watch = watch or JobControl()
    there = topics_of(options)
    partitions = partitions_of(options, there)
    ours = {copy: name for name, copy in options.rename.items()}
    names = sorted({*partitions["source"], *partitions["mirror"]})
    offsets = options.offsets_to_read(watch.tell)
    watch.tell(f"{counted(len(names), 'topic')}, {offsets} offsets of both sides to read")
    with topics_kept(options, there), stoppable(spark, watch):
        what = {"partitions": options.partitions, "timestamps": options.timestamps, "compacted": options.compacted}
        span = (options.since_ms, options.until_ms)

        def compare() -> tuple[dict[str, dict[str, int]], dict[tuple[str, str], list[Place]]]:
            both = record_counts(
                hashed_records(spark, options.source, span, {}, **what),
                hashed_records(spark, options.mirror, span, ours, **what),
            ).persist()
            try:
                totals = totals_of(both)
                has_differences = any(each["missing"] or each["extra"] for each in totals.values())
                return totals, examples_of(both, options.examples) if has_differences and options.examples else {}
            finally:
                both.unpersist()

        totals, examples = retried(compare, watch)
    nothing = {"source": 0, "mirror": 0, "missing": 0, "extra": 0}
    found = tuple(
        TopicMirror(
            topic=name,
            **totals.get(name, nothing),
            source_partitions=partitions["source"].get(name, 0),
            mirror_partitions=partitions["mirror"].get(name, 0),
            missing_examples=tuple(Difference(*each) for each in examples.get((name, "source"), ())),
            extra_examples=tuple(Difference(*each) for each in examples.get((name, "mirror"), ())),
        )
        for name in names
    )
    for each in found:
        watch.tell(f"{each.topic}: {each.source} records, {each.missing} missing, {each.extra} extra in the copy")
    return MirrorReport(found)


def _named(reading: SourceOptions) -> set[str] | None:
    """The named topics; None: they are given by a pattern."""
    if isinstance(reading.selection, SubscribePattern):
        return None
    if isinstance(reading.selection, Subscribe):
        return set(reading.selection.topics)
    return {each.topic for each in reading.selection.partitions}


def _no_match(options: MirrorOptions) -> str:
    """Why there is no topic, of each side."""
    return "; ".join(f"on the {side} {OffsetReader(options.reading[side]).no_match()}" for side in SIDES)


@contextmanager
def topics_kept(options: MirrorOptions, before: Mapping[str, Mapping[str, TopicMetadata]]) -> Iterator[None]:
    """
    A context within which no topic may be deleted or made anew.

    What is then read of it is a part of one topic, or of two, or nothing: a result could be wrong, and a worker's error
    does not know the side.

    :param before: the topics of each side.
    :raise PipelineError: one was; it names the side and the topic.
    """
    try:
        yield
    except Exception as e:
        if any(name in str(e) for name in _OF_TOPICS):
            _check_kept(options, before)
        raise
    _check_kept(options, before)


def _check_kept(options: MirrorOptions, before: Mapping[str, Mapping[str, TopicMetadata]]) -> None:
    for side, reading in options.reading.items():
        with _errors_of(side, reading):
            now = OffsetReader(reading).topics(known=None)
            for name, topic in before[side].items():
                if name not in now:
                    raise PipelineError(f"topic {name!r} was deleted while it was compared")
                if now[name].topic_id != topic.topic_id:
                    raise PipelineError(
                        f"topic {name!r} was deleted while it was compared, and another made with its name"
                    )


@contextmanager
def _errors_of(side: str, reading: SourceOptions) -> Iterator[None]:
    """A context whose errors name the side."""
    try:
        yield
    except LogbusError as e:
        where = ", ".join(f"{host}:{port}" for host, port in reading.settings.bootstrap)
        raise PipelineError(f"the {side} ({where}): {e}") from e

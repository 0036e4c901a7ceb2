"""The read options of ``format("logbus")``, with the names and defaults of Spark's Kafka source. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from logbus.model import TopicPartition, topic_name_problem
from logbus.pipeline.blocking.connection_settings import CONNECTION_OPTIONS as CONNECTION
from logbus.pipeline.blocking.connection_settings import CONNECTION_REFUSED, PREFIX, ConnectionSettings
from logbus.pipeline.blocking.prefetcher import MAX_BYTES, FetchOptions
from logbus.pipeline.errors import OptionError
from logbus.pipeline.options import (
    Option,
    OptionTable,
    OptionType,
    Refusal,
    boolean,
    check_names,
    duration,
    integer,
    milliseconds,
    one_of,
    text,
)
from logbus.pipeline.source.offsets_json import partition_names, read_offsets, read_partitions
from logbus.pipeline.source.positions import EARLIEST, LATEST, AtOffsets, AtTime, AtTimes, EarliestOrLatest, Position


def _topics(given: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(filter(None, (each.strip() for each in given.split(",")))))
    if not topics or any(topic_name_problem(each) for each in topics):
        raise ValueError(given)
    return topics


def _pattern(given: str) -> str:
    if not given:
        raise ValueError(given)
    try:
        re.compile(given)
    except (re.error, RecursionError, OverflowError) as e:
        raise ValueError(str(e)) from None
    return given


def _position(given: str) -> Position:
    if given.lower() in ("earliest", "latest"):
        return EarliestOrLatest(EARLIEST if given.lower() == "earliest" else LATEST)
    return AtOffsets(read_offsets(given, EARLIEST))


_OFFSETS = OptionType(
    _position, 'earliest, latest, or JSON such as {"orders": {"0": 23, "1": -1}}: -2 is earliest, -1 latest'
)
_MILLISECONDS = integer(0)
_TIME = OptionType(lambda given: AtTime(_MILLISECONDS.parse(given)), "milliseconds since 1970")
_TIMES = OptionType(
    lambda given: AtTimes(read_offsets(given, 0)),
    'JSON such as {"orders": {"0": 1700000000000}}: milliseconds since 1970 for each partition',
)

SOURCE_OPTIONS = OptionTable(
    [
        Option("subscribe", OptionType(_topics, "topics with commas between"), None, "Topics, with commas between."),
        Option(
            "subscribePattern",
            OptionType(_pattern, "a regular expression"),
            None,
            "A regular expression (Python's ``re``) that is searched for in names of topics. Topics created while a "
            "stream runs are also read; internal ones never.",
        ),
        Option(
            "assign",
            OptionType(read_partitions, 'JSON such as {"orders": [0, 1]}'),
            None,
            'Single partitions: ``{"orders": [0, 1]}``.',
        ),
        Option(
            "startingOffsets",
            _OFFSETS,
            None,
            '``earliest``, ``latest`` or ``{"orders": {"0": 23, "1": -1, "2": -2}}``, where -1 is latest and -2 '
            "earliest and every partition must be named. Batches begin at ``earliest`` by default and cannot begin at "
            "latest; a new stream begins at ``latest`` by default. A restarted stream continues from its checkpoint, "
            "and reads new partitions from the beginning.",
        ),
        Option(
            "startingOffsetsByTimestamp",
            _TIMES,
            None,
            'The same by time: ``{"orders": {"0": 1700000000000}}``. It takes precedence over ``startingOffsets``.',
        ),
        Option(
            "startingTimestamp",
            _TIME,
            None,
            "The first record at or after a time, in milliseconds since 1970, in every partition. It takes precedence "
            "over both.",
        ),
        Option(
            "startingOffsetsByTimestampStrategy",
            one_of("error", "latest"),
            "error",
            "What to do if no record is at or after the time: fail, or begin at the end.",
        ),
        Option("endingOffsets", _OFFSETS, None, "Where a batch ends: ``latest`` (default), or as ``startingOffsets``."),
        Option("endingOffsetsByTimestamp", _TIMES, None, "The same by time; the end if no record is at or after it."),
        Option("endingTimestamp", _TIME, None, "The same for every partition; it takes precedence over both."),
        Option(
            "failOnDataLoss",
            boolean(),
            True,
            "Fail if offsets to be read are gone: expired, truncated, or of a topic that was deleted or recreated. "
            "With ``false`` the remaining offsets are read, and a warning names the others.",
        ),
        Option("includeHeaders", boolean(), False, "Add a column ``headers``."),
        Option(
            "minPartitions", integer(1, 2**31 - 1), None, "The approximate number of tasks: large ranges are split."
        ),
        Option("maxRecordsPerPartition", integer(1), None, "The most offsets that one task reads."),
        Option(
            "maxOffsetsPerTrigger",
            integer(1),
            None,
            "The most offsets that one batch of a stream reads, divided in proportion to the available offsets of each "
            "partition, with at least one of each.",
        ),
        Option(
            "minOffsetsPerTrigger", integer(1), None, "The least offsets of a batch of a stream; fewer are delayed."
        ),
        Option("maxTriggerDelay", duration(), 900.0, "The longest delay for ``minOffsetsPerTrigger``."),
        Option(
            "fetchOffset.numRetries",
            integer(0, 1000),
            3,
            "How often to request the end of a partition again if it is before the offset read so far, or missing.",
        ),
        Option("fetchOffset.retryIntervalMs", milliseconds(0), 1.0, "The wait before that."),
    ]
)

CONSUMER_OPTIONS = OptionTable(
    [
        Option(
            "isolation.level",
            one_of("read_uncommitted", "read_committed"),
            "read_uncommitted",
            "``read_committed`` ends at the first open transaction and leaves out aborted records.",
        ),
        Option("fetch.max.bytes", integer(1, 128 << 20), MAX_BYTES, "Bytes of one response, beyond its first batch."),
        Option(
            "max.partition.fetch.bytes",
            integer(1, 128 << 20),
            None,
            "The same for each partition: the smaller one counts, since a task reads one partition.",
        ),
        Option("fetch.min.bytes", integer(0, 128 << 20), 1, "Bytes that a broker waits for before it responds."),
        Option("fetch.max.wait.ms", milliseconds(0), 0.5, "How long it waits."),
        Option("exclude.internal.topics", one_of("true"), "true", "``true``: internal topics are never read."),
        Option("client.rack", text(), "", "The rack of this client, to read from a replica in it (KIP-392)."),
    ]
)
"""The ``kafka.*`` options about fetching."""

_NO_GROUP = Refusal("offsets are in Spark's checkpoint, and no group is joined; leave it out")

REFUSED = {
    "groupIdPrefix": _NO_GROUP,
    "kafkaConsumer.pollTimeoutMs": Refusal(
        "no consumer is polled; give kafka.request.timeout.ms or kafka.default.api.timeout.ms"
    ),
    "kafka.group.id": _NO_GROUP,
    "kafka.group.instance.id": _NO_GROUP,
    "kafka.group.protocol": _NO_GROUP,
    "kafka.group.remote.assignor": _NO_GROUP,
    "kafka.partition.assignment.strategy": _NO_GROUP,
    "kafka.session.timeout.ms": _NO_GROUP,
    "kafka.heartbeat.interval.ms": _NO_GROUP,
    "kafka.max.poll.interval.ms": _NO_GROUP,
    "kafka.max.poll.records": Refusal(
        "batches of rows have a size of their own; maxRecordsPerPartition limits tasks, maxOffsetsPerTrigger batches"
    ),
    "kafka.check.crcs": Refusal("checksums are always checked", "true"),
    "kafka.allow.auto.create.topics": Refusal("reading never creates a topic", "false"),
    "kafka.metadata.max.age.ms": Refusal("metadata are requested with each batch; leave it out"),
    "kafka.auto.offset.reset": Refusal(
        "say where to begin with startingOffsets; what is read is in Spark's checkpoint"
    ),
    "kafka.key.deserializer": Refusal("keys are bytes; turn them into something else with columns' functions"),
    "kafka.value.deserializer": Refusal("values are bytes; turn them into something else with columns' functions"),
    "kafka.enable.auto.commit": Refusal(
        "what is read is in Spark's checkpoint, and nothing is committed to a group", "false"
    ),
    "kafka.interceptor.classes": Refusal("there is no Java consumer whose records they could change"),
    **{PREFIX + name: each for name, each in CONNECTION_REFUSED.items()},
}
"""The options that are refused, by name."""


@frozen
class Subscribe:
    """Topics by name."""

    topics: tuple[str, ...]


@frozen
class SubscribePattern:
    """Topics whose names contain a match of a regular expression."""

    pattern: str


@frozen
class Assign:
    """Partitions."""

    partitions: tuple[TopicPartition, ...]


Selection = Subscribe | SubscribePattern | Assign


@frozen
class SourceOptions:
    """
    The parsed options; times are in seconds.

    :ivar columns: that are read, in this order; None: all.
    """

    settings: ConnectionSettings
    selection: Selection
    starting: Position
    ending: Position
    latest_without_match: bool
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    end_retries: int
    end_retry_interval: float
    fetching: FetchOptions
    columns: tuple[str, ...] | None = None


def check_source_options(given: Mapping[str, str]) -> dict[str, Any]:
    """
    Check the options that batches and streams share.

    :param given: names in any case.
    :returns: the values of :data:`SOURCE_OPTIONS`.
    :raises OptionError: names the first that is wrong, and what it takes.
    """
    if any(name.lower() == "path" for name in given):
        raise OptionError("load() takes no path here; the option 'subscribe' says which topics are read")
    check_names(given, SOURCE_OPTIONS, [CONNECTION, CONSUMER_OPTIONS], prefix=PREFIX, refused=REFUSED)
    values = SOURCE_OPTIONS.read(given)
    ConnectionSettings.from_options(given, PREFIX)
    CONSUMER_OPTIONS.read(given, PREFIX)
    _selection(values)
    least, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise OptionError(f"option 'minOffsetsPerTrigger': {least} is more than maxOffsetsPerTrigger, {most}")
    return values


def read_source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """
    Read and check all options.

    :param given: names in any case.
    :raises OptionError: names the first that is wrong, and what it takes.
    """
    values = check_source_options(given)
    settings = ConnectionSettings.from_options(given, PREFIX)
    fetching = CONSUMER_OPTIONS.read(given, PREFIX)
    selection = _selection(values)
    starting = values["startingTimestamp"] or values["startingOffsetsByTimestamp"] or values["startingOffsets"]
    ending = values["endingTimestamp"] or values["endingOffsetsByTimestamp"] or values["endingOffsets"]
    if streaming:
        starting = starting or EarliestOrLatest(LATEST)
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if values[name] is not None:
                raise OptionError(f"option {name!r} is for batches; a stream has no end")
    else:
        starting = starting or EarliestOrLatest(EARLIEST)
        _check_batch(starting, ending or EarliestOrLatest(LATEST))
    return SourceOptions(
        settings=settings,
        selection=selection,
        starting=starting,
        ending=ending or EarliestOrLatest(LATEST),
        latest_without_match=values["startingOffsetsByTimestampStrategy"] == "latest",
        fail_on_data_loss=values["failOnDataLoss"],
        include_headers=values["includeHeaders"],
        min_partitions=values["minPartitions"],
        max_records_per_partition=values["maxRecordsPerPartition"],
        max_offsets_per_trigger=values["maxOffsetsPerTrigger"],
        min_offsets_per_trigger=values["minOffsetsPerTrigger"],
        max_trigger_delay=values["maxTriggerDelay"],
        end_retries=values["fetchOffset.numRetries"],
        end_retry_interval=values["fetchOffset.retryIntervalMs"],
        fetching=FetchOptions(
            committed=fetching["isolation.level"] == "read_committed",
            max_bytes=min(fetching["fetch.max.bytes"], fetching["max.partition.fetch.bytes"] or 128 << 20),
            min_bytes=fetching["fetch.min.bytes"],
            max_wait=fetching["fetch.max.wait.ms"],
            rack=fetching["client.rack"],
        ),
    )


def _selection(values: Mapping[str, Any]) -> Selection:
    named_ones = [name for name in ("subscribe", "subscribePattern", "assign") if values[name] is not None]
    if len(named_ones) != 1:
        what = f"there are {' and '.join(named_ones)}" if named_ones else "there is none"
        raise OptionError(f"exactly one of the options 'subscribe', 'subscribePattern' and 'assign' is needed; {what}")
    if values["subscribe"] is not None:
        return Subscribe(values["subscribe"])
    if values["assign"] is not None:
        return Assign(values["assign"])
    return SubscribePattern(values["subscribePattern"])


def _check_batch(starting: Position, ending: Position) -> None:
    if starting == EarliestOrLatest(LATEST):
        raise OptionError("option 'startingOffsets': a batch cannot begin at latest; it takes earliest or offsets")
    if ending == EarliestOrLatest(EARLIEST):
        raise OptionError("option 'endingOffsets': a batch cannot end at earliest; it takes latest or offsets")
    if isinstance(starting, AtOffsets) and (late := [p for p, o in starting.offsets.items() if o == LATEST]):
        raise OptionError(
            f"option 'startingOffsets': a batch cannot begin at latest (-1), as of {partition_names(late)}"
        )
    if isinstance(ending, AtOffsets) and (early := [p for p, o in ending.offsets.items() if o == EARLIEST]):
        raise OptionError(
            f"option 'endingOffsets': a batch cannot end at earliest (-2), as of {partition_names(early)}"
        )
    pairs: list[tuple[str, Mapping[TopicPartition, int], Mapping[TopicPartition, int]]] = []
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        pairs.append(("endingOffsets", starting.offsets, ending.offsets))
    if isinstance(starting, AtTimes) and isinstance(ending, AtTimes):
        pairs.append(("endingOffsetsByTimestamp", starting.timestamps, ending.timestamps))
    for name, start, end in pairs:
        if start.keys() != end.keys():
            raise OptionError(
                f"option {name!r}: it needs the partitions that the beginning has: {partition_names(start)}"
            )
        for each, offset in start.items():
            if 0 <= end[each] < offset:
                raise OptionError(f"option {name!r}: {each} would end at {end[each]}, before it begins at {offset}")
    if isinstance(starting, AtTime) and isinstance(ending, AtTime) and ending.timestamp < starting.timestamp:
        raise OptionError(
            f"option 'endingTimestamp': {ending.timestamp} is before startingTimestamp, {starting.timestamp}"
        )

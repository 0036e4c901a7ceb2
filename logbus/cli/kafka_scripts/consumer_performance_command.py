"""``kafka-consumer-perf-test``: reads records, and prints how fast (Kafka: ConsumerPerformance)."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Literal

from attrs import frozen
from twisted.internet.defer import CancelledError

from logbus.cli.kafka_scripts.client_settings import Settings
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import client_properties, with_cluster
from logbus.cli.kafka_scripts.topic_names import topic_filter
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer import Consumer
from logbus.errors import ApiError, LogbusError
from logbus.model import TopicPartition

_MB = 1024 * 1024
_MAX_POLL_RECORDS = 500
_FETCH = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
_READ = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"

PARSER = OptionParser(
    "Reads records, and prints how fast.",
    [
        Option("topic", "topic", "The topic."),
        Option("include", "Java regex", "Topics: regular expressions, separated by commas."),
        Option("num-records", "count", "How many records.", bits=64),
        Option("messages", "count", "The same, as it was called before.", bits=64),
        Option("group", "gid", "Read as a member of this group; without it, of none."),
        Option("from-latest", help="Begin at the end, and not at the first record."),
        Option("timeout", "milliseconds", "Stop when no record comes for so long; default 10000.", bits=64),
        Option("show-detailed-stats", help="Print a line for each --reporting-interval."),
        Option("reporting-interval", "interval_ms", "Milliseconds between these lines; default 5000.", bits=32),
        Option("hide-header", help="Print no line of headings."),
        Option("date-format", "date format", refusal="times are printed as yyyy-MM-dd HH:mm:ss:SSS"),
        Option("command-property", "prop", "A property of the consumer; may be repeated."),
        Option("consumer.config", "config file", "As --command-config, as it was called before."),
        Option("fetch-size", "size", "Bytes of a response.", bits=32),
        Option("socket-buffer-size", "size", "Accepted, without an effect.", bits=32),
        Option("print-metrics", refusal="'logbus bench fetch' prints figures of the broker, too"),
    ],
)


@frozen(kw_only=True)
class ReadSpeed:
    """
    The amount that was read in a time.

    :ivar joining: seconds of it until the group had given partitions.
    """

    records: int
    size: int
    seconds: float
    joining: float

    def figures(self, since: ReadSpeed | None = None) -> str:
        """As Kafka prints them; rates are those since another one."""
        size, records, seconds = self.size, self.records, self.seconds
        if since is not None:
            size, records, seconds = size - since.size, records - since.records, seconds - since.seconds
        seconds = max(seconds, 1e-3)
        fetching = max(seconds - self.joining, 1e-3)
        return (
            f"{self.size / _MB:.4f}, {size / _MB / seconds:.4f}, {self.records}, {records / seconds:.4f}, "
            f"{int(self.joining * 1000)}, {int(fetching * 1000)}, {size / _MB / fetching:.4f}, {records / fetching:.4f}"
        )


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    options.require("bootstrap-server")
    if options.has("topic") == options.has("include"):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if options.has("num-records") == options.has("messages"):
        raise UsageError("Exactly one of the following arguments is required: [num-records], [messages]")
    if options.has("messages"):
        say("Warning: --messages is deprecated. Use --num-records instead.")
    settings = Settings(client_properties(options, ("consumer.config", "command-config"), ("command-property",)))
    reader = _Reader(options, settings)
    settings.complain_unused()
    try:
        with_cluster(options, reader, settings.properties)
    except LogbusError as e:
        complain(f"Error: {broker_text(e) if isinstance(e, ApiError) else e}")
        return 1
    return 0


class _Reader:
    """Reads the records."""

    def __init__(self, options: ParsedOptions, settings: Settings) -> None:
        self._options = options
        self._count = options.integer("num-records") or options.integer("messages") or 0
        if self._count <= 0:
            raise UsageError("--num-records should be greater than zero")
        timeout, interval = options.integer("timeout"), options.integer("reporting-interval")
        if interval is not None and interval <= 0:
            raise UsageError("--reporting-interval should be greater than zero")
        self._timeout = 10.0 if timeout is None else max(timeout, 1) / 1000
        self._interval = 5.0 if interval is None else interval / 1000
        self._group = options.value("group") or settings.text("group.id", "") or None
        self._how: dict[str, Any] = {
            "fetch_max_bytes": options.integer("fetch-size") or settings.integer("fetch.max.bytes", 50 * _MB),
            "fetch_min_bytes": settings.integer("fetch.min.bytes", 1),
        }

    async def __call__(self, cluster: Cluster, admin: AdminClient) -> None:
        options, detailed = self._options, self._options.has("show-detailed-stats")
        if not options.has("hide-header"):
            say(f"{'time, threadId' if detailed else 'start.time, end.time'}, {_READ}, {_FETCH}")
        reset: Literal["latest", "earliest"] = "latest" if options.has("from-latest") else "earliest"
        consumer = Consumer(cluster, self._group, auto_offset_reset=reset, **self._how)
        started, began = datetime.now(), time.monotonic()
        try:
            found = await self._read(cluster, admin, consumer, began)
        except CancelledError:
            return
        finally:
            await consumer.close()
        if not detailed:
            say(f"{_moment(started)}, {_moment(datetime.now())}, {found.figures()}")

    async def _read(
        self, cluster: Cluster, admin: AdminClient, consumer: Consumer[Any, Any], began: float
    ) -> ReadSpeed:
        topics = await self._topics(cluster, admin)
        if self._group is None:
            consumer.assign(topics)
        else:
            consumer.subscribe(sorted({each.topic for each in topics}))
        records = size = 0
        joining = None if self._group is not None else 0.0
        told = ReadSpeed(records=0, size=0, seconds=0.0, joining=0.0)
        while records < self._count:
            found = await consumer.poll(self._timeout, min(_MAX_POLL_RECORDS, self._count - records))
            passed = time.monotonic() - began
            if joining is None and consumer.assignment:
                joining = passed
            if not found:
                say(
                    "WARNING: Exiting before consuming the expected number of records: timeout "
                    f"({int(self._timeout * 1000)} ms) exceeded. You can use the --timeout option to increase the "
                    "timeout."
                )
                break
            for theirs in found.values():
                records += len(theirs)
                size += sum(len(each.key or b"") + len(each.value or b"") for each in theirs)
            if self._options.has("show-detailed-stats") and passed - told.seconds >= self._interval:
                now = ReadSpeed(records=records, size=size, seconds=passed, joining=0.0)
                say(f"{_moment(datetime.now())}, 0, {now.figures(told)}")
                told = now
        return ReadSpeed(records=records, size=size, seconds=time.monotonic() - began, joining=joining or 0.0)

    async def _topics(self, cluster: Cluster, admin: AdminClient) -> list[TopicPartition]:
        name, include = self._options.value("topic"), self._options.value("include")
        if name is not None:
            topics = [await cluster.topic(name)]
        else:
            matches = topic_filter(include or "")
            topics = [each for each in await admin.list_topics(internal=True) if matches(each.name)]
        if not topics:
            raise UsageError(f"no topic matches {include}")
        return [TopicPartition(each.name, number) for each in topics for number in each.partitions]


def _moment(when: datetime) -> str:
    """As Kafka's ``yyyy-MM-dd HH:mm:ss:SSS``."""
    return f"{when:%Y-%m-%d %H:%M:%S}:{when.microsecond // 1000:03d}"

"""``kafka-console-consumer``: prints records (Kafka: ConsoleConsumer)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, cast

from attrs import frozen
from twisted.internet.defer import CancelledError

from logbus.cli.kafka_scripts.client_settings import Settings
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.message_formatter import FORMATTERS, MessageFormatter, NotDeserializable
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import client_properties, key_values, with_cluster
from logbus.cli.kafka_scripts.topic_names import topic_filter
from logbus.cli.terminal_escapes import for_terminal
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.config_admin import Resource, ResourceType
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer import Consumer
from logbus.client.consumer.fetch_options import RESETS
from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition

_MAX_POLL_RECORDS = 500
_BETWEEN_LOOKS = 0.5
"""Seconds between looks for a topic that is not there."""

_ISOLATIONS = ("read_committed", "read_uncommitted")

PARSER = OptionParser(
    "Prints records.",
    [
        Option("topic", "topic", "The topic."),
        Option(("include", "whitelist"), "Java regex", "Topics: regular expressions, separated by commas."),
        Option("partition", "partition", "Only this partition; begins at --offset.", bits=32),
        Option("offset", "consume offset", "An offset, earliest or latest (the default); with --partition."),
        Option("from-beginning", help="Begin at the first record, unless the group has committed offsets."),
        Option("group", "consumer group id", "Read as a member of this group; without it, of none."),
        Option("max-messages", "num_messages", "Stop after so many records.", bits=32),
        Option("timeout-ms", "timeout_ms", "Stop when no record comes for so long.", bits=64),
        Option("isolation-level", "isolation level", "read_committed, or read_uncommitted (the default)."),
        Option("formatter-property", "prop", "Of what is printed: print.key=true, key.separator=:, …; repeatable."),
        Option("property", "prop", "The same, as it was called before."),
        Option("formatter-config", "config file", "A file of such properties."),
        Option("formatter", "class", f"{', '.join(FORMATTERS)}."),
        Option("key-deserializer", "deserializer for key", "As the formatter's property key.deserializer."),
        Option("value-deserializer", "deserializer for values", "As the formatter's property value.deserializer."),
        Option("command-property", "consumer_prop", "A property of the consumer; may be repeated."),
        Option("consumer-property", "consumer_prop", "The same, as it was called before."),
        Option("consumer.config", "config file", "As --command-config, as it was called before."),
        Option("skip-message-on-error", help="Go on after a record that cannot be printed."),
        Option(
            "enable-systest-events",
            help="",
            refusal="logbus consume --json prints records with their places",
        ),
    ],
)

_REPLACED = {
    "property": "formatter-property",
    "consumer-property": "command-property",
    "consumer.config": "command-config",
}


@frozen(kw_only=True)
class ReadRequest:
    """
    The records to read.

    :ivar topic: its name, or None: those that ``include`` matches.
    :ivar partition: None: all.
    :ivar offset: where to begin in it; a negative number: as ``reset`` says.
    :ivar timeout: seconds without a record after which it ends; None: it does not.
    :ivar limit: how many records; negative: no limit.
    """

    topic: str | None
    include: str | None
    partition: int | None
    offset: int
    reset: Literal["earliest", "latest", "none"]
    group: str | None
    limit: int
    timeout: float | None
    skips_errors: bool
    consumer: Mapping[str, Any]


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    for old, new in _REPLACED.items():
        options.forbid(old, [new])
        if options.has(old):
            say(f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    if not options.has("bootstrap-server"):
        options.require("bootstrap-server")
    files, pairs = ("consumer.config", "command-config"), ("consumer-property", "command-property")
    settings = Settings(client_properties(options, files, pairs))
    request = read_request(options, settings)
    name = options.value("formatter") or FORMATTERS[0]
    if name not in FORMATTERS:
        raise UsageError(
            f"formatter {name} is not served; there are {', '.join(FORMATTERS)}; logbus dump-log shows logs"
        )
    # Records may contain escape sequences that a terminal would obey; a pipe gets the bytes unchanged.
    show = for_terminal if sys.stdout.isatty() else bytes
    formatter = MessageFormatter.of(formatter_properties(options), show)
    settings.complain_unused()
    reader = _Reader(request, None if name == FORMATTERS[2] else formatter)
    status = 0
    try:
        with_cluster(options, reader, settings.properties)
    except (LogbusError, NotDeserializable) as e:
        text = broker_text(e) if isinstance(e, ApiError) else str(e)
        complain(f"Error processing message, terminating consumer process: {text}")
        status = 1
    complain(f"Processed a total of {reader.count} messages")
    return status


def read_request(options: ParsedOptions, settings: Settings) -> ReadRequest:
    """
    What the options ask for.

    :raise UsageError: they are wrong, or do not go together.
    """
    topic, include = options.value("topic"), options.value("include")
    if (topic is None) == (include is None):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if include is not None:
        topic_filter(include)
    partition = options.integer("partition")
    if partition is not None and topic is None:
        raise UsageError("The topic is required when partition is specified.")
    if options.has("offset") and partition is None:
        raise UsageError("The partition is required when offset is specified.")
    if options.has("offset") and options.has("from-beginning"):
        raise UsageError("Options from-beginning and offset cannot be specified together.")
    offset, reset = _start(options, settings)
    group = _group(options, settings)
    if group is not None and partition is not None:
        raise UsageError("Options group and partition cannot be specified together.")
    timeout = options.integer("timeout-ms")
    limit = options.integer("max-messages")
    return ReadRequest(
        topic=topic,
        include=include,
        partition=partition,
        offset=offset,
        reset=reset,
        group=group,
        limit=-1 if limit is None else limit,
        timeout=None if timeout is None or timeout < 0 else timeout / 1000,
        skips_errors=options.has("skip-message-on-error"),
        consumer=_consumer_arguments(options, settings, group),
    )


def formatter_properties(options: ParsedOptions) -> Mapping[str, str]:
    """
    The properties of the formatter.

    :raise UsageError: a pair is none, or a file cannot be read.
    """
    found = client_properties(options, ("formatter-config",))
    found |= key_values(options.values("property") + options.values("formatter-property"))
    for what in ("key", "value"):
        name = options.value(f"{what}-deserializer")
        if name is not None:
            found[f"{what}.deserializer"] = name
    return found


def _start(options: ParsedOptions, settings: Settings) -> tuple[int, Literal["earliest", "latest", "none"]]:
    """The offset, or −1, and the reset."""
    reset = settings.text("auto.offset.reset", "earliest" if options.has("from-beginning") else "latest")
    if reset not in RESETS:
        raise UsageError(f"Invalid value {reset} for configuration auto.offset.reset: there are {', '.join(RESETS)}")
    if options.has("from-beginning") and reset != "earliest":
        raise UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    text = options.value("offset")
    if text is not None and text.lower() in ("earliest", "latest"):
        reset = text.lower()
    elif text is not None:
        if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
            raise UsageError(
                f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
                "non-negative long."
            )
        return int(text), cast(Literal["earliest", "latest", "none"], reset)
    return -1, cast(Literal["earliest", "latest", "none"], reset)


def _group(options: ParsedOptions, settings: Settings) -> str | None:
    group, configured = options.value("group"), settings.text("group.id", "")
    if group is not None and configured and group != configured:
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: '{configured}', '{group}'"
        )
    return group or configured or None


def _consumer_arguments(options: ParsedOptions, settings: Settings, group: str | None) -> dict[str, Any]:
    """Arguments of :class:`Consumer`."""
    isolation = options.value("isolation-level") or settings.text("isolation.level", "read_uncommitted")
    if isolation not in _ISOLATIONS:
        raise UsageError(
            f"Invalid value {isolation} for configuration isolation.level: String must be one of: "
            f"{', '.join(_ISOLATIONS)}"
        )
    found: dict[str, Any] = {
        "isolation_level": isolation,
        "client_rack": settings.text("client.rack", "") or None,
        "fetch_min_bytes": settings.integer("fetch.min.bytes", 1),
        "fetch_max_wait": settings.integer("fetch.max.wait.ms", 500) / 1000,
    }
    if group is not None:
        protocol = settings.text("group.protocol", "classic").lower()
        if protocol not in ("classic", "consumer"):
            raise UsageError(f"Invalid value {protocol} for configuration group.protocol: there are classic, consumer")
        found["group_protocol"] = protocol
        found["group_instance_id"] = settings.text("group.instance.id", "") or None
        found["enable_auto_commit"] = settings.boolean("enable.auto.commit", True)
        found["auto_commit_interval"] = max(settings.integer("auto.commit.interval.ms", 5000), 1) / 1000
    return found


class _Reader:
    """
    Reads and prints records.

    :ivar count: how many it has read.
    """

    def __init__(self, request: ReadRequest, formatter: MessageFormatter | None) -> None:
        self._request = request
        self._formatter = formatter
        self._timestamp_types: dict[str, str] = {}
        self.count = 0

    async def __call__(self, cluster: Cluster, admin: AdminClient) -> None:
        if self._request.limit == 0:
            return
        request = self._request
        consumer = Consumer(cluster, request.group, auto_offset_reset=request.reset, **request.consumer)
        try:
            if request.group is None:
                await self._assign(cluster, admin, consumer)
            elif request.topic is not None:
                consumer.subscribe([request.topic])
            else:
                consumer.subscribe(re.compile((request.include or "").replace(",", "|")))
            if request.group is not None or consumer.assignment:
                await self._read(admin, consumer)
        except CancelledError:
            pass  # Ctrl-C is the usual end
        finally:
            await consumer.close()

    async def _read(self, admin: AdminClient, consumer: Consumer[Any, Any]) -> None:
        request = self._request
        while self.count < request.limit or request.limit < 0:
            most = _MAX_POLL_RECORDS if request.limit < 0 else min(request.limit - self.count, _MAX_POLL_RECORDS)
            found = await consumer.poll(request.timeout, most)
            if not found and request.timeout is not None:
                return
            for partition, records in found.items():
                timestamp_type = await self._timestamp_type(admin, partition.topic)
                self.count += len(records)
                if self._formatter is not None:
                    self._print(partial(self._formatter.line, timestamp_type=timestamp_type), records)

    def _print(self, line: Any, records: list[Any]) -> None:
        lines = []
        try:
            for record in records:
                try:
                    lines.append(line(record))
                except NotDeserializable as e:
                    if not self._request.skips_errors:
                        raise
                    complain(f"Error processing message, skipping this message: {e}")
        finally:
            sys.stdout.buffer.write(b"".join(lines))
            sys.stdout.buffer.flush()

    async def _timestamp_type(self, admin: AdminClient, topic: str) -> str:
        """By the topic's settings, as records do not have it here; if those may be read."""
        if self._formatter is None or "timestamp" not in self._formatter.printed:
            return ""
        if topic not in self._timestamp_types:
            resource = Resource(ResourceType.TOPIC, topic)
            entries = (await admin.describe_configs([resource]))[resource]
            values = {} if isinstance(entries, ApiError) else {each.name: each.value for each in entries}
            self._timestamp_types[topic] = values.get("message.timestamp.type") or "CreateTime"
        return self._timestamp_types[topic]

    async def _assign(self, cluster: Cluster, admin: AdminClient, consumer: Consumer[Any, Any]) -> None:
        """Assign the partitions of topics that are there, when there are some, or the timeout is over."""
        request = self._request
        end = None if request.timeout is None else cluster.reactor.seconds() + request.timeout
        complained = False
        while True:
            partitions = await self._partitions(cluster, admin)
            if partitions or (end is not None and cluster.reactor.seconds() >= end):
                break
            if not complained:
                complain(f"topic {request.topic or request.include} is not there yet; it is read when it is")
                complained = True
            await sleep(cluster.reactor, _BETWEEN_LOOKS)
        if request.partition is None:
            consumer.assign(partitions)
        elif partitions and request.offset >= 0:
            consumer.assign(dict.fromkeys(partitions, request.offset))
        else:
            consumer.assign(partitions)

    async def _partitions(self, cluster: Cluster, admin: AdminClient) -> list[TopicPartition]:
        request = self._request
        if request.topic is None:
            matches = topic_filter(request.include or "")
            topics = [each for each in await admin.list_topics(internal=True) if matches(each.name)]
        else:
            try:
                topics = [await cluster.topic(request.topic, create=True)]
            except ApiError as e:
                if e.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                topics = []
        if request.partition is not None and topics and request.partition not in topics[0].partitions:
            raise topics[0].has_no(request.partition)
        return [
            TopicPartition(topic.name, number)
            for topic in topics
            for number in topic.partitions
            if request.partition in (None, number)
        ]

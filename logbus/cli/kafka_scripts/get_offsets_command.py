"""``kafka-get-offsets``: prints offsets of partitions (Kafka: GetOffsetShell)."""

from __future__ import annotations

import re
from collections.abc import Callable

from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.cli.kafka_scripts.topic_names import topic_filter
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, LogbusError
from logbus.model import TopicPartition

TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}

_RANGE = re.compile(r"(?:([^:,]*))?(?::(?:([0-9]+)|([0-9]+)-([0-9]*)|-([0-9]+)))?", re.ASCII)

Wanted = Callable[[TopicPartition], bool]

PARSER = OptionParser(
    "Prints offsets of partitions.",
    [
        Option("topic", "topic", "Regular expressions of topics, separated by commas."),
        Option("partitions", "partition ids", "Numbers of partitions, separated by commas."),
        Option("topic-partitions", "topic1:1,topic2:0-3,...", "Topics with a partition, or from one up to another."),
        Option("time", "timestamp", "Milliseconds since 1970, -1 or latest (the default), -2 or earliest, …"),
        Option("exclude-internal-topics", help="Without internal topics."),
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    options.require("bootstrap-server")

    async def work(cluster: Cluster, admin: AdminClient) -> None:
        wanted, at = wanted_partitions(options), time_of(options.value("time", "latest") or "latest")
        topics = await admin.list_topics(internal=not options.has("exclude-internal-topics"))
        every = [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]
        chosen = sorted(filter(wanted, every))
        if not chosen:
            raise UsageError("Could not match any topic-partitions with the specified filters")
        for partition, answer in sorted((await admin.list_offsets(dict.fromkeys(chosen, at))).items()):
            if isinstance(answer, ApiError):
                complain(f"Skip getting offsets for topic-partition {partition} due to error: {broker_text(answer)}")
            elif answer.offset >= 0:
                say(f"{partition.topic}:{partition.partition}:{answer.offset}")

    try:
        with_cluster(options, work)
    except (UsageError, LogbusError) as e:
        complain(f"Error occurred: {broker_text(e) if isinstance(e, ApiError) else e}")
        return 1
    return 0


def time_of(text: str) -> int:
    """
    The time in a request.

    :raise UsageError: it is neither a number nor one of :data:`TIMES`.
    """
    if text in TIMES:
        return TIMES[text]
    if re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII):
        return int(text)
    names = " / ".join(f"{value} or {name}" for name, value in TIMES.items())
    raise UsageError(f"Malformed time argument {text}. Please use {names}, or a specified long format timestamp")


def wanted_partitions(options: ParsedOptions) -> Wanted:
    """
    Which partitions the options choose.

    :raise UsageError: they are wrong, or do not go together.
    """
    pairs = options.value("topic-partitions")
    if pairs is not None:
        if options.has("topic") or options.has("partitions"):
            raise UsageError("--topic-partitions cannot be used with --topic or --partitions")
        choices = [_choice(each) for each in pairs.split(",")]
        return lambda partition: any(choice(partition) for choice in choices)
    expression, texts = options.value("topic"), options.value("partitions")
    matches = (lambda _: True) if expression is None else topic_filter(expression)
    numbers = None if texts is None else {_number(each) for each in texts.split(",")}
    return lambda partition: matches(partition.topic) and (numbers is None or partition.partition in numbers)


def _number(text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise UsageError(f"--partitions expects a comma separated list of numeric partition ids, but received: {text}")
    return int(text)


def _choice(text: str) -> Wanted:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise UsageError(f"Invalid rule: {text}")
    topic, only, first, end, least = found.groups()
    matches = (lambda _: True) if not topic else topic_filter(topic)
    if only is not None:
        begin, stop = int(only), int(only) + 1
    else:
        begin = int(first) if first else 0
        bound = end or least
        stop = int(bound) if bound else 1 << 31
    return lambda partition: matches(partition.topic) and begin <= partition.partition < stop

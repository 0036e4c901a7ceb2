"""The ``logbus consume`` command: prints records."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from logbus.cli.options import bootstrap_options, group_id, timestamp_ms
from logbus.cli.output import Progress, as_text, quantity
from logbus.cli.terminal_escapes import for_terminal, json_line
from logbus.errors import ApiError

if TYPE_CHECKING:
    from logbus.client.cluster.cluster import Cluster
    from logbus.client.consumer.consumer_record import ConsumerRecord
    from logbus.client.consumer.partition_position import Isolation, Reset
    from logbus.model import TopicPartition
    from logbus.records.record import Record

RecordFormat = Callable[[str, int, "Record | ConsumerRecord"], bytes]


@click.command()
@click.argument("topic")
@click.option(
    "--partition", "-p", "partitions", type=click.IntRange(min=0), multiple=True, help="Default: all; may be repeated."
)
@click.option("--from-beginning", is_flag=True, help="Start at the first record.")
@click.option(
    "--offset", "-o", type=int, help="Start at this offset; -5 means the last five records of each partition."
)
@click.option(
    "--timestamp", "-t", metavar="WHEN", help="Start at this time: milliseconds since 1970, or 2024-05-01T12:00."
)
@click.option(
    "--group",
    "-g",
    type=group_id,
    metavar="ID",
    help="Consume as a member of this group, from its committed offsets (without any: from the end, or with "
    "--from-beginning from the first record). Commits what was printed. With --partition, does not join the group.",
)
@click.option("--max-records", "-n", type=click.IntRange(min=0), help="Stop after this many records.")
@click.option("--exit-at-end", "-e", is_flag=True, help="Stop at the current end.")
@click.option(
    "--isolation-level",
    "isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether to read records of transactions only after their commit.",
)
@click.option("--key-separator", "-K", metavar="TEXT", help="Print the key and this text before the value.")
@click.option(
    "--format",
    "-f",
    "template",
    metavar="TEXT",
    help="The format of a record: %t topic, %p partition, %o offset, %T timestamp, %k key, %v value, %h headers, "
    "%%, \\n and \\t. Default: the value and a newline.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
@bootstrap_options
def consume(
    topic: str,
    partitions: tuple[int, ...],
    from_beginning: bool,
    offset: int | None,
    timestamp: str | None,
    group: str | None,
    max_records: int | None,
    exit_at_end: bool,
    isolation: Isolation,
    key_separator: str | None,
    template: str | None,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Print records: by default new ones as they arrive, until Ctrl-C.

    On a terminal, control characters in records are escaped, as in \\x1b; in a pipe or a file they are unchanged.

    \b
    Example:
      logbus consume greetings --from-beginning --exit-at-end
      logbus consume orders --offset -10 --json
      logbus consume orders --timestamp 2024-05-01T12:00 --format '%p %o %k=%v\\n'
      logbus consume orders --group billing --exit-at-end
    """
    from logbus.cli.runner import with_cluster

    if group is not None and (offset is not None or timestamp is not None):
        raise click.UsageError(
            "a group begins where it left off: --offset and --timestamp go without --group, and 'logbus groups "
            "reset-offsets' moves a group"
        )
    if sum((from_beginning, offset is not None, timestamp is not None)) > 1:
        raise click.UsageError("only one of --from-beginning, --offset and --timestamp can be given")
    if sum((template is not None, as_json, key_separator is not None)) > 1:
        raise click.UsageError("only one of --format, --json and --key-separator can be given")
    at_ms = None if timestamp is None else timestamp_ms(timestamp, "--timestamp")
    # Records may contain escape sequences that a terminal would obey; a pipe gets the bytes unchanged.
    printer = _Printer(record_format(template, as_json, key_separator, for_terminal if sys.stdout.isatty() else _raw))

    async def work(cluster: Cluster) -> None:
        starts, ends = await bounds(cluster, topic, partitions, from_beginning, offset, at_ms, isolation)
        try:
            if group is None:
                await _consume(cluster, starts, ends, exit_at_end, isolation, max_records, printer.show)
            else:
                from logbus.cli.group_reader import consume_for_group

                reset: Reset = "earliest" if from_beginning else "latest"
                chosen = list(ends) if partitions else []
                until = ends if exit_at_end else None
                await consume_for_group(
                    cluster, group, topic, chosen, reset, isolation, until, max_records, printer.show
                )
        finally:
            printer.close()

    with_cluster(bootstrap, timeout, work)


class _Printer:
    """Prints records; shows their number on the terminal if the output is redirected."""

    def __init__(self, render: RecordFormat) -> None:
        self._render = render
        self._progress = Progress() if not sys.stdout.isatty() else None
        self._count = 0

    def show(self, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> None:
        out = sys.stdout.buffer
        out.write(b"".join([self._render(partition.topic, partition.partition, each) for each in records]))
        out.flush()
        self._count += len(records)
        if self._progress is not None:
            self._progress.show(f"{quantity(self._count)} records")

    def close(self) -> None:
        if self._progress is not None:
            self._progress.clear()


async def _consume(
    cluster: Cluster,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    exit_at_end: bool,
    isolation: Isolation,
    limit: int | None,
    show: Callable[[TopicPartition, Sequence[ConsumerRecord]], object],
) -> None:
    """Read partitions without a group."""
    from twisted.internet.defer import CancelledError

    from logbus.client.consumer.fetcher import Fetcher

    left = limit
    open_ends = {each for each in ends if starts[each] < ends[each]} if exit_at_end else set(ends)
    if left == 0 or not open_ends:
        return
    consumer = Fetcher(cluster, reset="earliest", isolation=isolation)
    consumer.assign({each: starts[each] for each in open_ends})
    try:
        while open_ends and left != 0:
            fetched = await consumer.poll()
            records = fetched.records
            if exit_at_end:
                end = ends[fetched.partition]
                if fetched.next_offset >= end:
                    open_ends.discard(fetched.partition)
                    records = [each for each in records if each.offset < end]
            if left is not None:
                records = records[:left]
                left -= len(records)
            show(fetched.partition, records)
    except CancelledError:
        # Ctrl-C is the usual end.
        pass
    finally:
        await consumer.close()


async def bounds(
    cluster: Cluster,
    name: str,
    chosen: tuple[int, ...],
    from_beginning: bool,
    offset: int | None,
    at_ms: int | None,
    isolation: Isolation,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """
    Return the first offset to read in each partition, and each partition's current end.

    :raises ApiError: a partition does not exist, or does not have the offset.
    """
    from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets
    from logbus.errors import ErrorCode
    from logbus.model import TopicPartition

    topic = await cluster.topic(name)
    wanted = [TopicPartition(name, index) for index in dict.fromkeys(chosen or topic.partitions)]

    async def offsets(time: int) -> dict[TopicPartition, int]:
        found = {}
        committed = isolation == "read_committed"
        answers = await list_offsets(cluster, dict.fromkeys(wanted, time), patience=5.0, committed=committed)
        for partition, answer in answers.items():
            if isinstance(answer, ApiError):
                raise answer
            found[partition] = answer.offset
        return found

    ends = await offsets(LATEST)
    if from_beginning:
        return await offsets(EARLIEST), ends
    if at_ms is not None:
        found = await offsets(at_ms)
        return {each: ends[each] if found[each] < 0 else found[each] for each in wanted}, ends
    if offset is None:
        return dict(ends), ends
    first = await offsets(EARLIEST)
    if offset < 0:
        return {each: max(first[each], ends[each] + offset) for each in wanted}, ends
    for each in wanted:
        if not first[each] <= offset <= ends[each]:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{each} has no offset {offset}; it has {first[each]} to {ends[each]}"
            )
    return dict.fromkeys(wanted, offset), ends


def _raw(data: bytes) -> bytes:
    return data


def record_format(
    template: str | None, as_json: bool, key_separator: str | None, show: Callable[[bytes], bytes] = _raw
) -> RecordFormat:
    """
    Return the function that formats a record.

    :param show: applied to keys, values and headers, except in JSON.
    """
    if as_json:
        return _as_json
    if template is not None:
        return _by_template(template, show)
    if key_separator is not None:
        between = key_separator.encode("utf-8", "surrogateescape")
        return lambda topic, partition, record: b"".join(
            (show(record.key or b""), between, show(record.value or b""), b"\n")
        )
    return lambda topic, partition, record: show(record.value or b"") + b"\n"


def _as_json(topic: str, partition: int, record: Record | ConsumerRecord) -> bytes:
    found: dict[str, object] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **as_text("key", record.key),
        **as_text("value", record.value),
    }
    if record.headers:
        found["headers"] = [{"name": _name(name), **as_text("value", value)} for name, value in record.headers]
    return json_line(found).encode() + b"\n"


def _name(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_ESCAPES = {"\\n": b"\n", "\\t": b"\t", "\\r": b"\r", "\\0": b"\0", "\\\\": b"\\", "%%": b"%"}
_FIELDS: dict[str, RecordFormat] = {
    "%t": lambda topic, partition, record: topic.encode(),
    "%p": lambda topic, partition, record: b"%d" % partition,
    "%o": lambda topic, partition, record: b"%d" % record.offset,
    "%T": lambda topic, partition, record: b"%d" % record.timestamp,
}
_CONTENTS: dict[str, RecordFormat] = {
    "%k": lambda topic, partition, record: record.key or b"",
    "%v": lambda topic, partition, record: record.value or b"",
    "%s": lambda topic, partition, record: record.value or b"",
    "%h": lambda topic, partition, record: b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (value or b"") for name, value in record.headers
    ),
}
"""The fields that producers set."""


def _escaped_fields(render: RecordFormat, show: Callable[[bytes], bytes]) -> RecordFormat:
    return lambda topic, partition, record: show(render(topic, partition, record))


def _by_template(template: str, show: Callable[[bytes], bytes]) -> RecordFormat:
    parts: list[bytes | RecordFormat] = []
    for each in re.findall(r"\\.|%.|[^\\%]+|.", template, re.DOTALL):
        if each in _FIELDS:
            parts.append(_FIELDS[each])
        elif each in _CONTENTS:
            parts.append(_escaped_fields(_CONTENTS[each], show))
        elif each in _ESCAPES:
            parts.append(_ESCAPES[each])
        elif each.startswith("%"):
            known = " ".join([*_FIELDS, *_CONTENTS, "%%"])
            raise click.BadParameter(f"{each!r} is not known; there are {known}", param_hint="--format")
        else:
            parts.append(each.encode("utf-8", "surrogateescape"))

    def render(topic: str, partition: int, record: Record | ConsumerRecord) -> bytes:
        return b"".join([each if isinstance(each, bytes) else each(topic, partition, record) for each in parts])

    return render

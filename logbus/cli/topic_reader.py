"""Reads a topic for ``consume`` and ``topics export``: from the chosen offsets on, with or without a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from attrs import frozen
from twisted.internet.defer import CancelledError

from logbus.cli.outage_lines import outage_lines
from logbus.cli.record_filter import RecordFilter
from logbus.cli.record_selection import Selection
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.consumer.partition_position import Isolation
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.cli.group_reader import Show
    from logbus.cli.registry_address import RegistryAddress


class RecordOutput(Protocol):
    """The output of records, with a progress line on the terminal."""

    def show(self, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> None:
        """Print or write records of a partition."""

    def clear_progress(self) -> None:
        """Another line is printed."""

    def close(self) -> None:
        """There are no more."""


@frozen(kw_only=True)
class ReadOptions:
    """
    The part of a topic to read.

    :ivar partitions: empty: all.
    :ivar offset: where to start; negative: this many records before the end.
    :ivar at_ms: the time to start at.
    :ivar until_ms: stop at the first record of this time or later; None: no time.
    :ivar wanted: which records are shown.
    :ivar registry: the schema registry by whose schemas keys and values are decoded; None: they are not.
    :ivar group: start at the offsets of this group, and commit what was printed.
    :ivar limit: stop after this many records were shown.
    :ivar exit_at_end: stop at the current end.
    """

    topic: str
    partitions: Sequence[int]
    from_beginning: bool
    offset: int | None
    at_ms: int | None
    until_ms: int | None
    wanted: RecordFilter | None
    registry: RegistryAddress | None = None
    group: str | None
    limit: int | None
    exit_at_end: bool
    isolation: Isolation


async def consume_topic(cluster: Cluster, options: ReadOptions, output: RecordOutput) -> bool:
    """
    Read a topic until the end that the options name, or until cancelled.

    :returns: whether it was not cancelled.
    """
    starts, ends = await _bounds(cluster, options)
    values = None
    if options.registry is not None:
        from logbus.cli.registry_values import RegistryValues  # twisted.web is half as many modules again

        values = RegistryValues(options.registry.open(cluster.reactor, cluster.timeout))
    select = Selection(options.wanted, values)
    exit_at_end = options.exit_at_end or options.until_ms is not None
    try:
        with outage_lines(cluster, output.clear_progress):
            if options.group is None:
                return await _consume_partitions(cluster, starts, ends, exit_at_end, options, select, output.show)
            else:
                from logbus.cli.group_reader import consume_for_group  # half as many modules again

                return await consume_for_group(
                    cluster,
                    options.group,
                    options.topic,
                    list(ends) if options.partitions else [],
                    "earliest" if options.from_beginning else "latest",
                    options.isolation,
                    ends if exit_at_end else None,
                    options.limit,
                    output.show,
                    select,
                )
    finally:
        output.close()
        if values is not None:
            await values.close()


async def _bounds(
    cluster: Cluster, options: ReadOptions
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """
    Return the first offset to read in each partition, and each partition's current end.

    :raises ApiError: a partition does not exist, or does not have the offset.
    """
    topic, offset = await cluster.topic(options.topic), options.offset
    wanted = [TopicPartition(topic.name, index) for index in dict.fromkeys(options.partitions or topic.partitions)]

    async def offsets(time: int) -> dict[TopicPartition, int]:
        found = {}
        committed = options.isolation == "read_committed"
        answers = await list_offsets(cluster, dict.fromkeys(wanted, time), patience=5.0, committed=committed)
        for partition, answer in answers.items():
            if isinstance(answer, ApiError):
                raise answer
            found[partition] = answer.offset
        return found

    ends = await offsets(LATEST)
    if options.until_ms is not None:
        found = await offsets(options.until_ms)
        ends |= {each: min(ends[each], offset) for each, offset in found.items() if offset >= 0}
    if options.from_beginning:
        return await offsets(EARLIEST), ends
    if options.at_ms is not None:
        found = await offsets(options.at_ms)
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


async def _consume_partitions(
    cluster: Cluster,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    exit_at_end: bool,
    options: ReadOptions,
    select: Selection,
    show: Show,
) -> bool:
    """
    Read records until cancelled.

    :param exit_at_end: stop when all partitions have reached these ends.
    """
    left = options.limit
    open_ends = {each for each in ends if starts[each] < ends[each]} if exit_at_end else set(ends)
    if left == 0 or not open_ends:
        return True
    consumer = Fetcher(cluster, FetchOptions(reset="earliest", isolation=options.isolation))
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
            records = await select(fetched.partition, records)
            if left is not None:
                records = records[:left]
                left -= len(records)
            show(fetched.partition, records)
    except CancelledError:
        # Ctrl-C is the usual end.
        return False
    finally:
        await consumer.close()
    return True

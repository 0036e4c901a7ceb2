"""Reads an audit topic to its end."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.internet.defer import Deferred

from logbus.client.audit.audit_comparison import AuditTotals
from logbus.client.audit.event_decoder import EventDecoder
from logbus.client.audit.monitoring_event import AUDIT_TOPIC, MonitoringEvent
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetcher import Fetcher
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets_with_retries
from logbus.client.serializers import SerializationError
from logbus.model import TopicPartition

Decode = Callable[[bytes | None], MonitoringEvent | Deferred[MonitoringEvent]]


@define
class AuditRead:
    """
    The result of reading an audit topic.

    :ivar totals: the sums.
    :ivar events: the number of events, including duplicates.
    :ivar unreadable: the number of records that are not events.
    :ivar problem: the position of the first of those, and its error.
    """

    totals: AuditTotals
    events: int = 0
    unreadable: int = 0
    problem: str = ""


def read_audit(
    cluster: Cluster,
    totals: AuditTotals,
    topic: str = AUDIT_TOPIC,
    *,
    since_ms: int | None = None,
    decode: Decode | None = None,
) -> Deferred[AuditRead]:
    """
    Sum up the events that are in an audit topic now.

    :param totals: the sums to add to.
    :param since_ms: skip events published before this time; milliseconds since 1970.
    :param decode: decodes an event, or returns a Deferred of it; default: an
        :class:`~logbus.client.audit.event_decoder.EventDecoder` without a registry.
    :raise ApiError: (in the Deferred) the topic does not exist, or cannot be read.
    :raise LogbusError: brokers cannot be reached; or an error of ``decode`` other than SerializationError.
    """
    return Deferred.fromCoroutine(_read(cluster, AuditRead(totals), topic, since_ms, decode or EventDecoder()))


async def _read(
    cluster: Cluster,
    found: AuditRead,
    name: str,
    since_ms: int | None,
    decode: Decode,
) -> AuditRead:
    wanted = [TopicPartition(name, index) for index in (await cluster.topic(name)).partitions]
    ends = await _offsets(cluster, wanted, LATEST)
    starts = await _offsets(cluster, wanted, EARLIEST if since_ms is None else since_ms)
    left = {each: start for each, start in starts.items() if 0 <= start < ends[each]}
    if not left:
        return found
    fetcher = Fetcher(cluster, FetchOptions(reset="earliest"))
    try:
        fetcher.assign(left)
        while left:
            fetched = await fetcher.poll()
            end = ends[fetched.partition]
            for record in fetched.records:
                if record.offset >= end:
                    continue
                try:
                    event = decode(record.value)
                    found.totals.add(await event if isinstance(event, Deferred) else event)
                    found.events += 1
                except SerializationError as e:
                    found.unreadable += 1
                    found.problem = found.problem or f"{fetched.partition} at offset {record.offset}: {e}"
            if fetched.next_offset >= end:
                left.pop(fetched.partition, None)
    finally:
        fetcher.close()
    return found


async def _offsets(cluster: Cluster, partitions: list[TopicPartition], time: int) -> dict[TopicPartition, int]:
    found = await list_offsets_with_retries(cluster, dict.fromkeys(partitions, time), committed=False)
    return {partition: answer.offset for partition, answer in found.items()}

"""
An interceptor that counts the records an application publishes or consumes, and publishes the counts to an audit topic.

.. code-block:: python

    audit = AuditInterceptor(cluster, application="shop", role=PRODUCER)
    producer = Producer(cluster, interceptors=[audit])
    ...
    await producer.close()
    await audit.close()

A producer counts acknowledged records, a consumer the records delivered to the application. ``logbus audit`` and
:mod:`~logbus.client.audit.audit_comparison` compare the two.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from logbus.client.audit.monitoring_event import AUDIT_TOPIC, CONSUMER, PRODUCER, MonitoringEvent, encode_event
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from logbus.client.producer.producer import Producer
from logbus.client.producer.producer_record import RecordMetadata

__all__ = ["AUDIT_TOPIC", "CONSUMER", "PRODUCER", "AuditInterceptor", "WindowCounts"]

_TOPICS_AN_EVENT = 1000
"""With topic names of maximal length, such an event is a quarter of the largest record that a broker accepts."""


@define(eq=False)
class WindowCounts:
    """
    Counts of records by topic and window since the last :meth:`take`. Pure.

    :ivar window_ms: length of a window in milliseconds.
    :ivar limit: the most pairs of topic and window; records of others are added to ``uncounted``.
    """

    window_ms: int
    limit: int
    uncounted: int = 0
    _counts: Counter[tuple[int, str]] = field(factory=Counter, init=False)
    _failed: Counter[tuple[int, str]] = field(factory=Counter, init=False)

    def __bool__(self) -> bool:
        """Whether there are counts to publish."""
        return bool(self._counts or self._failed or self.uncounted)

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return len(self._counts) + len(self._failed) >= self.limit

    def count(self, topic: str, timestamp: int, number: int = 1, *, failed: bool = False) -> None:
        """
        Count records.

        :param timestamp: the records' timestamp, in milliseconds since 1970; records without one (−1) count as of 1970.
        """
        start = max(timestamp, 0)
        place = (start - start % self.window_ms, topic)
        counts = self._failed if failed else self._counts
        if place not in counts and self.is_full:
            self.uncounted += number
        else:
            counts[place] += number

    def take(self, **names: str) -> list[dict[str, Any]]:
        """
        Take the counts, and start again at zero.

        :param names: fields that all events share.
        :returns: the fields of events, without ids, by window.
        """
        windows: dict[int, set[str]] = {}
        for start, topic in [*self._counts, *self._failed]:
            windows.setdefault(start, set()).add(topic)
        if not windows and self.uncounted:
            windows[0] = set()
        events: list[dict[str, Any]] = []
        for start in sorted(windows):
            topics = sorted(windows[start])
            for first in range(0, max(len(topics), 1), _TOPICS_AN_EVENT):
                some = topics[first : first + _TOPICS_AN_EVENT]
                counts = {topic: self._counts[start, topic] for topic in some if (start, topic) in self._counts}
                failed = {topic: self._failed[start, topic] for topic in some if (start, topic) in self._failed}
                window = {"window_start": start, "window_ms": self.window_ms, "counts": counts, "failed": failed}
                events.append({**names, **window, "uncounted": self.uncounted})
                self.uncounted = 0
        self._counts.clear()
        self._failed.clear()
        return events


class AuditInterceptor(ProducerInterceptor, ConsumerInterceptor):
    """
    An interceptor for one or several producers or consumers; close it after them.

    Events are published by a producer of its own, at least once each, with unique ids. If publishing fails, counting
    continues in bounded memory. Records of the audit topic are not counted.

    :param cluster: the cluster of the audit topic; its owner closes it.
    :param application: the application's name, the same for all instances, such as those of one consumer group.
    :param role: :data:`PRODUCER`, :data:`CONSUMER`, or the name of another stage.
    :param topic: the audit topic. Its retention should exceed the period that is checked.
    :param window: length of a window in seconds; the same for all applications that are compared.
    :param interval: seconds between publications.
    :param host: default: this host's name.
    :param encode: encodes an event; default: JSON.
    :param limit: the most pairs of topic and window between two publications.
    :param producer: publishes the events, and is closed with the interceptor; default: one of its own.
    :param new_id: makes unique ids.
    :raise ValueError: a number is out of range, or a name empty.
    """

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        *,
        application: str,
        role: str,
        topic: str = AUDIT_TOPIC,
        window: float = 600.0,
        interval: float = 60.0,
        host: str | None = None,
        encode: Callable[[MonitoringEvent], bytes] = encode_event,
        limit: int = 10_000,
        producer: Producer | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        if not application or not role:
            raise ValueError("an audit needs the application's name and its role, such as 'producer'")
        if window < 0.001 or interval <= 0 or limit < 1:
            raise ValueError("window, interval and limit of an audit are more than zero")
        self._clock = cluster.reactor
        self._topic = topic
        self._interval = interval
        self._names = {"application": application, "host": host or socket.gethostname(), "role": role}
        self._encode = encode
        self._producer = producer if producer is not None else _producer(cluster)
        self._new_id = new_id
        self._counts = WindowCounts(round(window * 1000), limit)
        self._unpublished: list[MonitoringEvent] = []
        self._timer: IDelayedCall | None = None
        self._publishing: Deferred[None] | None = None
        self._hurried = False
        self._closed = False

    # Counting.

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Count a record that was published, or failed."""
        if metadata.topic != self._topic:
            self._counts.count(metadata.topic, metadata.timestamp, failed=error is not None)
            self._counted()

    def on_consume(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Count consumed records."""
        window_ms = self._counts.window_ms
        # Counter is fast, and leaves few pairs of topic and window to add up.
        found = Counter([(each.topic, each.timestamp // window_ms) for each in records if each.topic != self._topic])
        for (topic, window), number in found.items():
            self._counts.count(topic, window * window_ms, number)
        if found:
            self._counted()

    # Publishing.

    def publish(self) -> Deferred[None]:
        """Publish the counts now; fires when that has succeeded or failed, and never fails itself."""
        if self._publishing is None:
            self._publishing = Deferred.fromCoroutine(self._publish())
            if self._publishing.called:
                self._publishing = None
        done: Deferred[None] = Deferred()
        if self._publishing is None:
            done.callback(None)
            return done

        def pass_on(result: None) -> None:
            if not done.called:
                done.callback(None)

        self._publishing.addCallback(pass_on)
        return done

    def close(self, timeout: float = 10.0) -> Deferred[None]:
        """
        Publish the remaining counts, and stop; fires when that is done.

        :param timeout: seconds after which unpublished events are dropped and logged.
        """
        return Deferred.fromCoroutine(self._close(timeout))

    async def _close(self, seconds: float) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        late = self._clock.callLater(seconds, self._producer.abort)
        # Records counted during a publication need another one.
        await self.publish()
        if (self._counts or self._unpublished) and late.active():
            await self.publish()
        if late.active():
            late.cancel()
            await self._producer.close()
        if self._counts or self._unpublished:
            self._log.error(
                "{events} monitoring events of {application} could not be published to {topic}; an audit takes their "
                "records for missing",
                events=len(self._unpublished) + len(self._counts.take()),
                topic=self._topic,
                application=self._names["application"],
            )

    def _counted(self) -> None:
        if self._closed:
            return
        if self._timer is None:
            self._timer = self._clock.callLater(self._interval, self._due)
        if self._counts.is_full and not self._hurried and not self._unpublished:
            # Publish early to make room, unless publishing fails at present.
            self._hurried = True
            self._timer.reset(0)

    def _due(self) -> None:
        self._timer = None
        self._hurried = False
        self.publish().addCallback(self._again)

    def _again(self, result: None) -> None:
        if self._counts or self._unpublished:
            self._counted()

    async def _publish(self) -> None:
        try:
            if not self._unpublished:
                self._unpublished = [
                    MonitoringEvent(id=self._new_id(), **fields) for fields in self._counts.take(**self._names)
                ]
            failed = []
            for event, written in [(each, maybeDeferred(self._send, each)) for each in self._unpublished]:
                try:
                    await written
                except Exception as e:
                    # It keeps its id, so that readers detect a duplicate if it was written all the same.
                    failed.append(event)
                    self._log.warn("a monitoring event was not published: {error}", error=e)
            self._unpublished = failed
        finally:
            self._publishing = None

    def _send(self, event: MonitoringEvent) -> Deferred[Any]:
        key = f"{event.application}/{event.role}".encode()
        return self._producer.send(self._topic, self._encode(event), key=key)


def _producer(cluster: Cluster) -> Producer:
    return Producer(cluster, wall_clock=time.time, random=Random(), create_topics=True)

"""
Counts what an application publishes or consumes, and publishes the counts to a topic of their own.

.. code-block:: python

    audit = AuditInterceptor(cluster, application="shop", role=PRODUCER)
    producer = Producer(cluster, interceptors=[audit])
    ...
    await producer.close()
    await audit.close()

A producer counts what was acknowledged, a consumer what was handed to the application. ``logbus audit`` and
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
"""With the longest names there are, an event still is a quarter of the largest record that a broker takes."""


@define(eq=False)
class WindowCounts:
    """
    Records by topic and window since they were last taken. Pure.

    :ivar window_ms: length of a window in milliseconds.
    :ivar limit: pairs of topic and window that there is room for; records of others are only counted as uncounted.
    """

    window_ms: int
    limit: int
    uncounted: int = 0
    _counts: Counter[tuple[int, str]] = field(factory=Counter, init=False)
    _failed: Counter[tuple[int, str]] = field(factory=Counter, init=False)

    def __bool__(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._counts or self._failed or self.uncounted)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another topic or window."""
        return len(self._counts) + len(self._failed) >= self.limit

    def count(self, topic: str, timestamp: int, number: int = 1, *, failed: bool = False) -> None:
        """
        Count records.

        :param timestamp: theirs, in milliseconds since 1970; without one (−1) they count as of 1970.
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
        The counts, and zero from here on.

        :param names: what all events have in common.
        :returns: the fields of events, all but their ids, by window.
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
    An interceptor for producers or for consumers, several if need be; close it after them.

    Events are published with a producer of its own, each at least once and with a unique id. While they cannot be, it
    goes on counting in bounded memory. It does not count its own topic.

    :param cluster: where the events go; closed by its owner.
    :param application: whose counts these are: all instances of one consumer group, say, by one name.
    :param role: :data:`PRODUCER`, :data:`CONSUMER`, or the name of another stage.
    :param topic: where the events go. It should keep them longer than the check looks back.
    :param window: length of a window in seconds; the same for all who are compared.
    :param interval: seconds between publications.
    :param host: default: this host's name.
    :param encode: makes an event into bytes; default: JSON.
    :param limit: pairs of topic and window to count between two publications.
    :param producer: what the events are sent with, to be closed with the interceptor; default: one of its own.
    :param new_id: makes an id that no other event has.
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

    # What is counted.

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """A record was published, or was not."""
        if metadata.topic != self._topic:
            self._counts.count(metadata.topic, metadata.timestamp, failed=error is not None)
            self._counted()

    def on_consume(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Records were consumed."""
        window_ms = self._counts.window_ms
        # Counted by C, for there may be many; as a window has few topics, few are left to be added up.
        found = Counter([(each.topic, each.timestamp // window_ms) for each in records if each.topic != self._topic])
        for (topic, window), number in found.items():
            self._counts.count(topic, window * window_ms, number)
        if found:
            self._counted()

    # What is published.

    def publish(self) -> Deferred[None]:
        """Publish what was counted, now; fires when that is done, or did not work this time. It never fails."""
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
        Publish what is left, and stop; fires when that is done.

        :param timeout: seconds after which what cannot be published is given up, with a line in the log.
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
        # What was counted while a publication was under way takes another.
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
            # Make room. Where events cannot be published at present, that would not help.
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
                    # It keeps its id: if it was written all the same, readers know the second one.
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

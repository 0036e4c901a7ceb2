"""The consumer of logbus.client (Twisted); the reactor runs while the member polls."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.selectreactor import SelectReactor
from twisted.python.failure import Failure

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer import Consumer
from logbus.client.group_metadata import CommittedOffset
from logbus.client.membership import GroupListener
from logbus.model import TopicPartition
from tests.interop.consumers.interface import MOST, SECONDS, Committed, Listener, Place, Record, Settings


class Ours(GroupListener):
    """The Twisted client."""

    def __init__(self, protocol: str, strategy: str, settings: Settings, heard: Listener) -> None:
        self._heard = heard
        self._reactor: Any = SelectReactor()
        self._reactor.startRunning(False)
        self._cluster = Cluster(self._reactor, settings.bootstrap, client_id=settings.client_id)
        self._consumer = Consumer(
            self._cluster,
            settings.group_id,
            group_protocol=protocol,
            assignors=(strategy,) if protocol == "classic" else ("range",),
            group_remote_assignor=strategy if protocol == "consumer" else None,
            group_instance_id=settings.instance_id,
            session_timeout=settings.session_timeout_ms / 1000,
            heartbeat_interval=settings.heartbeat_interval_ms / 1000,
            metadata_max_age=0.5,
            enable_auto_commit=settings.auto_commit,
            auto_offset_reset="earliest",
            fetch_max_wait=0.1,
        )
        if settings.topics and settings.topics[0].startswith("^"):
            self._consumer.subscribe(re.compile(settings.topics[0]), self)
        elif settings.topics:
            self._consumer.subscribe(settings.topics, self)

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._heard("assigned", frozenset(map(tuple, partitions)))

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._heard("revoked", frozenset(map(tuple, partitions)))

    def poll(self, seconds: float) -> list[Record]:
        found = self._wait(self._consumer.poll(seconds, MOST))
        return [Record((r.topic, r.partition), r.offset, r.value) for batch in found.values() for r in batch]

    def assign(self, places: Iterable[Place]) -> None:
        self._consumer.assign([TopicPartition(*place) for place in places])

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(*place), offset)

    def position(self, place: Place) -> int:
        deadline = time.monotonic() + SECONDS
        while (found := self._consumer.position(TopicPartition(*place))) is None:
            assert time.monotonic() < deadline, "the position is not found out"
            self._reactor.iterate(0.01)
        return found

    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        wanted = offsets and {
            TopicPartition(*place): CommittedOffset(offset, metadata=note) for place, (offset, note) in offsets.items()
        }
        self._wait(self._consumer.commit(wanted))

    def committed(self, place: Place) -> Committed | None:
        partition = TopicPartition(*place)
        found = self._wait(self._consumer.committed([partition]))[partition]
        return None if found is None else (found.offset, found.metadata)

    def close(self) -> None:
        self._wait(self._consumer.close())
        self._wait(self._cluster.close())
        # The threads that looked up addresses would keep the process.
        self._reactor.fireSystemEvent("shutdown")

    def _wait(self, waiting: Deferred[Any]) -> Any:
        results: list[Any] = []
        waiting.addBoth(results.append)
        deadline = time.monotonic() + SECONDS
        while not results:
            assert time.monotonic() < deadline, "it takes too long"
            self._reactor.iterate(0.01)
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

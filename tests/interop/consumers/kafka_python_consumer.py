"""The consumer of kafka-python (threads)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from tests.interop.consumers.interface import MOST, SECONDS, Committed, Listener, Place, Record, Settings


class KafkaPython(ConsumerRebalanceListener):  # type: ignore[misc]
    """kafka-python."""

    def __init__(self, strategy: type, settings: Settings, heard: Listener) -> None:
        self._heard = heard
        self._consumer = KafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group_id,
            client_id=settings.client_id,
            group_instance_id=settings.instance_id,
            partition_assignment_strategy=[strategy],
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            enable_auto_commit=settings.auto_commit,
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,
            fetch_max_wait_ms=100,
            reconnect_backoff_max_ms=200,
        )
        if settings.topics and settings.topics[0].startswith("^"):
            self._consumer.subscribe(pattern=settings.topics[0], listener=self)
        elif settings.topics:
            self._consumer.subscribe(list(settings.topics), listener=self)
        # A member that leads its group before it knows the topics' partitions joins a second time as soon as it does;
        # and if a poll ends meanwhile, this library forgets what that join answers.
        self._consumer.topics()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._heard("assigned", frozenset(map(tuple, assigned)))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._heard("revoked", frozenset(map(tuple, revoked)))

    def poll(self, seconds: float) -> list[Record]:
        try:
            found = self._consumer.poll(int(seconds * 1000), max_records=MOST)
        except KafkaError as error:
            # While no broker listens, the library hands on what refused its connection: whoever uses it polls again.
            if not error.retriable:
                raise
            return []
        return [Record((r.topic, r.partition), r.offset, r.value) for batch in found.values() for r in batch]

    def assign(self, places: Iterable[Place]) -> None:
        self._consumer.assign([TopicPartition(*place) for place in places])

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(*place), offset)

    def position(self, place: Place) -> int:
        return int(self._consumer.position(TopicPartition(*place), timeout_ms=SECONDS * 1000))

    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        wanted = offsets and {
            TopicPartition(*place): OffsetAndMetadata(offset, note, -1) for place, (offset, note) in offsets.items()
        }
        self._consumer.commit(wanted, timeout_ms=SECONDS * 1000)

    def committed(self, place: Place) -> Committed | None:
        found = self._consumer.committed(TopicPartition(*place), metadata=True, timeout_ms=SECONDS * 1000)
        return None if found is None or found.offset < 0 else (found.offset, found.metadata)

    def close(self) -> None:
        self._consumer.close()

"""The consumer of aiokafka (asyncio)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from tests.interop.consumers.interface import MOST, Committed, Listener, Place, Record, Settings


class Aiokafka(ConsumerRebalanceListener):  # type: ignore[misc]
    """aiokafka; its loop runs while the member polls."""

    def __init__(self, strategy: type, settings: Settings, heard: Listener) -> None:
        self._heard = heard
        self._loop = asyncio.new_event_loop()
        self._settings = settings
        self._consumer = self._run(self._start(strategy, settings))

    async def _start(self, strategy: type, settings: Settings) -> Any:
        consumer = AIOKafkaConsumer(
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
        )
        if settings.topics and settings.topics[0].startswith("^"):
            consumer.subscribe(pattern=settings.topics[0], listener=self)
        elif settings.topics:
            consumer.subscribe(list(settings.topics), listener=self)
        await consumer.start()
        return consumer

    def _run(self, what: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(what)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._heard("assigned", frozenset(map(tuple, assigned)))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._heard("revoked", frozenset(map(tuple, revoked)))

    def poll(self, seconds: float) -> list[Record]:
        found = self._run(self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=MOST))
        return [Record((r.topic, r.partition), r.offset, r.value) for batch in found.values() for r in batch]

    def assign(self, places: Iterable[Place]) -> None:
        async def assign() -> None:
            self._consumer.assign([TopicPartition(*place) for place in places])

        self._run(assign())

    def seek(self, place: Place, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(TopicPartition(*place), offset)

        self._run(seek())

    def position(self, place: Place) -> int:
        return int(self._run(self._consumer.position(TopicPartition(*place))))

    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        wanted = offsets and {TopicPartition(*place): held for place, held in offsets.items()}
        self._run(self._consumer.commit(wanted))

    def committed(self, place: Place) -> Committed | None:
        """Without the note: this library gives it to nobody."""
        found = self._run(self._consumer.committed(TopicPartition(*place)))
        return None if found is None else (found, "")

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.close()

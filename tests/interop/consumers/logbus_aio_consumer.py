"""The consumer of logbus.client.aio (asyncio); its loop runs while the member polls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from logbus.client import CommittedOffset, GroupListener
from logbus.client.aio import Consumer
from logbus.model import TopicPartition
from tests.interop.consumers.interface import MOST, SECONDS, Committed, Listener, Place, Record, Settings


class OursOnAsyncio(GroupListener):
    """The client for asyncio."""

    def __init__(self, protocol: str, strategy: str, settings: Settings, heard: Listener) -> None:
        self._heard = heard
        self._loop = asyncio.new_event_loop()
        self._consumer: Consumer[Any, Any] = Consumer(
            settings.bootstrap,
            group_id=settings.group_id,
            client_id=settings.client_id,
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
        self._run(self._start(settings))

    async def _start(self, settings: Settings) -> None:
        await self._consumer.start()
        if settings.topics and settings.topics[0].startswith("^"):
            self._consumer.subscribe(re.compile(settings.topics[0]), self)
        elif settings.topics:
            self._consumer.subscribe(settings.topics, self)

    def _run(self, what: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(what, SECONDS))

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._heard("assigned", frozenset(map(tuple, partitions)))

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._heard("revoked", frozenset(map(tuple, partitions)))

    def poll(self, seconds: float) -> list[Record]:
        found = self._run(self._consumer.getmany(seconds, MOST))
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
        async def position() -> int:
            while (found := self._consumer.position(TopicPartition(*place))) is None:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.01)
            return found

        return int(self._run(position()))

    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        wanted = offsets and {
            TopicPartition(*place): CommittedOffset(offset, metadata=note) for place, (offset, note) in offsets.items()
        }
        self._run(self._consumer.commit(wanted))

    def committed(self, place: Place) -> Committed | None:
        partition = TopicPartition(*place)
        found = self._run(self._consumer.committed([partition]))[partition]
        return None if found is None else (found.offset, found.metadata)

    def close(self) -> None:
        self._run(self._consumer.close())
        self._loop.close()

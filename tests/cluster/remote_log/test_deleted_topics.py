"""The remote segments of topics that are gone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.remote_log.deleted_topics import DeletedTopics
from logbus.storage.remote.remote_log_index import RemoteLogIndex
from logbus.storage.remote.remote_log_segment import RemoteLogSegment
from tests.storage.remote.test_remote_log_index import index_of, remote


@define
class Led:
    """A metadata topic with one partition, which this broker leads, and one user partition in it."""

    index: RemoteLogIndex
    more: dict[int, RemoteLogIndex] = field(factory=dict)
    forgotten: set[UUID] = field(factory=set)

    def led(self) -> list[int]:
        return [0]

    async def caught_up(self, number: int) -> None:
        pass

    def indexes(self, number: int) -> list[tuple[UUID, int, RemoteLogIndex]]:
        every = {3: self.index, **self.more}
        return [(UUID(int=1), partition, index) for partition, index in every.items() if len(index)]

    def topic_ids(self) -> set[UUID]:
        return {UUID(int=1)}

    def forget_empty(self, topic_ids: set[UUID]) -> None:
        self.forgotten = topic_ids


@define
class Known:
    """Metadata that know some topics."""

    topics: set[UUID] = field(factory=set)
    removed: set[UUID] = field(factory=set)

    def topic_by_id(self, topic_id: UUID) -> object:
        return topic_id if topic_id in self.topics else None

    def was_removed(self, topic_id: UUID) -> bool:
        return topic_id in self.removed


class DeletedTopicsTests(SynchronousTestCase):
    """Who deletes what, and when."""

    def test_after_a_while(self) -> None:
        """A topic must be unknown for a minute without a break, and readable, before its segments are deleted."""
        known, index, clock, gone = (
            Known(removed={UUID(int=1)}),
            index_of(remote(1, 0, 4), remote(2, 4, 8)),
            Clock(),
            list[RemoteLogSegment](),
        )
        unreadable: set[str] = set()
        metadata: Any = known
        topic: Any = Led(index)
        deleted = DeletedTopics(metadata, topic, clock.seconds, lambda: frozenset(unreadable), 1e6)

        async def delete_one(segment: RemoteLogSegment) -> None:
            gone.append(segment)
            index.forget(segment.segment_id)

        def run(seconds: float) -> int:
            clock.advance(seconds)
            self.successResultOf(Deferred.fromCoroutine(deleted.delete(delete_one)))
            return len(gone)

        known.topics.add(UUID(int=1))
        self.assertEqual(run(100), 0)
        known.topics.clear()
        self.assertEqual([run(0), run(59)], [0, 0])
        known.topics.add(UUID(int=1))
        self.assertEqual(run(2), 0)
        known.topics.clear()
        self.assertEqual([run(0), run(59)], [0, 0])
        unreadable.add("orders")
        self.assertEqual(run(60), 0)
        unreadable.clear()
        self.assertEqual([run(1), run(99)], [2, 2])

    def test_metadata_of_an_older_backup(self) -> None:
        """Segments of a topic that was not known here since the start are kept for as long as stray logs."""
        index, clock, gone = index_of(remote(1, 0, 4)), Clock(), list[RemoteLogSegment]()
        metadata: Any = Known()
        topic: Any = Led(index)
        deleted = DeletedTopics(metadata, topic, clock.seconds, frozenset, 1000.0)

        async def delete_one(segment: RemoteLogSegment) -> None:
            gone.append(segment)

        for seconds, count in ((0, 0), (999, 0), (1, 1)):
            clock.advance(seconds)
            self.successResultOf(Deferred.fromCoroutine(deleted.delete(delete_one)))
            self.assertEqual(len(gone), count)

    def test_deleted_by_another_meanwhile(self) -> None:
        """While one partition's segments are deleted, those of the next may go: a former leader had begun with them."""
        first, second = index_of(remote(1, 0, 4)), index_of(remote(2, 0, 4))
        metadata: Any = Known(removed={UUID(int=1)})
        topic: Any = Led(first, {4: second})
        gone = list[RemoteLogSegment]()

        async def delete_one(segment: RemoteLogSegment) -> None:
            gone.append(segment)
            for index in (first, second):
                for each in index:
                    index.forget(each.segment_id)

        deleted = DeletedTopics(metadata, topic, Clock().seconds, frozenset, 1e6, grace_seconds=0.0)
        self.successResultOf(Deferred.fromCoroutine(deleted.delete(delete_one)))
        self.assertEqual((len(gone), len(second)), (1, 0))

    def test_forgotten(self) -> None:
        """Nothing is kept of a topic that has been unknown for a minute."""
        known, clock = Known(topics={UUID(int=1)}), Clock()
        metadata: Any = known
        topic = Led(RemoteLogIndex())
        told: Any = topic
        deleted = DeletedTopics(metadata, told, clock.seconds, frozenset, 1e6)

        async def delete_one(segment: RemoteLogSegment) -> None:
            raise AssertionError(segment)

        for is_known, seconds, forgotten in ((True, 0, 0), (False, 99, 0), (False, 59, 0), (False, 1, 1)):
            clock.advance(seconds)
            known.topics = {UUID(int=1)} if is_known else set()
            self.successResultOf(Deferred.fromCoroutine(deleted.delete(delete_one)))
            self.assertEqual(len(topic.forgotten), forgotten)

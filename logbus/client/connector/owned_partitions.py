"""
The partitions that a consumer owns: their streams, positions and commits.

:mod:`.zookeeper_member` says which partitions to start and to release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, DeferredList, DeferredLock
from twisted.logger import Logger

from logbus.client.cluster.cluster import Cluster
from logbus.client.connector.connector_options import ConnectorOptions
from logbus.client.connector.message_stream import MessageStream
from logbus.client.connector.offset_storage import OffsetStorage
from logbus.client.connector.partition_reader import ends_of
from logbus.client.connector.positions import Positions
from logbus.client.group_metadata import CommittedOffset
from logbus.client.interceptors import ConsumerInterceptors
from logbus.errors import LogbusError
from logbus.model import TopicPartition


@define(eq=False)
class OwnedPartitions:
    """
    Starts and stops the streams' partitions, and commits their positions.

    :ivar stream_of: the stream for a topic, by topic and number.
    :ivar reachable: whether ZooKeeper is reachable; while it is not, another member may own the partitions.
    :ivar interceptors: get committed offsets.
    """

    cluster: Cluster
    storage: OffsetStorage
    positions: Positions
    streams: Sequence[MessageStream]
    stream_of: Callable[[str, int], MessageStream]
    reachable: Callable[[], bool]
    interceptors: ConsumerInterceptors
    options: ConnectorOptions
    _lock: DeferredLock = field(factory=DeferredLock, init=False)
    _log = Logger()

    async def begin(self, taken: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogbusError]:
        """
        Deliver records of these partitions; those that are delivered already go on.

        :param taken: the number of each partition's stream.
        :return: the partitions that cannot be started yet, with errors.
        """
        failed: dict[TopicPartition, LogbusError] = {}
        new = [each for each in taken if each not in self.positions]
        if new:
            try:
                committed = await self._in_time(self.storage.read(new), "reading offsets")
            except LogbusError as e:
                failed.update(dict.fromkeys(new, e))
            else:
                lacking = [each for each, offset in committed.items() if offset is None]
                ends = await ends_of(self.cluster, lacking, self.options.fetching)
                for each, offset in committed.items():
                    start = ends.get(each)
                    if isinstance(start, LogbusError):
                        failed[each] = start
                    else:
                        self.positions.begin(each, offset, start)
        for stream, partitions in self._by_stream({k: v for k, v in taken.items() if k not in failed}).items():
            stream.add(partitions)
        return failed

    async def release_gracefully(self, released: Mapping[TopicPartition, int]) -> None:
        """Stop delivering these partitions, and commit what was processed."""
        by_stream = self._by_stream(released)
        for stream, partitions in by_stream.items():
            stream.remove(partitions)
        # Nothing more is delivered now; wait for the records in processing.
        waiting = [stream.finishing(partitions) for stream, partitions in by_stream.items()]
        outstanding = [each for each in waiting if each is not None]
        if outstanding:
            done = DeferredList(outstanding, consumeErrors=True)
            ended = await done.addTimeout(
                self.options.finish_timeout, self.cluster.reactor, onTimeoutCancel=lambda *_: []
            )
            # Cancelling a DeferredList makes its parts fail, and not the list.
            if not all(success for success, _ in ended):
                raise CancelledError
        for stream, partitions in by_stream.items():
            stream.disown(partitions)
        if self.options.auto_commit:
            try:
                await self.commit(released)
            except LogbusError as e:
                self._log.warn("offsets were not committed before their partitions were released: {error}", error=e)

    def drop(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """
        Stop delivering partitions that were lost, at once and without a commit.

        :param partitions: None: all.
        """
        for stream in self.streams:
            gone = list(stream.partitions if partitions is None else partitions)
            stream.remove(gone)
            stream.disown(gone)
        self.positions.drop(self.positions.all() if partitions is None else partitions)

    async def commit(self, among: Iterable[TopicPartition] | None = None) -> None:
        """
        Commit processed records; one commit at a time, so that they stay in order.

        :raise LogbusError: an offset could not be committed.
        """
        await self._lock.acquire()
        try:
            offsets = self.positions.uncommitted(among)
            if not offsets:
                return
            if not self.reachable():
                raise LogbusError(
                    f"{len(offsets)} offsets cannot be committed: ZooKeeper is unreachable, and other consumers may "
                    "own the partitions by now"
                )
            failed = await self._in_time(self.storage.commit(offsets), "committing offsets")
            kept = {each: offset for each, offset in offsets.items() if each not in failed}
            self.positions.committed(kept)
            if kept:
                self.interceptors.on_commit({each: CommittedOffset(offset) for each, offset in kept.items()})
            for partition, error in failed.items():
                raise LogbusError(f"{len(failed)} offsets cannot be committed, among them {partition}: {error}")
        finally:
            self._lock.release()

    def end(self) -> None:
        """Close the streams."""
        for stream in self.streams:
            stream.end()

    def _by_stream(self, partitions: Mapping[TopicPartition, int]) -> dict[MessageStream, list[TopicPartition]]:
        found: dict[MessageStream, list[TopicPartition]] = {}
        for partition, number in partitions.items():
            found.setdefault(self.stream_of(partition.topic, number), []).append(partition)
        return found

    async def _in_time(self, work: Any, what: str) -> Any:
        def too_late(_: object, seconds: float) -> None:
            raise LogbusError(f"{what} took longer than {seconds:g} s")

        return await Deferred.fromCoroutine(work).addTimeout(
            self.options.offsets_timeout, self.cluster.reactor, onTimeoutCancel=too_late
        )

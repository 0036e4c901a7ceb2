"""
The topics and partitions that a mirror reads: where it is in each, and what is in the way.

Partitions that cannot be copied are halted; the others go on, and the halted ones are tried again with each look at the
topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import Fetched
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.consumer.fetcher import Fetcher, LogTruncated
from logbus.client.consumer.partition_position import Position
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets, list_offsets_with_retries
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.mirror.mirror_options import MirrorOptions, Taken
from logbus.mirror.mirror_status import MirrorStatus
from logbus.mirror.missing_rights import lacks
from logbus.mirror.origins import Origins
from logbus.mirror.position_store import CopiedPartition
from logbus.mirror.replication_policy import HEARTBEATS, Naming, topic_path
from logbus.mirror.start_positions import Begun, StartPositions
from logbus.mirror.topic_sync import MirroredTopic, TopicSync
from logbus.model import TimestampOffset, TopicPartition

READ_AHEAD = 64 * 1024 * 1024
"""Bytes of the source that are read ahead."""

ADVICE = {
    ErrorCode.INVALID_RECORD: "; the target's topic asks for what these records do not have, such as keys if it is "
    "compacted",
    ErrorCode.INVALID_TIMESTAMP: "; raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of the "
    "target's topic",
}

_OF_ALL = frozenset(
    {ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM}
)
"""Errors of the connection, not of the partition that they are raised for: the session begins anew."""


async def update_ends(source: Cluster, status: MirrorStatus, partitions: Iterable[TopicPartition]) -> None:
    """Look up the ends of partitions that are not read now, so that their lag is known; as far as that is possible."""
    for each in partitions:
        # One at a time, since an error is that of all.
        try:
            found = await list_offsets(source, {each: LATEST}, committed=True)
        except LogbusError:
            continue
        if isinstance(end := found[each], TimestampOffset):
            status.ends[each] = end.offset


class CopyFailed(LogbusError):
    """Something was not copied; the transaction has to be aborted."""


@define(eq=False)
class SourceReader:
    """
    The source as a session reads it.

    :ivar taken: tells which other mirror copies a topic of the source.
    :ivar begun: where this mirror has begun at the ends of partitions, in this session or an earlier one.
    :ivar copied: what the target has, by partition of the source; as of the last committed transaction.
    :ivar topics: those that are copied, by their names at the source.
    :ivar halted: partitions that are not copied, and why.
    :ivar epochs: leader epochs of the records before the positions, as far as they are known.
    :ivar refresh_at: when topics are looked up again, in seconds of the reactor.
    """

    source: Cluster
    options: MirrorOptions
    status: MirrorStatus
    topic_sync: TopicSync
    taken: Taken
    begun: Begun = field(factory=dict)
    copied: dict[TopicPartition, CopiedPartition] = field(factory=dict)
    topics: dict[str, MirroredTopic] = field(factory=dict, init=False)
    halted: dict[TopicPartition, str] = field(factory=dict, init=False)
    epochs: dict[TopicPartition, int] = field(factory=dict, init=False)
    refresh_at: float = field(default=0.0, init=False)
    origins: Origins = field(init=False)
    _starts: StartPositions = field(init=False)
    _fetcher: Fetcher = field(init=False)
    _tried_again: set[TopicPartition] = field(factory=set, init=False)
    _ends: dict[TopicPartition, int] = field(factory=dict, init=False)
    _left_alone: set[TopicPartition] = field(factory=set, init=False)
    _reached: dict[TopicPartition, int] = field(factory=dict, init=False)
    # Partitions whose next offset the source does not have, and from where on it has others, if known.
    _lost_places: dict[TopicPartition, int | None] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.origins = Origins(self.source)
        self._starts = StartPositions(
            self.source,
            self.topic_sync.target,
            self.options,
            self.status,
            self.origins,
            self.copied,
            self.epochs,
            self.begun,
        )
        how = FetchOptions(isolation="read_committed", reset="none", encoded=True, queue_bytes=READ_AHEAD)
        self._fetcher = Fetcher(self.source, how)

    def close(self) -> None:
        """Read nothing more."""
        self._fetcher.close()

    # Topics and positions.

    async def refresh(self) -> None:
        """Look up topics, and begin with their new partitions and with those that were halted."""
        self.refresh_at = self.source.reactor.seconds() + self.options.refresh_interval
        is_first = not self.topics
        found = await self.topic_sync.refresh()
        self.topics = {name: each for name, each in found.items() if not self._is_taken(name)}
        if self._is_unnamed:
            await self.origins.refresh()
            self.topics = {name: each for name, each in self.topics.items() if not self._is_loop(each)}
        self.status.topics = {each.name: (each.copy, each.partitions) for each in self.topics.values()}
        partitions = [TopicPartition(each.name, n) for each in self.topics.values() for n in range(each.partitions)]
        present = self._fetcher.assigned.partitions
        new: dict[TopicPartition, Position] = {}
        for each in partitions:
            if each in present and self._is_same(each):
                continue
            position = self._starts.of(self.topics[each.topic], each)
            if position is not None:
                new[each] = position
            else:
                # What is read of it now are records of another topic.
                self._fetcher.remove([each])
        gone = present - set(partitions)
        self._fetcher.remove(gone)
        for each in gone:
            self.status.ends.pop(each, None)
        await self._starts.check_copies(new, self.topics)
        if self.options.until_end and is_first:
            self._ends = await self._offsets(partitions, LATEST)
            new.update(await self._offsets([each for each in partitions if new.get(each) == EARLIEST], EARLIEST))
            new.update({each: self._ends[each] for each in partitions if new.get(each) == LATEST})
        await self._starts.note_begun(new, self.topics)
        await self._look_at_halted()
        self.halted = {each: reason for each, reason in self.halted.items() if each not in new}
        for each, where in new.items():
            if isinstance(where, int) and where >= 0:
                self._reached[each] = self.status.positions[each] = where
        self._fetcher.add(new, self.epochs)
        self._left_alone = self._ends.keys() - self._fetcher.assigned.partitions
        for each in self._left_alone - set(partitions):
            if (rest := self._ends[each] - self._reached.get(each, 0)) > 0:
                self.status.problem(each, f"{each}: it is not at the source any more; {rest} offsets were not copied")

    def _is_taken(self, name: str) -> bool:
        """Whether another mirror copies a topic, which would be there twice, then."""
        what = f"another mirror of {name}"
        if (other := self.taken(name)) is None:
            self.status.solved(what)
            return False
        if topic_path(name)[-1] != HEARTBEATS:
            self.status.problem(
                what, f"topic {name}: not copied, since the mirror {other} copies it; have only one of them do so"
            )
        return True

    async def _look_at_halted(self) -> None:
        """Have the lag grow of what is not copied; what was tried again, and has no more records, is not in the way."""
        for each in self._tried_again - self.halted.keys():
            if self.status.ends.get(each, 0) <= self.status.positions.get(each, 0):
                self.status.solved(each)
        self._tried_again = set(self.halted)
        if self.halted:
            await update_ends(self.source, self.status, self.halted)

    async def check_origins(self, names: set[str]) -> None:
        """
        Look for a mirror in the other direction that copies, once the records of a transaction are there: its
        offset syncs were committed with them.

        :param names: the topics in the transaction.
        :raises CopyFailed: there is one.
        """
        if not self._is_unnamed:
            return
        await self.origins.refresh()
        for topic in [each for each in self.topics.values() if each.name in names and self._is_loop(each)]:
            self._fetcher.remove([TopicPartition(topic.name, n) for n in range(topic.partitions)])
            self.refresh_at = 0.0
            raise CopyFailed(f"topic {topic.name}: its records come back")

    @property
    def _is_unnamed(self) -> bool:
        return self.options.naming is Naming.IDENTITY

    def _is_loop(self, topic: MirroredTopic) -> bool:
        """Whether records of a topic that keeps its name are being copied to the source from the target."""
        source_id, target = topic.ids.source, self.options.target
        what = f"origin of {topic.name}"
        if target not in self.origins.of(source_id):
            return False
        if (source_id, target) in self.origins.moving or self.origins.copied(source_id, target, 0) is None:
            self.status.problem(
                what,
                f"topic {topic.name}: not copied, since a mirror has its records come from {target}; stop that one "
                "first, or give both --naming prefix",
            )
            return True
        self.status.solved(what)
        return False

    def _is_same(self, partition: TopicPartition) -> bool:
        """Whether a partition that is read is still that of which records were copied."""
        known = self.copied.get(partition)
        return known is None or known.ids == self.topics[partition.topic].ids

    async def _offsets(self, partitions: list[TopicPartition], when: int) -> dict[TopicPartition, int]:
        found = await list_offsets_with_retries(self.source, dict.fromkeys(partitions, when), committed=True)
        return {partition: answer.offset for partition, answer in found.items()}

    def is_at_end(self) -> bool:
        if not self.options.until_end:
            return False
        ended = self.halted.keys() | self._left_alone
        return all(each in ended or self._reached.get(each, 0) >= end for each, end in self._ends.items())

    # What was fetched.

    @property
    def has_data(self) -> bool:
        """Whether something can be taken."""
        return self._fetcher.assigned.has_data

    def is_behind(self, passed: Mapping[TopicPartition, int]) -> bool:
        """
        Whether the source is known to have more records of partitions that are read.

        :param passed: the next offsets of partitions in the open transaction.
        """
        present, reached = self._fetcher.assigned.partitions, self._reached
        return any(
            passed.get(each, reached.get(each, end)) < end for each, end in self.status.ends.items() if each in present
        )

    def wait(self) -> Deferred[None]:
        """Fires when something can be taken."""
        return self._fetcher.wait()

    def take(self) -> Fetched | None:
        """The records that were fetched of some partition; None: there are none to copy."""
        assigned = self._fetcher.assigned
        while assigned.has_data:
            partition = assigned.next.partition
            topic, known = self.topics.get(partition.topic), self.source.known(partition.topic)
            if topic is None or (known is not None and known.topic_id != topic.ids.source):
                # It was created anew since: what to do about that is found out with the topics.
                self._fetcher.remove([partition])
                self.refresh_at = 0.0
                continue
            if (position := assigned.position(partition)) is not None:
                self._reached.setdefault(partition, position)
                self.status.positions.setdefault(partition, position)
                if self.options.start == "latest" and partition not in self.copied:
                    self.begun.setdefault(partition, (topic.ids.source, position))
            try:
                return self._fetcher.take()
            except ApiError as e:
                if e.code in _OF_ALL:
                    raise
                self._handle_error(partition, e)
        return None

    def advance(self, fetched: Fetched) -> None:
        """Note that offsets without records were passed."""
        partition = fetched.partition
        self._reached[partition] = self.status.positions[partition] = fetched.next_offset
        self.status.ends[partition] = fetched.high_watermark

    def _handle_error(self, partition: TopicPartition, error: ApiError) -> None:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._fetcher.remove([partition])
            self._lost_places[partition] = error.offset if isinstance(error, LogTruncated) else None
            self.epochs.pop(partition, None)
            return
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._fetcher.remove([partition])
            self.refresh_at = 0.0
            self.status.say(f"{partition}: it is not at the source any more")
            return
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            where = f"the source {self.options.source}"
            self.halt(
                partition,
                f"{partition}: it cannot be read: {lacks(self.source, 'READ', f'topic {partition.topic}', where)}; "
                "the others go on",
            )
            return
        advice = ADVICE.get(error.code, "")
        self.halt(partition, f"{partition}: it cannot be read: {error}{advice}; the others go on")

    async def find_places(self) -> None:
        """
        Go on where the source still has records of partitions that ended or began elsewhere. To be called between
        transactions: where a partition is depends on the end of the one that had its last records.
        """
        lost, self._lost_places = self._lost_places, {}
        for partition, cut in lost.items():
            if partition.topic not in self.topics:
                continue
            try:
                await self._find_place(partition, cut)
            except LogbusError as e:
                self.halt(partition, f"{partition}: {e}")

    async def _find_place(self, partition: TopicPartition, cut: int | None) -> None:
        """
        :param cut: from which offset on it may have others than those that were copied; None: not known.
        """
        position = self._reached.get(partition, 0)
        first = (await self._offsets([partition], EARLIEST))[partition]
        end = (await self._offsets([partition], LATEST))[partition]
        place = max(first, min(position, end if cut is None else min(cut, end)))
        if position < first:
            lost = f"offsets {position} to {first - 1} were deleted at the source before they were copied"
            self.status.warn(f"{partition}: {lost}; going on at {place}")
        elif place < position:
            lost = f"the source was set back to offset {place}, and {position} were copied: it has lost some of these"
            self.status.warn(f"{partition}: {lost}; going on at {place}")
        self._reached[partition] = self.status.positions[partition] = place
        self._fetcher.add({partition: place})

    def has_reached(self, partition: TopicPartition, offset: int) -> bool:
        """Whether everything before an offset is copied."""
        return self._reached.get(partition, 0) >= offset

    def halt(self, partition: TopicPartition, reason: str) -> None:
        """Copy nothing of a partition until topics are looked up again."""
        self.halted[partition] = reason
        self._fetcher.remove([partition])
        self.status.problem(partition, reason)

    def go_back(self, passed: Mapping[TopicPartition, int]) -> None:
        """Read again what an aborted transaction had."""
        present = self._fetcher.assigned.partitions
        # What was read of it may have a later epoch.
        for each in passed:
            self.epochs.pop(each, None)
        self._fetcher.add({each: self._reached[each] for each in passed if each in present})

    def note_copied(self, passed: Mapping[TopicPartition, int]) -> None:
        """Note that a transaction was committed, with the next offset of each of its partitions."""
        for partition, offset in passed.items():
            self._reached[partition] = self.status.positions[partition] = offset

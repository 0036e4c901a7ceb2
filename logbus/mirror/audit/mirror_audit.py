"""
Compares all topics of a flow with their copies.

A mirror may go on meanwhile: its offset syncs say up to where it has copied on both sides, and just that is compared.
What the source has beyond is waited for, and counted if it does not come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field
from twisted.logger import Logger

from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.config_admin import Resource, ResourceType
from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets, list_offsets_with_retries
from logbus.client.retry import Unreachable
from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.mirror.audit.audit_options import AuditOptions
from logbus.mirror.audit.compacted_audit import compare_compacted
from logbus.mirror.audit.mirror_positions import MirrorPosition, read_mirror_positions
from logbus.mirror.audit.partition_audit import PartitionAudit
from logbus.mirror.audit.partition_report import PartitionReport
from logbus.mirror.audit.range_reader import Side, Unread, read_range
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.mirror_status import MirrorStatus
from logbus.mirror.position_store import read_skipped
from logbus.mirror.skipped_records import SkippedRecords
from logbus.mirror.topic_sync import TopicSync, check_different
from logbus.model import TopicPartition

_LOOK = 0.5
"""Seconds between looks at how far the mirror is."""

_OF_PARTITION = (ApiError, Unreachable, Unread)
"""Errors that one partition may have, and others not."""

_Positions = Mapping[TopicPartition, MirrorPosition]
_Offsets = Mapping[TopicPartition, int]


def _ignored(report: PartitionReport) -> None:
    """Nobody listens."""


@define(eq=False)
class MirrorAudit:
    """
    The audit of one flow.

    :ivar source: the cluster that is mirrored; its owner closes it, likewise ``target``.
    :ivar mirror: the flow: aliases, naming and topics.
    :ivar wait: seconds to wait until the mirror has copied what the source has at the beginning.
    :ivar tell: called with each partition's report.
    """

    source: Cluster
    target: Cluster
    mirror: MirrorOptions
    options: AuditOptions = field(factory=AuditOptions)
    wait: float = 0.0
    tell: Callable[[PartitionReport], object] = _ignored
    _skipped: SkippedRecords = field(factory=SkippedRecords, init=False)
    _troubles: dict[TopicPartition, str] = field(factory=dict, init=False)
    _log = Logger()

    async def run(self) -> list[PartitionReport]:
        """
        Compare everything.

        :returns: a report for each partition of the source's topics, in order; its problem says if it cannot be read.
        :raises ConfigError: source and target are the same cluster.
        :raises LogbusError: a side cannot be asked or read.
        """
        topics = await TopicSync(self.source, self.target, self.mirror, MirrorStatus("audit")).wanted()
        copies = {each.name: each for each in await self.target.topics()}
        check_different(self.source, self.target, "which would be compared with itself; give the one with the copies")
        partitions = [TopicPartition(name, n) for name in sorted(topics) for n in topics[name].partitions]
        source_ends = await self._ends(self.source, {each: each for each in partitions})
        # Before the positions, so that all that the mirror has written up to these ends is before the positions.
        there = {
            self._copy_of(each): each
            for each in source_ends
            if self._copy_of(each).partition in self._numbers(copies, each)
        }
        more = [
            TopicPartition(name, n)
            for name in topics
            for n in self._numbers(copies, TopicPartition(name, 0))
            if n not in topics[name].partitions
        ]
        copy_ends = await self._ends(self.target, there | {self._copy_of(each): each for each in more})
        positions = await self._positions([there[copy] for copy in copy_ends if copy in there], source_ends)
        compacted = await self._compacted(topics, copies)
        reports = []
        for each in sorted([*partitions, *more]):
            try:
                if each in self._troubles:
                    report = self._unknown(each, self._troubles[each])
                elif each in more:
                    report = await self._only_there(each, copy_ends[self._copy_of(each)])
                    if not report.copy:
                        continue
                elif self._copy_of(each) in there:
                    topic, copy = topics[each.topic], copies[self._copy_of(each).topic]
                    report = await self._compare(
                        each, (topic, copy), source_ends[each], copy_ends, positions, compacted
                    )
                else:
                    report = await self._absent(each, source_ends[each], copies)
            except _OF_PARTITION as e:
                report = self._unknown(each, f"it cannot be compared: {e}")
            self.tell(report)
            reports.append(report)
        return reports

    async def _ends(self, cluster: Cluster, partitions: Mapping[TopicPartition, TopicPartition]) -> _Offsets:
        """
        The ends of one side's partitions. Of those that have none now, the trouble is noted.

        :param partitions: with those of the source.
        :raises LogbusError: none can be asked.
        """
        found: dict[TopicPartition, int] = {}
        by_leader: dict[int | None, list[TopicPartition]] = {}
        for each in partitions:
            await cluster.topic(each.topic)
            by_leader.setdefault(cluster.leader(each), []).append(each)
        failed: LogbusError | None = None
        for theirs in by_leader.values():
            try:
                answers = await list_offsets(cluster, dict.fromkeys(theirs, LATEST), patience=5.0, committed=True)
            except _OF_PARTITION as e:
                failed = e
                self._troubles.update({partitions[each]: self._trouble(cluster, each, e) for each in theirs})
                continue
            for each, answer in answers.items():
                if isinstance(answer, ApiError):
                    self._troubles[partitions[each]] = self._trouble(cluster, each, answer)
                else:
                    found[each] = answer.offset
        if failed is not None and not found:
            raise failed
        return found

    def _trouble(self, cluster: Cluster, partition: TopicPartition, error: LogbusError) -> str:
        """The reason why a partition cannot be compared, and what would help."""
        where = f"source {self.mirror.source}" if cluster is self.source else f"target {self.mirror.target}"
        if isinstance(error, Unreachable) or (
            isinstance(error, ApiError) and error.code is ErrorCode.LEADER_NOT_AVAILABLE
        ):
            what = "has no leader" if isinstance(error, ApiError) else f"has a leader that does not answer ({error})"
            return (
                f"{partition} {what} at the {where}: start a broker that has it, 'logbus topics describe "
                f"{partition.topic}' names them, and audit again"
            )
        return f"{partition} cannot be read at the {where}: {error}"

    def _unknown(self, partition: TopicPartition, problem: str) -> PartitionReport:
        copy = self._copy_of(partition)
        return PartitionReport(
            topic=partition.topic, copy_topic=copy.topic, partition=partition.partition, problem=problem
        )

    def _copy_of(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self.mirror.policy.remote_topic(partition.topic), partition.partition)

    def _numbers(self, copies: Mapping[str, TopicMetadata], partition: TopicPartition) -> Iterable[int]:
        copy = copies.get(self._copy_of(partition).topic)
        return () if copy is None else copy.partitions

    async def _offsets(
        self, cluster: Cluster, partitions: list[TopicPartition], when: int
    ) -> dict[TopicPartition, int]:
        found = await list_offsets_with_retries(cluster, dict.fromkeys(partitions, when), committed=True)
        return {partition: answer.offset for partition, answer in found.items()}

    async def _positions(self, partitions: list[TopicPartition], ends: _Offsets) -> _Positions:
        """The mirror's positions, once it has what the source had at the beginning, or time is over."""
        clock, topic = self.source.reactor, self.mirror.policy.offset_syncs_topic
        deadline = clock.seconds() + self.wait
        waiting = list(partitions)
        while True:
            positions = await read_mirror_positions(self.target, topic)
            # Of a moment later, when there may be more, but not less.
            self._skipped = await read_skipped(self.target, self.mirror.policy.skipped_records_topic)
            waiting = [each for each in waiting if positions and await self._is_behind(each, ends[each], positions)]
            left = deadline - clock.seconds()
            if not waiting or left <= 0:
                return positions
            await sleep(clock, min(_LOOK, left))

    async def _is_behind(self, partition: TopicPartition, end: int, positions: _Positions) -> bool:
        """Whether there are records before an end that are not copied; there may be offsets without records."""
        reached = positions[partition].upstream if partition in positions else 0
        try:
            return await self._count(partition, reached, end, positions, most=1) > 0
        except _OF_PARTITION as e:
            self._troubles[partition] = self._trouble(self.source, partition, e)
            return False

    def _left_out(self, partition: TopicPartition, positions: _Positions) -> frozenset[int]:
        """The records of a partition that the mirror has left out."""
        known = positions.get(partition)
        return frozenset() if known is None else self._skipped.offsets(partition, known.ids)

    async def _count(
        self, partition: TopicPartition, start: int, end: int, positions: _Positions, most: int | None = None
    ) -> int:
        """The number of the source's records in a range that are in the time that is compared, and not left out."""
        count, options, left_out = 0, self.options, self._left_out(partition, positions)

        def read(record: ConsumerRecord) -> bool:
            nonlocal count
            if record.offset in left_out:
                return False
            is_late = options.until_ms is not None and record.timestamp >= options.until_ms
            is_early = options.since_ms is not None and record.timestamp < options.since_ms
            count += not is_late and not is_early
            return count == most

        if start < end:
            first = (await self._offsets(self.source, [partition], EARLIEST))[partition]
            await read_range(self.source, partition, max(start, first), end, read)
        return count

    async def _compacted(self, topics: Mapping[str, TopicMetadata], copies: Mapping[str, TopicMetadata]) -> set[str]:
        """The source's topics that are compacted, on either side."""
        policy = self.mirror.policy
        found = set()
        theirs = {policy.remote_topic(name): name for name in topics if policy.remote_topic(name) in copies}
        for cluster, names in ((self.source, {name: name for name in topics}), (self.target, theirs)):
            resources = [Resource(ResourceType.TOPIC, each) for each in names]
            answers = await AdminClient(cluster).describe_configs(resources) if resources else {}
            for resource, entries in answers.items():
                if isinstance(entries, ApiError):
                    # Whether sides may differ by compaction has to be known.
                    raise entries
                if any(each.name == "cleanup.policy" and "compact" in (each.value or "") for each in entries):
                    found.add(names[resource.name])
        return found

    async def _absent(
        self, partition: TopicPartition, end: int, copies: Mapping[str, TopicMetadata]
    ) -> PartitionReport:
        copy = self._copy_of(partition)
        what = f"the target has no topic {copy.topic}"
        if copy.topic in copies:
            count = len(copies[copy.topic].partitions)
            what = f"{copy.topic} has {count} partitions at the target, and none of this number"
        return PartitionReport(
            topic=partition.topic,
            copy_topic=copy.topic,
            partition=partition.partition,
            behind=await self._count(partition, 0, end, {}),
            problem=what,
        )

    async def _only_there(self, partition: TopicPartition, copy_end: int) -> PartitionReport:
        """Of a partition that the source does not have: all records are foreign."""
        copy = self._copy_of(partition)
        start = (await self._offsets(self.target, [copy], EARLIEST))[copy]
        nothing, theirs = Side(self.source, partition, 0, 0), Side(self.target, copy, start, copy_end)
        return await PartitionAudit(self.options, nothing, theirs).compare()

    async def _compare(
        self,
        partition: TopicPartition,
        topics: tuple[TopicMetadata, TopicMetadata],
        source_end: int,
        copy_ends: _Offsets,
        positions: _Positions,
        compacted: set[str],
    ) -> PartitionReport:
        copy, position = self._copy_of(partition), positions.get(partition)
        starts = await self._offsets(self.source, [partition], EARLIEST)
        copy_starts = await self._offsets(self.target, [copy], EARLIEST)
        copied_end, copy_end, behind = source_end, copy_ends[copy], 0
        if position is not None:
            for what, known, present in (
                (f"{partition.topic} was deleted and created anew at the source", position.ids.source, topics[0]),
                (f"{copy.topic} was deleted and created anew at the target", position.ids.target, topics[1]),
            ):
                if known.int and known != present.topic_id:
                    return self._unknown(partition, f"{what} since the mirror has copied it")
            copied_end, copy_end = position.upstream, max(copy_end, position.downstream)
            behind = await self._count(partition, copied_end, source_end, positions)
        elif positions and copy_end == copy_starts[copy]:
            # The mirror has others, and has not begun with this one.
            copied_end, behind = 0, await self._count(partition, 0, source_end, positions)
        source = Side(self.source, partition, starts[partition], copied_end, self._left_out(partition, positions))
        theirs = Side(self.target, copy, copy_starts[copy], copy_end)
        if partition.topic in compacted:
            last = (await self._offsets(self.source, [partition], LATEST))[partition]
            return await compare_compacted(self.options, source, theirs, last, behind)
        return await PartitionAudit(self.options, source, theirs, behind).compare()

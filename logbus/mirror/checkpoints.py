"""
Publishes the offsets of the source's groups, translated for the target (Kafka: MirrorCheckpointTask), and commits them
there for groups that have no members.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from attrs import define, field
from twisted.logger import Logger

from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.group_metadata import CommittedOffset
from logbus.client.producer.producer import Producer
from logbus.coroutines import results_of
from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.mirror_records import Checkpoint
from logbus.mirror.mirror_status import MirrorStatus
from logbus.mirror.position_store import CopiedPartition, read_partition
from logbus.mirror.topic_sync import MirroredTopic
from logbus.model import TopicPartition

_Place = tuple[str, TopicPartition]

_HINTS = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "; READ is needed",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "; READ is needed",
}


@define(eq=False)
class Checkpoints:
    """
    The checkpoints at one target.

    :ivar wall_clock: seconds since 1970.
    """

    source: Cluster
    target: Cluster
    options: MirrorOptions
    status: MirrorStatus
    wall_clock: Callable[[], float] = time.time
    _last: dict[_Place, Checkpoint] | None = field(default=None, init=False)
    # Groups of which it was told that their metadata do not fit at the target.
    _too_large: set[str] = field(factory=set, init=False)
    _log = Logger()

    async def emit(self, topics: Mapping[str, MirroredTopic], copied: Mapping[TopicPartition, CopiedPartition]) -> None:
        """
        Write the checkpoints that have changed.

        :param topics: those that are copied, by their names at the source.
        :param copied: what the target has, by partition of the source.
        :raises LogbusError: a side cannot be asked, or refuses.
        """
        if self._last is None:
            self._last = await self._read()
        found = await self._translated(topics, copied)
        changed = [each for each in found if self._last.get((each.group, each.partition)) != each]
        if changed:
            await self._write(changed)
            self._last.update(((each.group, each.partition), each) for each in changed)
            self.status.checkpoints += len(changed)
        if self.options.sync_groups and found:
            await self._commit(found)

    async def _read(self) -> dict[_Place, Checkpoint]:
        """The last checkpoints of a mirror before this one."""
        found: dict[_Place, Checkpoint] = {}
        topic = self.options.policy.checkpoints_topic

        def read(record: ConsumerRecord) -> None:
            try:
                each = Checkpoint.decode(record.key, record.value, record.headers)
            except DecodeError as e:
                self._log.warn("{topic} offset {offset}: {error}", topic=topic, offset=record.offset, error=e)
            else:
                found[each.group, each.partition] = each

        await read_partition(self.target, TopicPartition(topic, 0), read)
        return found

    async def _translated(
        self, topics: Mapping[str, MirroredTopic], copied: Mapping[TopicPartition, CopiedPartition]
    ) -> list[Checkpoint]:
        """The present checkpoints of all groups."""
        assert self._last is not None
        admin = AdminClient(self.source)
        groups = [each.group_id for each in await admin.list_groups() if self.options.groups.allows(each.group_id)]
        offsets = await admin.list_group_offsets(groups) if groups else {}
        present = await self._present(topics if offsets else {})
        found = []
        for group, committed in offsets.items():
            if isinstance(committed, ApiError):
                self.status.problem(f"group {group}", f"group {group}: its offsets are not translated: {committed}")
                continue
            for partition, at in committed.items():
                topic, known = present.get(partition.topic), copied.get(partition)
                if topic is None or known is None or isinstance(at, ApiError) or at.offset < 0:
                    continue
                if known.ids.target.int and known.ids.target != topic.ids.target:
                    continue
                downstream = known.offsets.translate(at.offset)
                if downstream is None:
                    continue
                copy = TopicPartition(topic.copy, partition.partition)
                new = Checkpoint(group, copy, at.offset, downstream, at.metadata or "", topic.ids.target)
                last = self._last.get((group, copy))
                found.append(last if last is not None and _is_better(last, new, known) else new)
        return found

    async def _present(self, topics: Mapping[str, MirroredTopic]) -> dict[str, MirroredTopic]:
        """
        The topics whose copies are still those that were written to: of one that was made anew since, the session finds
        out with its next look at the topics, and until then translates for the former one.
        """
        if not topics:
            return {}
        await self.target.refresh_topics([each.copy for each in topics.values()])
        found = {}
        for name, each in topics.items():
            copy = self.target.known(each.copy)
            if copy is not None and copy.topic_id == each.ids.target:
                found[name] = each
        return found

    async def _write(self, checkpoints: list[Checkpoint]) -> None:
        name = self.options.policy.checkpoints_topic
        producer = Producer(self.target, linger=0.0, wall_clock=self.wall_clock)
        try:
            await results_of(
                [producer.send(name, each.value, each.key, partition=0, headers=each.headers) for each in checkpoints]
            )
        finally:
            await producer.close()

    async def _commit(self, checkpoints: list[Checkpoint]) -> None:
        """Commit what groups without members do not have yet."""
        admin = AdminClient(self.target)
        by_group: dict[str, list[Checkpoint]] = {}
        for each in checkpoints:
            by_group.setdefault(each.group, []).append(each)
        described = await admin.describe_groups(by_group)
        present = await admin.list_group_offsets(by_group)
        for group, theirs in by_group.items():
            state, known = described[group], present[group]
            if isinstance(state, ApiError) and state.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                self._not_committed(group, state)
            elif not isinstance(state, ApiError) and state.is_active:
                self.status.solved(f"group {group}")
            elif isinstance(known, ApiError):
                # The group may be ahead, and does not go back.
                self._not_committed(group, known)
            else:
                await self._commit_group(admin, group, theirs, known)

    async def _commit_group(
        self,
        admin: AdminClient,
        group: str,
        theirs: list[Checkpoint],
        known: Mapping[TopicPartition, CommittedOffset | ApiError],
    ) -> None:
        new, failed = {}, dict[TopicPartition, ApiError]()
        for each in theirs:
            at = known.get(each.partition)
            if isinstance(at, ApiError):
                failed[each.partition] = at
            elif at is None or at.offset < each.downstream:
                new[each.partition] = CommittedOffset(each.downstream, metadata=each.metadata)
        answers = await admin.alter_group_offsets(group, new) if new else {}
        large = {each: error for each, error in answers.items() if _is_too_large(error)}
        if large:
            # Where the group goes on is worth more than what it has noted about it.
            bare = {each: CommittedOffset(new[each].offset) for each in large}
            answers |= await admin.alter_group_offsets(group, bare)
            self._tell_without_metadata(group, next(iter(large.values())))
        for partition, error in answers.items():
            if error is None:
                self.status.groups_synced += 1
            elif error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                failed[partition] = error
        if failed:
            self._not_committed(group, next(iter(failed.values())), f", {next(iter(failed))}")
        else:
            self.status.solved(f"group {group}")

    def _not_committed(self, group: str, error: ApiError, where: str = "") -> None:
        hint = _HINTS.get(error.code, "")
        self.status.problem(
            f"group {group}", f"group {group}{where}: its offsets are not committed at the target: {error}{hint}"
        )

    def _tell_without_metadata(self, group: str, error: ApiError | None) -> None:
        if group not in self._too_large:
            self._too_large.add(group)
            self.status.warn(
                f"group {group}: offsets are committed at the target without their metadata: {error}; raise "
                "offset.metadata.max.bytes there"
            )


def _is_too_large(error: ApiError | None) -> bool:
    return error is not None and error.code is ErrorCode.OFFSET_METADATA_TOO_LARGE


def _is_better(last: Checkpoint, new: Checkpoint, known: CopiedPartition) -> bool:
    """
    Whether a group's last checkpoint tells more than a new one: of older records fewer ranges are known after a
    restart, and the group does not go back. One of a copy that was made anew since would have it leave out records.
    """
    is_of_copy = last.copy_id == new.copy_id
    is_ahead = last.upstream <= new.upstream and last.downstream > new.downstream
    return is_of_copy and is_ahead and known.offsets.may_be(new.upstream, last.downstream)

"""
The positions from which a mirror copies: by what it has copied so far, what a mirror in the other direction has, and
what the target still has of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import define, field

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.partition_position import Position, reset_position
from logbus.client.list_offsets import EARLIEST, LATEST, list_offsets
from logbus.coroutines import sleep
from logbus.errors import LogbusError
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.mirror_status import MirrorStatus
from logbus.mirror.origins import Origins
from logbus.mirror.position_store import CopiedPartition
from logbus.mirror.topic_sync import MirroredTopic
from logbus.model import TimestampOffset, TopicPartition

Begun = dict[TopicPartition, tuple[UUID, int]]
"""Where a mirror has begun that was to begin at the end: the source's topic id, and the offset, by partition."""

_DOUBT = 3.0
"""Seconds after which a target is asked again that seems to have lost records."""


@define(eq=False)
class StartPositions:
    """
    The start positions in partitions of the source.

    :ivar copied: what the target has, by partition of the source; changed where that is of no use any more.
    :ivar epochs: leader epochs of the records before the positions, as far as they are known; added to.
    :ivar begun: added to. What comes after the first look at the end is copied, whatever was in the way since.
    """

    source: Cluster
    target: Cluster
    options: MirrorOptions
    status: MirrorStatus
    origins: Origins
    copied: dict[TopicPartition, CopiedPartition]
    epochs: dict[TopicPartition, int]
    begun: Begun = field(factory=dict)

    def of(self, topic: MirroredTopic, partition: TopicPartition) -> Position | None:
        """The start position in a partition; None: it is not read."""
        begins = self._of_own_copies(topic, partition)
        back = self.origins.copied(topic.ids.source, self.options.target, partition.partition)
        if begins is None or back is None or back.end is None:
            return begins
        # What the source has from the target, by a mirror that has ended, does not go back.
        returned = back.end[0]
        if partition not in self.copied:
            self.copied[partition] = CopiedPartition(returned, topic.ids, back)
        return returned if not isinstance(begins, int) or begins == EARLIEST else max(begins, returned)

    def _of_own_copies(self, topic: MirroredTopic, partition: TopicPartition) -> Position | None:
        """The same by what this mirror has copied."""
        known = self.copied.get(partition)
        if known is not None and known.ids.target != topic.ids.target and known.ids.target.int:
            self.status.say(f"{partition}: {topic.copy} was created anew at the target; copying from the beginning")
            del self.copied[partition]
            known = None
        if known is None:
            self.status.solved(f"{topic.name} at the source")
            topic_id, offset = self.begun.get(partition, (None, LATEST))
            is_begun = self.options.start == "latest" and topic_id == topic.ids.source
            return offset if is_begun else reset_position(self.options.start)
        if known.ids.source != topic.ids.source and known.ids.source.int:
            what = f"topic {topic.name}: it was deleted and created anew at the source"
            if self.options.on_recreated == "stop":
                self.status.problem(
                    f"{topic.name} at the source",
                    f"{what}; delete {topic.copy} at the target to have it copied from the beginning, or say "
                    f"{self.options.said('on-recreated', 'continue')} to have the new records behind the old ones",
                )
                return None
            self.status.say(f"{what}; its records come behind those that were copied")
            return EARLIEST
        self.status.solved(f"{topic.name} at the source")
        self.epochs.setdefault(partition, known.epoch)
        return known.next_offset

    async def note_begun(self, new: dict[TopicPartition, Position], topics: Mapping[str, MirroredTopic]) -> None:
        """
        Look up the ends at which partitions begin, as far as that is possible now.

        :param new: where partitions begin; changed.
        :param topics: those that are copied, by their names at the source.
        """
        wanted = [each for each, position in new.items() if position == LATEST]
        try:
            found = await list_offsets(self.source, dict.fromkeys(wanted, LATEST), patience=5.0, committed=True)
        except LogbusError:
            return  # A leader is away: the others do not wait for it.
        for each, at in found.items():
            if isinstance(at, TimestampOffset):
                new[each] = at.offset
                self.begun[each] = topics[each.topic].ids.source, at.offset

    async def check_copies(self, new: dict[TopicPartition, Position], topics: Mapping[str, MirroredTopic]) -> None:
        """
        Begin earlier where the target has lost records, such as one that was restored from a backup.

        :param new: where partitions begin; changed.
        :param topics: those that are copied, by their names at the source.
        :raises LogbusError: the target cannot be asked.
        """
        ends = {
            each: known.offsets.end[1]
            for each, position in new.items()
            if (known := self.copied.get(each)) is not None and known.offsets.end and position == known.next_offset
        }
        copies = {TopicPartition(topics[each.topic].copy, each.partition): each for each in ends}
        target = self.target
        found = await list_offsets(target, dict.fromkeys(copies, LATEST), patience=5.0)
        answers = {each: at.offset for each, at in found.items() if isinstance(at, TimestampOffset)}
        if short := [each for each, offset in answers.items() if offset < ends[copies[each]]]:
            # By a leader that was replaced, and does not know it yet?
            await sleep(self.source.reactor, _DOUBT)
            for each in short:
                target.forget(each.topic)
            found.update(await list_offsets(target, dict.fromkeys(short, LATEST), patience=5.0))
        for copy, answer in found.items():
            each = copies[copy]
            what = f"{copy} at the target"
            if not isinstance(answer, TimestampOffset) or answer.offset >= ends[each]:
                self.status.solved(what)
                continue
            lost = f"{each}: {copy.topic} ends at offset {answer.offset} at the target {self.options.target}, and "
            lost += f"was written up to {ends[each]}: it has lost records"
            place = self.copied[each].offsets.rewind(answer.offset) if answer.offset else EARLIEST
            if place is not None:
                self.status.warn(f"{lost}; copying again from {'the beginning' if place < 0 else f'offset {place}'}")
                new[each] = place
            elif self.options.on_recreated == "continue":
                self.status.warn(f"{lost}, and it is not known which; going on behind them")
            else:
                self.status.problem(
                    what,
                    f"{lost}, and it is not known which; delete {copy.topic} to have it copied from the beginning, or "
                    f"say {self.options.said('on-recreated', 'continue')} to go on behind what is lost",
                )
                del new[each]

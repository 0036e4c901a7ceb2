"""
Chooses bits to flip on a broker's disk, as silent corruption does.

Only committed records below the recovery point are hit, and only fields whose damage a checksum or the walk over the
batches can show: no checksum covers an offset or a leader epoch, and a wrong one that still fits between its neighbours
cannot be detected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from attrs import define, field, frozen

from logbus.cluster.replication.replica import Replica
from logbus.errors import DecodeError
from logbus.model import TopicPartition
from logbus.records.header import iter_batches
from logbus.testing.simulation.checks.durability_oracle import DurabilityOracle
from logbus.testing.simulation.environment.broker_node import BrokerNode
from logbus.testing.simulation.environment.inodes import Directory, Inode

_COVERED = (*range(8, 12), *range(16, 21))
"""Bytes at the start of a batch that may flip: its length, magic and checksum. All from 21 on may."""
_COVERED_FROM = 21


@frozen
class Flip:
    """
    A bit that flipped.

    :ivar path: of the segment's file; ``position``: of the byte in it; ``byte``: its value now.
    :ivar offset: of the first record of the batch.
    """

    node: BrokerNode
    partition: TopicPartition
    path: str
    position: int
    byte: int
    offset: int
    bit: int

    def found(self) -> int | None:
        """The byte's value now; None: the file is shorter now."""
        inode = self._inode()
        content = b"" if inode is None else inode.content()
        return content[self.position] if self.position < len(content) else None

    def take_back(self) -> None:
        """Flip the bit back."""
        inode = self._inode()
        assert inode is not None
        inode.flip(self.position, self.bit)

    def _inode(self) -> Inode | None:
        # Not through the disk: after a power cut the machine has other files until it starts.
        entry: Inode | Directory | None = self.node.tree
        for name in self.path.split("/"):
            entry = entry.entries.get(name) if isinstance(entry, Directory) else None
        return entry if isinstance(entry, Inode) else None


@define(eq=False)
class BitFlips:
    """
    Flips bits, in one replica of a partition at a time, and checks which are repaired.

    :ivar losses: by topic: the intact members.
    :ivar open: the flips not repaired yet; ``count``: the number of all.
    """

    losses: Sequence[DurabilityOracle]
    open: list[Flip] = field(factory=list, init=False)
    count: int = field(default=0, init=False)

    def flip(self, node: BrokerNode, share: float, bit: int) -> Flip | None:
        """
        Flip a bit on a broker's disk.

        :param share: the position, as a share of the bytes that may be hit.
        :returns: the flip; None: there is no byte that may be hit.
        """
        self.find_repaired()
        topics = {each.topic: each for each in self.losses}
        batches = []
        for replica in sorted(node.broker.replication.replicas, key=lambda each: str(each.topic_partition)):
            name = replica.topic_partition
            if name.topic in topics and topics[name.topic].may_damage(node.broker_id, name.partition):
                batches += [(name, *each) for each in stored_batches(node, replica)]
        rest = int(share * sum(_size(size) for *_, size in batches))
        for name, path, offset, position, size in batches:
            if rest < _size(size):
                at = position + (_COVERED[rest] if rest < len(_COVERED) else rest - len(_COVERED) + _COVERED_FROM)
                byte = node.disk.flip(path, at, bit)
                flip = Flip(node, name, path, at, byte, offset, bit)
                topics[name.topic].damaged(node.broker_id, name.partition)
                self.open.append(flip)
                self.count += 1
                return flip
            rest -= _size(size)
        return None

    def __attrs_post_init__(self) -> None:
        for each in self.losses:
            each.only_damaged = partial(self._take_back, each.topic)

    def _take_back(self, topic: str, partition: int) -> None:
        """No member is intact any more, so that records may be lost: end the fault."""
        for flip in self.open:
            if tuple(flip.partition) == (topic, partition) and flip.found() == flip.byte:
                flip.take_back()
        self.find_repaired()

    def find_repaired(self) -> None:
        """Find the flips that are repaired, or truncated."""
        topics = {each.topic: each for each in self.losses}
        for flip in list(self.open):
            found = flip.found()
            if found != flip.byte:
                self.open.remove(flip)
                losses = topics[flip.partition.topic]
                losses.repaired(flip.node.broker_id, flip.partition.partition)
                if found is None:
                    losses.lacks(flip.node.broker_id, flip.partition.partition)


def stored_batches(node: BrokerNode, replica: Replica) -> Iterator[tuple[str, int, int, int]]:
    """
    The committed batches below the recovery point of a replica's log.

    :returns: of each batch: path, base offset, position in the file, bytes.
    """
    log = replica.log
    end = min(log.recovery_point, replica.high_watermark)
    for segment in log.segments:
        content = node.disk.read(segment.log.path) if node.disk.exists(segment.log.path) else b""
        try:
            for position, header in iter_batches(content):
                if header.next_offset > end:
                    return
                yield segment.log.path, header.base_offset, position, header.size
        except DecodeError:
            return


def _size(size: int) -> int:
    """The number of bytes of a batch that may flip."""
    return size - _COVERED_FROM + len(_COVERED)

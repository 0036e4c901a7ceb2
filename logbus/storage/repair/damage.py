"""
Damaged batches in logs: how they are detected, and the list of known damage.

A CRC covers each batch but for its offset and its leader epoch, which are compared with the neighbouring batches.
:mod:`logbus.storage.repair.log_scrubber` finds damage, and :mod:`logbus.cluster.replication.replica_repair` repairs it.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from twisted.logger import Logger

from logbus.errors import StorageError
from logbus.metrics import Registry, metric
from logbus.model import TopicPartition
from logbus.records.batch import BatchHeader, batch_problem
from logbus.records.checksum import Buffer
from logbus.storage.log import Log
from logbus.storage.segments.segment import Segment


@frozen
class Damage:
    """
    The first damaged batch of a segment.

    :ivar path: of the segment's file, absolute.
    :ivar base_offset: of the segment; ``end_offset``: of the segment behind it. The range is repaired as a whole.
    :ivar offset: the first offset that cannot be trusted: the batches before it are intact.
    :ivar position: where the damaged batch begins, in bytes from the start of the file.
    :ivar problem: a description.
    """

    partition: TopicPartition
    path: str
    base_offset: int
    end_offset: int
    offset: int
    position: int
    problem: str


@define
class BatchChecker:
    """
    Checks consecutive batches of a log.

    :ivar next_offset: the least offset that the next batch may have.
    :ivar end_offset: an offset above all of them.
    :ivar leader_epoch: the least epoch that the next batch may have.
    :ivar latest_epoch: the largest.
    """

    next_offset: int
    end_offset: int
    leader_epoch: int
    latest_epoch: int

    def problem(self, data: Buffer, position: int, header: BatchHeader) -> str | None:
        """What is wrong with the batch at ``position`` in ``data``; None: nothing."""
        return batch_problem(data, position, header) or self.misplaced(header)

    def misplaced(self, header: BatchHeader) -> str | None:
        """What is wrong with the offset and epoch of a batch whose CRC is right; None: nothing."""
        if header.base_offset < self.next_offset:
            return f"its base offset {header.base_offset} lies below {self.next_offset}, where the one before it ends"
        if header.next_offset > self.end_offset:
            return f"its last offset {header.last_offset} is not below {self.end_offset}, where its segment ends"
        if not self.leader_epoch <= header.leader_epoch <= self.latest_epoch:
            return (
                f"its leader epoch {header.leader_epoch} is not within {self.leader_epoch} to {self.latest_epoch}, "
                "those of the batch before it and of the log's end"
            )
        self.next_offset, self.leader_epoch = header.next_offset, header.leader_epoch
        return None


def latest_epoch(log: Log) -> int:
    """The largest leader epoch that a batch of a log can have, as far as is known."""
    try:
        return log.epochs.latest
    except StorageError:
        # Without a checkpoint the epochs were read from the batches, including the damaged one.
        return 2**31 - 1


@define(eq=False, repr=False)
class DamageReports:
    """
    The known damage in all logs of a broker.

    :ivar open: damage not repaired yet, by log and by the base offset of the segment.
    :ivar on_found: called with a log in which damage was found.
    :ivar found: number of segments in which damage was found.
    :ivar repaired: number of them that were replaced from another replica.
    """

    open: dict[Log, dict[int, Damage]] = field(factory=dict, init=False)
    on_found: Callable[[Log], object] = field(default=lambda log: None, init=False)
    found: int = metric("logbus_damaged_segments_found_total", "Segments in which damage was found.")
    repaired: int = metric(
        "logbus_damaged_segments_repaired_total", "Damaged segments replaced with data of another replica."
    )
    _log = Logger()

    def register_metrics(self, registry: Registry) -> None:
        """Declare the metrics of damage."""
        registry.gauge(
            "logbus_damaged_segments", "Segments that are damaged, and not repaired.", read=lambda: self.count
        )
        registry.add_fields(self)

    def of(self, log: Log) -> list[Damage]:
        """The damage in a log, oldest offsets first. Segments that retention or a truncation removed are dropped."""
        known = self.open.get(log, {})
        bases = {segment.base_offset for segment in log.segments}
        for base_offset in [base for base in known if base not in bases or log.is_closed]:
            self._forget(log, base_offset)
        return sorted(self.open.get(log, {}).values(), key=lambda damage: damage.base_offset)

    @property
    def count(self) -> int:
        """Number of damaged segments not repaired yet."""
        return sum(len(self.of(log)) for log in list(self.open))

    def is_known(self, log: Log, segment: Segment) -> bool:
        """Whether a segment is known to be damaged."""
        return segment.base_offset in self.open.get(log, {})

    def add(self, log: Log, damage: Damage) -> None:
        """Record new damage."""
        known = self.open.setdefault(log, {})
        if damage.base_offset in known:
            return
        known[damage.base_offset] = damage
        self.found += 1
        self._log.critical(
            "{partition}: {path} is damaged at offset {offset} (byte {position}): {problem}",
            partition=damage.partition, path=damage.path, offset=damage.offset, position=damage.position,
            problem=damage.problem,
        )  # fmt: skip
        self.on_found(log)

    def resolve(self, log: Log, damage: Damage, source: int) -> None:
        """
        Record that a damaged segment was replaced.

        :param source: id of the broker that the batches are from.
        """
        if self._forget(log, damage.base_offset):
            self.repaired += 1
            self._log.warn(
                "{partition}: {path} is repaired: offsets {first} to {last} are as broker {source} has them; it was "
                "damaged at offset {offset}: {problem}",
                partition=damage.partition, path=damage.path, first=damage.base_offset, last=damage.end_offset - 1,
                source=source, offset=damage.offset, problem=damage.problem,
            )  # fmt: skip

    def _forget(self, log: Log, base_offset: int) -> bool:
        known = self.open.get(log, {})
        gone = known.pop(base_offset, None)
        if not known:
            self.open.pop(log, None)
        return gone is not None

"""
Damage in logs: batches on disk that are not what was written.

A checksum covers each batch but for its offset and its leader epoch, which are held against the neighbouring batches.
What is found is kept here until somebody repairs it; :mod:`logbus.storage.scrubber` finds it, and
:mod:`logbus.cluster.repairs` has it repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field, frozen
from twisted.logger import Logger

from logbus.errors import StorageError
from logbus.model import TopicPartition
from logbus.records.batch import BatchHeader, batch_problem
from logbus.records.checksum import Buffer

if TYPE_CHECKING:
    from logbus.storage.log import Log
    from logbus.storage.segment import Segment


@frozen
class Damage:
    """
    The first damaged batch of a segment.

    :ivar path: of the segment's file, absolute.
    :ivar base_offset: of the segment; ``end_offset``: of the segment behind it. The range is repaired as a whole.
    :ivar offset: the first offset that cannot be trusted: the batches before it are whole.
    :ivar position: where the damaged batch begins, in bytes from the start of the file.
    :ivar problem: what is wrong with it.
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
    Checks the batches of a stretch of a log, one after the other.

    :ivar next_offset: the least offset that the next batch may have.
    :ivar end_offset: all offsets lie below it.
    :ivar leader_epoch: the least epoch that the next batch may have.
    :ivar latest_epoch: the largest.
    """

    next_offset: int
    end_offset: int
    leader_epoch: int
    latest_epoch: int

    def problem(self, data: Buffer, position: int, header: BatchHeader) -> str | None:
        """What is wrong with the batch at ``position`` in ``data``; None: nothing, and the next one is expected."""
        return batch_problem(data, position, header) or self.misplaced(header)

    def misplaced(self, header: BatchHeader) -> str | None:
        """What is wrong with the place of a batch whose checksum is right; None: nothing, and the next is expected."""
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
    """The largest leader epoch that a batch of a log can have, as far as that is known."""
    try:
        return log.epochs.latest
    except StorageError:
        # Without a history it is learnt from the batches, among which the damaged one is.
        return 2**31 - 1


@define(eq=False, repr=False)
class DamageReports:
    """
    The damage that is known of, in all logs of a broker.

    :ivar open: what is not repaired, by log and by the base offset of the segment.
    :ivar on_found: told of a log in which damage was found.
    :ivar found: segments in which damage was found, so far.
    :ivar repaired: of them, those that were replaced by what another replica has.
    """

    open: dict[Log, dict[int, Damage]] = field(factory=dict, init=False)
    on_found: Callable[[Log], object] = field(default=lambda log: None, init=False)
    found: int = field(default=0, init=False)
    repaired: int = field(default=0, init=False)
    _log = Logger()

    def of(self, log: Log) -> list[Damage]:
        """The damage in a log, oldest offsets first. What retention or a truncation removed meanwhile is forgotten."""
        known = self.open.get(log, {})
        bases = {segment.base_offset for segment in log.segments}
        for base_offset in [base for base in known if base not in bases or log.is_closed]:
            self._forget(log, base_offset)
        return sorted(self.open.get(log, {}).values(), key=lambda damage: damage.base_offset)

    @property
    def count(self) -> int:
        """Damaged segments that are not repaired."""
        return sum(len(self.of(log)) for log in list(self.open))

    def is_known(self, log: Log, segment: Segment) -> bool:
        """Whether a segment is known to be damaged."""
        return segment.base_offset in self.open.get(log, {})

    def add(self, log: Log, damage: Damage) -> None:
        """Damage was found."""
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
        A damaged segment was replaced.

        :param source: the broker that the batches are from.
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

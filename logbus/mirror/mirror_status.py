"""Counts, positions and problems of a mirror, for progress lines, metrics, the HTTP API and tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from attrs import define, field, frozen

from logbus.metrics import Family, Sample
from logbus.mirror.copy_rates import CopyRates
from logbus.model import TopicPartition


class MirrorState(Enum):
    """The state of a mirror."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


@frozen
class MirrorError:
    """
    An error, and its time.

    :ivar at: seconds since 1970.
    """

    at: float
    message: str


@frozen
class PartitionStatus:
    """
    The progress in copying a partition.

    :ivar copy: the topic at the target.
    :ivar offset: the next one to copy; None: that is not known yet.
    :ivar end: where the records end; None: that is not known yet.
    :ivar rate: records per second.
    :ivar problem: why it is not copied; None: it is.
    """

    partition: TopicPartition
    copy: str
    offset: int | None
    end: int | None
    rate: float
    problem: str | None

    @property
    def lag(self) -> int | None:
        """Offsets that are not copied yet; None: that is not known yet."""
        if self.end is None:
            return None
        return 0 if self.offset is None else max(0, self.end - self.offset)


def _ignored(line: str) -> None:
    """Nobody listens."""


@define(eq=False)
class MirrorStatus:
    """
    The progress of a mirror since it began.

    :ivar flow: its name, such as ``paris-to-rome``.
    :ivar say: called with one line about what a user should know.
    :ivar wall_clock: seconds since 1970.
    :ivar records: copied, in transactions that are committed.
    :ivar skipped: records that were left out, since they are larger than the target takes.
    :ivar size: their bytes, as they are encoded.
    :ivar encoded_again: batches that could not be copied as they are.
    :ivar transactions: that were committed.
    :ivar aborted: transactions that were not.
    :ivar restarts: how often it began anew after an error.
    :ivar positions: the next offset of each partition of the source.
    :ivar ends: where the records end there, as of the last fetch.
    :ivar problems: why something is not copied, by topic or partition.
    :ivar checkpoints: that were written.
    :ivar groups_synced: offsets committed at the target for groups.
    :ivar state: what it is doing.
    :ivar topics: those that are copied: the name of the copy, and the number of partitions, by the name at the source.
    :ivar rates: of copying.
    :ivar last_error: what last went wrong, though it may go well again.
    """

    flow: str
    say: Callable[[str], object] = _ignored
    wall_clock: Callable[[], float] = time.time
    records: int = 0
    skipped: int = 0
    size: int = 0
    encoded_again: int = 0
    transactions: int = 0
    aborted: int = 0
    restarts: int = 0
    positions: dict[TopicPartition, int] = field(factory=dict)
    ends: dict[TopicPartition, int] = field(factory=dict)
    problems: dict[str, str] = field(factory=dict)
    checkpoints: int = 0
    groups_synced: int = 0
    state: MirrorState = MirrorState.STARTING
    topics: dict[str, tuple[str, int]] = field(factory=dict)
    rates: CopyRates = field(factory=CopyRates)
    last_error: MirrorError | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it has ended with an error."""
        return self.state is MirrorState.FAILED

    @property
    def lag(self) -> int:
        """Offsets that are not copied yet, of the partitions whose end is known."""
        return sum(max(0, end - self.positions.get(each, end)) for each, end in self.ends.items())

    def problem(self, what: object, reason: str) -> None:
        """Note why something is not copied, and say so if that is new."""
        if self.problems.get(str(what)) != reason:
            self.problems[str(what)] = reason
            self.warn(reason)

    def warn(self, line: str) -> None:
        """Say that something went wrong which does not last, such as records that are lost."""
        self.last_error = MirrorError(self.wall_clock(), line)
        self.say(line)

    def fail(self, reason: str) -> None:
        """Note that it has ended, for a reason that is told by whoever runs it."""
        self.state = MirrorState.FAILED
        self.last_error = MirrorError(self.wall_clock(), reason)

    def solved(self, what: object) -> None:
        """Note that something is copied again."""
        if self.problems.pop(str(what), None) is not None:
            self.say(f"{what}: goes on")

    def partitions(self, now: float) -> Iterator[PartitionStatus]:
        """
        The partitions of the topics that are copied.

        :param now: seconds of the clock of :attr:`rates`.
        """
        rates = self.rates.records(now)
        for topic, (copy, count) in self.topics.items():
            for each in (TopicPartition(topic, number) for number in range(count)):
                why = self.problems.get(str(each)) or self.problems.get(f"{topic} at the source")
                offset, end = self.positions.get(each), self.ends.get(each)
                yield PartitionStatus(each, copy, offset, end, rates.get(each, 0.0), why)

    def families(self) -> Iterable[Family]:
        """The metrics, for a registry."""
        labels = (("flow", self.flow),)
        for name, what, value in (
            ("records", "Records that were copied.", self.records),
            ("skipped", "Records left out, since they are larger than the target takes.", self.skipped),
            ("bytes", "Bytes of batches that were copied.", self.size),
            ("batches_encoded_again", "Batches that could not be copied as they are.", self.encoded_again),
            ("transactions", "Transactions at the target that were committed.", self.transactions),
            ("transactions_aborted", "Transactions at the target that were aborted.", self.aborted),
            ("restarts", "How often the mirror began anew after an error.", self.restarts),
            ("checkpoints", "Checkpoints of groups that were written.", self.checkpoints),
            ("group_offsets", "Offsets of groups that were committed at the target.", self.groups_synced),
        ):
            full = f"logbus_mirror_{name}_total"
            yield Family(full, what, "counter", iter([Sample(full, labels, value)]))
        name, what = "logbus_mirror_problems", "Topics and partitions that are not copied."
        yield Family(name, what, "gauge", iter([Sample(name, labels, len(self.problems))]))
        name, what = "logbus_mirror_lag", "Offsets of the source that are not copied yet."
        lags = (
            Sample(
                "logbus_mirror_lag",
                (*labels, ("topic", each.topic), ("partition", str(each.partition))),
                max(0, end - self.positions.get(each, end)),
            )
            for each, end in sorted(self.ends.items())
        )
        yield Family(name, what, "gauge", lags)

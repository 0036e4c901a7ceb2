"""Counts, positions and problems of a mirror, for progress lines, metrics and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field

from logbus.metrics import Family, Sample
from logbus.model import TopicPartition


def _ignored(line: str) -> None:
    """Nobody listens."""


@define(eq=False)
class MirrorStatus:
    """
    What a mirror has done since it began, and where it is.

    :ivar flow: its name, such as ``paris-to-rome``.
    :ivar say: called with one line about what a user should know.
    :ivar records: copied, in transactions that are committed.
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
    """

    flow: str
    say: Callable[[str], object] = _ignored
    records: int = 0
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

    @property
    def lag(self) -> int:
        """Offsets that are not copied yet, of the partitions whose end is known."""
        return sum(max(0, end - self.positions.get(each, end)) for each, end in self.ends.items())

    def problem(self, what: object, reason: str) -> None:
        """Note why something is not copied, and say so if that is new."""
        if self.problems.get(str(what)) != reason:
            self.problems[str(what)] = reason
            self.say(reason)

    def solved(self, what: object) -> None:
        """Note that something is copied again."""
        if self.problems.pop(str(what), None) is not None:
            self.say(f"{what}: goes on")

    def families(self) -> Iterable[Family]:
        """The metrics, for a registry."""
        labels = (("flow", self.flow),)
        for name, what, value in (
            ("records", "Records that were copied.", self.records),
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

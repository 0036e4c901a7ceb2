"""The result of an audit for one partition. Pure."""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen

from logbus.mirror.audit.differences import Example, WindowDifference


class MirrorVerdict(Enum):
    """The result for a window, a partition, or a topic."""

    COMPLETE = "complete"
    """The copy has the same records in the same order."""
    DIFFERENT = "different"
    """Records are missing, repeated, or foreign."""
    REORDERED = "reordered"
    """It has the same records in another order."""
    BEHIND = "behind"
    """What was copied is complete, and some is not copied yet."""
    SKIPPED = "skipped"
    """It is complete but for records that the mirror has left out, since they are too large for the target."""
    UNKNOWN = "unknown"
    """It cannot be said."""


@frozen
class WindowReport:
    """
    A window of time.

    :ivar start: milliseconds since 1970.
    :ivar source: its records at the source.
    :ivar copy: its records in the copy.
    """

    start: int
    source: int
    copy: int
    difference: WindowDifference = field(factory=WindowDifference)
    verdict: MirrorVerdict = MirrorVerdict.COMPLETE


@frozen(kw_only=True)
class PartitionReport:
    """
    A partition.

    :ivar topic: its name at the source.
    :ivar copy_topic: its name at the target.
    :ivar windows: those with records, in order.
    :ivar behind: records that were not copied yet.
    :ivar skipped: records that the mirror has left out, since they are too large for the target.
    :ivar gone_at_source: records that only the copy has still, since the source has deleted its oldest ones.
    :ivar gone_at_target: the same the other way round.
    :ivar examples: records that differ.
    :ivar is_reordered: records of different windows are in another order.
    :ivar compacted: only the last record of each key counts.
    :ivar problem: why it could not be compared, or what is wrong besides; empty: nothing.
    """

    topic: str
    copy_topic: str
    partition: int
    windows: tuple[WindowReport, ...] = ()
    behind: int = 0
    skipped: int = 0
    gone_at_source: int = 0
    gone_at_target: int = 0
    examples: tuple[Example, ...] = ()
    is_reordered: bool = False
    compacted: bool = False
    problem: str = ""

    @property
    def source(self) -> int:
        """The records of the source that were compared."""
        return sum(each.source for each in self.windows)

    @property
    def copy(self) -> int:
        """Those of the copy."""
        return sum(each.copy for each in self.windows)

    @property
    def missing(self) -> int:
        """Records that the copy lacks."""
        return sum(each.difference.missing for each in self.windows)

    @property
    def repeated(self) -> int:
        """Records that it has more often than the source."""
        return sum(each.difference.repeated for each in self.windows)

    @property
    def foreign(self) -> int:
        """Records that only it has."""
        return sum(each.difference.foreign for each in self.windows)

    @property
    def verdict(self) -> MirrorVerdict:
        """The worst of all."""
        if self.problem:
            return MirrorVerdict.UNKNOWN
        found = {each.verdict for each in self.windows}
        if self.is_reordered:
            found.add(MirrorVerdict.REORDERED)
        for each in (MirrorVerdict.DIFFERENT, MirrorVerdict.REORDERED):
            if each in found:
                return each
        if self.behind:
            return MirrorVerdict.BEHIND
        return MirrorVerdict.SKIPPED if self.skipped else MirrorVerdict.COMPLETE

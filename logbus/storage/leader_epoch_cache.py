"""
The leader epochs of a log, and their start offsets (KIP-101, KIP-279; Kafka: LeaderEpochFileCache).

Stored in ``leader-epoch-checkpoint``, in Kafka's text format: a line ``0`` (the version), the number of entries, then
``epoch start_offset`` on a line each, both increasing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from logbus.model import NO_EPOCH, NO_OFFSET, OffsetAndEpoch
from logbus.storage.checkpoints import decode_lines, encode_lines


class LeaderEpochCache:
    """
    Leader epochs and their start offsets.

    :ivar latest: the newest epoch that wrote a record, −1 without any.
    :ivar saved: whether the file on disk is up to date.
    """

    __slots__ = ("_epochs", "_starts", "latest", "saved")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = NO_EPOCH
        for epoch, start in entries:
            self.assign(epoch, start)
        self.saved = True

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Epoch and start offset of each, oldest first."""
        return zip(self._epochs, self._starts, strict=True)

    def assign(self, epoch: int, start_offset: int) -> None:
        """
        Add ``epoch``, whose first batch is at ``start_offset``, the end of the log so far.

        Contradicting entries (higher epochs, or starts at or behind it) are removed: the log is authoritative.
        """
        if epoch < 0 or (epoch == self.latest and start_offset >= self._starts[-1]):
            return
        keep = len(self._epochs)
        while keep and (self._epochs[keep - 1] >= epoch or self._starts[keep - 1] >= start_offset):
            keep -= 1
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        self.saved = False

    def end_offset_for(self, epoch: int, log_end_offset: int) -> OffsetAndEpoch:
        """
        The end offset of ``epoch``, as OffsetForLeaderEpoch asks for it.

        :returns: the largest known epoch that is at most ``epoch``, and the start offset of the next one (the log's end
            for the newest). (−1, −1) if ``epoch`` is newer than the newest, or there is none.
        """
        if epoch < 0 or epoch > self.latest:
            return OffsetAndEpoch(NO_OFFSET, NO_EPOCH)
        i = bisect_right(self._epochs, epoch)
        if i == 0:
            # Older than all: none of its records are left, and the log begins at the first entry.
            return OffsetAndEpoch(self._starts[0], epoch)
        end = self._starts[i] if i < len(self._starts) else log_end_offset
        return OffsetAndEpoch(end, self._epochs[i - 1])

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at ``offset``, −1 if unknown."""
        i = bisect_right(self._starts, offset)
        return self._epochs[i - 1] if i else NO_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Remove epochs that begin at or behind ``end_offset``, the log's new end."""
        keep = len(self._starts)
        while keep and self._starts[keep - 1] >= end_offset:
            keep -= 1
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.latest = self._epochs[-1] if keep else NO_EPOCH
            self.saved = False

    def truncate_start(self, start_offset: int) -> None:
        """
        Remove older epochs after the log start offset moved; the epoch in force at ``start_offset`` begins there now.
        """
        i = bisect_right(self._starts, start_offset)
        if i and (i > 1 or self._starts[0] < start_offset):
            del self._epochs[: i - 1], self._starts[: i - 1]
            self._starts[0] = start_offset
            self.saved = False

    def encode(self) -> bytes:
        """The content of ``leader-epoch-checkpoint``."""
        return encode_lines(f"{epoch} {start}" for epoch, start in self)

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochCache:
        """
        Read ``leader-epoch-checkpoint``.

        :raises ValueError: it is damaged.
        """
        entries = []
        for line in decode_lines(data):
            epoch, start = line.split()
            entries.append((int(epoch), int(start)))
        return cls(entries)

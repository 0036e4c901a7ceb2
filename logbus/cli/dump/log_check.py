"""
Compares the files of one log with each other: leader epochs, producer snapshots and transaction indexes with the
batches. Pure, but for reading the names of snapshots.

It is told of all items of :mod:`logbus.cli.dump.file_dump`, in the order of files and offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from attrs import define, field

from logbus.storage import file_names
from logbus.storage.leader_epoch_cache import LeaderEpochCache

Item = dict[str, Any]
_SEQUENCES = 2**31


class Last(NamedTuple):
    """The last batch of a producer in a part of the log."""

    last_offset: int
    epoch: int
    last_sequence: int


class Conflict(NamedTuple):
    """A contradiction between files: the file that others contradict, and what differs."""

    path: Path
    what: str


@define(eq=False)
class LogCheck:
    """
    The files of one log.

    :ivar end: the offset after the last record.
    """

    directory: Path
    end: int = 0
    _snapshots: tuple[int, ...] = field(init=False)
    _at_snapshots: dict[int, dict[int, Last]] = field(factory=dict, init=False)
    _producers: dict[int, list[Item]] = field(factory=dict, init=False)
    # The first batch of each run of batches of one epoch.
    _epochs: list[tuple[int, int]] = field(factory=list, init=False)
    _checkpoint: LeaderEpochCache | None = field(default=None, init=False)
    _open: dict[int, int] = field(factory=dict, init=False)
    # Aborted transactions: by the markers, and by the indexes.
    _aborted: dict[tuple[int, int], int] = field(factory=dict, init=False)
    _indexed: set[tuple[int, int]] = field(factory=set, init=False)

    @_snapshots.default
    def _find_snapshots(self) -> tuple[int, ...]:
        found = (
            file_names.base_offset_of(path.name, file_names.SNAPSHOT) for path in self.directory.glob("*.snapshot")
        )
        return tuple(sorted(offset for offset in found if offset is not None))

    def begin_segment(self, base: int) -> None:
        """A segment begins: the log reaches there, whatever is in it."""
        self.end = max(self.end, base)

    def batch(self, base: int, item: Item) -> None:
        """
        Take a batch of a segment.

        :param base: of the segment.
        """
        first, last = item["base_offset"], item["last_offset"]
        self.end = max(self.end, last + 1)
        epoch = item["leader_epoch"]
        if epoch >= 0 and (not self._epochs or self._epochs[-1][0] != epoch):
            self._epochs.append((epoch, first))
        producer = item.get("producer_id")
        if producer is None:
            return
        if item.get("control"):
            since = self._open.pop(producer, None)
            if item.get("marker") == "abort" and since is not None:
                self._aborted[producer, last] = base
            return
        # The cleaner keeps the last batch of a producer without its records.
        if item.get("transactional") and item["records_count"]:
            self._open.setdefault(producer, first)
        sequence = item["base_sequence"]
        if sequence >= 0:
            sequence = (sequence + last - first) % _SEQUENCES
        for offset in self._snapshots:
            if last < offset:
                self._at_snapshots.setdefault(offset, {})[producer] = Last(last, item["producer_epoch"], sequence)

    def other(self, path: Path, item: Item) -> None:
        """Take an item of a file that is not a segment."""
        offset = file_names.base_offset_of(path.name, file_names.SNAPSHOT)
        if offset is not None:
            self._producers.setdefault(offset, []).append(item)
        elif file_names.base_offset_of(path.name, file_names.TRANSACTION_INDEX) is not None:
            self._indexed.add((item["producer_id"], item["last_offset"]))
        elif path.name == file_names.EPOCHS:
            if self._checkpoint is None:
                self._checkpoint = LeaderEpochCache()
            self._checkpoint.assign(item["epoch"], item["start_offset"])

    def conflicts(self, scanned_from: int | None) -> Iterator[Conflict]:
        """
        Yield what does not fit, once all is taken.

        :param scanned_from: the recovery point, from which on a start makes the transaction index anew after an unclean
            stop; None: it is not known.
        """
        yield from self._epoch_conflicts()
        for offset, items in self._producers.items():
            path = self.directory / file_names.segment_file(offset, file_names.SNAPSHOT)
            for item in items:
                yield from self._snapshot_conflicts(path, offset, item)
        for (producer, marker), base in self._aborted.items():
            if scanned_from is not None and marker < scanned_from and (producer, marker) not in self._indexed:
                yield Conflict(
                    self.directory / file_names.segment_file(base, file_names.TRANSACTION_INDEX),
                    f"the transaction of producer {producer} that was aborted at offset {marker} is not in it",
                )

    def _epoch_conflicts(self) -> Iterator[Conflict]:
        checkpoint = self._checkpoint
        if checkpoint is None:
            return
        for epoch, offset in self._epochs:
            told = checkpoint.epoch_at(offset)
            # Below the first entry there are no more records for readers; above the last epoch it may not be saved yet.
            if told not in (-1, epoch) and epoch <= checkpoint.latest:
                yield Conflict(
                    self.directory / file_names.EPOCHS,
                    f"offset {offset} has epoch {told} there, but {epoch} in the log",
                )

    def _snapshot_conflicts(self, path: Path, offset: int, item: Item) -> Iterator[Conflict]:
        producer, last_offset = item["producer_id"], item["last_offset"]
        if last_offset >= offset:
            yield Conflict(path, f"producer {producer} has written offset {last_offset} there, which comes after it")
            return
        last = self._at_snapshots.get(offset, {}).get(producer)
        # What is older, or of an older epoch, was left by the cleaner; a marker begins an epoch without a record.
        if last is None or last.last_offset < last_offset or last.epoch < item["epoch"]:
            return
        told = Last(last_offset, item["epoch"], item["last_sequence"])
        if last != told:
            yield Conflict(
                path, f"producer {producer} ends with {_words(told)} there, but in the log with {_words(last)}"
            )


def _words(last: Last) -> str:
    return f"offset {last.last_offset}, epoch {last.epoch}, sequence {last.last_sequence}"

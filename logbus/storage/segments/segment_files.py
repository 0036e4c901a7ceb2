"""The files of a segment, under one name: record batches, the two indexes, and the transaction index."""

from __future__ import annotations

from attrs import define, field

from logbus.storage import file_names
from logbus.storage.filesystem.file_cache import LazyFile
from logbus.storage.segments.indexed_file import IndexedFile
from logbus.storage.segments.transaction_index import TransactionIndex


@define(eq=False, repr=False)
class SegmentFiles(IndexedFile):
    """An indexed file with its transaction index, which are saved, renamed and closed together."""

    _aborted: TransactionIndex | None = field(default=None, init=False)

    # -- Aborted transactions

    @property
    def aborted(self) -> TransactionIndex:
        """
        The transaction index; opened on first use.

        :raises IndexCorrupt: it is damaged; see :mod:`logbus.storage.producers.aborted_transactions`.
        """
        index = self._aborted
        if index is None:
            index = self._new_aborted()
            index.open()
            self._aborted = index
        return index

    @property
    def aborted_in_memory(self) -> TransactionIndex | None:
        """The transaction index, if it was used since the log was opened."""
        return self._aborted

    @property
    def aborted_unsynced_from(self) -> int | None:
        """The offset from which on the transaction index is not on stable storage; None: all of it is."""
        return None if self._aborted is None else self._aborted.unsynced_from

    def _new_aborted(self) -> TransactionIndex:
        self.close_transaction_index()
        file = LazyFile(self.files, self.disk, self.path(file_names.TRANSACTION_INDEX))
        return TransactionIndex(self.disk, file, self.base_offset)

    def close_transaction_index(self) -> None:
        """Close the transaction index; the next use reads the file again."""
        if self._aborted is not None:
            self._aborted.close()
            self._aborted = None

    def drop_transaction_index(self) -> None:
        """Start an empty transaction index."""
        self._aborted = self._new_aborted()
        self._aborted.start()

    def rename_transaction_index(self, suffix: str) -> bool:
        """
        Set the suffix of the transaction index alone. It can be used as before.

        :returns: whether there is one that had not been renamed before.
        """
        if not self.disk.exists(old := self.path(file_names.TRANSACTION_INDEX)):
            return False
        self.close_transaction_index()
        path = f"{self.directory}/{self.base_offset:020d}{file_names.TRANSACTION_INDEX}{suffix}"
        self.disk.rename(old, path)
        index = TransactionIndex(self.disk, LazyFile(self.files, self.disk, path), self.base_offset)
        index.open()
        self._aborted = index
        return True

    # -- All of them

    def save_indexes(self) -> list[LazyFile]:
        """Write the index entries to their files; returns the files, to be synced."""
        aborted = self._aborted.save() if self._aborted is not None else None
        return [self.offsets.save(), self.times.save(), *([] if aborted is None else [aborted])]

    def rename(self, suffix: str) -> None:
        """
        Set the suffix of the segment's file names, that of the log file last.

        :raises ApiError: there is no space; some files may have their new names.
        """
        self._close_indexes()
        self.rename_transaction_index(suffix)
        for kind in (file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.LOG):
            path = f"{self.directory}/{self.base_offset:020d}{kind}{suffix}"
            self.disk.rename(self.path(kind), path)
        self.log.path = path
        self.suffix = suffix

    def close(self) -> None:
        """Close the files. Readers may go on, and entries of indexes that are not in the files yet stay in memory."""
        self.log.close()
        for index in (self._offsets, self._times, self._aborted):
            if index is not None:
                index.close()

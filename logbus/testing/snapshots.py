"""
Snapshots of a broker's data: taken once, each test starts from them.

The data of a broker that does not run are copied. Closed segments get another name (a hard link) instead, which costs
nothing however large they are: a broker changes only the last segment of each log.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from logbus.metastore.tree import Row
from logbus.storage import file_names
from logbus.testing.errors import BrokerFailed
from logbus.testing.temporary import empty_directory, remove_temporary, temporary_directory

_SEGMENT = (file_names.LOG, file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.TRANSACTION_INDEX)
_LEFT_OUT = (".lock",)


class Snapshot:
    """
    The data of a broker at one moment, until it is closed or forgotten; what :meth:`.Broker.snapshot` gives.

    :ivar directory: where it is.
    """

    def __init__(self, data_dir: Path) -> None:
        self.directory = temporary_directory("snapshot")
        self._remove = weakref.finalize(self, remove_temporary, self.directory)
        copy_data(data_dir, self.directory)

    def require(self) -> None:
        """
        Make sure that it is there.

        :raise BrokerFailed: it is closed.
        """
        if not self._remove.alive:
            raise BrokerFailed("the snapshot is closed; take another one")

    def write_to(self, data_dir: Path) -> None:
        """
        Put the data into a directory, in place of what is there.

        :raise BrokerFailed: the snapshot is closed.
        """
        self.require()
        if data_dir.exists():
            empty_directory(data_dir)
        copy_data(self.directory, data_dir)

    def close(self) -> None:
        """Remove it. Brokers that were started from it keep their data."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<logbus.testing.Snapshot {self.directory if self._remove.alive else 'closed'}>"


class ClusterSnapshot:
    """
    The data of a cluster at one moment, until it is closed or forgotten; what ``LocalCluster.snapshot`` and
    ``Cluster.snapshot`` give.

    :ivar rows: the nodes of the metadata store that no session owned.
    :ivar zxid: the number of its last transaction.
    """

    def __init__(self, data_dirs: Sequence[Path], rows: Sequence[Row], zxid: int) -> None:
        self.rows = rows
        self.zxid = zxid
        self._brokers = [Snapshot(each) for each in data_dirs]

    def require(self, brokers: int) -> None:
        """
        Make sure that it is there, and of so many brokers.

        :raise BrokerFailed: it is closed, or of others.
        """
        if len(self._brokers) != brokers:
            raise BrokerFailed(f"the snapshot is of {len(self._brokers)} brokers, and the cluster has {brokers}")
        for each in self._brokers:
            each.require()

    def write_to(self, data_dirs: Sequence[Path]) -> None:
        """Put the data into the brokers' directories, in place of what is there."""
        for each, directory in zip(self._brokers, data_dirs, strict=True):
            each.write_to(directory)

    def close(self) -> None:
        """Remove it."""
        for each in self._brokers:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def copy_data(source: Path, target: Path) -> None:
    """
    Copy the data directory of a broker that does not run.

    :param target: an empty directory, or none yet.
    """
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        if entry.name in _LEFT_OUT or entry.name.endswith(file_names.SNAPSHOT_SUFFIX):
            continue
        if entry.is_dir(follow_symlinks=False):
            _copy_log(Path(entry), target / entry.name)
        else:
            shutil.copy2(entry, target / entry.name)


def _copy_log(source: Path, target: Path) -> None:
    target.mkdir()
    names = os.listdir(source)
    last = max(_base_offsets(names), default=-1)
    for name in names:
        base_offset = _base_offset(name)
        if base_offset is None or base_offset >= last or not _linked(source / name, target / name):
            shutil.copy2(source / name, target / name)


def _base_offsets(names: list[str]) -> Iterator[int]:
    for name in names:
        if name.endswith(file_names.LOG) and (found := _base_offset(name)) is not None:
            yield found


def _base_offset(name: str) -> int | None:
    """The offset in the name of a segment's file; None for other files."""
    for suffix in _SEGMENT:
        if name.endswith(suffix):
            return file_names.base_offset_of(name, suffix)
    return None


def _linked(source: Path, target: Path) -> bool:
    """Give a file another name; False: here it cannot have one."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True

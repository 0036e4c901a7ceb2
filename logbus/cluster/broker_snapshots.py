"""
Snapshots of a broker, for backups: its logs, and the metadata of its cluster.

The metadata are read after the logs: a topic that is created in between has no records in the snapshot, while one that
is deleted in between is not known any more, and its log not used.
"""

from __future__ import annotations

from attrs import frozen

from logbus.errors import ApiError, ErrorCode
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.metadata_copy import READINGS, read_running
from logbus.metastore.metadata_file import BadMetadataFile, Metadata, check, dump
from logbus.metastore.operations import MetastoreError
from logbus.storage.istorage import IDisk, IOPool
from logbus.storage.log_manager import LogManager
from logbus.storage.log_snapshots import Snapshot

METADATA = "metadata.json"
"""In the first directory of a snapshot: the metadata, as ``logbus metadata export`` writes them."""


@frozen
class BrokerSnapshots:
    """Makes, keeps and removes snapshots of a broker."""

    _logs: LogManager
    _store: IMetadataStore

    @property
    def current(self) -> Snapshot | None:
        """The snapshot that there is."""
        return self._logs.snapshots.current

    async def make(self, kept_seconds: float) -> Snapshot:
        """
        Make a snapshot, which is removed after a while if it is not renewed.

        :raise SnapshotExists: release that one first.
        :raise ApiError: as of :meth:`.LogSnapshots.make`; BROKER_NOT_AVAILABLE: the metadata cannot be read.
        """
        made = await self._logs.snapshots.make(kept_seconds)
        disk = self._logs.directories[0].disk
        try:
            nodes = await read_running(self._store)
            await disk.submit(IOPool.BACKGROUND, _write, disk, f"{made.name}/{METADATA}", Metadata(nodes))
        except MetastoreError as e:
            self.release(made.name)
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"the metadata cannot be read: {e}") from None
        except BadMetadataFile as e:
            self.release(made.name)
            text = f"the metadata changed {READINGS} times while they were read; try again ({e})"
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, text) from None
        except BaseException:
            self.release(made.name)
            raise
        return made

    def renew(self, name: str, kept_seconds: float) -> None:
        """
        Keep a snapshot for this many seconds from now on.

        :raise NoSnapshot:
        """
        self._logs.snapshots.renew(name, kept_seconds)

    def release(self, name: str) -> None:
        """
        Remove a snapshot.

        :raise NoSnapshot:
        """
        self._logs.snapshots.release(name)


def _write(disk: IDisk, path: str, metadata: Metadata) -> None:
    """
    Runs in an I/O thread: with many partitions it takes a while.

    :raise BadMetadataFile: the nodes do not belong together.
    """
    check(metadata)
    # Users' credentials are in it.
    disk.replace(path, dump(metadata).encode(), False, private=True)

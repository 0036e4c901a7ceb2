"""
Makes log directories of a backup.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attrs import define, evolve, field

from logbus.cli.backup.backup_format import Backup, BackupError, BrokerBackup, read_backup, read_manifest
from logbus.cli.backup.file_copy import FileCopy
from logbus.cli.new_file import check_parent
from logbus.cluster.broker_snapshots import METADATA
from logbus.metastore.cluster_znodes import ProducerIdBlockZnode
from logbus.metastore.metadata_file import BadMetadataFile, Metadata, load
from logbus.metastore.znodes import PRODUCER_ID_BLOCK
from logbus.storage import checkpoints

SKIPPED_PRODUCER_IDS = 1_000_000
"""Producers that are still there have ids from after the backup: these must not be given to others, too."""
SHOWN_FAULTS = 5


@define(eq=False)
class Restore:
    """
    Restores a backup.

    :param source: its directory.
    :param targets: the log directories to make, in the order of the broker's.
    """

    source: Path
    targets: Sequence[Path]
    shown: Callable[[int, int], object]
    backup: Backup = field(init=False)
    files: FileCopy = field(init=False)
    total: int = field(default=0, init=False)
    logs: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.backup = read_backup(self.source)
        self.files = FileCopy(lambda done: self.shown(done, self.total))

    def check(self) -> None:
        """
        Check all of the backup, and the directories to make, before anything is written.

        :raise BackupError: files are missing or not of their size, the number of directories is not that of the
            broker's, or one is not empty, or too small, or in the backup.
        :raise CommandFailed: the directory that one is to be made in is missing.
        """
        count = len(self.backup.brokers[0].directories) if self.backup.brokers else 0
        if count != len(self.targets):
            raise BackupError(
                f"the broker had {count} log directories ({', '.join(self.backup.brokers[0].paths)}): name as many, "
                "in this order"
            )
        source = self.source.resolve()
        for target in self.targets:
            if source in (target.resolve(), *target.resolve().parents):
                raise BackupError(f"{target} is in the backup: restore it to a directory elsewhere")
            if (target / checkpoints.UNFINISHED_RESTORE).exists():
                raise BackupError(
                    f"{target}: a restore to it was not finished: remove the directory, and restore again"
                )
            if target.exists() and (not target.is_dir() or any(target.iterdir())):
                raise BackupError(f"{target} is not an empty directory")
            check_parent(target)
        faults = []
        for directory, _ in self._directories():
            for log in read_manifest(directory):
                self.logs += 1
                for name, size in log.files.items():
                    self.total += size
                    fault = _fault(directory / log.directory / name, size)
                    if fault:
                        faults.append(fault)
        if faults:
            more = f"; and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
            raise BackupError(f"the backup is damaged: {'; '.join(faults[:SHOWN_FAULTS])}{more}")
        self.metadata()
        for target in self.targets:
            free = shutil.disk_usage(target if target.exists() else target.parent).free
            if self.total > free and len(self.targets) == 1:
                raise BackupError(f"{target} has {free} free bytes; the backup has {self.total}")

    def metadata(self) -> Metadata:
        """
        Return the cluster's metadata, from which no producer gets the id of one that is still there.

        :raise BackupError: they are damaged.
        """
        file = self.source / METADATA
        try:
            found = load(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BackupError(f"{file} is missing") from None
        except (BadMetadataFile, UnicodeDecodeError) as e:
            raise BackupError(f"{file}: {e}") from None
        nodes = dict(found.nodes)
        if nodes.get(PRODUCER_ID_BLOCK):
            block = ProducerIdBlockZnode.decode(nodes[PRODUCER_ID_BLOCK])
            later = evolve(block, first=block.first + SKIPPED_PRODUCER_IDS, last=block.last + SKIPPED_PRODUCER_IDS)
            nodes[PRODUCER_ID_BLOCK] = ProducerIdBlockZnode.encode(later)
        return Metadata(nodes)

    def copy(self) -> None:
        """
        Copy all logs, to stable storage. Until :meth:`finish` no broker starts on the directories.

        :raise BackupError: a file of the backup changed meanwhile.
        :raise OSError: it cannot be read or written.
        """
        for target in self.targets:
            target.mkdir(exist_ok=True)
            (target / checkpoints.UNFINISHED_RESTORE).touch()
        os.sync()
        for source, target in self._directories():
            target.mkdir(parents=True, exist_ok=True)
            for log in read_manifest(source):
                (target / log.directory).mkdir()
                for name, size in log.files.items():
                    try:
                        self.files.copy(source / log.directory / name, target / log.directory / name, size)
                    except EOFError as e:
                        raise BackupError(str(e)) from None
            for name in (
                checkpoints.RECOVERY_POINTS,
                checkpoints.LOG_START_OFFSETS,
                checkpoints.HIGH_WATERMARKS,
                checkpoints.CLEANED_OFFSETS,
                checkpoints.META_PROPERTIES,
                checkpoints.BOOT_ID,
            ):
                shutil.copyfile(source / name, target / name)
        os.sync()

    def finish(self) -> None:
        """Let brokers start on the directories, once everything is there."""
        for target in self.targets:
            (target / checkpoints.UNFINISHED_RESTORE).unlink()
        # Were it there again after a crash, it would have somebody remove what a broker has written since.
        os.sync()

    def undo(self) -> None:
        """Empty the directories again, after :meth:`check` has found them empty."""
        for target in self.targets:
            # The mark last: this may be interrupted, too.
            mark = target / checkpoints.UNFINISHED_RESTORE
            for made in target.iterdir() if target.is_dir() else ():
                if made.is_dir():
                    shutil.rmtree(made, ignore_errors=True)
                elif made != mark:
                    made.unlink(missing_ok=True)
            mark.unlink(missing_ok=True)

    def _directories(self) -> Iterator[tuple[Path, Path]]:
        """Yield each log directory of the backup, and where it goes."""
        for broker in self.backup.brokers:
            for name, target in zip(broker.directories, self.targets, strict=True):
                yield self.source / name, _of_worker(broker, target)


def _of_worker(broker: BrokerBackup, target: Path) -> Path:
    return target / "workers" / str(broker.worker) if broker.worker else target


def _fault(path: Path, size: int) -> str:
    try:
        there = path.stat().st_size
    except FileNotFoundError:
        return f"{path} is missing"
    return "" if there == size else f"{path} has {there} bytes, not {size}"

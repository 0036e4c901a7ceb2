"""
Copies the snapshots of brokers into a backup.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from attrs import define, evolve, field

from logbus.cli.backup.backup_format import (
    Backup,
    BackupError,
    BrokerBackup,
    LogFiles,
    read_backup,
    read_manifest,
)
from logbus.cli.backup.file_copy import FileCopy
from logbus.cluster.broker_snapshots import METADATA
from logbus.metastore.embedded_store import FILE_NAME
from logbus.metastore.metadata_file import BadMetadataFile, load
from logbus.model import TopicPartition
from logbus.storage import checkpoints, file_names
from logbus.storage.log_snapshots import BACKUP, MANIFEST

RESTORED = b"restored"
"""Instead of the number of a machine's start: a broker that finds it knows that records may be missing."""


@define(eq=False)
class SnapshotCopy:
    """
    Makes a backup of snapshots.

    :param target: the directory of the backup, which is new.
    :param earlier: one of an earlier backup, of which unchanged files are linked.
    :ivar total: bytes of all files.
    """

    target: Path
    earlier: Path | None
    shown: Callable[[int, int], object]
    files: FileCopy = field(init=False)
    total: int = field(default=0, init=False)
    logs: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.files = FileCopy(lambda done: self.shown(done, self.total))

    def make(self, snapshots: Mapping[int, Sequence[str]], made: str) -> Backup:
        """
        Copy snapshots.

        :param snapshots: of each broker, in the order of the workers.
        :param made: the time, for ``backup.json``.
        :raise BackupError: they cannot be read here, there is no space, a file is not what it was, or the target is in
            a log directory.
        """
        self._check_place({Path(path).parent for paths in snapshots.values() for path in paths})
        found = {Path(path): self._manifest(Path(path)) for paths in snapshots.values() for path in paths}
        self.total = sum(sum(log.files.values()) for logs in found.values() for log in logs)
        self._check_space()
        brokers = []
        for worker, (broker, paths) in enumerate(snapshots.items()):
            names = [f"broker-{broker}/{number}" for number in range(len(paths))]
            for path, name in zip(paths, names, strict=True):
                self._copy_directory(Path(path), name, found[Path(path)])
            brokers.append(BrokerBackup(broker, worker, names, [str(Path(path).parent) for path in paths]))
        # That of the last one: topics are known that were created while the others were made.
        cluster_id = self._copy_metadata(Path(brokers[-1].paths[0]) / Path(snapshots[brokers[-1].broker][0]).name)
        embedded = (Path(brokers[0].paths[0]) / FILE_NAME).exists()
        backup = Backup(made, cluster_id, embedded, brokers)
        os.sync()
        (self.target / BACKUP).write_text(backup.encode(), encoding="utf-8")
        os.sync()
        return backup

    def _manifest(self, path: Path) -> list[LogFiles]:
        if not path.is_dir():
            raise BackupError(
                f"the broker's snapshot {path} is not on this machine, or this user may not see it: run the command "
                "where the broker runs, as its user"
            )
        return list(read_manifest(path))

    def _check_place(self, log_directories: Iterable[Path]) -> None:
        target = self.target.resolve()
        for each in log_directories:
            if each.resolve() in target.parents:
                raise BackupError(
                    f"{self.target} is in {each}, a log directory of the broker, which takes directories there for its "
                    "logs: give a directory elsewhere"
                )

    def _check_space(self) -> None:
        free = shutil.disk_usage(self.target).free
        if self.total > free and self.earlier is None:
            raise BackupError(f"{self.target} has {free} free bytes; the backup takes {self.total}")

    def _copy_directory(self, source: Path, name: str, logs: Sequence[LogFiles]) -> None:
        target = self.target / name
        target.mkdir(parents=True)
        kept = []
        for log in logs:
            (target / log.directory).mkdir()
            files = {
                file: size
                for file, size in log.files.items()
                if self._copy_file(source / log.directory / file, f"{name}/{log.directory}/{file}", size)
            }
            kept.append(evolve(log, files=files))
        (target / MANIFEST).write_text("".join(log.encode() for log in kept), encoding="utf-8")
        self.logs += len(kept)
        _write_checkpoints(target, kept)
        shutil.copyfile(source.parent / checkpoints.META_PROPERTIES, target / checkpoints.META_PROPERTIES)
        (target / checkpoints.BOOT_ID).write_bytes(RESTORED)

    def _copy_file(self, source: Path, name: str, size: int) -> bool:
        """Copy a file; whether it is what it was: of an index that was cut meanwhile another one is made."""
        is_index = not name.endswith(file_names.LOG)
        if is_index and source.stat().st_size != size:
            return False
        earlier = None if self.earlier is None else self.earlier / name
        try:
            self.files.copy(source, self.target / name, size, earlier)
        except EOFError as e:
            raise BackupError(f"{e}: it was changed meanwhile; try again") from None
        return True

    def _copy_metadata(self, snapshot: Path) -> str:
        """Copy the metadata; return the cluster's id."""
        text = (snapshot / METADATA).read_text(encoding="utf-8")
        with open(self.target / METADATA, "x", encoding="utf-8", opener=_private) as file:
            file.write(text)
        try:
            return load(text).cluster_id
        except BadMetadataFile as e:
            raise BackupError(f"{snapshot / METADATA}: {e}") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write_checkpoints(target: Path, logs: Sequence[LogFiles]) -> None:
    offsets: dict[str, dict[TopicPartition, int]] = {
        checkpoints.RECOVERY_POINTS: {log.partition: log.recovery_point for log in logs},
        checkpoints.LOG_START_OFFSETS: {log.partition: log.start_offset for log in logs if log.start_offset},
        checkpoints.HIGH_WATERMARKS: {log.partition: log.high_watermark for log in logs},
        checkpoints.CLEANED_OFFSETS: {log.partition: log.cleaned_end_offset for log in logs if log.cleaned_end_offset},
    }
    for name, each in offsets.items():
        (target / name).write_bytes(checkpoints.encode_offsets(each))


def earlier_backup(directory: Path | None) -> Path | None:
    """
    Check that a directory is a backup.

    :raise BackupError: it is none.
    """
    if directory is not None:
        read_backup(directory)
    return directory

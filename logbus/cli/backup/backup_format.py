"""
The files that say what is in a backup: ``backup.json``, and a manifest in each log directory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from attrs import asdict, frozen

from logbus.errors import LogbusError
from logbus.model import TopicPartition
from logbus.storage.log_snapshots import BACKUP, MANIFEST

FORMAT = "logbus-backup"
VERSION = 1

T = TypeVar("T")


class BackupError(LogbusError):
    """A backup cannot be made, or is not one that can be restored."""


@frozen
class BrokerBackup:
    """
    A broker in a backup.

    :ivar worker: which worker of its machine it is; 0 is the only one, or the first.
    :ivar directories: paths of its log directories below the backup's, in the broker's order.
    :ivar paths: where they were.
    """

    broker: int
    worker: int
    directories: Sequence[str]
    paths: Sequence[str]


@frozen
class Backup:
    """
    The content of a backup.

    :ivar made: when it was begun, as in ISO 8601, UTC.
    :ivar embedded: whether the brokers have the metadata store in their data directory; else it is ZooKeeper.
    """

    made: str
    cluster_id: str
    embedded: bool
    brokers: Sequence[BrokerBackup]

    def encode(self) -> str:
        """Return the text of ``backup.json``."""
        return json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=2) + "\n"

    @classmethod
    def decode(cls, text: str, where: Path) -> Backup:
        """
        Read ``backup.json``.

        :raise BackupError: it is none, or of a newer release.
        """

        def read(given: Any) -> Backup:
            if given["format"] != FORMAT:
                raise KeyError("format")
            if given["version"] != VERSION:
                raise BackupError(f"{where} has version {given['version']!r}; this release reads {VERSION}")
            brokers = [
                BrokerBackup(
                    int(each["broker"]),
                    int(each["worker"]),
                    [_relative(name) for name in each["directories"]],
                    [str(path) for path in each["paths"]],
                )
                for each in given["brokers"]
            ]
            return cls(str(given["made"]), str(given["cluster_id"]), bool(given["embedded"]), brokers)

        return _checked(text, where, "what 'logbus backup' writes", read)


@frozen
class LogFiles:
    """
    A log in a manifest.

    :ivar directory: its name in the log directory; ``files``: the sizes of its files.
    """

    directory: str
    partition: TopicPartition
    start_offset: int
    end_offset: int
    high_watermark: int
    recovery_point: int
    cleaned_end_offset: int
    files: dict[str, int]

    def encode(self) -> str:
        """Return a line of a manifest."""
        told = asdict(self, recurse=False)
        topic, partition = told.pop("partition")
        return json.dumps({**told, "topic": topic, "partition": partition}) + "\n"

    @classmethod
    def decode(cls, line: str, where: Path) -> LogFiles:
        """
        Read a line.

        :raise BackupError: it is damaged.
        """

        def read(given: Any) -> LogFiles:
            return cls(
                _relative(given["directory"]),
                TopicPartition(str(given["topic"]), int(given["partition"])),
                int(given["start_offset"]),
                int(given["end_offset"]),
                int(given["high_watermark"]),
                int(given["recovery_point"]),
                int(given["cleaned_end_offset"]),
                {_relative(name): int(size) for name, size in given["files"].items()},
            )

        return _checked(line, where, "a manifest of logs", read)


def read_backup(directory: Path) -> Backup:
    """
    Read what is in a backup.

    :raise BackupError: it is none, or was not finished.
    """
    file = directory / BACKUP
    try:
        return Backup.decode(file.read_text(encoding="utf-8"), file)
    except FileNotFoundError:
        raise BackupError(
            f"{directory} is not a backup, or one that was not finished: there is no {BACKUP} in it"
        ) from None
    except UnicodeDecodeError as e:
        raise BackupError(f"{file} is damaged: {e}") from None


def read_manifest(directory: Path) -> Iterator[LogFiles]:
    """
    Yield the logs of a log directory.

    :raise BackupError: the manifest is missing, or damaged.
    """
    file = directory / MANIFEST
    try:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                yield LogFiles.decode(line, file)
    except FileNotFoundError:
        raise BackupError(f"{file} is missing") from None
    except UnicodeDecodeError as e:
        raise BackupError(f"{file} is damaged: {e}") from None


def _relative(name: Any) -> str:
    """Return a path below a directory, which must not lead out of it."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"{name!r} is no name of a file")
    return str(name)


def _checked(text: str, where: Path, what: str, read: Callable[[Any], T]) -> T:
    try:
        return read(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise BackupError(f"{where} is damaged, or not {what}: {e!r}") from None

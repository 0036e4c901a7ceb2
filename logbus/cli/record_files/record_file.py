"""The interface of the formats of record files, and the look-up of a format by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Protocol, cast

from attrs import frozen

from logbus.cli.input_records import InputRecord
from logbus.cli.record_filter import AnyRecord
from logbus.cli.runner import CommandFailed
from logbus.extras import install_hint
from logbus.model import TopicPartition


class BadRecord(Exception):
    """
    A record of a file is none.

    :param number: its number in the file, from 1.
    """

    def __init__(self, number: int, problem: object) -> None:
        super().__init__(f"record {number}: {problem}")


class RecordWriter(Protocol):
    """Writes records to a file."""

    def write(self, partition: TopicPartition, records: Sequence[AnyRecord]) -> None:
        """Add records of a partition."""

    def close(self) -> None:
        """Write what is held back, and the end of the format; the file stays open."""


class FileFormat(Protocol):
    """A module of this package that writes and reads a format."""

    @staticmethod
    def new_writer(file: IO[bytes]) -> RecordWriter:
        """Return a writer of an empty file."""

    @staticmethod
    def read(file: IO[bytes]) -> Iterator[list[InputRecord]]:
        """
        Return the records of a file, a bounded number at a time.

        :raise BadRecord: one of them is none; those before it were returned.
        :raise ValueError: the file is not of this format, or not of records.
        """


@frozen
class _Format:
    """
    :ivar module: in this package.
    :ivar package: that it needs; "" for none.
    :ivar extra: by which that is installed.
    """

    module: str
    package: str = ""
    extra: str = ""


_FORMATS = {
    ".jsonl": _Format("json_file"),
    ".json": _Format("json_file"),
    ".avro": _Format("avro_file", "fastavro", "avro"),
    ".parquet": _Format("parquet_file", "pyarrow", "spark"),
}


def format_of(name: str) -> FileFormat:
    """
    Return the format of a file's name.

    :raise CommandFailed: it stands for none, or for one that needs a package which is not installed.
    """
    found = _FORMATS.get(Path(name).suffix.lower())
    if found is None and (name == "-" or name.startswith("/dev/")):
        raise CommandFailed(f"{name}: records are piped from 'logbus consume --json' and to 'logbus produce --json'")
    if found is None:
        raise CommandFailed(f"{name}: the name must end in one of {' '.join(_FORMATS)}, which says what the file is")
    if found.package and find_spec(found.package) is None:
        raise CommandFailed(f"{name} needs the package {found.package}: {install_hint(found.extra)}")
    return cast(FileFormat, import_module(f"logbus.cli.record_files.{found.module}"))

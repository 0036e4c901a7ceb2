"""JSON lines, as ``logbus consume --json`` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

from logbus.cli.input_records import InputRecord, json_lines
from logbus.cli.line_reader import LONGEST
from logbus.cli.record_files.record_file import BadRecord
from logbus.cli.record_filter import AnyRecord
from logbus.cli.record_printer import record_format
from logbus.model import TopicPartition

_CHUNK = 1000
"""Records that are read at a time."""


class JsonWriter:
    """Writes a line for each record."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._render = record_format(None, True, None)

    def write(self, partition: TopicPartition, records: Sequence[AnyRecord]) -> None:
        topic, number = partition
        self._file.write(b"".join([self._render(topic, number, each) for each in records]))

    def close(self) -> None:
        """There is no end."""


new_writer = JsonWriter


def read(file: IO[bytes]) -> Iterator[list[InputRecord]]:
    """See :class:`~logbus.cli.record_files.record_file.FileFormat`. The number of a record is that of its line."""
    parse = json_lines()
    found: list[InputRecord] = []
    number = 0
    while line := file.readline(LONGEST + 1):
        number += 1
        try:
            if len(line) > LONGEST:
                raise ValueError(f"its line is longer than {LONGEST:,} bytes")
            record = parse(line)
        except ValueError as problem:
            yield found
            raise BadRecord(number, problem) from None
        if record is not None:
            found.append(record)
        if len(found) >= _CHUNK:
            yield found
            found = []
    yield found

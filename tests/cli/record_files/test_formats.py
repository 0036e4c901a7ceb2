"""Tests files of records in each format, without a broker."""

from __future__ import annotations

import io
import os
from unittest import TestCase

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logbus.cli.input_records import InputRecord
from logbus.cli.record_files.record_file import BadRecord, FileFormat, format_of
from logbus.cli.runner import CommandFailed
from logbus.model import TopicPartition
from logbus.records.record import Record

FORMATS = {ending: format_of(f"records.{ending}") for ending in ("jsonl", "avro", "parquet")}
CONTENT = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), CONTENT), max_size=3)
RECORDS = st.lists(
    st.builds(
        Record,
        st.integers(0, (1 << 63) - 1),
        st.integers(-1, (1 << 63) - 1),
        CONTENT,
        CONTENT,
        HEADERS,
    ),
    max_size=5,
)


def written(file_format: FileFormat, *batches: list[Record]) -> bytes:
    """A file of batches, each of a partition of its own."""
    file = io.BytesIO()
    writer = file_format.new_writer(file)
    for number, records in enumerate(batches):
        writer.write(TopicPartition("orders", number), records)
    writer.close()
    return file.getvalue()


def read(file_format: FileFormat, data: bytes) -> list[InputRecord]:
    """The records of a file."""
    found = [each for chunk in file_format.read(io.BytesIO(data)) for each in chunk]
    return [each._replace(headers=[tuple(header) for header in each.headers]) for each in found]


class RoundTripTests(TestCase):
    """What is written is read."""

    @settings(deadline=None)
    @given(st.sampled_from(sorted(FORMATS)), st.lists(RECORDS, max_size=3))
    def test_round_trip(self, ending: str, batches: list[list[Record]]) -> None:
        """Any bytes, null, headers, times, partitions, in order."""
        expected = [
            InputRecord(
                each.key, each.value, list(each.headers), number, None if each.timestamp == -1 else each.timestamp
            )
            for number, records in enumerate(batches)
            for each in records
        ]
        file_format = FORMATS[ending]
        self.assertEqual(read(file_format, written(file_format, *batches)), expected)


@pytest.mark.parametrize("ending", FORMATS)
def test_many(ending: str) -> None:
    """They are read a bounded number at a time."""
    file_format = FORMATS[ending]
    data = written(file_format, [Record(i, i, None, b"%d" % i) for i in range(2500)])
    sizes = [len(each) for each in file_format.read(io.BytesIO(data))]
    assert sum(sizes) == 2500
    assert max(sizes) <= 1000


@pytest.mark.parametrize("ending", ["avro", "parquet"])
def test_what_is_no_such_file(ending: str) -> None:
    """It is said what the file is not; one that is cut is damaged."""
    file_format = FORMATS[ending]
    for data in (b"", b"something else", os.urandom(100)):
        with pytest.raises(ValueError, match=r"it is not an? (Avro|Parquet) file: "):
            read(file_format, data)
    whole = written(file_format, [Record(i, i, None, os.urandom(100)) for i in range(1000)])
    with pytest.raises(ValueError, match=r"it is (cut or damaged behind record [0-9]+|not a Parquet file): "):
        read(file_format, whole[: len(whole) // 2])


def test_tables_of_others() -> None:
    """A column 'value' is enough, of bytes or text; times may have another unit; other columns are left out."""
    table = pa.table({"value": ["a", None], "timestamp": pa.array([1_500_000, 0], pa.timestamp("us")), "more": [1, 2]})
    file = io.BytesIO()
    pq.write_table(table, file)
    assert read(FORMATS["parquet"], file.getvalue()) == [
        InputRecord(None, b"a", [], None, 1500),
        InputRecord(None, None, [], None, 0),
    ]
    file = io.BytesIO()
    schema = {"type": "record", "name": "Any", "fields": [{"name": "value", "type": "string"}]}
    fastavro.writer(file, schema, [{"value": "ü"}])
    assert read(FORMATS["avro"], file.getvalue()) == [InputRecord(None, "ü".encode(), [], None, None)]


def test_tables_of_something_else() -> None:
    """The columns that are there are named; a value of a wrong kind has the number of its record."""
    file = io.BytesIO()
    pq.write_table(pa.table({"name": ["a"], "amount": [1]}), file)
    with pytest.raises(ValueError, match="it has no column 'value'; there are amount, name"):
        read(FORMATS["parquet"], file.getvalue())
    file = io.BytesIO()
    pq.write_table(pa.table({"value": [1]}), file)
    with pytest.raises(BadRecord, match="record 1: its value is neither bytes nor text but int"):
        read(FORMATS["parquet"], file.getvalue())
    file = io.BytesIO()
    pq.write_table(pa.table({"value": ["a"], "headers": ["b"]}), file)
    with pytest.raises(BadRecord, match="record 1: its headers are not structs of name and value"):
        read(FORMATS["parquet"], file.getvalue())
    file = io.BytesIO()
    fastavro.writer(file, {"type": "array", "items": "string"}, [["a"]])
    with pytest.raises(ValueError, match="it has no column 'value'; there are none"):
        read(FORMATS["avro"], file.getvalue())


def test_bad_lines() -> None:
    """Those before a bad one are returned first; its number is said."""
    lines = FORMATS["jsonl"].read(io.BytesIO(b'{"value": "a"}\n\n{"value": \n'))
    assert next(lines) == [InputRecord(None, b"a")]
    with pytest.raises(BadRecord, match="record 3: it is not JSON: "):
        next(lines)


def test_names() -> None:
    """A name's ending says what a file is; another one is refused with those that there are."""
    for name in ("-", "/dev/stdin"):
        with pytest.raises(CommandFailed, match=f"{name}: records are piped from .* to 'logbus produce --json'"):
            format_of(name)
    with pytest.raises(CommandFailed, match=r"orders.csv: the name must end in one of .jsonl .json .avro .parquet"):
        format_of("orders.csv")

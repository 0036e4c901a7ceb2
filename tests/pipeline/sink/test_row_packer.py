"""Tests the encoding of Arrow rows as record batches: content, partition and order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.producer.partitioner import partition_for_key
from logbus.model import TopicPartition
from logbus.pipeline.errors import ColumnError
from logbus.pipeline.sink.columns import SinkColumns
from logbus.pipeline.sink.options import BatchingSettings
from logbus.records.batch import iter_records
from logbus.records.compression import Codec

pa = pytest.importorskip("pyarrow")
from logbus.pipeline.sink.row_packer import RowPacker, coalesced  # noqa: E402 (it needs what may be missing)

NOW = 1_700_000_000_123
COUNTS = {"a": 3, "b": 1, "c": 8}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "value": pa.binary(),
    "key": pa.string(),
    "headers": HEADERS,
    "topic": pa.string(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
}

some_bytes = st.none() | st.binary(max_size=9)
some_text = st.none() | st.text(max_size=5)
a_header = st.fixed_dictionaries({"key": st.text(max_size=3), "value": some_bytes})
a_row = st.fixed_dictionaries(
    {
        "value": some_bytes,
        "key": some_text,
        "headers": st.none() | st.lists(a_header, max_size=3),
        "topic": st.sampled_from(sorted(COUNTS)),
        "partition": st.none() | st.just(0),
        "timestamp": st.none() | st.integers(0, 2**50),
    }
)


def a_batch(rows: list[dict[str, Any]], names: Iterator[str] | None = None) -> Any:
    columns = list(TYPES if names is None else names)
    arrays = [pa.array([row.get(name) for row in rows], TYPES[name]) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, columns)


def a_packer(
    columns: SinkColumns, topic: str | None = None, packing: BatchingSettings | None = None, seed: int = 1
) -> RowPacker:
    return RowPacker(
        columns, topic, packing or BatchingSettings(), COUNTS.__getitem__, random=Random(seed), now=lambda: NOW
    )


def packed(packer: RowPacker, rows: Any) -> dict[TopicPartition, list[Any]]:
    """The records of each partition."""
    found: dict[TopicPartition, list[Any]] = {}
    for partition, batch in packer.pack(rows):
        found.setdefault(partition, []).extend(iter_records(batch.build()))
    return found


class PackerTests(SynchronousTestCase):
    @given(
        st.lists(a_row, min_size=1, max_size=30),
        st.builds(SinkColumns, *[st.booleans()] * 5),
        st.integers(0, 200),
        st.sampled_from(Codec),
        st.integers(0, 3),
    )
    def test_round_trip(
        self, rows: list[dict[str, Any]], columns: SinkColumns, batch_bytes: int, codec: Codec, before: int
    ) -> None:
        """Whatever columns there are, whatever is null, however small batches are, also in a slice of a batch."""
        names = ["value"] + [name for name in TYPES if name != "value" and getattr(columns, name)]
        whole = a_batch([*([{"value": b"?", "topic": "a", "headers": []}] * before), *rows], iter(names))
        packer = a_packer(columns, None if columns.topic else "c", BatchingSettings(codec, None, batch_bytes))
        found = packed(packer, whole.slice(before))
        wanted: dict[str, list[tuple[Any, ...]]] = {}
        for row in rows:
            topic = row["topic"] if columns.topic else "c"
            key = row["key"] if columns.key else None
            headers = (row["headers"] or []) if columns.headers else []
            stamp = NOW if not columns.timestamp or row["timestamp"] is None else row["timestamp"] // 1000
            record = (
                stamp,
                None if key is None else key.encode(),
                row["value"],
                tuple((each["key"], each["value"]) for each in headers),
            )
            wanted.setdefault(topic, []).append(record)
            if columns.partition and row["partition"] is not None:
                place = TopicPartition(topic, row["partition"])
            elif key is not None:
                place = TopicPartition(topic, partition_for_key(key.encode(), COUNTS[topic]))
            else:
                continue
            # Those that ask for a place are there, in order.
            self.assertEqual(next(each for each in found[place] if tuple(each[1:]) == record)[1:], record)
        for topic, records in wanted.items():
            there = [tuple(each[1:]) for place, some in found.items() if place.topic == topic for each in some]
            self.assertEqual(sorted(there, key=repr), sorted(records, key=repr))
            places = [place for place in found if place.topic == topic]
            if len(places) == 1:
                self.assertEqual(there, records)

    def test_order_in_a_partition(self) -> None:
        """Rows with the same key stay in their order, whatever lies between them."""
        rows = [{"value": b"%d" % number, "key": "abc"[number % 3]} for number in range(300)]
        found = packed(a_packer(SinkColumns(key=True), "c"), a_batch(rows, iter(["value", "key"])))
        for some in found.values():
            numbers = [int(each.value) for each in some]
            self.assertEqual(numbers, sorted(numbers))

    def test_rows_without_a_key(self) -> None:
        """Small batches for many partitions would cost much: one partition gets rows until its batch is full."""
        rows = a_batch([{"value": b"x" * 100}] * 10, iter(["value"]))
        packer = a_packer(SinkColumns(), "c", BatchingSettings(batch_bytes=2500))
        places = [place.partition for _ in range(200) for place in {each for each, _ in packer.pack(rows)}]
        self.assertEqual(len(places), 200)
        changes = sum(one != other for one, other in pairwise(places))
        self.assertIn(changes, range(50, 101))
        self.assertEqual(set(places), set(range(8)))

    def test_batches_have_their_size(self) -> None:
        """None is larger than it may be, and none is much smaller for no reason."""
        rows = a_batch([{"value": b"x" * 90}] * 1000, iter(["value"]))
        sizes = [batch.size for _, batch in a_packer(SinkColumns(), "b", BatchingSettings(batch_bytes=5000)).pack(rows)]
        self.assertLessEqual(max(sizes), 5000)
        self.assertGreater(min(sizes[:-1]), 4800)

    def refused(self, pattern: str, columns: SinkColumns, row: dict[str, Any], topic: str | None = "a") -> None:
        names = ["value"] + [name for name in TYPES if name != "value" and getattr(columns, name)]
        packer = a_packer(columns, topic, BatchingSettings(record_bytes=200))
        rows = a_batch([{"value": b"", "topic": "a", **row}], iter(names))
        error = self.assertRaises(ColumnError, lambda: list(packer.pack(rows)))
        self.assertRegex(str(error), pattern)

    def test_invalid_rows(self) -> None:
        """The error names the column."""
        self.refused("column 'topic' is null", SinkColumns(topic=True), {"topic": None}, None)
        self.refused(
            "column 'partition' is 3 .*'a' has partitions 0 to 2", SinkColumns(partition=True), {"partition": 3}
        )
        self.refused("column 'partition' is -1 ", SinkColumns(partition=True), {"partition": -1})
        self.refused("column 'headers': a header has no key", SinkColumns(headers=True), {"headers": [{"value": b"x"}]})
        self.refused("a record takes .* kafka.max.request.size, 200", SinkColumns(), {"value": b"x" * 200})

    def test_wide_types(self) -> None:
        """Spark may be told to use columns of more than 2 GiB."""
        rows = pa.RecordBatch.from_arrays([pa.array(["x"], pa.large_string())], ["value"])
        self.assertEqual(
            [each.value for some in packed(a_packer(SinkColumns(), "b"), rows).values() for each in some], [b"x"]
        )

    def test_names_in_any_case(self) -> None:
        """As Spark has them."""
        rows = pa.RecordBatch.from_arrays([pa.array([b"x"])], ["Value"])
        self.assertEqual(len(packed(a_packer(SinkColumns(), "b"), rows)), 1)


class GatheredTests(SynchronousTestCase):
    def test_without_waiting(self) -> None:
        """Each batch goes as it comes, unless the next comes soon and there is little; empty ones do not."""
        batches = [a_batch([{"value": b"x"}] * rows, iter(["value"])) for rows in (2, 0, 3)]
        for step, wanted in ((1.0, [2, 3]), (0.001, [5])):
            times = count(0.0, step)
            self.assertEqual([each.num_rows for each in coalesced(batches, 0.0, lambda: next(times))], wanted)  # noqa: B023
        batches = [a_batch([{"value": bytes(1 << 20)}], iter(["value"]))] * 3
        self.assertEqual([each.num_rows for each in coalesced(batches, 0.0, lambda: 0.0)], [1, 1, 1])

    def test_with_waiting(self) -> None:
        """For as long as was said."""
        times = iter([0.0, 0.1, 0.3, 0.5, 0.6, 0.7])
        batches = [a_batch([{"value": b"x"}], iter(["value"]))] * 4
        # Asked when the first comes, and after each.
        self.assertEqual([each.num_rows for each in coalesced(batches, 0.4, lambda: next(times))], [3, 1])

    def test_no_rows(self) -> None:
        """No rows make no batch."""
        self.assertEqual(list(coalesced([], 1.0)), [])

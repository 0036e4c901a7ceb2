"""Tests columns as Arrow record batches."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.source.arrow import SCHEMA, SCHEMA_WITH_HEADERS, record_batch
from logbus.records.batch import encode_batch
from logbus.records.batch_columns import Columns, extend_from_batches
from logbus.records.read_committed import CommittedFilter
from logbus.records.record import Record

NAMES = st.text(st.characters(codec="utf-8"), max_size=5)
CELLS = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(NAMES, CELLS), max_size=3)
RECORDS = st.lists(
    st.builds(Record, st.just(0), st.integers(-1, 10**14), CELLS, CELLS, HEADERS), min_size=1, max_size=9
)


class ArrowTests(SynchronousTestCase):
    """What Spark is given."""

    @given(RECORDS, st.booleans(), st.booleans())
    def test_rows_are_records(self, records: list[Record], with_headers: bool, stamped: bool) -> None:
        """Nulls stay nulls, empty stays empty, milliseconds stay; no headers are null, as for Spark's Kafka source."""
        data = encode_batch(records, base_offset=5)
        columns = Columns(with_headers)
        extend_from_batches(columns, data, CommittedFilter(()), 0, 2**62, max_rows=10**6, max_bytes=10**9)
        batch = record_batch(TopicPartition("t", 3), columns.take(), stamped)
        batch.validate(full=True)
        self.assertTrue(batch.schema.equals(SCHEMA_WITH_HEADERS if with_headers else SCHEMA))
        found = batch.set_column(5, "timestamp", batch.column("timestamp").cast("int64")).to_pylist()
        for number, record in enumerate(records):
            wanted = {
                "key": record.key,
                "value": record.value,
                "topic": "t",
                "partition": 3,
                "offset": 5 + number,
                "timestamp": record.timestamp * 1000,
                "timestampType": int(stamped),
            }
            if with_headers:
                wanted["headers"] = [{"key": key, "value": value} for key, value in record.headers] or None
            self.assertEqual(found[number], wanted)

    def test_batches_after_one_another(self) -> None:
        """Columns of one value are right whatever was made before, and are written with the batch's rows only."""
        for topic, partition, stamped, rows in (
            ("t", 0, False, 9),
            ("t", 1, True, 8_200),
            ("u", 0, False, 8_193),
            ("t", 0, True, 20_000),
            ("t", 0, False, 16),
        ):
            columns = Columns(False)
            data = encode_batch([Record(0, 0, None, b"")] * rows)
            extend_from_batches(columns, data, CommittedFilter(()), 0, 2**62, max_rows=10**6, max_bytes=10**9)
            batch = record_batch(TopicPartition(topic, partition), columns.take(), stamped)
            batch.validate(full=True)
            wanted = {"topic": topic, "partition": partition, "timestampType": int(stamped)}
            self.assertEqual(batch.select(list(wanted)).to_pylist(), [wanted] * rows)
            self.assertLess(pa.ipc.get_record_batch_size(batch), batch.nbytes + 1_000)

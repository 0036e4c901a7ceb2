"""Tests of :mod:`logbus.records.column_batch`: batches of columns as producers send them."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from logbus.records.batch import BatchBuilder, decode_batch, read_header
from logbus.records.column_batch import ColumnBatch
from logbus.records.compression import Codec
from logbus.records.header import check_crc
from tests.records.test_packing import columns_of

ROWS = [(5, b"a", b"1" * 99, ()), (9, None, b"2", (("h", None),)), (7, b"c", None, ())]


class ColumnBatchTests(SynchronousTestCase):
    def test_codecs(self) -> None:
        """Each codec's batch has the records, the producer's numbers and a CRC; a later epoch changes only these."""
        for codec in Codec:
            batch = ColumnBatch(columns_of(ROWS), 0, 3, 1000, codec=codec)
            self.assertEqual((batch.count, batch.base_timestamp, batch.max_timestamp), (3, 5, 9))
            for epoch in (1, 2):
                made = batch.build(producer_id=7, producer_epoch=epoch, base_sequence=3, transactional=True)
                one_by_one = BatchBuilder(codec)
                for row in ROWS:
                    one_by_one.append(*row)
                wanted = one_by_one.build(producer_id=7, producer_epoch=epoch, base_sequence=3, transactional=True)
                self.assertEqual(bytes(made), wanted)
                self.assertTrue(check_crc(made, 0, read_header(made)))
            self.assertEqual(batch.size, one_by_one.size)

    def test_order(self) -> None:
        """Rows of one partition may lie anywhere among the others."""
        batch = ColumnBatch(columns_of(ROWS), 0, 2, 1000, order=struct.pack("=2q", 2, 0))
        self.assertEqual([record.key for record in decode_batch(batch.build())], [b"c", b"a"])

    def test_wrong_numbers(self) -> None:
        """No rows make no batch, and numbers must fit into the header."""
        with self.assertRaisesRegex(ValueError, "at least one record"):
            ColumnBatch(columns_of(ROWS), 3, 3, 1000)
        with self.assertRaisesRegex(ValueError, "does not fit into the header"):
            ColumnBatch(columns_of(ROWS), 0, 1, 1000).build(producer_epoch=1 << 15)

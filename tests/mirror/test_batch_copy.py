"""Batches for the target, made of the source's."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.consumer_record import FetchedBatch
from logbus.client.producer.encoded_batch import EncodedBatch
from logbus.mirror.batch_copy import batch_copies
from logbus.records.batch import (
    Record,
    batch_problem,
    decode_batch,
    encode_batch,
    read_header,
    rewrite_batch,
)
from logbus.records.compression import Codec


def records(count: int, size: int = 10, first: int = 0) -> list[Record]:
    """Records with some of everything."""
    return [
        Record(
            first + n, 1000 + n, None if n % 3 else b"k%d" % n, None if n % 4 == 3 else b"v" * size, (("h", b"%d" % n),)
        )
        for n in range(count)
    ]


def fetched(data: bytes, skip: int = 0) -> FetchedBatch:
    """A batch as it was fetched."""
    return FetchedBatch(read_header(data), memoryview(data), skip)


def sent(*batches: FetchedBatch, **options: Any) -> tuple[list[Record], list[int]]:
    """The records that a target gets, and the offsets at the source that they are said to have."""
    found, offsets = list[Record](), list[int]()
    for copy in batch_copies(batches):
        data = copy.builder.build(**options)
        assert batch_problem(data, 0, read_header(data)) is None
        found += decode_batch(data)
        offsets += [first + n for first, count in copy.upstream for n in range(count)]
    return [each._replace(offset=0) for each in found], offsets


class BatchCopyTests(SynchronousTestCase):
    """Nothing of a record changes but its offset."""

    def test_as_it_is(self) -> None:
        """A large batch is sent with the bytes of its records, under the mirror's own producer id."""
        original = encode_batch(records(10, 2000), base_offset=70, producer_id=5, producer_epoch=2, base_sequence=9)
        (copy,) = batch_copies([fetched(original)])
        self.assertIsInstance(copy.builder, EncodedBatch)
        data = copy.builder.build(producer_id=8, producer_epoch=1, base_sequence=100, transactional=True)
        header = read_header(data)
        self.assertEqual(data[61:], original[61:])
        self.assertIsNone(batch_problem(data, 0, header))
        self.assertEqual((header.producer_id, header.producer_epoch, header.base_sequence), (8, 1, 100))
        self.assertTrue(header.transactional)
        self.assertEqual(copy.upstream, ((70, 10),))
        self.assertFalse(read_header(copy.builder.build()).transactional)

    def test_small_ones(self) -> None:
        """Small batches are put together, as long as they are compressed alike."""
        batches = [fetched(encode_batch(records(2, first=2 * n), base_offset=2 * n)) for n in range(5)]
        gzipped = fetched(encode_batch(records(2, first=20), base_offset=20, codec=Codec.GZIP))
        copies = list(batch_copies([*batches, gzipped]))
        self.assertEqual([copy.upstream for copy in copies], [((0, 10),), ((20, 2),)])
        self.assertEqual([copy.builder.codec for copy in copies], [Codec.NONE, Codec.GZIP])

    def test_compacted(self) -> None:
        """A batch with gaps is encoded anew, and it is known which offsets its records have."""
        whole = records(10, 1000)
        data = encode_batch(whole)
        left = [whole[n] for n in (1, 2, 5, 9)]
        found, offsets = sent(fetched(rewrite_batch(read_header(data), left)))
        self.assertEqual(found, [each._replace(offset=0) for each in left])
        self.assertEqual(offsets, [1, 2, 5, 9])

    def test_log_append_time(self) -> None:
        """The time that a broker gave a whole batch becomes that of each record."""
        found, _ = sent(fetched(encode_batch(records(10, 1000), log_append_time=77)))
        self.assertEqual({each.timestamp for each in found}, {77})

    def test_delete_horizon(self) -> None:
        """A batch with a delete horizon keeps the times of its records."""
        data = encode_batch(records(10, 1000))
        thinned = rewrite_batch(read_header(data), records(10, 1000), delete_horizon=5)
        found, _ = sent(fetched(thinned))
        self.assertEqual([each.timestamp for each in found], [each.timestamp for each in records(10)])

    def test_middle(self) -> None:
        """Of a batch that begins before the position only the rest is copied."""
        found, offsets = sent(fetched(encode_batch(records(10, 1000)), skip=7))
        self.assertEqual(offsets, [7, 8, 9])
        self.assertEqual(len(found), 3)

    @given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from([5, 300, 5000]), st.sampled_from([0, 1, 3]))))
    def test_all(self, shapes: list[tuple[int, int, int]]) -> None:
        """Whatever the batches are like, all records arrive in order, and their offsets are known."""
        batches, wanted, at = list[FetchedBatch](), list[Record](), 0
        for count, size, codec in shapes:
            theirs = records(count, size, at)
            batches.append(fetched(encode_batch(theirs, base_offset=at, codec=Codec(codec))))
            wanted += theirs
            at += count + 1
        found, offsets = sent(*batches)
        self.assertEqual(found, [each._replace(offset=0) for each in wanted])
        self.assertEqual(offsets, [each.offset for each in wanted])

    def test_nothing(self) -> None:
        """Of no batches come none."""
        self.assertEqual(list(batch_copies([])), [])

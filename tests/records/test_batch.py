"""
Tests of :mod:`logbus.records.batch` and :mod:`logbus.records.control_records`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.records.batch import (
    HEADER_SIZE,
    BatchBuilder,
    ControlType,
    Marker,
    Record,
    batch_problem,
    check_crc,
    decode_batch,
    decode_marker,
    encode_batch,
    encode_marker_batch,
    iter_records,
    read_header,
    replace_records,
    rewrite_batch,
)
from logbus.records.batch_validation import validate_produced
from logbus.records.compression import Codec, decompress
from logbus.records.control_records import decode_control_key, encode_control_key
from logbus.records.header import HEADER, batch_crc, header_of
from tests.records.golden import COMMIT_MARKER, TWO_RECORDS

NOW = 1700000000000
GOLDEN = [
    Record(0, NOW, b"k", b"value", (("h", None),)),
    Record(1, NOW + 5, None, b"", (("abc", bytes([1, 2, 3, 4, 5, 6])),)),
]

MAYBE_BYTES = st.none() | st.binary(max_size=100)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**41),
        MAYBE_BYTES,
        MAYBE_BYTES,
        st.lists(st.tuples(st.text(max_size=10), MAYBE_BYTES), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=8,
)


def numbered(records: list[Record], base_offset: int = 0) -> list[Record]:
    """The records with the offsets they get in a batch."""
    return [record._replace(offset=base_offset + n) for n, record in enumerate(records)]


def foreign_records(batch: Any) -> list[Record]:
    """What another implementation reads in a batch."""
    return [Record(r.offset, r.timestamp, r.key, r.value, tuple(tuple(h) for h in r.headers)) for r in batch]


class EncodeTests(SynchronousTestCase):
    """Records into batches."""

    def test_golden(self) -> None:
        """The golden batch is reproduced byte for byte, by both ways to make a batch."""
        self.assertEqual(encode_batch(GOLDEN), TWO_RECORDS)
        builder = BatchBuilder()
        for n, record in enumerate(GOLDEN):
            self.assertEqual(builder.append(record.timestamp, record.key, record.value, record.headers), n)
        self.assertEqual(builder.build(), TWO_RECORDS)
        self.assertEqual((builder.size, builder.count), (len(TWO_RECORDS), 2))

    @given(RECORDS, st.sampled_from(Codec), st.integers(0, 2**62), st.none() | st.just(NOW))
    @settings(max_examples=100, deadline=None)
    def test_round_trip(self, records: list[Record], codec: Codec, base_offset: int, stamp: int | None) -> None:
        """Records come back from a sound batch, under every codec and both kinds of time."""
        data = encode_batch(records, base_offset=base_offset, codec=codec, log_append_time=stamp)
        header = read_header(data)
        self.assertIsNone(batch_problem(data, 0, header))
        self.assertEqual((header.record_count, header.codec), (len(records), codec))
        self.assertEqual(header.max_timestamp, stamp or max(record.timestamp for record in records))
        expected = numbered(records, base_offset)
        if stamp is not None:
            expected = [record._replace(timestamp=stamp) for record in expected]
        self.assertEqual(decode_batch(memoryview(b"??" + data), 2), expected)

    @given(RECORDS, st.sampled_from(Codec))
    @settings(max_examples=50, deadline=None)
    def test_builder_agrees(self, records: list[Record], codec: Codec) -> None:
        """The builder makes the same bytes as encode_batch, and they pass a broker's checks."""
        builder = BatchBuilder(codec)
        for _, timestamp, key, value, headers in records:
            builder.append(timestamp, key, value, headers)
        built = builder.build(producer_id=7, producer_epoch=1, base_sequence=3, transactional=True)
        other = encode_batch(records, codec=codec, producer_id=7, producer_epoch=1, base_sequence=3, transactional=True)
        self.assertEqual(built, other)
        self.assertEqual(header_of(validate_produced(built)).last_sequence, 3 + len(records) - 1)

    def test_build_again(self) -> None:
        """A batch may be built again for another epoch of the producer, and grow after it was built."""
        builder = BatchBuilder(Codec.GZIP)
        builder.append(NOW, None, b"a")
        first, second = (builder.build(producer_id=1, producer_epoch=e, base_sequence=0) for e in (0, 1))
        self.assertEqual((read_header(first).producer_epoch, read_header(second).producer_epoch), (0, 1))
        builder.append(NOW, None, b"b")
        self.assertEqual([record.value for record in decode_batch(builder.build())], [b"a", b"b"])

    def test_room(self) -> None:
        """An empty builder takes anything, a started one only what surely fits."""
        builder = BatchBuilder()
        self.assertTrue(builder.room_for(100, None, bytes(1000)))
        builder.append(NOW, None, bytes(1000))
        self.assertFalse(builder.room_for(1100, None, bytes(100)))
        self.assertTrue(builder.room_for(2000, b"k", bytes(100), [("h", b"x")]))

    def test_impossible(self) -> None:
        """No records, and numbers that do not fit, are refused in plain words."""
        self.assertRaises(ValueError, encode_batch, [])
        self.assertRaises(ValueError, BatchBuilder().build)
        for wrong in ({"producer_epoch": 40000}, {"base_offset": 2**63}):
            self.assertIn("does not fit", str(self.assertRaises(ValueError, encode_batch, GOLDEN, **wrong)))


class DecodeTests(SynchronousTestCase):
    """Batches into records."""

    def test_golden(self) -> None:
        """The golden batch is read, offsets counted from the base that the broker assigned."""
        self.assertEqual(decode_batch(TWO_RECORDS), GOLDEN)
        moved = HEADER.pack(*read_header(TWO_RECORDS)._replace(base_offset=1000)) + TWO_RECORDS[HEADER_SIZE:]
        self.assertEqual([record.offset for record in decode_batch(moved)], [1000, 1001])

    def test_iter_records(self) -> None:
        """All records of all whole batches, without the markers between them and a partial one at the end."""
        data = TWO_RECORDS + COMMIT_MARKER + TWO_RECORDS + TWO_RECORDS[:-1]
        self.assertEqual(list(iter_records(memoryview(data))), GOLDEN + GOLDEN)

    def test_verify(self) -> None:
        """A damaged batch is refused."""
        damaged = bytearray(TWO_RECORDS)
        damaged[17] ^= 1
        self.assertRaises(DecodeError, list, iter_records(damaged))

    def test_limit(self) -> None:
        """Records that would become larger than the limit are refused."""
        data = encode_batch([Record(0, NOW, None, bytes(100000))], codec=Codec.ZSTD)
        error = self.assertRaises(ApiError, decode_batch, data, limit=99999)
        self.assertEqual(error.code, ErrorCode.MESSAGE_TOO_LARGE)

    def test_not_whole(self) -> None:
        """Data other than a whole batch of magic 2 is not decoded."""
        for size in range(len(TWO_RECORDS)):
            self.assertRaises(DecodeError, decode_batch, TWO_RECORDS[:size])
        header = read_header(TWO_RECORDS)
        for changes in ({"magic": 1}, {"length": 48}, {"length": -1}, {"record_count": 1}, {"record_count": 0}):
            data = HEADER.pack(*header._replace(**changes)) + TWO_RECORDS[HEADER_SIZE:]
            self.assertRaises(DecodeError, decode_batch, data)

    @given(st.data(), st.sampled_from(Codec))
    @settings(max_examples=300, deadline=None)
    def test_mutations(self, data: st.DataObject, codec: Codec) -> None:
        """Whatever bytes change, with the CRC made right, nothing but our own errors is raised."""
        batch = bytearray(encode_batch(GOLDEN * 3, codec=codec))
        for _ in range(data.draw(st.integers(1, 3))):
            batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
        struct.pack_into(">I", batch, 17, batch_crc(batch, 0, len(batch)))
        for read in (lambda: list(iter_records(batch)), lambda: decode_batch(batch), lambda: validate_produced(batch)):
            try:
                read()
            except (DecodeError, ApiError):
                pass


class RewriteTests(SynchronousTestCase):
    """Batches thinned out by compaction."""

    def a_batch(self, codec: Codec = Codec.NONE) -> bytes:
        records = [Record(0, NOW + n, b"k%d" % n, b"v") for n in range(5)]
        return encode_batch(
            records, base_offset=100, codec=codec, leader_epoch=4, producer_id=9, producer_epoch=2, base_sequence=50
        )

    def test_keeps_what_clients_rely_on(self) -> None:
        """Offsets, the producer's numbers and the batch's extent stay when records go."""
        for codec in Codec:
            data = self.a_batch(codec)
            header, records = read_header(data), decode_batch(data)
            thinned = rewrite_batch(header, records[1:4:2])
            encoded = decompress(header.codec, thinned[HEADER_SIZE:])
            self.assertEqual(replace_records(header, encoded, 2, records[3].timestamp), thinned)
            after = read_header(thinned)
            self.assertEqual(decode_batch(thinned), records[1:4:2])
            self.assertIsNone(batch_problem(thinned, 0, after))
            self.assertEqual((after.record_count, after.max_timestamp), (2, NOW + 3))
            for name in (
                "base_offset",
                "last_offset",
                "last_sequence",
                "producer_id",
                "producer_epoch",
                "base_sequence",
                "leader_epoch",
                "base_timestamp",
                "codec",
            ):
                self.assertEqual(getattr(after, name), getattr(header, name), name)

    def test_all(self) -> None:
        """A batch that keeps everything is the same batch."""
        data = self.a_batch()
        self.assertEqual(rewrite_batch(read_header(data), decode_batch(data)), data)

    def test_none(self) -> None:
        """A batch may lose all its records and still stand for its offsets."""
        header = read_header(self.a_batch(Codec.LZ4))
        empty = rewrite_batch(header, [])
        after = read_header(empty)
        self.assertEqual((len(empty), after.last_offset, after.last_sequence), (61, 104, 54))
        self.assertIsNone(batch_problem(empty, 0, after))
        self.assertEqual(decode_batch(empty), [])

    def test_delete_horizon(self) -> None:
        """Setting the delete horizon does not move the records' own times."""
        data = self.a_batch()
        thinned = rewrite_batch(read_header(data), decode_batch(data), delete_horizon=NOW + 10**9)
        self.assertEqual(read_header(thinned).delete_horizon, NOW + 10**9)
        self.assertEqual(decode_batch(thinned), decode_batch(data))
        again = rewrite_batch(read_header(thinned), decode_batch(thinned)[:1])
        self.assertEqual(read_header(again).delete_horizon, NOW + 10**9)

    def test_log_append_time(self) -> None:
        """A batch that the broker stamped keeps its stamp."""
        data = encode_batch(GOLDEN, log_append_time=NOW + 77)
        thinned = rewrite_batch(read_header(data), decode_batch(data)[:1])
        self.assertTrue(read_header(thinned).log_append_time)
        self.assertEqual([record.timestamp for record in decode_batch(thinned)], [NOW + 77])

    def test_other_codec(self) -> None:
        """A batch may be compressed otherwise."""
        data = self.a_batch(Codec.GZIP)
        again = rewrite_batch(read_header(data), decode_batch(data), codec=Codec.ZSTD)
        self.assertEqual((read_header(again).codec, decode_batch(again)), (4, decode_batch(data)))

    def test_foreign_offset(self) -> None:
        """Records of another batch are refused."""
        header = read_header(self.a_batch())
        for offset in (99, 105):
            self.assertRaises(ValueError, rewrite_batch, header, [Record(offset, NOW, None, None)])


class MarkerTests(SynchronousTestCase):
    """Control batches."""

    def test_golden(self) -> None:
        """The golden commit marker is reproduced byte for byte, and read."""
        marker = Marker(ControlType.COMMIT, coordinator_epoch=9)
        data = encode_marker_batch(
            marker, producer_id=1000, producer_epoch=5, timestamp=NOW, base_offset=7, leader_epoch=3
        )
        self.assertEqual(data, COMMIT_MARKER)
        (record,) = decode_batch(COMMIT_MARKER)
        self.assertEqual((record.offset, decode_marker(record)), (7, marker))

    def test_keys(self) -> None:
        """Both ends of a transaction, and control records that are something else."""
        for type in ControlType:
            self.assertEqual(decode_control_key(encode_control_key(type)), type)
        self.assertEqual(decode_control_key(b"\x00\x01\x00\x00more"), ControlType.ABORT)
        self.assertIsNone(decode_control_key(b"\x00\x00\x00\x02"))
        self.assertIsNone(decode_marker(Record(0, 0, b"\x00\x00\x00\x02", None)))

    def test_malformed(self) -> None:
        """Keys and values too short for a marker are errors of ours."""
        for key in (None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"):
            self.assertRaises(DecodeError, decode_control_key, key)
        for value in (None, b"\x00\x00\x00\x00\x00"):
            self.assertRaises(DecodeError, decode_marker, Record(0, 0, b"\x00\x00\x00\x01", value))


class OtherImplementationsTests(SynchronousTestCase):
    """Our bytes are theirs, and theirs are ours."""

    READERS: tuple[Callable[[bytes], Any], ...] = (KafkaPythonBatch, AiokafkaBatch)
    BUILDERS: tuple[Callable[..., Any], ...] = (KafkaPythonBuilder, AiokafkaBuilder)

    @given(RECORDS, st.sampled_from(Codec), st.none() | st.just(NOW))
    @settings(max_examples=60, deadline=None)
    def test_they_read_ours(self, records: list[Record], codec: Codec, stamp: int | None) -> None:
        """What we write is read by others, record for record, and they find the CRC right."""
        data = encode_batch(records, base_offset=500, codec=codec, log_append_time=stamp)
        for reader in self.READERS:
            self.assertTrue(reader(data).validate_crc())
            self.assertEqual(foreign_records(reader(data)), decode_batch(data))

    @given(RECORDS, st.sampled_from(Codec))
    @settings(max_examples=60, deadline=None)
    def test_we_read_theirs(self, records: list[Record], codec: Codec) -> None:
        """What others write passes a broker's checks, and we read it; uncompressed it equals our own bytes."""
        for build in self.BUILDERS:
            builder = build(2, int(codec), True, 11, 3, 40, 10**9)
            for record in numbered(records):
                builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
            data = bytes(builder.build())
            validate_produced(data)
            self.assertTrue(check_crc(data, 0, read_header(data)))
            self.assertEqual(decode_batch(data), numbered(records))
            if codec == Codec.NONE:
                ours = encode_batch(
                    records, leader_epoch=0, producer_id=11, producer_epoch=3, base_sequence=40, transactional=True
                )
                self.assertEqual(read_header(data)._replace(leader_epoch=0), read_header(ours))
                self.assertEqual(data[HEADER_SIZE:], ours[HEADER_SIZE:])

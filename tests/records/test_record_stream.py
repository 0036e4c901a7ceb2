"""Tests of :mod:`logbus.records.record_stream`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.records.batch import HEADER_SIZE, Record, decode_batch, encode_batch, read_header
from logbus.records.compression import Codec
from logbus.records.record_stream import PIECE, record_times, records_from

RECORDS = st.lists(
    st.tuples(st.integers(-(2**40), 2**40), st.sampled_from([b"", b"v", b"x" * 300, bytes(3 * PIECE)])),
    min_size=1,
    max_size=12,
)


class RecordTimesTests(SynchronousTestCase):
    @settings(max_examples=60, deadline=None)
    @given(RECORDS, st.sampled_from(list(Codec)), st.sampled_from([None, 5000]))
    def test_as_decoded_whole(self, given: list[tuple[int, bytes]], codec: Codec, append_time: int | None) -> None:
        """
        Offsets and times are those of the decoded records, whatever the codec, also where records are long.
        """
        data = encode_batch(
            [Record(0, timestamp, None, value) for timestamp, value in given],
            base_offset=70,
            codec=codec,
            log_append_time=append_time,
        )
        header = read_header(data)
        expected = [(record.offset, record.timestamp) for record in decode_batch(data)]
        self.assertEqual([each for each in record_times(data, header) if each is not None], expected)

    def test_no_more_is_decompressed_than_is_looked_at(self) -> None:
        """
        A search that stops at the first record has decompressed one piece; damage in the rest is not noticed.
        """
        for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
            data = bytearray(encode_batch([Record(0, 7, None, bytes(1000))] * 2000, codec=codec))
            data[-40:] = bytes(40)
            times = record_times(bytes(data), read_header(data))
            self.assertEqual([next(times), next(times)], [None, (0, 7)])

    def test_rests_after_each_piece(self) -> None:
        """
        One long record does not keep its reader: it is passed over piece by piece.
        """
        data = encode_batch([Record(0, 7, None, bytes(20 * PIECE)), Record(0, 8, None, b"")], codec=Codec.ZSTD)
        self.assertGreaterEqual(list(record_times(data, read_header(data))).count(None), 20)

    def test_a_bomb(self) -> None:
        """
        No more comes out than the caller allows.
        """
        for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY):
            data = encode_batch([Record(0, 7, None, bytes(20 * PIECE)), Record(0, 8, None, b"")], codec=codec)
            with self.assertRaises(ApiError) as caught:
                list(record_times(data, read_header(data), limit=10 * PIECE))
            self.assertIs(caught.exception.code, ErrorCode.MESSAGE_TOO_LARGE)

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=60), st.integers(0, 2**31 - 1), st.sampled_from(list(Codec)))
    def test_damage(self, body: bytes, count: int, codec: Codec) -> None:
        """
        Whatever the bytes are, nothing but the documented errors is raised.
        """
        header = read_header(encode_batch([Record(0, 7, None, b"v")], codec=codec))._replace(
            length=49 + len(body), record_count=min(count, 100_000)
        )
        try:
            list(record_times(bytes(HEADER_SIZE) + body, header))
        except (ApiError, DecodeError):
            pass


class RecordsFromTests(SynchronousTestCase):
    @settings(max_examples=60, deadline=None)
    @given(RECORDS, st.sampled_from(list(Codec)), st.integers(68, 84))
    def test_as_decoded_whole(self, given: list[tuple[int, bytes]], codec: Codec, start: int) -> None:
        """
        Records are those of the whole decoded batch, from the offset on.
        """
        records = [Record(0, timestamp, b"k", value, (("h", b"x"),)) for timestamp, value in given]
        data = encode_batch(records, base_offset=70, codec=codec)
        found = [each for each in records_from(data, read_header(data), start) if each is not None]
        self.assertEqual(found, [record for record in decode_batch(data) if record.offset >= start])

    def test_a_bomb(self) -> None:
        """
        No more comes out than the caller allows.
        """
        data = encode_batch([Record(0, 7, None, bytes(20 * PIECE))], codec=Codec.ZSTD)
        with self.assertRaises(ApiError) as caught:
            list(records_from(data, read_header(data), 0, limit=PIECE))
        self.assertEqual(caught.exception.code, ErrorCode.MESSAGE_TOO_LARGE)

    def test_cut_short(self) -> None:
        """
        A batch whose records end too early is malformed.
        """
        data = encode_batch([Record(0, 7, None, bytes(100))])
        header = read_header(data)._replace(record_count=2)
        self.assertRaises(DecodeError, list, records_from(data, header, 0))

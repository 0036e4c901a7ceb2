"""Topics with a compression codec of their own."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError, ErrorCode
from logbus.records.batch import check_crc, iter_records, read_header
from logbus.records.compression import Codec
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.log_validator import MAX_BYTES_DECOMPRESSED, MAX_RECORDS_READ
from logbus.storage.appends.recompression import recompressed
from tests.storage.builders import NOW_MS, a_log, batch, data_of, read_all

CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


class BatchCodecTests(SynchronousTestCase):
    """The batch that goes into the log."""

    @given(st.sampled_from(sorted(CODECS)), st.sampled_from(list(Codec)), st.lists(st.binary(max_size=50), min_size=1))
    def test_only_the_codec_changes(self, wanted: str, sent: Codec, values: list[bytes]) -> None:
        """Whatever codec a batch comes with, it gets the topic's; its records and numbers stay the same."""
        data = batch(
            *values,
            timestamps=[NOW_MS - 7 * i for i in range(len(values))],
            codec=sent,
            producer_id=5,
            producer_epoch=2,
            base_sequence=11,
        )
        given_header = read_header(data)
        out, header = recompressed(data, given_header, TopicConfig(compression_type=wanted))
        self.assertEqual(header.codec, CODECS[wanted])
        self.assertEqual(header, read_header(out))
        self.assertTrue(check_crc(out, 0, header))
        self.assertEqual(len(out), header.size)
        self.assertEqual(list(iter_records(out)), list(iter_records(data)))
        same = {
            name: value for name, value in given_header._asdict().items() if name not in ("length", "crc", "attributes")
        }
        self.assertEqual({name: getattr(header, name) for name in same}, same)

    def test_same_codec_is_not_copied(self) -> None:
        """A batch with the topic's codec is not even copied."""
        data = batch(b"v" * 1000, codec=Codec.LZ4)
        out, _ = recompressed(data, read_header(data), TopicConfig(compression_type="lz4"))
        self.assertIs(out, data)

    def test_uses_the_topics_level(self) -> None:
        """A higher level makes a smaller batch, with each codec that has levels."""
        data = batch(*(b"%d the same words again and again" % (i * i) for i in range(2000)))
        header = read_header(data)
        for codec, low, high in (("gzip", 1, 9), ("lz4", 1, 12), ("zstd", -5, 19)):
            level = f"compression_{codec}_level"
            sizes = [
                len(recompressed(data, header, TopicConfig(compression_type=codec, **{level: n}))[0])  # type: ignore[arg-type]
                for n in (low, high)
            ]
            self.assertLess(sizes[1], sizes[0], codec)

    def test_unreadable_records(self) -> None:
        """A batch that cannot be decompressed is refused, not stored."""
        data = bytearray(batch(b"v" * 100, codec=Codec.NONE))
        data[61] ^= 0x40
        error = self.assertRaises(ApiError, recompressed, data, read_header(data), TopicConfig(compression_type="gzip"))
        self.assertEqual(error.code, ErrorCode.CORRUPT_MESSAGE)


class TopicCodecTests(SynchronousTestCase):
    """Appending to a topic with a codec of its own."""

    def test_append_stores_the_topics_codec(self) -> None:
        """The log holds whole batches in the topic's codec, offsets in a row, whatever producers send."""
        log = a_log(config=TopicConfig(compression_type="zstd"))
        for i, codec in enumerate(Codec):
            appended = append_as_leader(log, batch(b"a%d" % i, b"b%d" % i, codec=codec), 3)
            self.assertEqual(appended.base_offset, 2 * i)
        expected = [(2 * i + j, b"%c%d" % (b"ab"[j], i)) for i in range(5) for j in range(2)]
        self.assertEqual(read_all(log), expected)
        stored = data_of(log.read(0, 1 << 20).data)
        self.assertEqual(read_header(stored).codec, Codec.ZSTD)
        self.assertEqual(read_header(stored).leader_epoch, 3)

    def test_with_log_append_time(self) -> None:
        """Both rewrites of a batch go together."""
        log = a_log(config=TopicConfig(compression_type="gzip", message_timestamp_type="LogAppendTime"))
        append_as_leader(log, batch(b"v", timestamp=5), 0, NOW_MS + 9)
        stored = data_of(log.read(0, 1 << 20).data)
        header = read_header(stored)
        self.assertTrue(check_crc(stored, 0, header))
        self.assertEqual((header.codec, [r.timestamp for r in iter_records(stored)]), (Codec.GZIP, [NOW_MS + 9]))

    def test_too_large_when_opened(self) -> None:
        """A batch that only fits while compressed is refused, and the log goes on."""
        log = a_log(config=TopicConfig(compression_type="uncompressed", max_message_bytes=10_000))
        error = self.assertRaises(ApiError, append_as_leader, log, batch(bytes(20_000), codec=Codec.GZIP), 0)
        self.assertEqual(error.code, ErrorCode.MESSAGE_TOO_LARGE)
        self.assertEqual(append_as_leader(log, batch(b"small"), 0).base_offset, 0)

    def test_decompressed_size_is_bounded(self) -> None:
        """
        A batch whose records must be looked at is refused if they are too many, or too many bytes once decompressed;
        where they are not decoded, it is accepted.
        """
        many = batch(*[b""] * (MAX_RECORDS_READ + 1), codec=Codec.ZSTD)
        large = batch(bytes(MAX_BYTES_DECOMPRESSED + 1), codec=Codec.ZSTD)
        for config in (TopicConfig(compression_type="gzip"), TopicConfig(cleanup_policy=("compact",))):
            log = a_log(config=config)
            for data in (many, large):
                error = self.assertRaises(ApiError, append_as_leader, log, data, 0)
                self.assertEqual(error.code, ErrorCode.MESSAGE_TOO_LARGE)
        log = a_log(config=TopicConfig())
        self.assertEqual(append_as_leader(log, many, 0).last_offset, MAX_RECORDS_READ)

    def test_a_retry_is_recognised(self) -> None:
        """An idempotent producer's retry finds its batch, although that is stored in another shape."""
        log = a_log(config=TopicConfig(compression_type="snappy"))
        data = batch(os.urandom(50), producer_id=1, producer_epoch=0, base_sequence=0)
        first, again = append_as_leader(log, data, 0), append_as_leader(log, data, 0)
        self.assertEqual((again.base_offset, again.duplicate), (first.base_offset, True))
        self.assertEqual(log.log_end_offset, 1)

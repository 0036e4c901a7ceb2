"""
Tests of :mod:`logbus.records.compression`.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from unittest import SkipTest

import lz4.frame
import snappy
import zstandard
from aiokafka import codec as aiokafka_codec
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import codec as kafka_codec
from twisted.trial.unittest import SynchronousTestCase

import logbus
from logbus.errors import ApiError, ConfigError, ErrorCode
from logbus.records.compression import Codec, codec_named, compress, decompress

REAL = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MIB = 2**20
ROOT = Path(logbus.__file__).parent.parent

# How each of two other implementations reads what we write, and writes what we read.
FOREIGN = {
    Codec.GZIP: [
        (kafka_codec.gzip_encode, kafka_codec.gzip_decode),
        (aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
    ],
    Codec.SNAPPY: [
        (kafka_codec.snappy_encode, kafka_codec.snappy_decode),
        (aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
    ],
    Codec.LZ4: [
        (kafka_codec.lz4_encode, kafka_codec.lz4_decode),
        (aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
    ],
    Codec.ZSTD: [
        (kafka_codec.zstd_encode, kafka_codec.zstd_decode),
        (aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
    ],
}


def zstd_stream(data: bytes) -> bytes:
    """A zstd frame that does not announce its size, as streaming writers make them."""
    packer = zstandard.ZstdCompressor(write_content_size=False)
    return packer.compress(data)


def xerial(*blocks: bytes) -> bytes:
    """Snappy blocks in xerial framing."""
    header = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    return header + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def bombs(size: int) -> dict[str, tuple[Codec, bytes]]:
    """``size`` zeros, compressed in every framing."""
    zeros = bytes(size)
    return {
        "gzip": (Codec.GZIP, gzip.compress(zeros)),
        "raw snappy": (Codec.SNAPPY, snappy.compress(zeros)),
        "xerial snappy": (Codec.SNAPPY, compress(Codec.SNAPPY, zeros)),
        "lz4": (Codec.LZ4, compress(Codec.LZ4, zeros)),
        "zstd": (Codec.ZSTD, compress(Codec.ZSTD, zeros)),
        "zstd stream": (Codec.ZSTD, zstd_stream(zeros)),
    }


class NamesTests(SynchronousTestCase):
    """Codecs by name."""

    def test_named(self) -> None:
        """Every codec is found by the name users write, in any case."""
        self.assertEqual([codec_named(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")], list(Codec))
        self.assertEqual((codec_named("uncompressed"), codec_named("ZStd")), (Codec.NONE, Codec.ZSTD))

    def test_unknown(self) -> None:
        """An unknown name is refused with the names there are."""
        self.assertIn("zstd", str(self.assertRaises(ConfigError, codec_named, "brotli")))
        self.assertRaises(ValueError, compress, 5, b"")


class RoundTripTests(SynchronousTestCase):
    """Bytes survive."""

    @given(st.sampled_from(Codec), st.binary(max_size=2000), st.integers(1, 60))
    @settings(max_examples=100, deadline=None)
    def test_round_trip(self, codec: Codec, piece: bytes, times: int) -> None:
        """What was compressed comes back, also when the limit is exactly its size, from any buffer."""
        data = piece * times
        packed = compress(codec, memoryview(data))
        for kind in (bytes, bytearray, memoryview):
            self.assertEqual(decompress(codec, kind(packed), len(data)), data)

    def test_other_implementations(self) -> None:
        """Other implementations read what we write, and we read what they write."""
        for data in (b"", b"a", b"hello " * 30000):
            for codec, others in FOREIGN.items():
                for encode, decode in others:
                    self.assertEqual(bytes(decode(compress(codec, data))), data, codec)
                    self.assertEqual(decompress(codec, encode(data)), data, codec)

    def test_snappy_framings(self) -> None:
        """Raw and xerial-framed snappy are both read, the latter in blocks of any size."""
        data = bytes(range(256)) * 500
        self.assertEqual(decompress(Codec.SNAPPY, snappy.compress(data)), data)
        self.assertEqual(decompress(Codec.SNAPPY, xerial(snappy.compress(data), snappy.compress(b"x"))), data + b"x")
        self.assertEqual(decompress(Codec.SNAPPY, xerial()), b"")

    def test_zstd_framings(self) -> None:
        """zstd is read with and without the size in its header, and in several frames when none announces one."""
        data = bytes(range(256)) * 1000
        self.assertEqual(decompress(Codec.ZSTD, zstd_stream(data)), data)
        self.assertEqual(decompress(Codec.ZSTD, zstd_stream(data) + zstd_stream(b"x")), data + b"x")

    def test_lz4_blocks_are_independent(self) -> None:
        """Java's reader takes no blocks that depend on each other: bit 5 of the frame's flags is set."""
        self.assertTrue(compress(Codec.LZ4, bytes(200000))[4] & 0x20)

    def test_levels(self) -> None:
        """A higher level packs tighter; snappy has none."""
        data = b"".join(b"%d %d;" % (n, n * n % 9973) for n in range(20000))
        for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 0, 12), (Codec.ZSTD, 1, 19)):
            self.assertLess(len(compress(codec, data, high)), len(compress(codec, data, low)))
            self.assertEqual(decompress(codec, compress(codec, data, high)), data)
        self.assertRaises(ValueError, compress, Codec.SNAPPY, data, 3)
        self.assertRaises(ValueError, compress, Codec.GZIP, data, 77)


class HostileTests(SynchronousTestCase):
    """Damaged data, lies and bombs."""

    def assert_refused(self, code: ErrorCode, codec: int, data: bytes, limit: int = MIB) -> None:
        """Decompressing ``data`` is refused with ``code``; a bomb that comes out is not printed."""
        try:
            out = decompress(codec, data, limit)
        except ApiError as error:
            self.assertEqual(error.code, code, error.message)
        else:
            self.fail(f"{len(out)} bytes came out")

    def test_limit(self) -> None:
        """One byte more than the limit is too much, in every framing."""
        for codec, data in [*bombs(1000).values(), (Codec.NONE, bytes(1000))]:
            self.assertEqual(decompress(codec, data, 1000), bytes(1000))
            self.assert_refused(ErrorCode.MESSAGE_TOO_LARGE, codec, data, 999)

    def test_bombs(self) -> None:
        """A bomb of 64 MiB costs little more memory than its limit of 1 MiB."""
        for name, (codec, data) in bombs(64 * MIB).items():
            tracemalloc.start()
            self.assert_refused(ErrorCode.MESSAGE_TOO_LARGE, codec, data)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertLess(peak, 9 * MIB, name)

    def test_bombs_in_native_memory(self) -> None:
        """So it is for what the libraries take beyond Python's own accounts: the process hardly grows."""
        if not Path("/proc/self/status").exists():
            raise SkipTest("this system does not say how much memory a process had at most")
        script = (
            "import sys, pathlib\n"
            "from logbus.errors import ApiError\n"
            "from logbus.records.compression import decompress\n"
            "import lz4.frame, snappy, zstandard\n"
            "def high_water():\n"
            "    lines = pathlib.Path('/proc/self/status').read_text().splitlines()\n"
            "    return next(int(line.split()[1]) for line in lines if line.startswith('VmHWM'))\n"
            "codec, limit, data = int(sys.argv[1]), int(sys.argv[2]), sys.stdin.buffer.read()\n"
            "before = high_water()\n"
            "try: decompress(codec, data, limit)\n"
            "except ApiError: pass\n"
            "print(high_water() - before)\n"
        )

        def kib_grown(codec: Codec, data: bytes, limit: int) -> int:
            command = [sys.executable, "-c", script, str(int(codec)), str(limit)]
            return int(subprocess.run(command, check=True, input=data, capture_output=True, cwd=ROOT).stdout)

        for name, (codec, data) in bombs(64 * MIB).items():
            self.assertLess(kib_grown(codec, data, MIB), 9 * 1024, name)
        # The measure measures: let go off, a bomb is seen.
        self.assertGreater(kib_grown(codec, data, 64 * MIB), 60 * 1024)

    def test_snappy_lies(self) -> None:
        """A block that announces more than it can become is refused before anything is set aside for it."""
        for announced in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x10"):
            for data in (announced + b"\x00", xerial(announced + b"\x00")):
                error = self.assertRaises(ApiError, decompress, Codec.SNAPPY, data, 2**32)
                self.assertEqual(error.code, ErrorCode.CORRUPT_MESSAGE)
                self.assertIn("cannot become", error.message)

    def test_highest_snappy_ratio(self) -> None:
        """Zeros, the most that snappy can shrink, are not taken for a lie."""
        for size in (1, 60, 64, 65, 1000, 65536, MIB):
            self.assertEqual(decompress(Codec.SNAPPY, snappy.compress(bytes(size)), size), bytes(size))

    def test_xerial_blocks_add_up(self) -> None:
        """The limit holds for all blocks together."""
        block = snappy.compress(bytes(1000))
        self.assertEqual(len(decompress(Codec.SNAPPY, xerial(*[block] * 10), 10000)), 10000)
        self.assert_refused(ErrorCode.MESSAGE_TOO_LARGE, Codec.SNAPPY, xerial(*[block] * 10), 9999)

    def test_xerial_nonsense(self) -> None:
        """Headers cut short and lengths that point nowhere are damage."""
        block = snappy.compress(b"abc")
        for data in (
            xerial()[:12],
            xerial() + b"\x00\x00",
            xerial() + b"\xff\xff\xff\xff",
            xerial() + b"\x00\x00\x00\x00",
            xerial() + b"\x7f\xff\xff\xff" + block,
            xerial(block, b""),
            xerial(block, b"\xff"),
        ):
            self.assert_refused(ErrorCode.CORRUPT_MESSAGE, Codec.SNAPPY, data)

    def test_zstd_window(self) -> None:
        """A frame that wants a window of more than 128 MiB is refused."""
        frame = bytearray(zstd_stream(bytes(300)))
        frame[5] = (31 - 10) << 3
        self.assert_refused(ErrorCode.CORRUPT_MESSAGE, Codec.ZSTD, bytes(frame[:4]) + b"\x00" + bytes(frame[5:]))

    def test_zstd_announced_size(self) -> None:
        """A frame that announces more than the limit is refused before anything is set aside."""
        params = zstandard.ZstdCompressionParameters.from_level(3)
        stream = zstandard.ZstdCompressor(compression_params=params).compressobj(size=2**30)
        data = stream.compress(b"x") + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        self.assertEqual(zstandard.frame_content_size(data), 2**30)
        self.assert_refused(ErrorCode.MESSAGE_TOO_LARGE, Codec.ZSTD, data)
        self.assert_refused(ErrorCode.CORRUPT_MESSAGE, Codec.ZSTD, data, 2**30)

    def test_trailing_bytes(self) -> None:
        """What follows the compressed data is damage."""
        data = b"abc" * 100
        for codec in REAL:
            self.assert_refused(ErrorCode.CORRUPT_MESSAGE, codec, compress(codec, data) + b"junk")

    def test_truncated(self) -> None:
        """Data cut short anywhere are damage, or at least less than all."""
        data = bytes(range(256)) * 2
        for codec in REAL:
            packed = compress(codec, data)
            for size in range(len(packed)):
                try:
                    self.assertLess(len(decompress(codec, packed[:size])), len(data))
                except ApiError as error:
                    self.assertEqual(error.code, ErrorCode.CORRUPT_MESSAGE)

    def test_unknown_codecs(self) -> None:
        """Codecs 5 to 7 do not exist."""
        for codec in (5, 6, 7):
            self.assert_refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, codec, b"")

    @given(st.sampled_from(REAL), st.binary(max_size=200), st.data())
    @settings(max_examples=300, deadline=None)
    def test_mutations(self, codec: Codec, content: bytes, data: st.DataObject) -> None:
        """Whatever byte changes, nothing but ApiError is raised and the limit holds."""
        packed = bytearray(compress(codec, content))
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
        try:
            self.assertLessEqual(len(decompress(codec, packed, 1000)), 1000)
        except ApiError:
            pass

    @given(st.sampled_from(REAL), st.binary(max_size=100))
    def test_any_bytes(self, codec: Codec, data: bytes) -> None:
        """Random bytes raise nothing but ApiError."""
        for framed in (data, xerial(data), zlib.compress(data), lz4.frame.compress(data)[:7] + data):
            try:
                decompress(codec, framed, 1000)
            except ApiError:
                pass

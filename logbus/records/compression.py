"""
The four codecs of record batches, bounded while they run.
"""

from __future__ import annotations

from enum import IntEnum

MAX_DECOMPRESSED = 64 * 1024 * 1024
"""Where the broker decompresses, a batch may not become larger than this, in bytes."""


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes; the names are those of ``compression.type``."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

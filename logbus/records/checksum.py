"""
CRC-32C (Castagnoli), the checksum of record batches and of our own files.

The native function is exported directly: a wrapper would cost more than checking a small batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from crc32c import crc32c as _native

Buffer: TypeAlias = bytes | bytearray | memoryview

crc32c: Callable[..., int] = _native
"""
``crc32c(data: Buffer, value: int = 0) -> int``: checksum of ``data`` as an unsigned 32-bit number; ``value`` is the
checksum of the data before it (RFC 3720, appendix B.4). Releases the interpreter lock for large data.
"""

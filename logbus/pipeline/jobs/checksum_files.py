"""
The files ``.NAME.crc`` that Hadoop writes beside those on a local disk, with a CRC-32 of each block (ChecksumFs).

Spark does not compare them when it reads a checkpoint, so it takes a changed digit of an offset for the offset. A file
of the name that is no such file says nothing.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import PurePosixPath

from logbus.pipeline.lake.file_system import FileSystem

_MAGIC = b"crc\0"
_HEAD = struct.Struct(">4sI")


def checksum_problem(files: FileSystem, path: str, content: bytes) -> str:
    """The problem of a file's content, by its checksums; "": there is none, or it has no checksums."""
    beside = PurePosixPath(path).with_name(f".{PurePosixPath(path).name}.crc")
    try:
        checksums = files.read(str(beside))
    except FileNotFoundError:
        return ""
    if is_equal(checksums, content):
        return ""
    return f"its content has not the checksum in {beside.name}, which is to be deleted if the file was changed by hand"


def is_equal(checksums: bytes, content: bytes) -> bool:
    """Whether content has these checksums, or they are none."""
    if len(checksums) < _HEAD.size:
        return True
    magic, size = _HEAD.unpack_from(checksums)
    if magic != _MAGIC or size == 0 or len(checksums) % 4:
        return True
    blocks = (content[at : at + size] for at in range(0, len(content), size))
    return checksums[_HEAD.size :] == b"".join(zlib.crc32(block).to_bytes(4) for block in blocks)

"""
Record batches: everything one can do with one.

The header is in :mod:`logbus.records.header`, whose names are public from here too.
"""

from __future__ import annotations

from logbus.records.header import (
    HEADER,
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PREFIX_SIZE,
    BatchHeader,
    batch_crc,
    batch_problem,
    check_crc,
    iter_batches,
    patch_offset_and_epoch,
    patched_prefix,
    read_header,
    rewrite_log_append_time,
)

__all__ = [
    # From .header
    "HEADER",
    "HEADER_SIZE",
    "MAGIC",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "PREFIX_SIZE",
    "BatchHeader",
    "batch_crc",
    "batch_problem",
    "check_crc",
    "iter_batches",
    "patch_offset_and_epoch",
    "patched_prefix",
    "read_header",
    "rewrite_log_append_time",
]

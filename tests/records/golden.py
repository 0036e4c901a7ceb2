"""
Record batches written out byte by byte, each byte with its meaning: fixed points for the tests, not made by the code
under test, and read by other implementations, too.
"""

from __future__ import annotations


def unhex(annotated: str) -> bytes:
    """The bytes of lines of hexadecimal digits; what follows a ``#`` is for the reader."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in annotated.splitlines()))


TWO_RECORDS = unhex(
    """
    00 00 00 00 00 00 00 00    # base offset 0
    00 00 00 53                # length 83: the batch has 95 bytes
    ff ff ff ff                # leader epoch -1, none
    02                         # magic
    a1 f7 25 03                # CRC-32C of everything below
    00 00                      # attributes: no codec, create time
    00 00 00 01                # last offset delta 1
    00 00 01 8b cf e5 68 00    # base timestamp 1700000000000
    00 00 01 8b cf e5 68 05    # max timestamp, 5 ms later
    ff ff ff ff ff ff ff ff    # producer id -1, none
    ff ff                      # producer epoch -1
    ff ff ff ff                # base sequence -1
    00 00 00 02                # 2 records

    1e                         # record of 15 bytes (zigzag 30)
    00                         # attributes
    00                         # timestamp delta 0
    00                         # offset delta 0
    02 6b                      # key of 1 byte, "k"
    0a 76 61 6c 75 65          # value of 5 bytes, "value"
    02                         # 1 header
    02 68                      # header key "h"
    01                         # header value null

    22                         # record of 17 bytes
    00                         # attributes
    0a                         # timestamp delta 5
    02                         # offset delta 1
    01                         # key null
    00                         # value empty
    02                         # 1 header
    06 61 62 63                # header key "abc"
    0c 01 02 03 04 05 06       # header value of 6 bytes
    """
)

COMMIT_MARKER = unhex(
    """
    00 00 00 00 00 00 00 07    # base offset 7
    00 00 00 42                # length 66: the batch has 78 bytes
    00 00 00 03                # leader epoch 3
    02                         # magic
    b4 0e 86 63                # CRC-32C
    00 30                      # attributes: transactional, control
    00 00 00 00                # last offset delta 0
    00 00 01 8b cf e5 68 00    # base timestamp 1700000000000
    00 00 01 8b cf e5 68 00    # max timestamp
    00 00 00 00 00 00 03 e8    # producer id 1000
    00 05                      # producer epoch 5
    ff ff ff ff                # base sequence -1: markers have none
    00 00 00 01                # 1 record

    20                         # record of 16 bytes
    00                         # attributes
    00                         # timestamp delta 0
    00                         # offset delta 0
    08 00 00 00 01             # key of 4 bytes: version 0, type 1, commit
    0c 00 00 00 00 00 09       # value of 6 bytes: version 0, coordinator epoch 9
    00                         # no headers
    """
)

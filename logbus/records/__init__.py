"""
Bytes with meaning, shared by the disk, the wire and the clients. Nothing here knows Twisted, files' names or sockets.

::

    header.py       the 61 bytes in front of a batch: read, hop, check, patch in place
    validation.py   what a broker demands of a produced batch, told from its header
    slices.py       FileSlice and Parts: bytes on their way out, in memory or still in a file
    compression.py  gzip, snappy, lz4, zstd, bounded while they run
    checksum.py     CRC-32C
"""

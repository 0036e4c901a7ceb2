"""
Bytes with meaning, shared by the disk, the wire and the clients. Pure: no reactor, no sockets, no names of files.

::

    batch.py        record batches: records in, bytes out, and back; the door for most users
    header.py       the 61 bytes in front of a batch: read, hop, check, patch in place
    record.py       one record and its bytes
    control.py      transaction markers
    validation.py   what a broker demands of a produced batch, told from its header
    compression.py  gzip, snappy, lz4, zstd, bounded while they run
    binary.py       numbers of variable length
    checksum.py     CRC-32C
    columns.py      the answer to a fetch as Arrow's columns: no object per record
    columnar.py     records to columns
    packing.py      columns to records
    murmur.py       the hash that spreads keys over partitions
    slices.py       FileSlice and Parts: bytes on their way out, in memory or still in a file

A producer's records go through ``BatchBuilder`` (record, compression, header). The broker reads the header
(``validate_produced``), patches offset and epoch into it, and stores the bytes as they came; a fetch gives them out
as a ``FileSlice``. A consumer goes back through ``iter_batches`` and ``decode_batch``.
"""

"""
Record batches: formats shared by disk, protocol and clients. Pure: no reactor, no sockets, no file names.

* ``batch``: record batches: encode, decode, rewrite; exports most of what users need
* ``header``: the header of a batch: read, check, patch in place
* ``record``: the record class and its format
* ``control_records``: transaction markers
* ``batch_validation``: checks a produced batch by its header
* ``read_committed``: hides aborted transactions and markers
* ``compression``: gzip, snappy, lz4, zstd, with bounded output
* ``record_stream``: reads a batch piece by piece
* ``varint``: variable-length integers
* ``checksum``: CRC-32C
* ``murmur``: the hash that chooses the partition of a key
* ``file_slice``: parts of responses: bytes, and slices of files
* ``batch_columns``: the batches of a fetch response as Arrow columns
* ``column_batch``: a producer's batch of Arrow columns

Python and compiled implementations:

* ``implementations``: chooses between them
* ``kernel``: encodes and decodes records
* ``gathering``: encodes the records of a growing batch
* ``columnar``: records to columns
* ``packing``: columns to records

A producer's records go through ``BatchBuilder`` (record, compression, header). The broker reads the header
(``validate_produced``), sets offset and epoch in it, and stores the bytes unchanged; a fetch returns them
as a ``FileSlice``. A consumer uses ``iter_batches`` and ``decode_batch``.
"""

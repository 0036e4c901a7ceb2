"""
The read side of ``format("logbus")``: topics as Spark batches and streams.

In the driver a reader resolves the options' positions to offsets, and plans ranges. In a worker a task reads one range
with :mod:`logbus.pipeline.blocking.range_reader`, and returns it as Arrow record batches.

Planning, in the driver:

* ``options``: the read options
* ``positions``: start and end positions in the options
* ``offset_reader``: partitions and offsets, from the brokers
* ``pushdown``: the filters of a query that the source applies
* ``offset_ranges``: rate limits, and splits into tasks
* ``batch_reader``: the reader of batches
* ``stream_reader``: the reader of streams
* ``read_limits``: limits of a stream's batches, where Spark has them
* ``stream_offset``: a stream's offsets in Spark's checkpoint
* ``data_loss``: reports offsets that are gone
* ``lag``: the lag of a stream, from Spark's progress
* ``offsets_json``: JSON of partitions and offsets

Reading, in a task:

* ``schema``: the columns of the rows
* ``partition_reader``: reads an offset range
* ``arrow``: decoded columns as Arrow record batches
"""

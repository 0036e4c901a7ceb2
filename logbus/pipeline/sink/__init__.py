"""
The write side of ``format("logbus")``: DataFrames to topics.

Tasks partition and encode their rows, and send them with :mod:`logbus.pipeline.blocking.producer`. With exactly-once
the driver then commits the tasks' transactions.

* ``options``: the write options
* ``columns``: checks the columns of the rows
* ``writers``: the writers of batches and streams, and what a task does
* ``partition_count``: the number of partitions of a topic
* ``row_packer``: partitions Arrow rows and encodes them as record batches
* ``exactly_once``: the tasks' transactions, committed by the driver
"""

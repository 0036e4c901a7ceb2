"""
Segments: the files that a log consists of.

* ``segment``: Segment: appends, truncation, repair of its indexes
* ``readable_segment``: ReadableSegment: finds batches by offset, and cuts slices of whole batches
* ``segment_files``: SegmentFiles: its files, transaction index included
* ``batch_ahead``: BatchAhead: a batch whose records are written before it is appended
* ``indexed_file``: IndexedFile: a file of batches with its two indexes
* ``indexes``: the sparse offset and time indexes
* ``index_entries``: the entries of many batches at once (pure)
* ``transaction_index``: the index of aborted transactions
* ``header_scan``: reads batch headers, skipping records
* ``index_check``: checks indexes against batches
* ``index_rebuild``: rebuilds damaged indexes, a slice at a time
* ``roll_policy``: decides when a log begins a new segment
"""

"""
The remote parts of logs (KIP-405): segments in an object store, and how they are read.

* ``remote_log``: RemoteLog: the remote part of one log, as its readers see it
* ``remote_log_segment``: a remote segment, its states and its leader epochs (pure)
* ``remote_log_index``: the remote segments of one partition, by offset and leader epoch (pure)
* ``remote_log_plan``: selects what is copied, and what retention deletes (pure)
* ``metadata_codec``: the records of ``__remote_log_metadata`` (pure)
* ``object_names``: names of objects (pure)
* ``chunk_table``: the table of a segment's chunks, with their checksums (pure)
* ``remote_reader``: reads through a bounded cache, and ahead
* ``read_ahead``: decides how far to read ahead of each reader (pure)
* ``load_queue``: loads what a request waits for before what is read ahead
* ``window_cache``: a cache of what was read last
* ``window_file``: the files of a store in a directory, from which they are sent
* ``remote_lookup``: finds offsets by timestamp
* ``segment_upload``: copies a segment, and deletes one; for threads
* ``iremote_storage``: the interface of object stores, and their errors
* ``fsspec_storage``: object stores behind fsspec
* ``signed_reads``: ranges of their objects by signed URLs, which takes less
"""

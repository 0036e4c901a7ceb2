"""
Files of a data directory as ``dump-log`` prints them.

* ``file_dump``: decodes files, and reports damage
* ``index_dump``: decodes indexes
* ``group_record_dump``: decodes records of ``__consumer_offsets``
* ``transaction_record_dump``: decodes records of ``__transaction_state``
"""

"""
Files of a data directory as ``dump-log`` prints and ``verify`` checks them.

* ``file_dump``: decodes files, and reports damage
* ``directory_check``: checks all files of a log directory for ``verify``
* ``log_check``: compares the files of one log with each other
* ``index_dump``: decodes indexes
* ``group_record_dump``: decodes records of ``__consumer_offsets``
* ``transaction_record_dump``: decodes records of ``__transaction_state``
* ``share_state_record_dump``: decodes records of ``__share_group_state``
"""

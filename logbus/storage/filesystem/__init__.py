"""
Log directories on a real disk.

* ``disk``: Disk: system calls on a directory
* ``disk_threads``: the threads for those that block
* ``file``: File: system calls on an open file
* ``disk_errors``: which of their errors may pass (pure)
* ``directory_lock``: keeps a second broker out of a directory
* ``io_threads``: thread pools for blocking calls
* ``native_syncs``: syncs in threads that know no Python, if they are compiled
* ``native_writes``: large writes in such threads
* ``slow_writes``: SlowWrites: notices when that is worth it (pure)
* ``file_systems``: finds where one ``syncfs`` stands for many syncs
* ``file_cache``: opens files on demand, closes unused ones
* ``bounded_work``: bounds the work that is under way at a time
* ``page_cache``: finds out what the page cache has, and loads data into it
* ``cached_only``: look-ups that load what they need in a thread
* ``read_ahead``: reads cold data before it is sent
"""

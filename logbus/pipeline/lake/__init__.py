"""
Tables of Parquet files with a commit log, which records the offsets of topics in them.

A job claims a table, stages Parquet files, and commits them together with their offsets.

* ``table``: a table's directory: claims, commits, snapshots, and reading with Spark
* ``commit_log``: the commits of a table and the state they result in, as JSON
* ``offset_set``: a set of a partition's offsets, as ranges
* ``schema_evolution``: which schemas new rows may have
* ``layout``: the directories of a loaded table
* ``parquet``: writing and counting Parquet files with Spark
* ``compaction``: many small files rewritten as few large ones
* ``file_system``: the file system a table is on: atomic creation, moves and syncs; local files
* ``hadoop_file_system``: the same through Hadoop
"""

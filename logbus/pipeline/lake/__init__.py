"""
Tables that topics are loaded into, which know the offsets of topics in them.

A job claims a table, stages files, and commits them together with their offsets.

* ``target``: the interface of a table that jobs write to, whatever its format
* ``formats``: opens the table at a URL
* ``load_state``: the state of loads into a table: offsets, schema, batches; as JSON
* ``parquet_table``: a table of Parquet files with a commit log, as jobs use it with Spark
* ``delta_table``: a Delta Lake table, as jobs use it with Spark
* ``delta_log``: its claims and commits
* ``delta_writes``: single commits, by delta-rs
* ``delta_files``: files of it that are read and written here
* ``delta_quarantine``: the table beside it of records that cannot be read
* ``delta_actions``: the entries of its log about files and our commits
* ``table``: its directory: claims, commits, snapshots
* ``commit_log``: its commits and the state they result in, as JSON
* ``iceberg``: the format "iceberg": tables of Apache Iceberg in a catalog
* ``offset_set``: a set of a partition's offsets, as ranges
* ``schema_evolution``: which schemas new rows may have
* ``layout``: the directories of a loaded table
* ``parquet``: writing and counting Parquet files with Spark
* ``part_writer``: writes data files from Spark's tasks, directly to where they stay
* ``part_files``: these files: their paths, sizes and statistics
* ``object_store``: the places that they are written to: a local directory, S3, Google's and Azure's stores
* ``compaction``: many small files rewritten as few large ones
* ``vacuum``: what only readers of old versions need, deleted after a number of days
* ``file_system``: the file system a table is on: atomic creation, moves and syncs; local files
* ``hadoop_file_system``: the same through Hadoop
* ``local_directory``: checks that a local directory can be written to, before Spark starts
* ``store_patience``: limits how long a job waits for a silent store, and how often a commit is tried
* ``store_refusal``: explains why a store refuses access
* ``reachability``: checks that a namenode or an object store can be reached, before Spark starts
"""

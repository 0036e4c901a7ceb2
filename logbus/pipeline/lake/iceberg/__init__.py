"""
The format "iceberg": tables of Apache Iceberg in a catalog, written with PyIceberg.

Spark's tasks write the data files; the driver commits them. No Java library of Iceberg is needed.

* ``table``: a table, as jobs use it
* ``ddl``: creates tables, and adds columns
* ``quarantine``: the table beside it of records whose value could not be read
* ``commits``: the state of loads in a table's metadata, and whose its snapshots are
* ``snapshots``: makes snapshots, each on the one that was looked at
* ``catalogs``: finds tables by PyIceberg's configuration
* ``rest_catalog``: REST catalogs, with a time limit
* ``schemas``: Spark's schemas and directories as Iceberg's schemas and partitions
* ``files``: data files as Iceberg describes them, and their store
* ``file_io``: opens PyIceberg's files, with Azure's URLs
* ``optimization``: small files rewritten as large ones
* ``expiry``: old snapshots expire, and files go that no snapshot has
* ``store_access``: explains why a table in S3 cannot be reached
* ``s3_retries``: has PyIceberg repeat requests to S3 often enough
* ``scans``: reads and rewrites data files by Spark's tasks
"""

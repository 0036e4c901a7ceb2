"""
Files of records: JSON lines, Avro and Parquet, by their names' endings.

* ``record_file``: what the formats have in common, and which one a name stands for
* ``rows``: records of formats that have columns
* ``json_file``: JSON lines, as ``logbus consume --json`` prints them
* ``avro_file``: Avro object container files
* ``parquet_file``: Parquet
"""

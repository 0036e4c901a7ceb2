"""
Files of records: JSON lines, Avro and Parquet, by their names' endings.

* ``record_file``: the interface of the formats, and the look-up of a format by name
* ``rows``: records of formats that have columns
* ``json_file``: JSON lines, as ``logbus consume --json`` prints them
* ``avro_file``: Avro object container files
* ``parquet_file``: Parquet
"""

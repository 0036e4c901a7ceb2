"""
Payloads: how record values become columns.

* ``payload``: raw bytes, and JSON objects with a schema
* ``record_metadata``: the columns of rows that hold the record's topic, partition, offset, time and key
* ``avro_payload``: Avro values with schemas from a registry
* ``avro_types``: Avro schemas as Spark's types
* ``ddl``: parses schemas in Spark's DDL
"""

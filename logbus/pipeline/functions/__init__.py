"""
Column functions for values in the wire format of schema registries: a byte 0, the schema's id, the value.

.. code-block:: python

    from logbus.pipeline.functions import from_avro, to_protobuf

    orders = rows.select(from_avro("value", "http://127.0.0.1:8080/registry", "orders-value").alias("order"))

They stand beside ``pyspark.sql.avro.functions`` and ``pyspark.sql.protobuf.functions``, whose functions know one schema
only: here each value is read with the schema it was written with, which a worker requests once.

* ``avro``: from_avro, to_avro
* ``avro_fit``: whether values fit a schema where fastavro would write others
* ``protobuf``: from_protobuf, to_protobuf
* ``json_schema``: from_json_schema, to_json_schema
* ``protobuf_types``: converts Protobuf messages to Spark's types, and values between both
* ``protobuf_files``: the files of a Protobuf schema, and the place of a message in them
* ``json_schema_types``: converts JSON schemas to Spark's types
* ``column_function``: a Python function of single values as a function of columns
* ``writer_schemas``: a worker's writers' schemas, each requested once
* ``reading_schema``: the schema of the columns, by subject and version or as text
"""

from logbus.pipeline.blocking.schema_registry import RegistryClient
from logbus.pipeline.functions.avro import from_avro, to_avro
from logbus.pipeline.functions.json_schema import from_json_schema, to_json_schema
from logbus.pipeline.functions.protobuf import from_protobuf, to_protobuf

__all__ = [
    "RegistryClient",
    "from_avro",
    "from_json_schema",
    "from_protobuf",
    "to_avro",
    "to_json_schema",
    "to_protobuf",
]

"""
The client for asyncio: producers, consumers, transactions and the admin client, on the loop that runs.

It is the client of :mod:`logbus.client` on another event loop: no reactor is installed, and there is no thread.

* ``cluster``: Cluster: several clients' connections and metadata
* ``producer``: Producer
* ``transaction``: Transaction
* ``consumer``: Consumer
* ``group_listener``: listeners of a group's assignments
* ``admin_client``: AdminClient
* ``schema_registry``: SchemaRegistry
* ``schema_serializers``: AvroSerializer, AvroDeserializer, and those of JSON Schema and Protobuf
* ``cluster_client``: the base of producers, consumers and admin clients
* ``lifetime``: ``async with``, and the warning about clients that were not closed
* ``event_loop``: the loop's time as a reactor's
* ``transport``: the loop's connections as a reactor's
* ``awaiting``: Deferreds in asyncio's tasks
* ``log_events``: passes the client's log to :mod:`logging`

.. code-block:: python

    async with Producer("127.0.0.1:9092") as producer:
        await producer.send_and_wait("orders", b"...", key=b"42")

    async with Consumer("127.0.0.1:9092", "orders", group_id="billing") as consumer:
        async for record in consumer:
            ...

Importing this package imports none of its parts; each name is imported at first use. Errors, records and options are
those of :mod:`logbus.client`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from logbus.quick_imports import quick_imports

if TYPE_CHECKING:
    from logbus.client.aio.admin_client import AdminClient
    from logbus.client.aio.cluster import Cluster
    from logbus.client.aio.consumer import Consumer
    from logbus.client.aio.producer import Producer
    from logbus.client.aio.schema_registry import SchemaRegistry
    from logbus.client.aio.schema_serializers import (
        AvroDeserializer,
        AvroSerializer,
        JsonSchemaDeserializer,
        JsonSchemaSerializer,
        ProtobufSerializer,
    )
    from logbus.client.aio.transaction import Transaction

__all__ = [
    "AdminClient",
    "AvroDeserializer",
    "AvroSerializer",
    "Cluster",
    "Consumer",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "Producer",
    "ProtobufSerializer",
    "SchemaRegistry",
    "Transaction",
]

_MODULES = {
    "AdminClient": "admin_client",
    "AvroDeserializer": "schema_serializers",
    "AvroSerializer": "schema_serializers",
    "Cluster": "cluster",
    "Consumer": "consumer",
    "JsonSchemaDeserializer": "schema_serializers",
    "JsonSchemaSerializer": "schema_serializers",
    "Producer": "producer",
    "ProtobufSerializer": "schema_serializers",
    "SchemaRegistry": "schema_registry",
    "Transaction": "transaction",
}


def __getattr__(name: str) -> object:
    """Import a public name at first use, so that importing the package is fast."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with quick_imports():
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

"""
A client of Kafka-compatible clusters, for Twisted applications.

Sub-packages:

* ``cluster``: Cluster: brokers, connections, metadata, coordinators; shared by all other parts
* ``producer``: Producer and Transaction
* ``consumer``: Consumer and SimpleConsumer
* ``membership``: memberships in groups, in both protocols
* ``admin``: AdminClient
* ``aio``: the same for asyncio
* ``connector``: ConsumerConnector: groups that coordinate through ZooKeeper
* ``schema``: Avro and a client of a schema registry
* ``audit``: counts of published and consumed records

Modules that these share:

* ``services``: ClusterService and ConsumerService
* ``broadcast``: Broadcast: one consumer's records for many readers
* ``reader_backlog``: ReaderBacklog: the records that one of these has not taken yet; pure
* ``serializers``: bytes, text, JSON
* ``interceptors``: hooks of producers and consumers
* ``client_metrics``: metrics as numbers and for Prometheus
* ``group_metadata``: GroupMetadata, CommittedOffset, the errors of outdated members
* ``list_offsets``: lookup of offsets by time
* ``retry``: retriable errors and backoff
* ``validators``: checks of options and arguments
* ``background_tasks``: coroutines that run in the background

Everything that waits returns a Deferred. The client never imports the global reactor: :class:`Cluster` is given one.
Importing this package imports none of its parts; each name is imported at first use.

.. code-block:: python

    cluster = Cluster(reactor, "127.0.0.1:9092")
    producer = Producer(cluster)
    sent = await producer.send("orders", b"...", key=b"42")
    await producer.close()
    await cluster.close()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from logbus.quick_imports import quick_imports

if TYPE_CHECKING:
    from logbus.client.admin.admin_client import AdminClient, NewTopic
    from logbus.client.admin.group_results import GroupDescription, GroupMember, ListedGroup
    from logbus.client.admin.transaction_results import ActiveProducer, ListedTransaction, TransactionDescription
    from logbus.client.broadcast import Broadcast, ReaderTooSlow
    from logbus.client.cluster.cluster import Cluster
    from logbus.client.connector import (
        BlackList,
        ConsumerConnector,
        MessageStream,
        RebalanceFailed,
        TopicFilter,
        WhiteList,
        zookeeper_store,
    )
    from logbus.client.consumer.assigned_partitions import NotAssigned
    from logbus.client.consumer.batch_delivery import RecordError
    from logbus.client.consumer.consumer import Consumer
    from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched
    from logbus.client.consumer.partition_position import AtTime
    from logbus.client.consumer.record_processor import ProcessingFailed
    from logbus.client.consumer.simple_consumer import FetchOf, SimpleConsumer
    from logbus.client.group_metadata import CommittedOffset, GroupMetadata
    from logbus.client.list_offsets import EARLIEST, LATEST
    from logbus.client.membership import CommitFailed, GroupListener, GroupOptions, MembershipFailed
    from logbus.client.producer.partitioner import RoundRobin, Uniform
    from logbus.client.producer.producer import Producer
    from logbus.client.producer.producer_record import BufferFull, DeliveryFailed, ProducerRecord, RecordMetadata
    from logbus.client.producer.transaction_errors import (
        Fenced,
        OutcomeUnknown,
        ProducerUnusable,
        TransactionAborted,
        TransactionError,
    )
    from logbus.client.retry import ClientClosed, Unreachable
    from logbus.client.services import ClusterService, ConsumerService
    from logbus.client.validators import InvalidOption

__all__ = [
    "ActiveProducer",
    "AdminClient",
    "AtTime",
    "BlackList",
    "Broadcast",
    "BufferFull",
    "ClientClosed",
    "Cluster",
    "ClusterService",
    "CommitFailed",
    "CommittedOffset",
    "Consumer",
    "ConsumerConnector",
    "ConsumerRecord",
    "ConsumerService",
    "DeliveryFailed",
    "EARLIEST",
    "Fenced",
    "FetchOf",
    "Fetched",
    "GroupDescription",
    "GroupListener",
    "GroupMember",
    "GroupMetadata",
    "GroupOptions",
    "LATEST",
    "ListedGroup",
    "ListedTransaction",
    "MembershipFailed",
    "MessageStream",
    "NewTopic",
    "NotAssigned",
    "InvalidOption",
    "OutcomeUnknown",
    "ProcessingFailed",
    "Producer",
    "ProducerRecord",
    "ProducerUnusable",
    "ReaderTooSlow",
    "RebalanceFailed",
    "RecordError",
    "RecordMetadata",
    "RoundRobin",
    "SimpleConsumer",
    "TopicFilter",
    "TransactionAborted",
    "TransactionDescription",
    "TransactionError",
    "Uniform",
    "Unreachable",
    "WhiteList",
    "zookeeper_store",
]

_NAMES = {
    "admin.admin_client": ("AdminClient", "NewTopic"),
    "admin.group_results": ("GroupDescription", "GroupMember", "ListedGroup"),
    "admin.transaction_results": ("ActiveProducer", "ListedTransaction", "TransactionDescription"),
    "broadcast": ("Broadcast", "ReaderTooSlow"),
    "cluster.cluster": ("Cluster",),
    "connector": (
        "BlackList",
        "ConsumerConnector",
        "MessageStream",
        "RebalanceFailed",
        "TopicFilter",
        "WhiteList",
        "zookeeper_store",
    ),
    "consumer.assigned_partitions": ("NotAssigned",),
    "consumer.batch_delivery": ("RecordError",),
    "consumer.consumer": ("Consumer",),
    "consumer.consumer_record": ("ConsumerRecord", "Fetched"),
    "consumer.partition_position": ("AtTime",),
    "consumer.record_processor": ("ProcessingFailed",),
    "consumer.simple_consumer": ("FetchOf", "SimpleConsumer"),
    "group_metadata": ("CommittedOffset", "GroupMetadata"),
    "list_offsets": ("EARLIEST", "LATEST"),
    "membership": ("CommitFailed", "GroupListener", "GroupOptions", "MembershipFailed"),
    "producer.partitioner": ("RoundRobin", "Uniform"),
    "producer.producer": ("Producer",),
    "producer.producer_record": ("BufferFull", "DeliveryFailed", "ProducerRecord", "RecordMetadata"),
    "producer.transaction_errors": (
        "Fenced",
        "OutcomeUnknown",
        "ProducerUnusable",
        "TransactionAborted",
        "TransactionError",
    ),
    "retry": ("ClientClosed", "Unreachable"),
    "services": ("ClusterService", "ConsumerService"),
    "validators": ("InvalidOption",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name at first use, so that importing the package is fast."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with quick_imports():
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

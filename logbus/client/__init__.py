"""
A Twisted-native client of Kafka-compatible brokers.

::

    cluster.py      where to begin, who leads what, a connection to each broker
    producer.py     Producer: records out; with admission.py, routing.py, accumulator.py, sender.py
                    its pure parts: partitioner.py, partition_queue.py, idempotence.py
    transaction.py  Transaction, and what may go wrong; transactional.py keeps its state
    consumer.py     Consumer: records in, of partitions one chooses or as a member of a group; handout.py hands them
                    out, deliveries.py knows what was, committing.py commits, following.py does what the membership says
    fetcher.py      its engine: partitions and positions in, records out, read ahead; fetching.py, locating.py, and
                    fetch_session.py, source.py, readahead.py, fetched.py, which are pure
    simple.py       SimpleConsumer: one request each
    admin.py        AdminClient: topics, settings, offsets, the cluster
    membership/     members of groups, by both protocols
    connector/      ConsumerConnector: a group that coordinates itself through ZooKeeper
    groups.py       its part for groups; described_groups.py, coordinators.py
    transactions.py its part for transactions
    offsets.py      offsets by time
    interceptors.py hooks of producer and consumer; outgoing.py calls a producer's, and its serializers
    serializers.py  bytes, text, JSON; avro.py with schema_registry.py, registry_http.py, webbody.py
    audit.py        an interceptor that counts; audit_events.py and audit_check.py are pure; audit_reading.py
    client_metrics.py  what clients count, for people and for Prometheus
    options.py      checks of options and arguments
    broker_outages.py  which failures to reach brokers the log tells of
    retry.py        which failures are worth another attempt
    addresses.py    HOST:PORT

Everything that waits returns a Deferred; nothing here knows the global reactor: :class:`Cluster` is given one.

.. code-block:: python

    cluster = Cluster(reactor, "127.0.0.1:9092")
    producer = Producer(cluster, wall_clock=time.time, random=Random())
    sent = await producer.send("orders", b"...", key=b"42")
    await producer.close()
    await cluster.close()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logbus.client.admin.admin_client import AdminClient, NewTopic
    from logbus.client.admin.group_admin import ListedGroup
    from logbus.client.admin.group_description import GroupDescription, GroupMember
    from logbus.client.admin.transaction_admin import ActiveProducer, ListedTransaction, TransactionDescription
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
    from logbus.client.consumer.batch_delivery import RecordError
    from logbus.client.consumer.consumer import Consumer
    from logbus.client.consumer.consumer_record import ConsumerRecord, Fetched
    from logbus.client.consumer.partition_position import AtTime
    from logbus.client.consumer.simple_consumer import FetchOf, SimpleConsumer
    from logbus.client.group_metadata import CommittedOffset, GroupMetadata
    from logbus.client.list_offsets import EARLIEST, LATEST
    from logbus.client.membership import CommitFailed, GroupListener, GroupOptions, MembershipFailed
    from logbus.client.producer.partitioner import RoundRobin, Uniform
    from logbus.client.producer.producer import Producer
    from logbus.client.producer.producer_record import BufferFull, DeliveryFailed, ProducerRecord, RecordMetadata
    from logbus.client.producer.transaction import (
        Fenced,
        OutcomeUnknown,
        ProducerUnusable,
        TransactionAborted,
        TransactionError,
    )
    from logbus.client.retry import Unreachable
    from logbus.client.validators import InvalidOption

__all__ = [
    "ActiveProducer",
    "AdminClient",
    "AtTime",
    "BlackList",
    "BufferFull",
    "Cluster",
    "CommitFailed",
    "CommittedOffset",
    "Consumer",
    "ConsumerConnector",
    "ConsumerRecord",
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
    "InvalidOption",
    "OutcomeUnknown",
    "Producer",
    "ProducerRecord",
    "ProducerUnusable",
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

_MODULES = {
    "ActiveProducer": "admin.transaction_admin",
    "AdminClient": "admin.admin_client",
    "AtTime": "consumer.partition_position",
    "BlackList": "connector",
    "BufferFull": "producer.producer_record",
    "Cluster": "cluster.cluster",
    "CommitFailed": "membership",
    "CommittedOffset": "group_metadata",
    "Consumer": "consumer.consumer",
    "ConsumerConnector": "connector",
    "ConsumerRecord": "consumer.consumer_record",
    "DeliveryFailed": "producer.producer_record",
    "EARLIEST": "list_offsets",
    "Fenced": "producer.transaction",
    "FetchOf": "consumer.simple_consumer",
    "Fetched": "consumer.consumer_record",
    "GroupDescription": "admin.group_description",
    "GroupListener": "membership",
    "GroupMember": "admin.group_description",
    "GroupMetadata": "group_metadata",
    "GroupOptions": "membership",
    "LATEST": "list_offsets",
    "ListedGroup": "admin.group_admin",
    "ListedTransaction": "admin.transaction_admin",
    "MembershipFailed": "membership",
    "MessageStream": "connector",
    "NewTopic": "admin.admin_client",
    "InvalidOption": "validators",
    "OutcomeUnknown": "producer.transaction",
    "Producer": "producer.producer",
    "ProducerRecord": "producer.producer_record",
    "ProducerUnusable": "producer.transaction",
    "RebalanceFailed": "connector",
    "RecordError": "consumer.batch_delivery",
    "RecordMetadata": "producer.producer_record",
    "RoundRobin": "producer.partitioner",
    "SimpleConsumer": "consumer.simple_consumer",
    "TopicFilter": "connector",
    "TransactionAborted": "producer.transaction",
    "TransactionDescription": "admin.transaction_admin",
    "TransactionError": "producer.transaction",
    "Uniform": "producer.partitioner",
    "Unreachable": "retry",
    "WhiteList": "connector",
    "zookeeper_store": "connector",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, and no more: a command that reads does not wait for what writes."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

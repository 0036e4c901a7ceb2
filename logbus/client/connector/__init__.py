"""
A consumer of groups that coordinate through ZooKeeper, as in Kafka 0.8 (ConsumerConnector), without a group
coordinator.

The user's part:

* ``consumer_connector``: ConsumerConnector: streams, commits, shutdown
* ``connector_options``: ConnectorOptions: its options, checked
* ``message_stream``: MessageStream: an asynchronous iterator over records
* ``topic_filter``: TopicFilter, WhiteList, BlackList: topics by regular expression
* ``zookeeper``: the connection to ZooKeeper, made from a connect string

Membership and rebalancing:

* ``zookeeper_member``: a member: session, watches, rebalance rounds
* ``rebalance``: pure: which partitions to release and claim, and when to look again
* ``assignment``: pure: ranges of partitions for the streams of all members
* ``group_registry``: requests to ZooKeeper: members, owners, topics
* ``znodes``: pure: paths and contents of nodes

Partitions and offsets:

* ``owned_partitions``: streams, positions and commits of the partitions that a member owns
* ``positions``: the processed and committed positions of partitions; pure
* ``partition_reader``: PartitionReader: the part of a Fetcher that streams need, and the offsets at which it starts
* ``offset_storage``: offsets in ZooKeeper, or in Kafka

A watch in ``group_registry`` starts a round of ``zookeeper_member``. It computes the ``assignment``, releases and
claims partitions as ``rebalance`` says, and tells ``owned_partitions``, which starts and stops the streams.
"""

from logbus.client.connector.consumer_connector import ConsumerConnector
from logbus.client.connector.message_stream import MessageStream
from logbus.client.connector.rebalance import RebalanceFailed
from logbus.client.connector.topic_filter import BlackList, TopicFilter, WhiteList
from logbus.client.connector.zookeeper import zookeeper_store

__all__ = [
    "BlackList",
    "ConsumerConnector",
    "MessageStream",
    "RebalanceFailed",
    "TopicFilter",
    "WhiteList",
    "zookeeper_store",
]

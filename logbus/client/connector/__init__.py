"""
The consumer that the documents describe: coordinated through ZooKeeper, by all members alike.

::

    connector.py   ConsumerConnector: streams of topics or of what a filter allows; options, commits, the end
    member.py      a member: session, watches, rounds of looking, letting go and taking
    holding.py     its streams and what of them is done and committed
    streams.py     MessageStream: what the user loops over
    registry.py    who is there, who owns what: requests to ZooKeeper
    offsets.py     offsets in ZooKeeper, or with the brokers
    reading.py     how partitions are read
    zookeeper.py   the store, by a connect string
    together.py    many requests at once

Pure: znodes.py (where nodes are and how they are spelled), filters.py, assignment.py (ranges), rebalance.py (what to
let go and take, and when to look again), positions.py (how far each partition is done).
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

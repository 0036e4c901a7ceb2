"""
Paths and contents of consumers' nodes in ZooKeeper, in the format of Kafka 0.8. Consumers of Kafka 0.8 may be in the
same group. Pure.

::

    /consumers/G/ids/C           ephemeral: what consumer C of group G reads
    /consumers/G/owners/T/P      ephemeral: the thread of a consumer that reads partition P of topic T
    /consumers/G/offsets/T/P     the offset of the next record to read
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from attrs import frozen

from logbus.client.connector.topic_filter import BlackList, TopicFilter, WhiteList
from logbus.metastore.znode_json import BadZnode, ZnodeReader
from logbus.metastore.znodes import TopicZnode
from logbus.model import TopicPartition

CONSUMERS = "/consumers"
STATIC = "static"
MOST_STREAMS = 10_000
"""The most streams of one consumer: a limit for what other clients may write."""
_FILTERS: Mapping[str, type[TopicFilter]] = {each.pattern: each for each in (WhiteList, BlackList)}
_GROUP = re.compile(r"[a-zA-Z0-9._-]{1,255}")


@frozen
class TopicCount:
    """
    A consumer's subscription (Kafka 0.8: TopicCount).

    :ivar topics: the number of streams by topic; empty with a filter.
    :ivar filter: instead of names; ``streams``: the number of streams for all topics that it allows.
    """

    topics: Mapping[str, int]
    filter: TopicFilter | None = None
    streams: int = 0

    def streams_for(self, topic: str) -> int:
        """The number of streams of this consumer that share a topic's partitions."""
        if self.filter is None:
            return self.topics.get(topic, 0)
        return self.streams if self.filter.allows(topic) else 0


def is_legal_group(group_id: str) -> bool:
    """Whether a group id can be part of a path, as Kafka checks it."""
    return _GROUP.fullmatch(group_id) is not None and group_id not in (".", "..")


def thread_id(consumer_id: str, stream: int) -> str:
    """The content of an owner's node: the consumer id and the number of the stream."""
    return f"{consumer_id}-{stream}"


@frozen
class GroupPaths:
    """The paths of a group's nodes."""

    group_id: str

    @property
    def ids(self) -> str:
        """The parent of the members' nodes."""
        return f"{CONSUMERS}/{self.group_id}/ids"

    def id(self, consumer_id: str) -> str:
        """The node of a member."""
        return f"{self.ids}/{consumer_id}"

    def owner(self, partition: TopicPartition) -> str:
        """The node of a partition's owner."""
        return f"{CONSUMERS}/{self.group_id}/owners/{partition.topic}/{partition.partition}"

    def offset(self, partition: TopicPartition) -> str:
        """The node of a partition's offset."""
        return f"{CONSUMERS}/{self.group_id}/offsets/{partition.topic}/{partition.partition}"


class TopicCountZnode:
    """``/consumers/G/ids/C``."""

    VERSION = 1

    @classmethod
    def encode(cls, subscription: TopicCount, now_ms: int) -> bytes:
        """
        :param now_ms: milliseconds since 1970.
        """
        wanted = subscription.filter
        counts = subscription.topics if wanted is None else {wanted.expression: subscription.streams}
        return json.dumps(
            {
                "version": cls.VERSION,
                "subscription": dict(counts),
                "pattern": STATIC if wanted is None else wanted.pattern,
                "timestamp": str(now_ms),
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def decode(cls, path: str, data: bytes) -> TopicCount:
        """
        :raise BadZnode: it cannot be read.
        :raise ConfigError: its filter is not a regular expression that RE2 supports.
        """
        with ZnodeReader(path, data, cls.VERSION) as node:
            counts = {str(name): int(count) for name, count in node["subscription"].items()}
            if any(not 0 <= count <= MOST_STREAMS for count in counts.values()):
                raise ValueError(f"a consumer has 0 to {MOST_STREAMS} streams")
            pattern = str(node.get("pattern", STATIC))
            if pattern == STATIC:
                return TopicCount(counts)
            if pattern not in _FILTERS or len(counts) != 1:
                raise ValueError(f"the pattern {pattern!r} with {len(counts)} expressions is not known")
        ((expression, streams),) = counts.items()
        return TopicCount({}, _FILTERS[pattern](expression), streams)


class OffsetZnode:
    """``/consumers/G/offsets/T/P``: a number in ASCII."""

    @staticmethod
    def encode(offset: int) -> bytes:
        return str(offset).encode("ascii")

    @staticmethod
    def decode(path: str, data: bytes) -> int:
        """
        :raise BadZnode: it is not a number.
        """
        if not re.fullmatch(rb"\d{1,19}", data):
            raise BadZnode(f"{path} holds {data[:40]!r}, not an offset")
        return int(data)


def partitions_of(topic: str, data: bytes) -> tuple[int, ...]:
    """
    The partitions of a topic, in order, from ``/brokers/topics/T``, in any of its formats.

    :raise BadZnode: it cannot be read.
    """
    with ZnodeReader(TopicZnode.path(topic), data, TopicZnode.VERSION) as node:
        return tuple(sorted(int(number) for number in node["partitions"]))

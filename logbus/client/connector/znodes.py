"""
The nodes of consumers that coordinate through ZooKeeper: where they are, and how they are spelled, as the consumers of
Kafka 0.8 wrote them. Both kinds may share a group. Pure.

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
"""Of one consumer: what somebody else writes must not make us count for ever."""
_FILTERS: Mapping[str, type[TopicFilter]] = {each.pattern: each for each in (WhiteList, BlackList)}
_GROUP = re.compile(r"[a-zA-Z0-9._-]{1,255}")


@frozen
class TopicCount:
    """
    What a consumer reads.

    :ivar topics: number of streams by topic; with a filter: nothing.
    :ivar filter: instead of names; ``streams``: how many streams share what it allows.
    """

    topics: Mapping[str, int]
    filter: TopicFilter | None = None
    streams: int = 0

    def streams_for(self, topic: str) -> int:
        """How many streams of this consumer share the partitions of a topic."""
        if self.filter is None:
            return self.topics.get(topic, 0)
        return self.streams if self.filter.allows(topic) else 0


def is_legal_group(group_id: str) -> bool:
    """Whether a group's name can be part of a path, as Kafka checks it."""
    return _GROUP.fullmatch(group_id) is not None and group_id not in (".", "..")


def thread_id(consumer_id: str, stream: int) -> str:
    """What an owner's node holds: the consumer, and which of its streams, from 0."""
    return f"{consumer_id}-{stream}"


@frozen
class GroupPaths:
    """Where the nodes of one group are."""

    group_id: str

    @property
    def ids(self) -> str:
        """The parent of the members."""
        return f"{CONSUMERS}/{self.group_id}/ids"

    def id(self, consumer_id: str) -> str:
        """A member."""
        return f"{self.ids}/{consumer_id}"

    def owner(self, partition: TopicPartition) -> str:
        """Who owns a partition."""
        return f"{CONSUMERS}/{self.group_id}/owners/{partition.topic}/{partition.partition}"

    def offset(self, partition: TopicPartition) -> str:
        """How far a partition was read."""
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
        :raise ConfigError: its filter is not a regular expression that we know.
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
        :raise BadZnode: it is no number.
        """
        if not re.fullmatch(rb"\d{1,19}", data):
            raise BadZnode(f"{path} holds {data[:40]!r}, not an offset")
        return int(data)


def partitions_of(topic: str, data: bytes) -> tuple[int, ...]:
    """
    The partitions of a topic, in order, as ``/brokers/topics/T`` says; also where topics have no ids.

    :raise BadZnode: it cannot be read.
    """
    with ZnodeReader(TopicZnode.path(topic), data, TopicZnode.VERSION) as node:
        return tuple(sorted(int(number) for number in node["partitions"]))

"""Paths and contents of consumers' nodes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.connector.topic_filter import BlackList, WhiteList
from logbus.client.connector.znodes import (
    GroupPaths,
    OffsetZnode,
    TopicCount,
    TopicCountZnode,
    is_legal_group,
    partitions_of,
)
from logbus.errors import ConfigError
from logbus.metastore.znode_json import BadZnode
from logbus.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NAMES = st.sampled_from(["a", "b", "c", "d"])
FILTERS = st.sampled_from([WhiteList("a|b"), WhiteList(".*"), BlackList("a"), BlackList("x.*")])
SUBSCRIPTIONS = st.one_of(
    st.builds(TopicCount, st.dictionaries(NAMES, st.integers(1, 12))),
    st.builds(lambda chosen, count: TopicCount({}, chosen, count), FILTERS, st.integers(1, 12)),
)
KEYS = st.sampled_from(["version", "subscription", "partitions", "pattern", "t"])
JSON = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner))


class ZnodeTests(SynchronousTestCase):
    def test_as_kafka_wrote_them(self) -> None:
        """The nodes are those of Kafka 0.8, byte for byte."""
        self.assertEqual(
            TopicCountZnode.encode(TopicCount({"t": 2}), 1400000000000),
            b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"1400000000000"}',
        )
        self.assertEqual(
            TopicCountZnode.encode(TopicCount({}, BlackList("x|y"), 3), 7),
            b'{"version":1,"subscription":{"x|y":3},"pattern":"black_list","timestamp":"7"}',
        )
        paths = GroupPaths("g")
        self.assertEqual(paths.id("g_h-1-ab"), "/consumers/g/ids/g_h-1-ab")
        self.assertEqual(paths.owner(P1), "/consumers/g/owners/t/1")
        self.assertEqual(paths.offset(P1), "/consumers/g/offsets/t/1")
        self.assertEqual(partitions_of("t", b'{"version":1,"partitions":{"10":[0],"9":[1,0]}}'), (9, 10))

    @given(SUBSCRIPTIONS)
    def test_subscription_round_trip(self, subscription: TopicCount) -> None:
        """Encoded subscriptions can be decoded."""
        self.assertEqual(TopicCountZnode.decode("/x", TopicCountZnode.encode(subscription, 1)), subscription)

    @given(st.integers(0, 2**63 - 1))
    def test_offset_round_trip(self, offset: int) -> None:
        """Encoded offsets can be decoded."""
        self.assertEqual(OffsetZnode.decode("/x", OffsetZnode.encode(offset)), offset)

    @given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
    def test_invalid_data_is_refused(self, data: bytes) -> None:
        """Any data are decoded or refused, with the node's path."""
        for decode in (TopicCountZnode.decode, OffsetZnode.decode, partitions_of):
            try:
                decode("/x", data)
            except (BadZnode, ConfigError) as e:
                self.assertTrue(str(e))

    def test_how_many_streams(self) -> None:
        """The number of streams is limited."""
        for count in (-1, 10_001, 10**9):
            node = json.dumps({"version": 1, "subscription": {"t": count}, "pattern": "static"}).encode()
            self.assertRaises(BadZnode, TopicCountZnode.decode, "/x", node)

    def test_groups(self) -> None:
        """A group's name must do for a path."""
        self.assertTrue(is_legal_group("page-views_2.x"))
        for wrong in ("", ".", "..", "a/b", "ü", "a" * 256):
            self.assertFalse(is_legal_group(wrong))

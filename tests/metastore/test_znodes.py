"""Encoding of znodes: Kafka's JSON."""

from __future__ import annotations

import json
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.cluster_znodes import (
    ClusterIdZnode,
    ControllerEpochZnode,
    ControllerNode,
    ControllerZnode,
    ProducerIdBlock,
    ProducerIdBlockZnode,
)
from logbus.metastore.znode_json import BadZnode, uuid_from_text, uuid_text
from logbus.metastore.znodes import Assignment, BrokerIdZnode, ConfigZnode, Registration, StateZnode, TopicZnode
from logbus.model import Endpoint, LeaderAndIsr

ids = st.integers(0, 2**31 - 1)
replicas = st.lists(ids, min_size=1, max_size=4).map(tuple)
names = st.from_regex(r"\A[A-Z_0-9]{1,8}\Z")
hosts = st.sampled_from(["localhost", "broker-1.example.org", "10.0.0.1", "::1", "fe80::1"])
texts = st.text(max_size=10)


@st.composite
def registrations(draw: st.DrawFn) -> Registration:
    """Any broker's registration."""
    listeners = draw(st.lists(names, unique=True, max_size=3))
    return Registration(
        draw(ids),
        {name: Endpoint(name, draw(hosts), draw(st.integers(0, 65535))) for name in listeners},
        draw(st.uuids()),
        draw(st.integers(0, 2**53)),
        draw(st.none() | texts),
        {name: draw(st.sampled_from(["PLAINTEXT", "SSL", "SASL_SSL"])) for name in listeners},
        draw(st.integers(0, 9)),
        draw(st.dictionaries(texts, st.dictionaries(texts, ids, max_size=2), max_size=2)),
    )


class RoundTripTests(SynchronousTestCase):
    """What is encoded is decoded."""

    @given(registrations())
    def test_registration(self, value: Registration) -> None:
        """A broker's registration, IPv6 hosts included."""
        self.assertEqual(BrokerIdZnode.decode(value.broker_id, BrokerIdZnode.encode(value)), value)

    @given(st.builds(Assignment, st.uuids(), st.lists(replicas, max_size=12).map(tuple)))
    def test_assignment(self, value: Assignment) -> None:
        """A topic's assignment, with more than ten partitions."""
        self.assertEqual(TopicZnode.decode("t", TopicZnode.encode(value)), value)

    @given(st.builds(LeaderAndIsr, st.integers(-1, 9), ids, replicas, ids, ids))
    def test_state(self, value: LeaderAndIsr) -> None:
        """A partition's state; the version comes from the node."""
        data = StateZnode.encode(value)
        self.assertEqual(StateZnode.decode("t", 0, data, value.version), value)
        self.assertEqual(json.loads(data)["version"], 1)

    @given(st.builds(ControllerNode, ids, st.uuids(), ids, ids))
    def test_controller(self, value: ControllerNode) -> None:
        """The controller."""
        self.assertEqual(ControllerZnode.decode(ControllerZnode.encode(value)), value)

    @given(ids)
    def test_controller_epoch(self, value: int) -> None:
        """The controller's epoch."""
        self.assertEqual(ControllerEpochZnode.decode(ControllerEpochZnode.encode(value)), value)

    @given(st.dictionaries(texts, texts))
    def test_config(self, value: dict[str, str]) -> None:
        """Overrides, whatever characters are in them."""
        self.assertEqual(ConfigZnode.decode("/config/topics/t", ConfigZnode.encode(value)), value)

    @given(st.builds(ProducerIdBlock, ids, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)))
    def test_producer_ids(self, value: ProducerIdBlock) -> None:
        """A block of producer ids, beyond what JSON numbers carry safely."""
        self.assertEqual(ProducerIdBlockZnode.decode(ProducerIdBlockZnode.encode(value)), value)

    @given(st.uuids())
    def test_uuid_text(self, value: UUID) -> None:
        """Ids are 22 URL-safe characters."""
        self.assertEqual(uuid_from_text(uuid_text(value)), value)
        self.assertRegex(uuid_text(value), r"\A[A-Za-z0-9_-]{22}\Z")


class KafkaTests(SynchronousTestCase):
    """The spelling is Kafka's."""

    def test_registration_format(self) -> None:
        """Version 5, the first plaintext endpoint repeated as host and port."""
        value = Registration(
            3,
            {"SECURE": Endpoint("SECURE", "::1", 9093), "PLAIN": Endpoint("PLAIN", "h", 9092)},
            UUID(int=1),
            7,
            security_protocols={"SECURE": "SSL", "PLAIN": "PLAINTEXT"},
        )
        node = json.loads(BrokerIdZnode.encode(value))
        self.assertEqual(
            {name: node[name] for name in ("version", "host", "port", "timestamp", "endpoints", "rack")},
            {
                "version": 5,
                "host": "h",
                "port": 9092,
                "timestamp": "7",
                "endpoints": ["SECURE://[::1]:9093", "PLAIN://h:9092"],
                "rack": None,
            },
        )
        self.assertEqual(node["listener_security_protocol_map"], {"SECURE": "SSL", "PLAIN": "PLAINTEXT"})

    def test_topic_format(self) -> None:
        """A topic of a Kafka broker is read."""
        data = (
            b'{"removing_replicas":{},"partitions":{"1":[1,0],"0":[0]},"topic_id":"RUhtAQ0-TWm4NXUZKzVNHQ",'
            b'"adding_replicas":{},"version":3}'
        )
        assignment = TopicZnode.decode("t", data)
        self.assertEqual(assignment.partitions, ((0,), (1, 0)))
        self.assertEqual(uuid_text(assignment.topic_id), "RUhtAQ0-TWm4NXUZKzVNHQ")

    def test_cluster_id(self) -> None:
        """The version of the cluster's id is a string, for whatever reason."""
        self.assertEqual(ClusterIdZnode.encode("abc"), b'{"version":"1","id":"abc"}')
        self.assertEqual(ClusterIdZnode.decode(b'{"version":"1","id":"abc"}'), "abc")


class RefusalTests(SynchronousTestCase):
    """What cannot be read is refused with the node's name."""

    def test_newer_versions(self) -> None:
        """A newer version is refused with both numbers."""
        error = self.assertRaises(BadZnode, TopicZnode.decode, "t", b'{"version":4}')
        self.assertEqual(str(error), "/brokers/topics/t has version 4, of a newer release; this one knows 3")

    def test_nonsense(self) -> None:
        """Whatever is there instead, the error is ours and names the node."""
        for data in (
            b"",
            b"\xff",
            b"[]",
            b"1",
            b'{"version":3}',
            b'{"version":3,"partitions":{"0":[0],"2":[0]},"topic_id":"RUhtAQ0-TWm4NXUZKzVNHQ"}',
            b'{"version":3,"partitions":[],"topic_id":"RUhtAQ0-TWm4NXUZKzVNHQ"}',
            b'{"version":3,"partitions":{},"topic_id":"short"}',
            b"[" * 100_000,
        ):
            error = self.assertRaises(BadZnode, TopicZnode.decode, "t", data)
            self.assertIn("/brokers/topics/t", str(error))
        self.assertRaises(BadZnode, ControllerEpochZnode.decode, b"-1")
        self.assertRaises(BadZnode, ClusterIdZnode.decode, b'{"version":"1","id":""}')
        self.assertRaises(BadZnode, BrokerIdZnode.decode, 1, b'{"version":5,"endpoints":["nonsense"]}')

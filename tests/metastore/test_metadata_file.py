"""Metadata in files and copied between stores: nothing is lost, and foreign data are refused."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.cluster_znodes import BrokerIncarnationsZnode, ClusterIdZnode
from logbus.metastore.memory_store import MemoryEnsemble, MemoryStore
from logbus.metastore.metadata_copy import NotCopied, read_all, read_running, write_all
from logbus.metastore.metadata_file import BadMetadataFile, Metadata, check, dump, load
from logbus.metastore.operations import Create
from logbus.metastore.znodes import (
    BROKER_INCARNATIONS,
    CLUSTER_ID,
    CONTROLLER_EPOCH,
    PERSISTENT_PATHS,
    Assignment,
    BrokerIdZnode,
    ConfigZnode,
    PartitionZnode,
    Registration,
    StateZnode,
    TopicZnode,
)
from logbus.model import LeaderAndIsr

BASE = dict.fromkeys(PERSISTENT_PATHS, b"")


def nodes_of(topics: int = 1, **more: bytes) -> dict[str, bytes]:
    """What a cluster has."""
    nodes = {**BASE, CLUSTER_ID: ClusterIdZnode.encode("c" * 22), CONTROLLER_EPOCH: b"7"}
    for number in range(topics):
        name = f"t{number}"
        nodes[TopicZnode.path(name)] = TopicZnode.encode(Assignment(UUID(int=number + 9, version=4), ((0,), (0,))))
        nodes[ConfigZnode.topic_path(name)] = ConfigZnode.encode({"retention.ms": "5"})
        nodes[TopicZnode.partitions_path(name)] = b""
        for partition in range(2):
            nodes[PartitionZnode.path(name, partition)] = b""
            nodes[StateZnode.path(name, partition)] = StateZnode.encode(LeaderAndIsr(0, 3, (0,), 7))
    return nodes | more


class FileTests(SynchronousTestCase):
    """The format."""

    def refused(self, text: str) -> str:
        return str(self.assertRaises(BadMetadataFile, load, text))

    @given(st.dictionaries(st.sampled_from(["/admin/x", "/config/changes/u", "/consumers"]), st.binary(max_size=20)))
    def test_round_trip(self, more: dict[str, bytes]) -> None:
        """Whatever nodes hold comes back, text or not."""
        metadata = Metadata(nodes_of(2) | more)
        self.assertEqual(load(dump(metadata)), metadata)
        self.assertEqual((metadata.topics, metadata.cluster_id), (2, "c" * 22))

    @given(st.text(max_size=30) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
    def test_arbitrary_files(self, text: str) -> None:
        """Any file is read or refused with an error."""
        self.refused(text)

    def test_cut_short(self) -> None:
        """Half a file is refused."""
        text = dump(Metadata(nodes_of()))
        for end in range(0, len(text) - 2, 37):
            self.assertIn("not JSON", self.refused(text[:end]))

    def test_foreign(self) -> None:
        """Other JSON, other versions, and files without nodes are named."""
        self.assertIn('"format"', self.refused("{}"))
        self.assertIn("version 9", self.refused('{"format": "logbus-metadata", "version": 9}'))
        self.assertIn('no "nodes"', self.refused('{"format": "logbus-metadata", "version": 1}'))
        text = dump(Metadata(nodes_of())).replace('"cluster_id": "ccc', '"cluster_id": "ddd')
        self.assertIn("another", self.refused(text))

    def test_invalid_nodes(self) -> None:
        """A node that is missing, foreign or unreadable is named."""
        wrong: list[tuple[dict[str, Any], str]] = [
            ({CLUSTER_ID: None}, "/cluster/id is missing"),
            ({CONTROLLER_EPOCH: b"x"}, "/controller_epoch holds"),
            ({"/brokers/topics/t0": b"{}"}, "/brokers/topics/t0 holds"),
            ({"/brokers/topics/t0": None}, "/brokers/topics/t0/partitions has no parent"),
            ({"/brokers/ids/0": b""}, "/brokers/ids/0 is not a node that outlives"),
            ({"/controller": b""}, "/controller is not"),
            ({"/etc": b""}, "/etc is not"),
            ({"/config/users/ann": b"{}"}, "/config/users/ann holds no"),
            ({"/kafka-acl/Topic": b"", "/kafka-acl/Topic/t": b"[]"}, "/kafka-acl/Topic/t holds"),
            ({"relative": b""}, "relative"),
            ({StateZnode.path("t0", 1): StateZnode.encode(LeaderAndIsr(4, 1, (4,)))}, "no replica: [4]"),
            (
                {
                    PartitionZnode.path("t0", 2): b"",
                    StateZnode.path("t0", 2): StateZnode.encode(LeaderAndIsr(0, 1, (0,))),
                },
                "has 2 partitions",
            ),
        ]
        for change, words in wrong:
            nodes = {path: data for path, data in (nodes_of() | change).items() if data is not None}
            error = self.assertRaises(BadMetadataFile, check, Metadata(nodes))
            self.assertIn(words, str(error))

    def test_many_partitions(self) -> None:
        """A topic's node is decoded once for itself and once for its partitions, and not for each of them."""
        nodes = nodes_of()
        nodes[TopicZnode.path("t0")] = TopicZnode.encode(Assignment(UUID(int=9, version=4), ((0,),) * 50))
        for partition in range(50):
            nodes[PartitionZnode.path("t0", partition)] = b""
            nodes[StateZnode.path("t0", partition)] = StateZnode.encode(LeaderAndIsr(0, 3, (0,), 7))
        with patch.object(TopicZnode, "decode", side_effect=TopicZnode.decode) as decoded:
            check(Metadata(nodes))
        self.assertEqual(decoded.call_count, 2)


class CopyingTests(SynchronousTestCase):
    """From store to store."""

    def setUp(self) -> None:
        self.store = self.opened(MemoryEnsemble())

    def opened(self, ensemble: MemoryEnsemble) -> MemoryStore:
        self.ensemble = ensemble
        store = ensemble.client()
        self.successResultOf(store.open())
        return store

    def test_export_and_import(self) -> None:
        """Every node arrives, however many there are; ephemerals and ZooKeeper's own stay."""
        nodes = nodes_of(300)
        self.assertEqual(self.successResultOf(write_all(self.store, Metadata(nodes))), len(nodes))
        self.successResultOf(self.store.multi([Create("/controller", b"x", ephemeral=True), Create("/zookeeper")]))
        self.successResultOf(self.store.create(BROKER_INCARNATIONS, BrokerIncarnationsZnode.encode({})))
        self.assertEqual(self.successResultOf(read_all(self.store)), nodes)

    def test_cut_short(self) -> None:
        """What an interrupted copy left is completed by the next one: the cluster's id comes last."""
        nodes = nodes_of(300)
        calls: list[int] = []
        multi = self.store.multi

        def failing(ops: Any) -> Any:
            calls.append(len(ops))
            if len(calls) == 3:
                self.store.suspend()
            return multi(ops)

        self.patch(type(self.store), "multi", lambda store, ops: failing(ops))
        self.failureResultOf(write_all(self.store, Metadata(nodes)))
        self.store.resume()
        self.assertIsNone(self.successResultOf(self.store.exists(CLUSTER_ID)))
        made = self.successResultOf(write_all(self.store, Metadata(nodes)))
        self.assertEqual(made, len(nodes) - calls[0] - calls[1])
        self.assertEqual(self.successResultOf(read_all(self.store)), nodes)

    def test_not_over_a_cluster(self) -> None:
        """A store that has a cluster, or other things at our paths, is left as it is."""
        self.successResultOf(write_all(self.store, Metadata(nodes_of())))
        failure = self.failureResultOf(write_all(self.store, Metadata(nodes_of(2))), NotCopied)
        self.assertIn("there is a cluster already", str(failure.value))
        self.assertEqual(self.successResultOf(read_all(self.store)), nodes_of())
        other = self.opened(MemoryEnsemble())
        self.successResultOf(other.create("/brokers", b"mine"))
        failure = self.failureResultOf(write_all(other, Metadata(nodes_of())), NotCopied)
        self.assertIn("/brokers is there already", str(failure.value))
        self.assertEqual(self.successResultOf(other.children("/")), ["brokers"])

    def test_not_beside_a_broker(self) -> None:
        """While a broker is registered nothing is copied, in neither direction."""
        self.successResultOf(write_all(self.store, Metadata(nodes_of())))
        data = BrokerIdZnode.encode(Registration(5, {}, UUID(int=1), 0))
        self.successResultOf(self.store.create(BrokerIdZnode.path(5), data, ephemeral=True))
        for copied in (read_all(self.store), write_all(self.store, Metadata(nodes_of()))):
            self.assertIn("broker 5 is registered", str(self.failureResultOf(copied, NotCopied).value))

    def test_beside_brokers(self) -> None:
        """A copy for a backup is one of nodes that belong together: it is read again while they change."""
        self.successResultOf(write_all(self.store, Metadata(nodes_of())))
        data = BrokerIdZnode.encode(Registration(5, {}, UUID(int=1), 0))
        self.successResultOf(self.store.create(BrokerIdZnode.path(5), data, ephemeral=True))
        self.assertEqual(self.successResultOf(read_running(self.store)), nodes_of())
        changes = [nodes_of(2), nodes_of(3)]
        children, missing = self.store.children, dict[str, bytes]()

        def changing(path: str) -> Any:
            if path == "/" and changes:
                missing.update((path, data) for path, data in changes.pop(0).items() if path not in nodes_of())
                for new in sorted(missing):
                    if self.successResultOf(self.store.exists(new)) is None:
                        self.successResultOf(self.store.create(new, missing[new]))
            return children(path)

        self.patch(type(self.store), "children", lambda store, path: changing(path))
        self.assertEqual(self.successResultOf(read_running(self.store)), nodes_of() | missing)
        self.successResultOf(self.store.delete(CONTROLLER_EPOCH))
        with self.assertRaisesRegex(BadMetadataFile, f"{CONTROLLER_EPOCH} is missing"):
            check(Metadata(self.successResultOf(read_running(self.store))))

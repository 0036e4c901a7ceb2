"""Consumers that coordinate through a real ZooKeeper, with a real broker."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint

from logbus.client import (
    AdminClient,
    Cluster,
    ConsumerConnector,
    MessageStream,
    NewTopic,
    Producer,
    WhiteList,
    zookeeper_store,
)
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.errors import LogbusError
from logbus.metastore.operations import SessionState
from logbus.metastore.zookeeper_store import ZooKeeperStore
from logbus.model import TopicPartition
from logbus.testing.broker import Broker
from logbus.testing.cluster import CHROOT
from logbus.testing.cluster import Cluster as KafkaCluster
from logbus.testing.zookeeper import ZooKeeper
from tests.zookeeper.reactor_case import PumpedTestCase

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent.parent


class ConnectorTests(PumpedTestCase):
    def begin(self, connect: str, partitions: int = 6) -> None:
        """A broker, with what :meth:`begin_with` makes."""
        self.connect = connect
        self.broker = Broker({"zookeeper.connect": connect, "zookeeper.session.timeout.ms": "20000"})
        self.addCleanup(self.broker.close)
        self.broker.start()
        self.bootstrap = self.broker.bootstrap
        self.begin_with(partitions)

    def begin_with(self, partitions: int = 6) -> None:
        """A topic ``t``, and what writes to it."""
        self.cluster = self.a_cluster()
        self.admin = AdminClient(self.cluster)
        self.producer = Producer(self.cluster, wall_clock=time.time, random=random.Random(1))
        self.addCleanup(lambda: self.successResultOf(self.producer.close()))
        self.create("t", partitions)
        self.seen: list[ConsumerRecord] = []

    def a_cluster(self) -> Cluster:
        # The reactor is iterated, not run: it has no threads to look up names with.
        cluster = Cluster(
            self.reactor,
            self.bootstrap,
            endpoint=lambda host, port: TCP4ClientEndpoint(self.reactor, host, port),
        )
        self.addCleanup(lambda: self.successResultOf(cluster.close()))
        return cluster

    def create(self, topic: str, partitions: int) -> None:
        answers = self.successResultOf(self.admin.create_topics([NewTopic(topic, partitions)]))
        self.assertEqual(answers, {topic: None})

    def put(self, *values: bytes, topic: str = "t") -> None:
        """One of each to every partition."""
        partitions = len(self.successResultOf(self.cluster.topic(topic)).partitions)
        sent = [self.producer.send(topic, value, partition=p) for p in range(partitions) for value in values]
        for each in sent:
            self.successResultOf(each)

    def store(self, session_timeout: float = 4.0) -> ZooKeeperStore:
        store = zookeeper_store(self.reactor, self.connect, session_timeout=session_timeout)
        self.addCleanup(lambda: self.successResultOf(store.close()))
        self.successResultOf(store.open())
        return store

    def member(self, store: ZooKeeperStore, topics: Any = None, **options: Any) -> ConsumerConnector:
        """One that reads everything into :attr:`seen`."""
        given = {"auto_offset_reset": "earliest", "auto_commit_interval": 0.2, "rebalance_backoff": 1.0, **options}
        connector = ConsumerConnector(self.a_cluster(), store, "g", **given)
        self.addCleanup(lambda: self.successResultOf(connector.shutdown()))
        joining: Deferred[Any]
        if isinstance(topics, WhiteList):
            joining = connector.create_message_streams_by_filter(topics)
            streams = self.successResultOf(joining)
        else:
            joining = connector.create_message_streams(topics or {"t": 1})
            streams = [stream for some in self.successResultOf(joining).values() for stream in some]
        for stream in streams:
            Deferred.fromCoroutine(self._loop(stream))
        return connector

    async def _loop(self, stream: MessageStream) -> None:
        async for record in stream:
            self.seen.append(record)

    def values(self, topic: str = "t") -> set[tuple[int, bytes | None]]:
        return {(each.partition, each.value) for each in self.seen if each.topic == topic}

    def wait_for(self, *values: bytes, partitions: int = 6, topic: str = "t") -> None:
        expected = {(partition, value) for partition in range(partitions) for value in values}
        self.wait_until(lambda: expected <= self.values(topic), f"{values}")

    def owned(self, *connectors: ConsumerConnector) -> list[TopicPartition]:
        return sorted(partition for each in connectors for partition in each.owned)

    @property
    def every(self) -> list[TopicPartition]:
        return [TopicPartition("t", partition) for partition in range(6)]

    def test_killed_member(self) -> None:
        """The partitions of a member that was killed go to the others, which go on where it was done."""
        self.begin(self.root)
        first, second = self.member(self.store()), self.member(self.store())
        self.wait_until(lambda: self.owned(first, second) == self.every)
        with tempfile.NamedTemporaryFile("r") as output, open(output.name, "w") as written:
            arguments = [self.connect, self.bootstrap, "g", "t"]
            third = subprocess.Popen(
                [sys.executable, "-m", "tests.zookeeper.connector_member", *arguments], cwd=ROOT, stdout=written
            )
            self.addCleanup(third.wait)
            self.addCleanup(third.kill)
            said: list[str] = []

            def says(lines: int) -> bool:
                said.extend(output.read().splitlines())
                return len(said) >= lines

            self.wait_until(lambda: says(1), "the third member")
            self.wait_until(lambda: len(first.owned) == len(second.owned) == 2, "its share")
            self.put(b"1")
            self.wait_until(lambda: says(3), "its records")
            self.wait_until(lambda: len(self.values()) == 4)
            theirs = {(int(p), v.encode()) for p, _, v in (line.split() for line in said[1:])}
            self.assertEqual(theirs | self.values(), {(partition, b"1") for partition in range(6)})
            third.kill()
            third.wait()
        self.put(b"2")
        self.wait_for(b"2")
        self.assertEqual(self.owned(first, second), self.every)

    def test_a_new_topic(self) -> None:
        """A topic that is made while a filter is in force is read from its beginning."""
        self.begin(self.root)
        member = self.member(self.store(), WhiteList("new.*"))
        self.assertEqual(self.owned(member), [])
        self.create("new-1", 2)
        self.put(b"1", topic="new-1")
        self.wait_for(b"1", partitions=2, topic="new-1")
        self.create("new-2", 1)
        self.put(b"2", topic="new-2")
        self.wait_for(b"2", partitions=1, topic="new-2")
        self.assertEqual(self.values(), set())

    def test_an_expired_session(self) -> None:
        """Who loses its session joins again; nothing is owned by nobody, and nothing is missed."""
        self.begin(self.root)
        stores = [self.store(), self.store()]
        first, second = [self.member(each) for each in stores]
        self.put(b"1")
        self.wait_for(b"1")
        credentials = stores[0].credentials
        assert credentials is not None
        self.zookeeper.expire(*credentials)
        self.wait_until(lambda: stores[0].generation == 2)
        self.put(b"2")
        self.wait_for(b"2")
        self.wait_until(lambda: self.owned(first, second) == self.every and len(first.owned) == 3)
        watching = self.opened()
        for partition in range(6):
            data, stat = self.successResultOf(watching.get(f"/consumers/g/owners/t/{partition}"))
            self.assertIn(stat.ephemeral_owner, [each.session_id for each in stores])
            self.assertIn(data.decode()[:-2], (first.consumer_id, second.consumer_id))

    def test_clean_shutdown(self) -> None:
        """What is done is committed at the end, in Kafka's spelling, and nobody gets it again; no node is left."""
        self.begin(self.root)
        first = self.member(self.store(), auto_commit_interval=60.0)
        watching = self.opened()
        (consumer_id,) = self.successResultOf(watching.children("/consumers/g/ids"))
        registered = json.loads(self.successResultOf(watching.get(f"/consumers/g/ids/{consumer_id}"))[0])
        self.assertEqual(
            {**registered, "timestamp": ""},
            {"version": 1, "subscription": {"t": 1}, "pattern": "static", "timestamp": ""},
        )
        self.put(b"1", b"2")
        self.wait_for(b"1", b"2")
        self.successResultOf(first.shutdown())
        self.assertEqual(self.successResultOf(watching.get("/consumers/g/offsets/t/5"))[0], b"2")
        self.assertEqual(self.successResultOf(watching.children("/consumers/g/ids")), [])
        self.assertEqual(self.successResultOf(watching.children("/consumers/g/owners/t")), [])
        self.seen.clear()
        self.put(b"3")
        self.member(self.store())
        self.wait_for(b"3")
        self.assertEqual({value for _, value in self.values()}, {b"3"})

    def test_offsets_with_the_brokers(self) -> None:
        """Offsets may be kept by the brokers, where every other tool finds them."""
        self.begin(self.root)
        first = self.member(self.store(), offsets_storage="kafka")
        self.put(b"1")
        self.wait_for(b"1")
        self.successResultOf(first.shutdown())
        offsets = self.successResultOf(self.admin.list_group_offsets(["g"]))["g"]
        self.assertEqual({each: offsets[each].offset for each in offsets}, dict.fromkeys(self.every, 1))
        self.seen.clear()
        self.put(b"2")
        self.member(self.store(), offsets_storage="kafka")
        self.wait_for(b"2")
        self.assertEqual({value for _, value in self.values()}, {b"2"})
        self.assertIsNone(self.successResultOf(self.opened().exists("/consumers/g/offsets")))

    def test_zookeeper_outage(self) -> None:
        """Reading goes on while ZooKeeper is away; commits fail, and are made up for when it is back."""
        own = ZooKeeper()
        self.addCleanup(own.close)
        own.start()
        self.begin(f"{own.connect}/x")
        store = self.store(20.0)
        member = self.member(store)
        self.put(b"1")
        self.wait_for(b"1")
        self.successResultOf(member.commit_offsets())
        own.kill()
        self.wait_until(lambda: store.state is SessionState.SUSPENDED)
        self.put(b"2")
        self.wait_for(b"2")
        self.failureResultOf(member.commit_offsets(), LogbusError)
        own.start()
        self.wait_until(lambda: store.state is SessionState.CONNECTED)
        self.successResultOf(member.commit_offsets())
        self.assertEqual(self.successResultOf(store.get("/consumers/g/offsets/t/0"))[0], b"2")
        self.assertEqual(store.generation, 1)

    def test_a_broker_of_three_is_killed(self) -> None:
        """A stream goes on when the leader of its partitions is lost, without a rebalance taking anything away."""
        three = KafkaCluster(3, {"default.replication.factor": "3", "min.insync.replicas": "2"})
        self.addCleanup(three.close)
        three.start()
        self.connect = three.zookeeper.connect + CHROOT
        self.bootstrap = three.bootstrap
        self.begin_with()
        members = [self.member(self.store()) for _ in range(2)]
        self.put(b"1")
        self.wait_for(b"1")
        three.leader("t", 0).kill()
        self.put(b"2")
        self.wait_for(b"2")
        self.assertEqual(self.owned(*members), self.every)
        self.assertEqual([len(each.owned) for each in members], [3, 3])

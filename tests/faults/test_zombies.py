"""
Zombies: brokers that were replaced while they were frozen or unreachable, and continue.

Whatever a zombie tells its clients, nothing that counts comes of it.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import closing
from typing import Any, cast
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.errors import ErrorCode
from logbus.metastore.znodes import CONTROLLER, CONTROLLER_EPOCH, TOPICS, TopicZnode
from logbus.records.batch import Record, encode_batch
from logbus.testing.cluster import Cluster, ClusterBroker
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.faults.conftest import load
from tests.faults.nemesis import Nemesis, outside_isr
from tests.faults.partition_logs import batches

SECONDS = 120.0
ALL = -1


class Naive:
    """A producer that believes one broker, and tries nothing again."""

    def __init__(self, broker: ClusterBroker, topic: str) -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        self.topic = topic
        self._socket = socket.create_connection((host, int(port)), SECONDS)
        self._wire = ClientConnection("naive")

    def send(self, acks: int, *values: bytes) -> None:
        """Write requests of a record each; the answers come when they come."""
        for value in values:
            data = PartitionProduceData(
                index=0, records=encode_batch([Record(0, int(time.time() * 1000), None, value)])
            )
            topic = TopicProduceData(name=self.topic, partition_data=[data])
            request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])
            _, parts = self._wire.request(request, 9)
            self._socket.sendall(b"".join(cast("list[bytes]", parts)))

    def answers(self) -> list[int]:
        """What it was told; if the broker hangs up, nothing more."""
        told: list[int] = []
        with self._socket.makefile("rb") as stream:
            while self._wire.outstanding and len(prefix := stream.read(4)) == 4:
                _, response = self._wire.receive(stream.read(int.from_bytes(prefix, "big")))
                told.append(response.responses[0].partition_responses[0].error_code)
        return told

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def values_on(broker: ClusterBroker, topic: str) -> bytes:
    """All that a broker's log holds, uncompressed."""
    return b"".join(batch.data for batch in batches(broker.data_dir, topic, 0))


@pytest.mark.parametrize("acks", [ALL, 1])
def test_a_leader_stood_still(cluster: Cluster, nemesis: Nemesis, acks: int) -> None:
    """
    What it was sent while it was frozen it finds when it goes on, and it acknowledges none: it knows that others may
    lead by now.
    """
    with load(cluster, at_least=300) as traffic:
        led = cluster.leader(traffic.topic)
        with closing(Naive(led, traffic.topic)) as naive, nemesis.frozen(led):
            cluster.leader(traffic.topic, other_than=led)
            traffic.more(100)
            naive.send(acks, *(b"zombie-%d" % number for number in range(20)))
            led.thaw()
            told = naive.answers()
        assert told and ErrorCode.NONE not in told, told
    for broker in cluster.brokers:
        assert b"zombie-" not in values_on(broker, traffic.topic)


def test_a_leader_out_of_reach(cluster: Cluster, nemesis: Nemesis) -> None:
    """
    Cut off from all but its clients it goes on to lead: acks=all waits and is refused; what it took with acks=1 is
    gone when it is back, and no consumer was shown it.
    """
    with load(cluster, at_least=100) as traffic:
        led = cluster.leader(traffic.topic)
        with closing(Naive(led, traffic.topic)) as naive, nemesis.cut_from_brokers(led):
            naive.send(1, *(b"weak-%d" % number for number in range(20)))
            assert naive.answers() == [ErrorCode.NONE] * 20
            assert b"weak-19" in values_on(led, traffic.topic)
            with nemesis.isolated(led):
                naive.send(ALL, *(b"zombie-%d" % number for number in range(20)))
                traffic.write_by_way_of([broker for broker in cluster.brokers if broker is not led], 100)
                told = naive.answers()
                # It sends its clients away when it cannot know any more who leads.
                traffic.more(100)
        assert told and ErrorCode.NONE not in told, told
    for broker in cluster.brokers:
        held = values_on(broker, traffic.topic)
        assert b"weak-" not in held and b"zombie-" not in held


def test_a_controller_stood_still(cluster: Cluster, nemesis: Nemesis) -> None:
    """
    Another holds office while it is frozen. When it goes on it overwrites nothing, though it finds requests and
    changes of the tree that were meant for it; what it was asked for is done by the new one, or refused.
    """
    with load(cluster, at_least=300) as traffic:
        was = cluster.controller()
        epoch = int(cluster.tree.get(CONTROLLER_EPOCH) or 0)
        admin = AdminClient({"bootstrap.servers": was.bootstrap, "log_level": 0})
        admin.list_topics(timeout=SECONDS)
        late, made = f"late-{uuid4().hex[:8]}", f"made-{uuid4().hex[:8]}"
        with nemesis.frozen(was):
            now = cluster.controller(other_than=was)
            asked = admin.create_topics([NewTopic(late, 1, 2)], request_timeout=SECONDS)[late]
            others = client_of(cluster, now)
            others.create_topics([NewTopic(made, 3, 2)])[made].result(SECONDS)
            nemesis.expire(next(broker for broker in cluster.brokers if broker not in (was, now)))
            traffic.more(100)
            before = whole_tree(cluster)
        # It hands the request on, or says that it is not the controller (any more).
        refused = asked.exception(SECONDS)
        assert refused is None or refused.args[0].code() in (KafkaError.NOT_CONTROLLER, KafkaError._TRANSPORT), refused
        assert cluster.controller() is now
        assert int(cluster.tree.get(CONTROLLER_EPOCH) or 0) == epoch + 1
        cluster.wait_in_sync()
        after = whole_tree(cluster)
        assert {path: after.get(path) for path in before if path.endswith(made)} == {
            path: data for path, data in before.items() if path.endswith(made)
        }
        written_by = {state["controller_epoch"] for path, state in after.items() if path.endswith("/state")}
        assert max(written_by) == epoch + 1


def test_a_controller_out_of_reach_of_zookeeper(cluster: Cluster, nemesis: Nemesis) -> None:
    """It is reached by the brokers, and its announcements are refused once they have heard of the next."""
    with load(cluster, at_least=100) as traffic:
        was = cluster.controller()
        with nemesis.cut_from_zookeeper(was):
            now = cluster.controller(other_than=was)
            outside_isr(cluster, was, traffic.topic)
            made = f"made-{uuid4().hex[:8]}"
            admin = client_of(cluster, now)
            admin.create_topics([NewTopic(made, 3, 2)])[made].result(SECONDS)
            traffic.write_by_way_of([broker for broker in cluster.brokers if broker is not was])
        assert cluster.controller() is now
        traffic.more(100)
    told = json.loads(cluster.tree.get(CONTROLLER) or b"{}")
    assert told["brokerid"] == now.id


def client_of(cluster: Cluster, controller: ClusterBroker) -> AdminClient:
    """
    A client that knows of the present controller.

    Brokers hear of it after it was elected; a client that was told of the former one waits for that, frozen as it is.
    """

    def look() -> tuple[AdminClient] | None:
        admin = AdminClient({"bootstrap.servers": controller.bootstrap, "log_level": 0})
        # A client itself is false while it has nothing to do.
        return (admin,) if admin.list_topics(timeout=SECONDS).controller_id == controller.id else None

    return cluster.wait_until(look, f"broker {controller.id} telling that it is the controller")[0]


def whole_tree(cluster: Cluster) -> dict[str, Any]:
    """Topics and the states of their partitions, by path."""
    found: dict[str, Any] = {}
    for topic in cluster.tree.children(TOPICS):
        data = cluster.tree.get(TopicZnode.path(topic)) or b"{}"
        found[TopicZnode.path(topic)] = json.loads(data)
        for partition in cluster.tree.children(f"{TopicZnode.path(topic)}/partitions"):
            path = f"{TopicZnode.path(topic)}/partitions/{partition}/state"
            found[path] = json.loads(cluster.tree.get(path) or b"{}")
    return found

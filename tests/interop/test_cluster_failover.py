"""Kills a broker while every client produces and consumes: all continue, without losses and duplicates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from logbus.testing import Cluster
from logbus.testing.waiting import wait_until
from tests.interop.clients import CLIENTS
from tests.interop.external_members import JavaReader, KcatReader, Reader
from tests.interop.idempotent_producers import Producing, all_kinds
from tests.interop.java_client import Java
from tests.interop.member_groups import Group

pytestmark = pytest.mark.long

PARTITIONS = 3
SECONDS = 120
#: How many records each client is to have got through between two events.
SOME = 60

#: Which of the Python libraries' members reads what its own producer wrote.
MEMBERS = {"confluent": "confluent-range", "kafka-python": "kafka-python-range", "aiokafka": "aiokafka-range"}


class _Member:
    """A Python library's member of a group, as a reader."""

    def __init__(self, stack: contextlib.ExitStack, bootstrap: str, group_id: str, topic: str, kind: str) -> None:
        self._group = stack.enter_context(Group(bootstrap, group_id, [topic]))
        self._member = self._group.join(kind)

    def values(self) -> list[bytes]:
        while self._member.running and self._member.pipe.poll():
            self._member.hear()
        assert self._member.failure is None, self._member.failure
        return [record.value for record in self._member.records]

    def close(self) -> None:
        self._group.close(self._member)


@pytest.fixture(scope="module")
def cluster(cluster_of_processes: Cluster) -> Cluster:
    """Its brokers are killed as processes are."""
    return cluster_of_processes


@pytest.fixture
def pairs(cluster: Cluster, java: Java, topic: str) -> Iterator[dict[str, tuple[Producing, Reader]]]:
    """A producer and a reader of each kind, on a topic of their own; each broker leads a partition of each topic."""
    found: dict[str, tuple[Producing, Reader]] = {}
    with contextlib.ExitStack() as stack:
        for name, work in all_kinds(java).items():
            own = f"{topic}-{name}"
            java.run("create", cluster.bootstrap, own, "0,1,2;1,2,0;2,0,1")
            reader: Reader
            if name == "kcat":
                reader = KcatReader(cluster.bootstrap, f"group-{own}", own)
                stack.callback(reader.close)
            elif name == "java":
                reader = JavaReader(java, cluster.bootstrap, f"group-{own}", own, "consumer")
            else:
                reader = _Member(stack, cluster.bootstrap, f"group-{own}", own, MEMBERS[name])
            producing = Producing(cluster.bootstrap, own, PARTITIONS).start(work)
            stack.callback(producing.stopping.set)
            found[name] = producing, reader
        yield found


def all_progress(pairs: dict[str, tuple[Producing, Reader]], by: int = SOME) -> None:
    """Wait until each reader has got so many records further."""
    start = {name: len(reader.values()) for name, (_, reader) in pairs.items()}

    def gone() -> dict[str, int]:
        return {name: len(reader.values()) - start[name] for name, (_, reader) in pairs.items()}

    def told() -> str:
        return f"read since then {gone()}; errors {[producing.errors for producing, _ in pairs.values()]}"

    wait_until(lambda: all(count >= by for count in gone().values()), told, SECONDS)


def test_a_leader_is_killed(cluster: Cluster, pairs: dict[str, tuple[Producing, Reader]]) -> None:
    """
    The one killed leads a partition of every topic, and coordinates every group; it comes back and leads again.

    What each producer sent is there once and in order, and its group has processed it.
    """
    all_progress(pairs)
    killed = cluster.leader("__consumer_offsets", 0)
    killed.kill()
    for producing, _ in pairs.values():
        cluster.leader(producing.topic, killed.id, other_than=killed)
    all_progress(pairs)
    killed.start()
    cluster.wait_in_sync(*(producing.topic for producing, _ in pairs.values()))
    all_progress(pairs)
    sent = {name: producing.stop() for name, (producing, _) in pairs.items()}
    for name, (producing, reader) in pairs.items():
        wanted = {b"%d" % number for number in range(sent[name])}
        wait_until(
            lambda wanted=wanted, reader=reader: wanted <= set(reader.values()),  # type: ignore[misc]
            lambda wanted=wanted, reader=reader, name=name: (  # type: ignore[misc]
                f"{name} has not read {sorted(map(int, wanted - set(reader.values())))} of {len(wanted)}"
            ),
            SECONDS,
        )
        reader.close()
        there: list[int] = []
        for partition in range(PARTITIONS):
            found = everything(cluster, producing.topic, partition)
            assert committed(cluster, producing.topic, partition) == len(found), f"{name} has committed something else"
            assert found == sorted(found), f"{name}: partition {partition} is out of order"
            there += found
        assert sorted(there) == list(range(sent[name])), f"{name}: records are missing or doubled"


def everything(cluster: Cluster, topic: str, partition: int) -> list[int]:
    """The numbers in a partition, as they are there."""
    with contextlib.closing(Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), SECONDS)
    messages = CLIENTS[0].fetch(cluster.bootstrap, topic, end, partition=partition)
    return [int(message.value or b"") for message in messages]


def committed(cluster: Cluster, topic: str, partition: int) -> int:
    """Where the group that read a topic goes on; 0: it has committed nothing, for there was nothing."""
    group = {"bootstrap.servers": cluster.bootstrap, "group.id": f"group-{topic}"}
    with contextlib.closing(Consumer(group)) as consumer:
        [found] = consumer.committed([TopicPartition(topic, partition)], SECONDS)
    return max(0, found.offset)

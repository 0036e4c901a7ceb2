"""Share groups (KIP-932) with Kafka's own client: who gets which records, how often, and what a fail-over changes."""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from logbus.testing import Broker
from logbus.testing.local_cluster import LocalCluster
from logbus.testing.waiting import wait_until
from tests.interop.conftest import QUICK_GROUPS, WORKERS
from tests.interop.java_client import Call, Java, JavaFailed, spelled

SECONDS = 120


class Member:
    """
    A member of a share group: what it gets, and what it says of it.

    :ivar records: partition, offset and delivery count of what it got.
    :ivar delivered: partition and offset, and when, by the clock of all members.
    :ivar kept: when it was certain that a record was accepted.
    :ivar unsure: what it accepted without being told whether that is known.
    """

    def __init__(self, java: Java, bootstrap: str, group_id: str, topic: str, *says: str, **settings: object) -> None:
        given: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 10,
            "metadata.max.age.ms": 500,
            **settings,
        }
        self._call: Call = java.start("share", spelled(given), topic, *(says or ("accept",)))
        self.records: list[tuple[int, int, int]] = []
        self.problems: list[str] = []
        self.delivered: list[tuple[tuple[int, int], int]] = []
        self.kept: dict[tuple[int, int], int] = {}
        self.unsure: set[tuple[int, int]] = set()

    def _take(self, words: Sequence[str]) -> None:
        if words[0] == "record":
            partition, offset, _, count, when = words[1:]
            self.records.append((int(partition), int(offset), int(count)))
            self.delivered.append(((int(partition), int(offset)), int(when)))
        elif words[0] == "kept":
            self.kept[int(words[1]), int(words[2])] = int(words[3])
        elif words[0] == "unsure":
            self.unsure.add((int(words[1]), int(words[2])))
        else:
            self.problems.append(words[1])

    def look(self) -> list[tuple[int, int, int]]:
        """Partition, offset and delivery count of what it got so far."""
        while True:
            try:
                words = self._call.next(timeout=0.001)
            except queue.Empty:
                return self.records
            assert words is not None, "it has ended"
            self._take(words)

    def close(self) -> None:
        self._call.stop()
        for words in self._call.rest(SECONDS):
            self._take(words)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Groups get settings, which other tests of all of a broker's settings would find."""
    with Broker({**QUICK_GROUPS, "workers": WORKERS}) as broker:
        yield broker


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(bootstrap: str, topic: str, partitions: int, replicas: int = 1) -> None:
    client = admin(bootstrap)
    client.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(SECONDS)


def from_the_start(bootstrap: str, group_id: str, **settings: str) -> None:
    """Have a group begin with the first records."""
    values = {"share.auto.offset.reset": "earliest"} | {
        name.replace("_", "."): value for name, value in settings.items()
    }
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in values.items()]
    resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=entries)
    client = admin(bootstrap)
    client.incremental_alter_configs([resource])[resource].result(SECONDS)


def produce(bootstrap: str, topic: str, count: int, partitions: int) -> None:
    """The same number of records for each partition, in small batches: members acquire whole ones."""
    failed: list[object] = []
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "batch.num.messages": 5}
    producer = Producer(settings)
    for number in range(count):
        producer.produce(
            topic,
            b"%d" % number,
            partition=number % partitions,
            on_delivery=lambda e, _: failed.append(e) if e else None,
        )
    assert producer.flush(SECONDS) == 0
    assert not failed


@contextmanager
def members(make: Callable[[], Member], count: int) -> Iterator[list[Member]]:
    made = [make() for _ in range(count)]
    try:
        yield made
    finally:
        for member in made:
            member.close()


def seen(some: Sequence[Member]) -> Counter[tuple[int, int]]:
    """How often each record was delivered."""
    return Counter((partition, offset) for member in some for partition, offset, _ in member.look())


def everything(count: int, partitions: int) -> set[tuple[int, int]]:
    return {(number % partitions, number // partitions) for number in range(count)}


def test_one_partition_for_all(broker: Broker, java: Java, topic: str) -> None:
    """Three members read one partition together: each record goes to one of them, and all have some."""
    create(broker.bootstrap, topic, 1)
    from_the_start(broker.bootstrap, f"group-{topic}")
    with members(lambda: Member(java, broker.bootstrap, f"group-{topic}", topic), 3) as some:
        # As long as one of them is not there yet, the others may be faster.
        wait_until(lambda: described(java, broker.bootstrap, f"group-{topic}") == 3, "members to be there", SECONDS)
        produce(broker.bootstrap, topic, 1000, 1)
        wait_until(lambda: len(seen(some)) == 1000, "all records to come", SECONDS)
    assert set(seen(some).values()) == {1}
    assert all(member.records for member in some)
    assert not [problem for member in some for problem in member.problems]
    # Whoever comes next finds nothing.
    with closing(Member(java, broker.bootstrap, f"group-{topic}", topic)) as late:
        produce(broker.bootstrap, topic, 1, 1)
        wait_until(lambda: bool(late.look()), "the next record", SECONDS)
    assert late.records == [(0, 1000, 1)]


def described(java: Java, bootstrap: str, group_id: str) -> int:
    """How many members a share group has, as its coordinator tells."""
    try:
        return len(java.run("shareMembers", spelled({"bootstrap.servers": bootstrap}), group_id))
    except JavaFailed as error:
        assert error.args[0] == "GroupIdNotFoundException"
        return 0


def test_released_and_rejected(broker: Broker, java: Java, topic: str) -> None:
    """A released record comes again with a higher count, until that is high enough; a rejected one does not."""
    create(broker.bootstrap, topic, 1)
    from_the_start(broker.bootstrap, f"group-{topic}", share_delivery_count_limit="2")
    produce(broker.bootstrap, topic, 3, 1)
    says = "accept", "release", "reject", "release", "accept"
    with closing(Member(java, broker.bootstrap, f"group-{topic}", topic, *says)) as member:
        wait_until(lambda: len(member.look()) == 4, "the released record to come again", SECONDS)
        produce(broker.bootstrap, topic, 1, 1)
        wait_until(lambda: len(member.look()) == 5, "the next record", SECONDS)
    assert member.records == [(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 1, 2), (0, 3, 1)]
    assert not member.problems


def test_a_member_that_goes(broker: Broker, java: Java, topic: str) -> None:
    """What a member had when it left another one gets at once, with a higher count."""
    create(broker.bootstrap, topic, 1)
    from_the_start(broker.bootstrap, f"group-{topic}")
    produce(broker.bootstrap, topic, 5, 1)
    first = Member(java, broker.bootstrap, f"group-{topic}", topic, "nothing")
    wait_until(lambda: len(first.look()) == 5, "all records", SECONDS)
    first.close()
    with closing(Member(java, broker.bootstrap, f"group-{topic}", topic)) as second:
        wait_until(lambda: len(second.look()) == 5, "what the other one had", SECONDS)
    assert {(offset, count) for _, offset, count in second.records} == {(offset, 2) for offset in range(5)}


def test_a_leader_is_killed(cluster: LocalCluster, java: Java, topic: str) -> None:
    """All brokers are killed in turn: every record is delivered, and what was accepted is not delivered again."""
    create(cluster.bootstrap, topic, 3, 3)
    from_the_start(cluster.bootstrap, f"group-{topic}")
    total = 0
    with members(lambda: Member(java, cluster.bootstrap, f"group-{topic}", topic), 2) as some:
        for broker in list(cluster.brokers):
            produce(cluster.bootstrap, topic, 300, 3)
            total += 300
            wait_until(lambda total=total: len(seen(some)) == total, "all records", SECONDS)
            before = seen(some)
            broker.kill()
            cluster.leader(topic, other_than=broker)
            broker.start()
            cluster.wait_in_sync(topic)
            assert set(before) <= set(seen(some))
        produce(cluster.bootstrap, topic, 300, 3)
        total += 300
        wait_until(lambda: len(seen(some)) == total, "all records", SECONDS)
    assert set(seen(some)) == everything(total, 3)
    kept = {place: when for member in some for place, when in member.kept.items()}
    # What a broker has noted, but died before it said so, comes no more.
    lost_answers = {place for member in some for place in member.unsure}
    assert set(kept) | lost_answers == everything(total, 3)
    assert not [place for member in some for place, when in member.delivered if place in kept and when > kept[place]]

"""Tests administration of three brokers with four libraries, through any of the brokers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import errors as kafka_errors

from logbus.testing import Cluster, LocalCluster
from logbus.testing.local_cluster import LocalBroker
from tests.interop.admin_clients import ADMINISTRATORS, Administrator, KafkaPythonAdministrator, Partition
from tests.interop.clients import CLIENTS, SECONDS, Message, kcat
from tests.interop.conftest import RACKS
from tests.interop.java_client import Java, JavaFailed

EVERYWHERE = [0, 1, 2]

#: An administrator of a kind that asks one broker.
Make = Callable[[str, LocalBroker], Administrator]


@pytest.fixture
def make(java: Java) -> Iterator[Make]:
    """Make administrators; they are closed in the end."""
    with contextlib.ExitStack() as stack:

        def made(kind: str, asked: LocalBroker) -> Administrator:
            return stack.enter_context(contextlib.closing(ADMINISTRATORS[kind](java, asked.bootstrap)))

        yield made


@pytest.fixture
def python(cluster: LocalCluster) -> Iterator[KafkaPythonAdministrator]:
    """kafka-python's, which does more than the others."""
    with contextlib.closing(KafkaPythonAdministrator(no_controller(cluster).bootstrap)) as admin:
        yield admin


def no_controller(cluster: LocalCluster) -> LocalBroker:
    """A broker that has to ask another one for what only the controller does."""
    controller = cluster.controller()
    return next(broker for broker in cluster.brokers if broker is not controller)


@pytest.mark.parametrize("kind", ADMINISTRATORS)
def test_the_cluster(cluster: LocalCluster, make: Make, kind: str) -> None:
    """Every broker tells of all three, and of the same controller."""
    wanted = {broker.id: broker.bootstrap for broker in cluster.brokers}
    for broker in cluster.brokers:
        assert make(kind, broker).brokers() == (cluster.controller().id, wanted)


def test_racks(cluster: LocalCluster, java: Java) -> None:
    """Where brokers are is told with them."""
    found = {int(words[1]): words[3] for words in java.run("cluster", cluster.bootstrap) if words[0] == "broker"}
    assert found == dict(enumerate(RACKS))


@pytest.mark.parametrize("kind", ADMINISTRATORS)
def test_topic_lifecycle(cluster: LocalCluster, make: Make, topic: str, kind: str) -> None:
    """Created on given replicas, described, grown, altered, its records deleted, and deleted itself."""
    admin = make(kind, no_controller(cluster))
    admin.create(topic, [[2, 1, 0], [1, 2, 0]])
    assert admin.describe(topic) == [Partition(2, [2, 1, 0], EVERYWHERE), Partition(1, [1, 2, 0], EVERYWHERE)]
    admin.grow(topic, 6)
    grown = admin.describe(topic)
    assert len(grown) == 6
    assert all(len(each.replicas) == 3 and each.isr == EVERYWHERE for each in grown[2:])
    admin.alter(topic, "retention.ms", "123456789")
    for broker in cluster.brokers:
        assert make(kind, broker).setting(topic, "retention.ms") == "123456789"
    CLIENTS[0].produce(cluster.bootstrap, topic, [Message(b"%d" % n) for n in range(10)], partition=1)
    assert admin.delete_records(topic, 1, 4) == 4
    assert [m.offset for m in CLIENTS[0].fetch(cluster.bootstrap, topic, 6, partition=1, offset=4)] == [*range(4, 10)]
    admin.delete(topic)
    for broker in cluster.brokers:
        assert topic not in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=SECONDS).topics


@pytest.mark.parametrize("kind", ADMINISTRATORS)
def test_replicas_are_spread(cluster: LocalCluster, java: Java, make: Make, topic: str, kind: str) -> None:
    """By numbers alone each broker leads as many partitions, and holds every one."""
    admin = make(kind, no_controller(cluster))
    admin.create_spread(topic, 6, 3)
    found = admin.describe(topic)
    assert sorted(each.leader for each in found) == [0, 0, 1, 1, 2, 2]
    assert all(sorted(each.replicas) == each.isr == EVERYWHERE and each.leader == each.replicas[0] for each in found)
    with pytest.raises(JavaFailed, match="InvalidReplicationFactorException"):
        java.run("create", cluster.bootstrap, f"{topic}-4", "1x4")
    with pytest.raises(JavaFailed, match="InvalidReplicaAssignmentException"):
        java.run("create", cluster.bootstrap, f"{topic}-7", "0,1,7")


def test_settings_of_brokers(cluster: LocalCluster, java: Java) -> None:
    """One broker's and everybody's are changed at whichever broker is asked, and hold where they are meant to."""
    asked = no_controller(cluster).bootstrap
    java.run("alter", asked, "BROKER", "", "message.max.bytes", "2000000")
    java.run("alter", asked, "BROKER", "1", "message.max.bytes", "3000000")
    for number, expected in ((0, "2000000"), (1, "3000000"), (2, "2000000")):
        told = cluster.wait_until(
            lambda number=number, expected=expected: (  # type: ignore[misc]
                java.run("config", asked, "BROKER", number, "message.max.bytes") == [["is", expected]]
            ),
            f"message.max.bytes={expected} of broker {number}",
            5,
        )
        assert told
    java.run("alter", asked, "BROKER", "1", "message.max.bytes", "-")
    java.run("alter", asked, "BROKER", "", "message.max.bytes", "-")


def test_loggers_of_each_broker(cluster_of_processes: Cluster, java: Java) -> None:
    """The levels of a broker's loggers are its own: clients send a change to it, and not to the controller."""
    controller = cluster_of_processes.controller()
    asked = next(broker for broker in cluster_of_processes.brokers if broker is not controller).bootstrap
    name = "logbus.metastore"
    java.run("alter", asked, "BROKER_LOGGER", "1", name, "ERROR")
    found = [java.run("config", asked, "BROKER_LOGGER", number, name) for number in (0, 1, 2)]
    assert found == [[["is", "INFO"]], [["is", "ERROR"]], [["is", "INFO"]]]
    java.run("alter", asked, "BROKER_LOGGER", "1", name, "-")
    assert java.run("config", asked, "BROKER_LOGGER", "1", name) == [["is", "INFO"]]


@pytest.mark.parametrize("kind", ["java", "kafka-python"])
def test_replicas_move(
    cluster: LocalCluster, java: Java, make: Make, python: KafkaPythonAdministrator, topic: str, kind: str
) -> None:
    """A partition moves from two brokers to others with its records; nothing is left that moves."""
    java.run("create", cluster.bootstrap, topic, "0,1;1,2")
    sent = [Message(b"%d" % n * 100) for n in range(200)]
    CLIENTS[0].produce(cluster.bootstrap, topic, sent)
    if kind == "java":
        java.run("reassign", no_controller(cluster).bootstrap, topic, 0, "2,1")
    else:
        python.reassign(topic, 0, [2, 1])
    admin = make(kind, cluster.brokers[1])
    wanted = [Partition(2, [2, 1], [1, 2]), Partition(1, [1, 2], [1, 2])]
    cluster.wait_until(lambda: admin.describe(topic) == wanted, f"partition 0 of {topic} on 2 and 1", SECONDS)
    assert java.run("reassignments", cluster.bootstrap) == []
    assert python.reassignments(topic) == {}
    assert CLIENTS[0].fetch(cluster.bootstrap, topic, len(sent)) == sent
    with pytest.raises(kafka_errors.InvalidReplicationAssignmentError):
        python.reassign(topic, 0, [1, 9])
    with pytest.raises(kafka_errors.NoReassignmentInProgressError):
        python.reassign(topic, 0, None)
    with pytest.raises(JavaFailed, match="NoReassignmentInProgressException"):
        java.run("reassign", cluster.bootstrap, topic, 0, "-")


@pytest.mark.parametrize("kind", ["java", "kafka-python"])
def test_a_move_is_called_off(
    cluster: LocalCluster, java: Java, python: KafkaPythonAdministrator, topic: str, kind: str
) -> None:
    """A move that does not get on is listed; called off, its replicas are those it had."""
    controller = cluster.controller()
    leader, target = (broker for broker in cluster.brokers if broker is not controller)
    java.run("create", cluster.bootstrap, topic, f"{leader.id},{controller.id}")
    CLIENTS[0].produce(cluster.bootstrap, topic, [Message(b"x")])
    target.cut_off(leader)
    try:
        replicas = [target.id, controller.id, leader.id]
        if kind == "java":
            java.run("reassign", leader.bootstrap, topic, 0, f"{target.id},{controller.id}")
            assert java.run("reassignments", leader.bootstrap) == [
                ["moves", topic, "0", str(replicas), f"[{target.id}]", f"[{leader.id}]"],
            ]
            java.run("reassign", leader.bootstrap, topic, 0, "-")
        else:
            python.reassign(topic, 0, replicas[:2])
            assert python.reassignments(topic) == {0: (replicas, [target.id], [leader.id])}
            python.reassign(topic, 0, None)
        assert python.reassignments(topic) == {}
        # As with Kafka, what was to stay comes first.
        left = [controller.id, leader.id]
        assert python.describe(topic) == [Partition(leader.id, left, sorted(left))]
    finally:
        target.reconnect()


def test_broker_down(cluster: LocalCluster, java: Java, make: Make, topic: str) -> None:
    """
    Its replicas are offline and out of the ISR; what cannot be without it is refused, a move to it waits and is ended.

    When it is back, each library has it lead again what it is preferred for.
    """
    java.run("create", cluster.bootstrap, topic, "0,1,2;1,2,0;2,0,1")
    for moving in range(3):
        java.run("create", cluster.bootstrap, f"{topic}-{moving}", "2,0,1")
    java.run("create", cluster.bootstrap, f"{topic}-move", "0,1")
    away = cluster.brokers[2]
    away.kill()
    cluster.wait_gone(away)
    cluster.leader(topic, 2, other_than=away)
    asked = cluster.brokers[0].bootstrap
    for kind in ADMINISTRATORS:
        admin = make(kind, cluster.brokers[0])
        cluster.wait_until(
            lambda admin=admin: [each.isr for each in admin.describe(topic)] == [[0, 1]] * 3,  # type: ignore[misc]
            f"the ISRs without broker 2, by {kind}",
            SECONDS,
        )
        assert [each.leader for each in admin.describe(topic)] == [0, 1, 0]
        assert sorted(admin.brokers()[1]) == [0, 1]
    python = KafkaPythonAdministrator(asked)
    raw = KafkaAdminClient(bootstrap_servers=asked)
    [told] = raw.describe_topics([topic])
    assert all(each["offline_replicas"] == [2] for each in told["partitions"])
    shown = json.loads(kcat(asked, "-L", "-J", "-t", topic))["topics"][0]["partitions"]
    assert [sorted(one["id"] for one in each["isrs"]) for each in shown] == [[0, 1]] * 3

    with pytest.raises(JavaFailed, match="InvalidReplicationFactorException"):
        java.run("create", asked, f"{topic}-refused", "1x3")
    assert java.run("elect", asked, topic, 2, "PREFERRED") == [
        ["elected", topic, "2", "PreferredLeaderNotAvailableException"]
    ]
    with pytest.raises(kafka_errors.InvalidReplicationAssignmentError):
        python.reassign(f"{topic}-move", 0, [0, 2])

    away.start()
    cluster.wait_back(away)
    cluster.wait_in_sync(topic, *(f"{topic}-{moving}" for moving in range(3)))
    confluent = AdminClient({"bootstrap.servers": asked})
    assert java.run("elect", asked, topic, 2, "PREFERRED") == [["elected", topic, "2", "-"]]
    place = TopicPartition(f"{topic}-0", 0)
    [(_, error)] = confluent.elect_leaders(ElectionType.PREFERRED, [place]).result(SECONDS).items()
    assert error is None
    raw.elect_leaders(0, {f"{topic}-1": [0]})
    # Of all partitions; those that are led as they should be are no error.
    java.run("elect", asked, "*", 0, "PREFERRED")
    for name, partition in ((topic, 2), *((f"{topic}-{moving}", 0) for moving in range(3))):
        assert cluster.leader(name, partition) is away
    assert raw.describe_topics([topic])[0]["partitions"][2]["offline_replicas"] == []
    raw.close()
    python.close()

"""The cluster in one process: replication, elections, and brokers that come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import BrokerFailed, LocalCluster
from logbus.testing.cluster_roles import known_brokers
from logbus.testing.waiting import WaitTimedOut

SECONDS = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One for the tests that leave it as they found it."""
    with LocalCluster(racks=("a", "b", "c")) as running:
        yield running


def create(cluster: LocalCluster, name: str, partitions: int = 3) -> None:
    """A topic with three replicas."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(SECONDS)
    cluster.wait_in_sync(name)


def produce(cluster: LocalCluster, topic: str) -> int:
    """Write a record to partition 0, to all replicas; its offset."""
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, record: offsets.append(record.offset()))
    assert producer.flush(SECONDS) == 0
    return offsets[0]


def test_serves_and_cleans_up() -> None:
    """Every broker knows all from the first moment; afterwards there is no file and no thread."""
    threads = set(threading.enumerate())
    with LocalCluster(2) as cluster:
        assert len(cluster.bootstrap.split(",")) == 2
        assert [known_brokers(broker.bootstrap) for broker in cluster.brokers] == [2, 2]
        assert cluster.controller() in cluster.brokers
        home = cluster.brokers[0].data_dir.parent
        assert (home / "broker-1" / "meta.properties").exists()
    assert not home.exists()
    assert set(threading.enumerate()) <= threads
    cluster.close()


def test_a_leader_is_killed(cluster: LocalCluster) -> None:
    """Another broker leads, with all records; the one that was killed comes back on its port, and into the ISR."""
    create(cluster, "kills")
    assert produce(cluster, "kills") == 0
    led = cluster.leader("kills")
    before, address = led.epoch, led.bootstrap
    led.kill()
    assert led not in cluster.running
    assert cluster.leader("kills", other_than=led) in cluster.running
    assert produce(cluster, "kills") == 1
    led.start()
    assert led.bootstrap == address
    assert cluster.wait_back(led, after=before) > before
    cluster.wait_in_sync("kills")
    assert led in cluster.followers("kills")


def test_a_leader_is_stopped(cluster: LocalCluster) -> None:
    """A stop in order hands leaderships over before it ends."""
    create(cluster, "stops")
    led = cluster.leader("stops")
    led.stop()
    state = cluster.state("stops")
    assert state is not None and state.leader != led.id
    led.start()
    cluster.wait_in_sync()


def test_another_controller(cluster: LocalCluster) -> None:
    """Where the controller is gone, another broker is elected, and elects leaders."""
    create(cluster, "controlled")
    first = cluster.controller()
    first.kill()
    second = cluster.controller(other_than=first)
    assert second is not first
    assert produce(cluster, "controlled") == 0
    first.start()
    cluster.wait_in_sync()
    epoch = second.epoch
    second.expire_session()
    assert cluster.wait_back(second, after=epoch) > epoch
    cluster.wait_in_sync()


def test_racks(cluster: LocalCluster) -> None:
    """Brokers are in the racks that they were given."""
    assert [broker.config["broker.rack"] for broker in cluster.brokers] == ["a", "b", "c"]


def test_a_wait_that_times_out(cluster: LocalCluster) -> None:
    """It says what did not come about."""
    cluster.timeout, before = 0.01, cluster.timeout
    try:
        with pytest.raises(WaitTimedOut, match=r"a full list did not come about within 0\.01 s"):
            cluster.tree.wait_for(lambda: None, "a full list", 0.01)
    finally:
        cluster.timeout = before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"brokers": 0}, "brokers is 0; it is an integer from 1 to 100"),
        ({"brokers": "3"}, "brokers is '3'; it is an integer from 1 to 100"),
        ({"racks": ["a"]}, "racks has 1 racks for 3 brokers"),
        ({"config": {"broker.id": 7}}, "broker.id is not for a cluster in one process"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], words: str) -> None:
    """Each is named before anything is made."""
    with pytest.raises(ValueError, match=words):
        LocalCluster(**arguments)  # type: ignore[arg-type]


def test_leadership_is_moved() -> None:
    """To the next replica, or to one that is named."""
    with LocalCluster() as cluster:
        cluster.admin.create_topic("t", 1, 3)
        before = cluster.leader("t")
        after = cluster.move_leader("t")
        assert after is not before
        assert cluster.leader("t") is after
        assert cluster.move_leader("t", to=before) is before
        cluster.admin.create_topic("single", 1, 1)
        with pytest.raises(ValueError, match="single-0 has replicas on"):
            cluster.move_leader("single")


def test_a_broker_is_cut_off() -> None:
    """A follower that its leader cannot reach leaves the ISR, and comes back."""
    with LocalCluster(config={"replica.lag.time.max.ms": 1000}) as cluster:
        cluster.admin.create_topic("t", 1, 3)
        cluster.wait_in_sync("t")
        led, controller = cluster.leader("t"), cluster.controller()
        # Without the controller the leader could not change the ISR.
        follower = next(each for each in cluster.followers("t") if each is not controller)
        for cut in (
            lambda: follower.cut_off(led),
            lambda: follower.cut_off(led, way="from"),
            lambda: led.cut_off(follower, way="from"),
            lambda: (follower.cut_off(led, way="to"), follower.cut_off(led, way="from")),
        ):
            cut()
            assert produce(cluster, "t") >= 0
            cluster.wait_until(lambda: follower.id not in cluster.state("t").isr, "a smaller ISR")  # type: ignore[union-attr]
            assert len(cluster.state("t").isr) == 2  # type: ignore[union-attr]
            follower.reconnect()
            cluster.wait_in_sync("t")
        with pytest.raises(ValueError, match="cut_off: 'x' is neither another broker of the cluster nor 'store'"):
            follower.cut_off("x")
        with pytest.raises(ValueError, match="cut_off: way is 'out'; it is both, from or to"):
            follower.cut_off(way="out")
        with pytest.raises(ValueError, match="way='from' is of brokers; the metadata store is cut off both ways"):
            follower.cut_off("store", way="from")


def test_faults_are_for_clients_of_one_broker() -> None:
    """Other brokers' requests meet none: replication goes on."""
    with LocalCluster(2) as cluster:
        cluster.admin.create_topic("t", 1, 2)
        cluster.wait_in_sync("t")
        led = cluster.leader("t")
        with led.faults.fail("Fetch", error="UNKNOWN_SERVER_ERROR", topic="t") as fault:
            producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
            producer.produce("t", b"1")
            assert producer.flush(60) == 0
            assert fault.hits == 0
        led.requests.assert_count("Fetch", 0)


def test_reset_and_snapshots() -> None:
    """A cluster begins anew on its addresses, or where it was when a snapshot was taken: records, topics, brokers."""
    with pytest.raises(BrokerFailed, match="snapshot: the cluster was not started"):
        LocalCluster(1).snapshot()
    with LocalCluster(3) as cluster:
        bootstrap = cluster.bootstrap
        create(cluster, "prepared", 1)
        assert produce(cluster, "prepared") == 0
        with cluster.snapshot() as snapshot:
            assert produce(cluster, "prepared") == 1
            create(cluster, "later", 1)
            cluster.leader("prepared").kill()
            cluster.restore(snapshot)
            assert cluster.bootstrap == bootstrap
            assert len(cluster.running) == 3
            assert cluster.admin.topics() == ["prepared"]
            cluster.wait_in_sync("prepared")
            assert [record.offset for record in cluster.read("prepared")] == [0]
            assert produce(cluster, "prepared") == 1
            cluster.brokers[1].stop()
            cluster.reset()
            assert (cluster.bootstrap, len(cluster.running), cluster.admin.topics()) == (bootstrap, 3, [])
            create(cluster, "prepared", 1)
            assert produce(cluster, "prepared") == 0
            with LocalCluster(2) as other, pytest.raises(BrokerFailed, match="of 3 brokers, and the cluster has 2"):
                other.restore(snapshot)
        with pytest.raises(BrokerFailed, match="the snapshot is closed; take another one"):
            cluster.restore(snapshot)
        with pytest.raises(TypeError, match=r"restore: 'x' is none: expected what LocalCluster\.snapshot\(\) gives"):
            cluster.restore("x")  # type: ignore[arg-type]
    with pytest.raises(BrokerFailed, match="reset: the cluster is closed, and gave up its ports"):
        cluster.reset()

"""Migration of a broker's metadata from its data directory to ZooKeeper."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from logbus.metastore.metadata_copy import SKIPPED_EPOCHS
from logbus.testing import Broker
from logbus.testing.waiting import wait_until
from logbus.testing.zookeeper import ZooKeeper
from tests.cli.command_line import run
from tests.zookeeper.test_broker import consume, create, produce, service_of, tree


def test_a_broker_moves_to_zookeeper(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """Topics with ids, settings and records, offsets, the cluster's id and producer ids are all there."""
    data, file, connect = tmp_path / "data", tmp_path / "metadata.json", f"{zookeeper.connect}/moved"
    with Broker({"num.partitions": "2"}, data_dir=data) as broker:
        create(broker, "orders", **{"retention.ms": "5000000"})
        produce(broker, "orders", b"1", b"2")
        consume(broker, "orders", 2)
        before = service_of(broker).member.metadata
        cluster_id, topic_id = before.cluster_id, before.topic("orders").topic_id
        refused = run("metadata", "export", "--data-dir", str(data), str(file))
        assert (refused.status, file.exists()) == (1, False)
        assert "is in use by a broker" in refused.err
    done = run("metadata", "export", "--data-dir", str(data), "--retire", str(file))
    assert done.status == 0, done.err
    assert json.loads(file.read_text())["cluster_id"] == cluster_id
    assert [path.name for path in data.glob("metadata.db*")] == ["metadata.db.retired"]
    again = run("metadata", "export", "--data-dir", str(data), str(tmp_path / "other"))
    assert (again.status, "metadata.db" in again.err) == (1, True)
    done = run("metadata", "import", str(file), "--zookeeper", connect)
    assert done.status == 0, done.err
    refused = run("metadata", "import", str(file), "--zookeeper", connect)
    assert (refused.status, "there is a cluster already" in refused.err) == (1, True)
    with Broker({"zookeeper.connect": connect}, data_dir=data) as broker:
        after = service_of(broker).member.metadata
        assert (after.cluster_id, after.topic("orders").topic_id) == (cluster_id, topic_id)
        assert dict(after.topic("orders").configs) == {"retention.ms": "5000000"}
        produce(broker, "orders", b"3")
        assert consume(broker, "orders", 3) == [b"1", b"2", b"3"]
        refused = run("metadata", "export", "--zookeeper", connect, "-")
        assert (refused.status, "broker 0 is registered there" in refused.err) == (1, True)
        with tree(zookeeper) as client:
            # After that of the copy, and after those that brokers may have seen since it was made.
            assert int(client.get("/moved/controller_epoch")[0]) == SKIPPED_EPOCHS + 2
    back = run("metadata", "export", "--zookeeper", connect, "-")
    assert back.status == 0, back.err
    assert "/brokers/topics/orders" in json.loads(back.out)["nodes"]
    (tmp_path / "back.json").write_text(back.out)
    done = run("metadata", "import", str(tmp_path / "back.json"), "--data-dir", str(data))
    assert done.status == 0, done.err
    with Broker(data_dir=data) as broker:
        assert service_of(broker).member.metadata.cluster_id == cluster_id
        assert consume(broker, "orders", 3) == [b"1", b"2", b"3"]


def test_foreign_files(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """What is no export is refused, and nothing is made."""
    foreign = tmp_path / "package.json"
    foreign.write_text('{"name": "x"}')
    done = run("metadata", "import", str(foreign), "--zookeeper", f"{zookeeper.connect}/foreign")
    assert done.status == 1
    assert "not a file of 'logbus metadata export'" in done.err
    with tree(zookeeper) as client:
        assert client.exists("/foreign") is None


def test_places(tmp_path: Path) -> None:
    """One place must be named, and it must be one."""
    assert run("metadata", "export", str(tmp_path / "f")).status == 2
    assert run("metadata", "export", "-d", str(tmp_path), "-z", "h:1", "-").status == 2
    done = run("metadata", "export", "-d", str(tmp_path), "-")
    assert (done.status, "not the data directory of a broker" in done.err) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_other_brokers_join(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """A broker that began alone gets company: new topics have replicas on all, and its own can be moved to them."""
    data, file, plan = tmp_path / "data", tmp_path / "metadata.json", tmp_path / "plan.json"
    connect = f"{zookeeper.connect}/joined"
    with Broker(data_dir=data) as broker:
        create(broker, "old")
        produce(broker, "old", b"1", b"2")
    assert run("metadata", "export", "--data-dir", str(data), "--retire", str(file)).status == 0
    assert run("metadata", "import", str(file), "--zookeeper", connect).status == 0
    with ExitStack() as running:
        brokers = []
        for number in range(3):
            settings = {"zookeeper.connect": connect, "broker.id": str(number), "min.insync.replicas": "2"}
            brokers.append(running.enter_context(Broker(settings, data_dir=data if number == 0 else None)))
        first = brokers[0]
        produce(first, "old", b"3")
        create(first, "new", replicas=3)
        produce(first, "new", b"x")
        plan.write_text(
            json.dumps({"partitions": [{"topic": "old", "partition": 0, "replicas": [1, 2, 0]}]}), encoding="utf-8"
        )
        done = run("cluster", "reassign", "--execute", str(plan), "--bootstrap", first.bootstrap)
        assert done.status == 0, done.err

        def moved() -> bool:
            shown = run("cluster", "reassign", "--verify", str(plan), "--json", "--bootstrap", first.bootstrap)
            return [each["state"] for each in json.loads(shown.out)] == ["done"]

        wait_until(moved, "the replicas on the brokers that joined")
        done = run("cluster", "elect-leaders", "old-0", "--bootstrap", first.bootstrap)
        assert done.status == 0, done.err
        first.stop()
        told = ("topics", "describe", "old", "--bootstrap", brokers[1].bootstrap)
        wait_until(lambda: run(*told).status == 0, "a leader")
        produce(brokers[1], "old", b"4")
        assert consume(brokers[1], "old", 4) == [b"1", b"2", b"3", b"4"]

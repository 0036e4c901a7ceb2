"""A broker of a cluster and its ZooKeeper are lost, and come back from a backup."""

from __future__ import annotations

import shutil
from pathlib import Path

from logbus.testing import Broker
from logbus.testing.zookeeper import ZooKeeper
from tests.cli.command_line import run
from tests.zookeeper.test_broker import consume, create, produce, service_of


def test_everything_is_lost(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """Metadata go to an empty ZooKeeper, records to an empty directory: topics, ids, settings and records are there."""
    data, backup = tmp_path / "data", tmp_path / "backup"
    with Broker({"zookeeper.connect": f"{zookeeper.connect}/lost"}, data_dir=data) as broker:
        create(broker, "orders", **{"retention.ms": "5000000"})
        produce(broker, "orders", b"1", b"2")
        before = service_of(broker).member.metadata
        cluster_id, topic_id = before.cluster_id, before.topic("orders").topic_id
        done = run("backup", str(backup), "--admin", broker.admin_url)
        assert done.status == 0, done.err
    shutil.rmtree(data)
    connect = f"{zookeeper.connect}/found"
    for command in (
        ("metadata", "import", str(backup / "metadata.json"), "--zookeeper", connect),
        ("restore", str(backup), str(data)),
    ):
        done = run(*command)
        assert done.status == 0, done.err
    with Broker({"zookeeper.connect": connect}, data_dir=data) as broker:
        after = service_of(broker).member.metadata
        assert (after.cluster_id, after.topic("orders").topic_id) == (cluster_id, topic_id)
        assert dict(after.topic("orders").configs) == {"retention.ms": "5000000"}
        produce(broker, "orders", b"3")
        assert consume(broker, "orders", 3) == [b"1", b"2", b"3"]


def test_an_older_copy_first(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """A broker that is started with older metadata keeps the logs they do not know, and has them with newer ones."""
    data = tmp_path / "data"

    def connect(name: str) -> dict[str, str]:
        return {"zookeeper.connect": f"{zookeeper.connect}/{name}"}

    def export(name: str) -> None:
        done = run("metadata", "export", str(tmp_path / name), "--zookeeper", connect("first")["zookeeper.connect"])
        assert done.status == 0, done.err

    with Broker(connect("first"), data_dir=data) as broker:
        create(broker, "orders")
    export("older")
    with Broker(connect("first"), data_dir=data) as broker:
        create(broker, "payments")
        produce(broker, "payments", b"1", b"2")
    export("newer")
    for name in ("older", "newer"):
        done = run("metadata", "import", str(tmp_path / name), "--zookeeper", connect(name)["zookeeper.connect"])
        assert done.status == 0, done.err
        with Broker(connect(name), data_dir=data) as broker:
            produce(broker, "orders", b"after " + name.encode())
            strays = [path.name for path in data.glob("*-stray")]
            assert len(strays) == (2 if name == "older" else 0), strays
            if name == "newer":
                assert consume(broker, "payments", 2) == [b"1", b"2"]
                assert consume(broker, "orders", 2) == [b"after older", b"after newer"]

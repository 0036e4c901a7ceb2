"""Brokers that stop gracefully, and brokers that must not start: clients notice nothing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from logbus.testing.broker import BrokerFailed
from logbus.testing.broker_process import BrokerProcess
from logbus.testing.cluster import Cluster, ClusterBroker
from tests.faults.conftest import load
from tests.faults.nemesis import Nemesis

SECONDS = 120.0
NOTHING = "intruder=kafka:tcp:0:interface=127.0.0.1"


def test_a_rolling_restart(cluster: Cluster, nemesis: Nemesis) -> None:
    """Each broker stops in turn: it hands over first, so writes hardly pause, and no retrying client sees an error."""
    with load(cluster, at_least=1000, partitions=3) as traffic:
        for broker in cluster.brokers:
            begin = time.monotonic()
            nemesis.bounce(broker)
            assert time.monotonic() - begin < traffic.allowed(30.0)
            traffic.more(100)
            cluster.wait_in_sync(traffic.topic)
        # A session's timeout would be two seconds.
        assert traffic.worst_pause < traffic.allowed(2.0), f"writes stood still for {traffic.worst_pause:.1f} s"
        assert traffic.refused == []
    assert nemesis.injected.total() == 3


def shown_command() -> str:
    """The rolling restart as the guide shows it."""
    page = Path(__file__).parent.parent.parent / "docs" / "howto" / "upgrade.rst"
    (found,) = re.findall(r"^ +\$ (logbus cluster rolling-restart .*)$", page.read_text(), re.MULTILINE)
    assert isinstance(found, str)
    return found


def test_the_command_of_the_guide(cluster: Cluster, nemesis: Nemesis, tmp_path: Path) -> None:
    """
    ``logbus cluster rolling-restart`` restarts each broker, the controller last, while clients write and read: none of
    them is refused anything, and nothing is lost.
    """
    # There are no machines to log in to: who would be asked there is this test.
    order, answer = tmp_path / "order", tmp_path / "answer"
    scripts = {
        "ssh": f'echo "$LOGBUS_BROKER $*" >{order}.new; mv {order}.new {order}\n'
        f"until [ -e {answer} ]; do sleep 0.1; done; rm {answer}",
        "logbus": f"exec {sys.executable} -c 'from logbus.cli import main; main()' \"$@\"",
    }
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "LOGBUS_BOOTSTRAP": cluster.bootstrap,
    }
    with load(cluster, at_least=1000, partitions=3) as traffic:
        cluster.wait_in_sync(traffic.topic)
        controller = cluster.controller().id
        running = subprocess.Popen(
            shown_command(), shell=True, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            told = []
            for _ in cluster.brokers:
                cluster.wait_until(lambda: order.exists() or running.poll() is not None, "a restart", SECONDS)
                assert order.exists(), running.communicate()
                broker, *words = order.read_text().split()
                order.unlink()
                assert words == ["127.0.0.1", "sudo", "systemctl", "restart", "logbus"]
                told.append(int(broker))
                nemesis.bounce(cluster.brokers[told[-1]])
                traffic.more(100)
                answer.touch()
            said, _ = running.communicate(timeout=SECONDS)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.communicate()
        assert running.returncode == 0 and said.endswith("3 brokers have been restarted\n"), said
        assert sorted(told) == [0, 1, 2] and told[-1] == controller
        assert traffic.refused == []


def intruder(cluster: Cluster, broker: ClusterBroker, data_dir: Path) -> BrokerProcess:
    """Another process with the settings of a broker, and a way to ZooKeeper of its own: each has its session noted."""
    chroot = broker.config["zookeeper.connect"].partition("/")[2]
    own = {"zookeeper.connect": f"{cluster.zookeeper.connect}/{chroot}", "inter.broker.listener.name": "intruder"}
    settings = {**broker.config, **own}
    return BrokerProcess(settings, data_dir, [NOTHING])


def refused(process: BrokerProcess, words: str) -> None:
    """It ends by itself, and says why."""
    try:
        with pytest.raises(BrokerFailed, match=words):
            process.wait_ready(SECONDS)
    finally:
        process.kill()


def test_duplicate_broker_id(cluster: Cluster, tmp_path: Path) -> None:
    """The second broker with an id stops, and does not disturb the first."""
    with load(cluster, at_least=300) as traffic:
        epochs = [broker.epoch for broker in cluster.brokers]
        refused(intruder(cluster, cluster.brokers[1], tmp_path / "data"), "broker.id 1 is taken by a broker at")
        traffic.more(100)
        assert [broker.epoch for broker in cluster.brokers] == epochs


def test_data_directory_in_use(cluster: Cluster) -> None:
    """Two processes never write to one data directory."""
    with load(cluster, at_least=300) as traffic:
        refused(intruder(cluster, cluster.brokers[1], cluster.brokers[1].data_dir), "(?i)lock|in use|another")
        traffic.more(100)


def test_a_directory_of_another_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Nor does a broker take logs of another cluster for its own."""
    foreign = tmp_path / "data"
    foreign.mkdir()
    mine = cluster.brokers[1].data_dir / "meta.properties"
    lines = mine.read_text().splitlines()
    changed = ["cluster.id=AAAAAAAAAAAAAAAAAAAAAA" if line.startswith("cluster.id=") else line for line in lines]
    assert changed != lines
    shutil.copy(mine, foreign)
    (foreign / "meta.properties").write_text("\n".join([*changed, ""]))
    refused(intruder(cluster, cluster.brokers[1], foreign), "(?i)cluster")


def test_a_directory_of_another_broker(cluster: Cluster, tmp_path: Path) -> None:
    """A data directory that was moved to a broker with another id is refused."""
    foreign = tmp_path / "data"
    foreign.mkdir()
    shutil.copy(cluster.brokers[0].data_dir / "meta.properties", foreign)
    refused(intruder(cluster, cluster.brokers[1], foreign), "(?i)broker.id")

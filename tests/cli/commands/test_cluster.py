"""Tests of ``logbus cluster`` and of other commands, against a cluster of three brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logbus.testing import Cluster, LocalCluster
from tests.cli.command_line import run


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers in three racks; tests must restore its state."""
    with LocalCluster(racks=("a", "b", "c")) as running:
        yield running


def done(cluster: LocalCluster | Cluster, *arguments: str) -> str:
    """Return the output of a successful command."""
    result = run(*arguments, "--bootstrap", cluster.bootstrap)
    assert result.status == 0, result.err
    return result.out


def told(cluster: LocalCluster | Cluster, *arguments: str) -> Any:
    """Return the JSON output of a successful command."""
    return json.loads(done(cluster, *arguments, "--json"))


def refused(cluster: LocalCluster | Cluster, *arguments: str) -> str:
    """Return the error of a failed command."""
    result = run(*arguments, "--bootstrap", cluster.bootstrap)
    assert (result.status, result.err.count("\n")) == (1, 1), result.err
    return result.err


def test_describe(cluster: LocalCluster) -> None:
    """The cluster, its brokers with their racks, and what each of them has."""
    done(cluster, "topics", "create", "described", "--replica-assignment", "0:1:2,1:2:0,2:0:1")
    cluster.wait_in_sync("described")
    found = told(cluster, "cluster", "describe")
    assert found["controller"] == cluster.controller().id
    assert [each["rack"] for each in found["brokers"]] == ["a", "b", "c"]
    assert [each["preferred"] for each in found["brokers"]] == [1, 1, 1]
    assert (found["unavailable"], found["under_replicated"]) == (0, 0)
    shown = done(cluster, "cluster", "describe")
    assert "controller" in shown and "0 under-replicated" in shown
    done(cluster, "topics", "delete", "described")


def test_create_where(cluster: LocalCluster) -> None:
    """Replicas go where they are told to, also those of partitions that come later."""
    done(cluster, "topics", "create", "placed", "--replica-assignment", "2:0,1:2")
    done(cluster, "topics", "add-partitions", "placed", "--total", "3", "--replica-assignment", "0:1")
    (described,) = told(cluster, "topics", "describe", "placed")
    assert [each["replicas"] for each in described["partitions"]] == [[2, 0], [1, 2], [0, 1]]
    assert "[7]" in refused(cluster, "topics", "create", "nowhere", "--replica-assignment", "0:7")
    done(cluster, "topics", "create", "counted", "--partitions", "2", "--replication-factor", "3")
    (described,) = told(cluster, "topics", "describe", "counted")
    assert [sorted(each["replicas"]) for each in described["partitions"]] == [[0, 1, 2], [0, 1, 2]]
    done(cluster, "topics", "delete", "placed", "counted")


def test_unhealthy_partitions(cluster: LocalCluster) -> None:
    """With a broker down, partitions with too few replicas or no leader are listed."""
    done(cluster, "topics", "create", "wide", "--replica-assignment", "0:1:2", "--config", "min.insync.replicas=3")
    done(cluster, "topics", "create", "alone", "--replica-assignment", "2")
    done(cluster, "topics", "create", "well", "--replica-assignment", "0:1")
    cluster.wait_in_sync("wide", "alone", "well")

    def names(*filters: str) -> list[str]:
        return [each["name"] for each in told(cluster, "topics", "describe", *filters) if each["name"] != "described"]

    assert names("--under-replicated", "--unavailable", "--under-min-isr") == []
    gone = cluster.brokers[2]
    gone.kill()
    try:
        cluster.wait_gone(gone)
        cluster.tree.wait_for(lambda: cluster.state("wide").isr == (0, 1), "the smaller ISR")  # type: ignore[union-attr]
        cluster.tree.wait_for(lambda: cluster.state("alone").leader == -1, "the loss of the leader")  # type: ignore[union-attr]
        cluster.wait_known()
        assert names("--unavailable") == ["alone"]
        assert names("--under-replicated") == ["wide"]
        assert names("--under-min-isr") == ["wide"]
        found = told(cluster, "cluster", "describe")
        assert found["unavailable"] == 1
        assert found["brokers"][2]["host"] is None
    finally:
        gone.start()
        cluster.wait_known()
    cluster.wait_in_sync()
    assert names("--under-replicated", "--unavailable", "--under-min-isr") == []
    done(cluster, "topics", "delete", "wide", "alone", "well")


def test_elect_leaders(cluster: LocalCluster) -> None:
    """Preferred leaders lead again once they are back; what needs no election gets none."""
    done(cluster, "topics", "create", "led", "--replica-assignment", "0:1,1:0")
    cluster.wait_in_sync("led")
    assert "nothing to do" in done(cluster, "cluster", "elect-leaders", "led")
    was = cluster.leader("led", 0)
    was.restart()
    cluster.wait_known()
    cluster.wait_in_sync("led")
    assert cluster.leader("led", 0) is not was
    assert done(cluster, "cluster", "elect-leaders", "led-0") == "led-0 has another leader\n"
    assert cluster.leader("led", 0) is was
    assert "neither a topic nor a partition 'led-7'" in refused(cluster, "cluster", "elect-leaders", "led-7")
    assert run("cluster", "elect-leaders").status == 2
    assert run("cluster", "elect-leaders", "--all", "--unclean").status == 2
    done(cluster, "topics", "delete", "led")


def test_reassign(cluster: LocalCluster, tmp_path: Path) -> None:
    """A plan is made, carried out with a throttle that goes away at the end, and undone by what was kept."""
    plan, before = tmp_path / "plan.json", tmp_path / "before.json"
    done(cluster, "topics", "create", "moved", "--replica-assignment", "0:1,1:0")
    plan.write_text(done(cluster, "cluster", "reassign", "--generate", "--topics", "moved", "--to", "0,2"))
    done(cluster, "cluster", "reassign", "--execute", str(plan), "--throttle", "10000000", "--rollback", str(before))

    def settings() -> list[str]:
        found = told(cluster, "configs", "describe", "broker", "1")
        found += told(cluster, "configs", "describe", "topic", "moved")
        return [each["name"] for each in found if "throttled" in each["name"]]

    def verified() -> bool:
        return run("cluster", "reassign", "--verify", str(plan), "--bootstrap", cluster.bootstrap).status == 0

    assert len(settings()) >= 4
    cluster.wait_until(verified, "the end of the reassignment")
    assert told(cluster, "cluster", "reassign", "--list") == []
    assert settings() == []
    (described,) = told(cluster, "topics", "describe", "moved")
    assert {tuple(sorted(each["replicas"])) for each in described["partitions"]} == {(0, 2)}
    done(cluster, "cluster", "reassign", "--execute", str(before))
    plan.write_text(before.read_text())
    cluster.wait_until(verified, "the way back")
    (described,) = told(cluster, "topics", "describe", "moved")
    assert [each["replicas"] for each in described["partitions"]] == [[0, 1], [1, 0]]
    done(cluster, "topics", "delete", "moved")


def test_pending_reassignment(cluster: LocalCluster, tmp_path: Path) -> None:
    """While a broker cannot fetch its new replica, the reassignment is listed; cancelling restores the former state."""
    plan = tmp_path / "plan.json"
    decides = cluster.controller()
    leads, gets = (broker for broker in cluster.brokers if broker is not decides)
    done(cluster, "topics", "create", "stuck", "--replica-assignment", f"{leads.id}:{decides.id}")
    cluster.wait_in_sync("stuck")
    plan.write_text(json.dumps({"partitions": [{"topic": "stuck", "partition": 0, "replicas": [leads.id, gets.id]}]}))
    gets.cut_off(leads, way="from")
    try:
        done(cluster, "cluster", "reassign", "--execute", str(plan))
        (listed,) = told(cluster, "cluster", "reassign", "--list")
        assert (listed["topic"], listed["adding"], listed["removing"]) == ("stuck", [gets.id], [decides.id])
        assert "not done yet: 1 of 1" in refused(cluster, "cluster", "reassign", "--verify", str(plan))
        assert done(cluster, "cluster", "reassign", "--cancel", str(plan)) == "cancelled 1 reassignment\n"
        assert told(cluster, "cluster", "reassign", "--list") == []
    finally:
        gets.reconnect()
    (described,) = told(cluster, "topics", "describe", "stuck")
    assert [each["replicas"] for each in described["partitions"]] == [[leads.id, decides.id]]
    done(cluster, "topics", "delete", "stuck")


def test_refused_plans(cluster: LocalCluster, tmp_path: Path) -> None:
    """Unknown brokers and partitions, files without a plan, and contradictory options are refused."""
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [{"topic": "nothing", "partition": 0, "replicas": [0]}]}')
    assert "nothing" in refused(cluster, "cluster", "reassign", "--execute", str(plan))
    done(cluster, "topics", "create", "there", "--replica-assignment", "0")
    plan.write_text('{"partitions": [{"topic": "there", "partition": 0, "replicas": [9]}]}')
    assert "9" in refused(cluster, "cluster", "reassign", "--execute", str(plan))
    plan.write_text("{}")
    assert 'expected {"version": 1' in refused(cluster, "cluster", "reassign", "--verify", str(plan))
    plan.write_bytes(b"\xb2")
    assert "it is not JSON" in refused(cluster, "cluster", "reassign", "--verify", str(plan))
    assert "brokers [7] are not there" in refused(cluster, "cluster", "reassign", "--generate", "--to", "0,7")
    for wrong in ([], ["--generate", "--list"], ["--list", "--throttle", "5"], ["--list", "--to", "1"]):
        assert run("cluster", "reassign", *wrong).status == 2
    done(cluster, "topics", "delete", "there")


def test_shutdown_broker(logbus_zookeeper_cluster: Cluster) -> None:
    """A broker that can be missed stops in order, and others lead; who cannot be missed stays."""
    cluster = logbus_zookeeper_cluster  # A process each: one that is stopped ends.
    done(cluster, "topics", "create", "stays", "--replica-assignment", "1")
    stays = cluster.brokers[1]
    result = run("cluster", "shutdown-broker", "1", "--admin", stays.admin_url)
    assert (result.status, "would have no leader" in result.err) == (1, True), result.err
    assert result.err.endswith("; --force stops it all the same\n")
    done(cluster, "topics", "delete", "stays")
    done(cluster, "topics", "create", "goes", "--replica-assignment", "1:0,1:2")
    cluster.wait_in_sync("goes")
    result = run("cluster", "shutdown-broker", "2", "--admin", stays.admin_url)
    assert (result.status, result.out) == (0, "broker 2 has stopped\n"), result.err
    other = cluster.brokers[2]
    cluster.wait_gone(other)
    other.stop()
    other.start()
    cluster.wait_known()
    cluster.wait_in_sync("goes")
    result = run("cluster", "shutdown-broker", "1", "--admin", stays.admin_url)
    assert (result.status, result.out) == (0, "broker 1 has stopped\n"), result.err
    assert cluster.leader("goes", 0).id == 0
    assert cluster.leader("goes", 1).id == 2
    cluster.wait_gone(stays)
    stays.stop()
    stays.start()
    cluster.wait_known()
    cluster.wait_in_sync("goes")
    done(cluster, "topics", "delete", "goes")

"""Users and quotas in ZooKeeper: before the first start, by requests, and by Kafka's older tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.exceptions import NoNodeError

from logbus.testing.waiting import wait_until
from logbus.testing.zookeeper import ZooKeeper
from tests.cli.command_line import run
from tests.zookeeper.test_broker import a_broker, service_of, tree


def test_users_of_a_cluster(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """The first user is added before the first start; what is written beside the brokers, and announced, is taken."""
    password = tmp_path / "password"
    password.write_text("secret\n")
    offline = ("--zookeeper", f"{zookeeper.connect}/users", "--password-file", str(password))
    with tree(zookeeper) as client:
        client.ensure_path("/another/application")
        for chroot, why in (("/usres/misspelt", "no chroot /usres/misspelt"), ("/another", "no cluster yet")):
            refused = run("users", "add", "admin", "--zookeeper", f"{zookeeper.connect}{chroot}", *offline[2:])
            assert (refused.status, why in refused.err) == (1, True), refused
        assert "usres" not in client.get_children("/")
        assert client.get_children("/another") == ["application"]
    done = run("users", "add", "admin", *offline, "--new-cluster")
    assert done.status == 0, done.err
    done = run("users", "add", "second", *offline)
    assert done.status == 0, done.err
    with a_broker(zookeeper, "/users") as broker, tree(zookeeper) as client:
        nodes = service_of(broker).member.metadata.security_nodes
        at = ("--bootstrap", broker.bootstrap)
        assert [each["user"] for each in json.loads(run("users", "list", "--json", *at).out)] == ["admin", "second"]
        refused = run("users", "add", "eve", *offline)
        assert (refused.status, "is running" in refused.err) == (1, True)
        for arguments in (
            ("quotas", "set", "--user", "ann", "--client-id", "app", "producer_byte_rate=1024"),
            ("users", "add", "ann", "--password-file", str(password)),
        ):
            done = run(*arguments, *at)
            assert done.status == 0, done.err
        stored = json.loads(client.get("/users/config/users/ann/clients/app")[0])
        assert stored == {"version": 1, "config": {"producer_byte_rate": "1024"}}
        assert "SCRAM-SHA-256" in json.loads(client.get("/users/config/users/ann")[0])["config"]
        for arguments in (("quotas", "delete", "--user", "ann", "--client-id", "app"), ("users", "delete", "ann")):
            assert run(*arguments, *at).status == 0
        with pytest.raises(NoNodeError):
            client.get("/users/config/users/ann")
        # As kafka-configs of Kafka 3 does with --zookeeper.
        client.create("/users/config/users/bob", b'{"version":1,"config":{"consumer_byte_rate":"5"}}')
        notice = json.dumps({"version": 2, "entity_path": "users/bob"}).encode()
        client.create("/users/config/changes/config_change_", notice, sequence=True)
        wait_until(lambda: nodes.get("/config/users/bob"), "bob's quota")
        wait_until(lambda: not client.get_children("/users/config/changes"), "an empty list of announcements")
        assert run("quotas", "set", "--user", "bob", "consumer_byte_rate=6", *at).status == 0
        stored = json.loads(client.get("/users/config/users/bob")[0])
        assert stored["config"] == {"consumer_byte_rate": "6"}

"""ZooKeeper with credentials, ACLs and TLS: who may do what with the nodes of a cluster, and how that is changed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl_credential
from twisted.internet.defer import Deferred

from logbus.config import ConfigView
from logbus.metastore.acl_migration import migrate
from logbus.metastore.connect_string import ConnectString
from logbus.metastore.operations import NodeAccess, SessionState
from logbus.metastore.zookeeper_security import ZooKeeperSecurity
from logbus.metastore.zookeeper_store import ZooKeeperStore
from logbus.testing import Broker
from logbus.testing.broker import BrokerFailed
from logbus.testing.zookeeper import ZooKeeper
from tests.certificates import Authority
from tests.cli.command_line import run
from tests.zookeeper.reactor_case import PumpedTestCase
from tests.zookeeper.test_broker import SECONDS, consume, create, produce

USER, PASSWORD = "logbus", "secret of the brokers"
DIGEST = {"zookeeper.digest.username": USER, "zookeeper.digest.password": PASSWORD}
SET_ACL = {**DIGEST, "zookeeper.set.acl": "true"}
OWNER = ("digest", make_digest_acl_credential(USER, PASSWORD))
SECRET = ("/config/users", "/config/brokers", "/delegation_token", "/delegation_token/tokens")


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Who issues the certificates of servers and brokers."""
    return Authority.new()


@pytest.fixture(scope="module")
def guarded(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A ZooKeeper that speaks TLS as well."""
    home = tmp_path_factory.mktemp("certificates")
    stores = (
        authority.issue("CN=zookeeper", hosts=("127.0.7.1", "127.0.0.1")).write(home / "zookeeper.pem"),
        authority.write(home / "ca.pem"),
    )
    with ZooKeeper(tls=stores) as running:
        yield running


@contextmanager
def somebody(zookeeper: ZooKeeper, chroot: str, *, digest: bool = False) -> Iterator[Any]:
    """A client that is not logbus's, with the brokers' credentials or without."""
    client = KazooClient(zookeeper.connect + chroot, auth_data=[("digest", f"{USER}:{PASSWORD}")] if digest else None)
    client.start(SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def a_broker(connect: str, settings: dict[str, str], data: Path) -> Broker:
    """A broker that misses ZooKeeper soon."""
    return Broker({"zookeeper.connect": connect, "zookeeper.session.timeout.ms": "6000", **settings}, data_dir=data)


def all_acls(client: Any, path: str = "/") -> dict[str, Any]:
    """The ACLs of all nodes but those of ZooKeeper's own."""
    found = {path: client.get_acls(path)[0]}
    for name in client.get_children(path):
        found |= all_acls(client, f"{path.rstrip('/')}/{name}")
    return found


def is_shut_out(client: Any) -> None:
    """A client without credentials reads what is public, and changes nothing."""
    assert b"topic_id" in client.get("/brokers/topics/orders")[0]
    for path in SECRET:
        for forbidden in (client.get, client.get_children):
            with pytest.raises(NoAuthError):
                forbidden(path)
    for path in ("/brokers/ids/0", "/controller", "/brokers/topics/orders/partitions/0/state"):
        with pytest.raises(NoAuthError):
            client.delete(path)
        with pytest.raises(NoAuthError):
            client.set(path, b"")
        with pytest.raises(NoAuthError):
            client.set_acls(path, OPEN_ACL_UNSAFE)
    for path in ("/new", "/admin/delete_topics/orders", "/config/changes/x", "/config/users/eve", "/kafka-acl/Topic"):
        with pytest.raises(NoAuthError):
            client.create(path)


def test_digest(guarded: ZooKeeper, tmp_path: Path) -> None:
    """All nodes that a broker creates are its own; others read them, but for those with secrets."""
    with a_broker(f"{guarded.connect}/digest", SET_ACL, tmp_path / "data") as broker:
        create(broker, "orders")
        produce(broker, "orders", b"1")
        with somebody(guarded, "/digest") as stranger:
            is_shut_out(stranger)
        with somebody(guarded, "/digest", digest=True) as known:
            acls = all_acls(known)
    for path, entries in acls.items():
        owners = {(one.id.scheme, one.id.id) for one in entries if one.id.scheme != "world"}
        world = [one.perms for one in entries if one.id.scheme == "world"]
        secret = path.startswith(SECRET) or path in ("/brokers/lives", "/cluster/broker_secret")
        assert (owners, world) == ({OWNER}, [] if secret else [1]), path


def test_certificates(guarded: ZooKeeper, authority: Authority, tmp_path: Path) -> None:
    """Over TLS a broker is who its certificate says; its key store may be PKCS12."""
    store, trusted = tmp_path / "broker.p12", authority.write(tmp_path / "ca.pem")
    store.write_bytes(authority.issue("CN=broker,O=Example").pkcs12("changeit"))
    tls = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(store),
        "zookeeper.ssl.keystore.password": "changeit",
        "zookeeper.ssl.truststore.location": str(trusted),
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
    }
    connect = f"{guarded.tls_connect}/tls"
    with a_broker(connect, {**tls, "zookeeper.set.acl": "true"}, tmp_path / "data") as broker:
        create(broker, "orders")
        produce(broker, "orders", b"1")
        with somebody(guarded, "/tls", digest=True) as stranger:
            is_shut_out(stranger)
            owners = {(one.id.scheme, one.id.id) for one in stranger.get_acls("/brokers/topics/orders")[0]}
            assert owners == {("x509", "CN=broker,O=Example"), ("world", "anyone")}
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in tls.items()))
        done = run("metadata", "secure", "-z", connect, "--zookeeper-config", str(file), "--dry-run")
        assert (done.status, done.out) == (0, "nothing to change\n"), done.err


class TlsStoreTests(PumpedTestCase):
    """A store over TLS."""

    @pytest.fixture(autouse=True)
    def _given(self, guarded: ZooKeeper, authority: Authority, tmp_path: Path) -> None:
        self.guarded, self.authority, self.directory = guarded, authority, tmp_path

    def store(self, connect: str, authority: Authority, **more: str) -> ZooKeeperStore:
        """A store that trusts an authority."""
        trusted = authority.write(self.directory / "ca.pem")
        settings = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(trusted),
            **{f"zookeeper.ssl.{name.replace('_', '.')}": value for name, value in more.items()},
        }
        security = ZooKeeperSecurity.of(ConfigView.load(set=settings))
        store = ZooKeeperStore(ConnectString.parse(connect), self.reactor, 4.0, security=security)
        self.addCleanup(lambda: self.successResultOf(store.close()))
        return store

    def test_traffic(self) -> None:
        """Large answers, and many at a time, come whole and in order."""
        store = self.store(f"{self.guarded.tls_connect}/traffic", self.authority)
        self.successResultOf(store.open())
        data = bytes(range(256)) * 3500
        self.successResultOf(store.create("/large", data))
        answers = [store.get("/large") for _ in range(5)] + [store.get("/") for _ in range(500)]
        found = [self.successResultOf(answer)[0] for answer in answers]
        self.assertEqual(found, [data] * 5 + [b""] * 500)

    def test_migration_without_chroot(self) -> None:
        """ZooKeeper's root and the cluster's nodes are protected; what others have beside them is not touched."""
        security = ZooKeeperSecurity.of(ConfigView.load(set=DIGEST))
        store = ZooKeeperStore(ConnectString.parse(self.guarded.connect), self.reactor, security=security)
        self.addCleanup(lambda: self.successResultOf(store.close()))
        self.successResultOf(store.open())
        for path in ("/others", "/others/config", "/config", "/config/users", "/config/users/ann"):
            self.successResultOf(store.create(path))
        try:
            self.successResultOf(Deferred.fromCoroutine(migrate(store, secure=True)))
            found = [
                self.successResultOf(store.access(path))
                for path in ("/", "/config", "/config/users/ann", "/others", "/others/config", "/zookeeper")
            ]
        finally:
            # Other tests use this server, too.
            self.successResultOf(Deferred.fromCoroutine(migrate(store, secure=False)))
        readable, secret, open_ = NodeAccess.READABLE, NodeAccess.SECRET, NodeAccess.OPEN
        self.assertEqual(found[:5], [readable, readable, secret, open_, open_])
        self.assertNotEqual(found[5], readable)
        self.assertEqual(self.successResultOf(store.access("/config/users/ann")), open_)

    def test_authority(self) -> None:
        """A certificate of an authority that is not trusted: the reason is told."""
        store = self.store(self.guarded.tls_connect, Authority.new("CN=Other CA"))
        store.open()
        self.wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in store.complaint, "a complaint")
        self.assertNotEqual(store.state, SessionState.CONNECTED)

    def test_host(self) -> None:
        """Other hosts are refused, unless the setting says so."""
        renamed = self.guarded.tls_connect.replace("127.0.7.1", "localhost.localdomain")
        with patch("socket.getaddrinfo", self.resolved):
            store = self.store(renamed, self.authority)
            store.open()
            self.wait_until(lambda: "Hostname mismatch" in store.complaint, "a complaint")
            lax = self.store(renamed, self.authority, endpoint_identification_algorithm="")
            self.successResultOf(lax.open())

    @staticmethod
    def resolved(host: str, port: int, *more: Any) -> list[Any]:
        """Every name is the server's."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.7.1", port))]


def test_migration(guarded: ZooKeeper, tmp_path: Path) -> None:
    """A cluster that serves is protected, and opened again; brokers that would be locked out are named before."""
    connect, data = f"{guarded.connect}/migrated", tmp_path / "data"
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in DIGEST.items()))
    at = ("-z", connect, "--zookeeper-config", str(file))
    with ExitStack() as stack:
        client = stack.enter_context(somebody(guarded, "/migrated"))
        known = stack.enter_context(somebody(guarded, "/migrated", digest=True))
        with a_broker(connect, DIGEST, data) as broker:
            create(broker, "orders")
            produce(broker, "orders", b"1")
            assert set(map(tuple, all_acls(client).values())) == {tuple(OPEN_ACL_UNSAFE)}
            refused = run("metadata", "secure", *at)
            assert refused.status == 1
            assert "broker 0 runs without zookeeper.set.acl=true" in refused.err
        with a_broker(connect, SET_ACL, data) as broker:
            refused = run("metadata", "secure", "-z", connect)
            assert (refused.status, "needs credentials" in refused.err) == (1, True)
            looked = run("metadata", "secure", *at, "--dry-run")
            assert looked.status == 0, looked.err
            assert "open to readable: " in looked.out
            assert client.get_acls("/config/users")[0] == OPEN_ACL_UNSAFE
            done = run("metadata", "secure", *at)
            assert done.status == 0, done.err
            is_shut_out(client)
            with pytest.raises(BrokerFailed, match="belongs to others; check zookeeper"):
                a_broker(connect, {"broker.id": "1"}, tmp_path / "other").start()
            client.create("/consumers/group")
            create(broker, "more")
            produce(broker, "orders", b"2")
            assert run("metadata", "secure", *at, "--dry-run").out == "nothing to change\n"
            others = run("metadata", "unsecure", "-z", connect)
            assert (others.status, "belongs to others" in others.err) == (1, True)
        with a_broker(connect, DIGEST, data) as broker:
            done = run("metadata", "unsecure", *at)
            assert done.status == 0, done.err
            assert set(map(tuple, all_acls(known).values())) == {tuple(OPEN_ACL_UNSAFE)}
        with a_broker(connect, {}, data) as broker:
            produce(broker, "orders", b"3")
            assert consume(broker, "orders", 3) == [b"1", b"2", b"3"]

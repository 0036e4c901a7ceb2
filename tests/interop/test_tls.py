"""Clients over TLS: right and wrong certificates, weak clients, and certificates that change under traffic."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from attrs import define
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from logbus.testing import Broker
from tests.certificates import Authority

pytestmark = [pytest.mark.interop, pytest.mark.slow]
SECONDS = 120
STORE = "listener.name.kafka.ssl.keystore.location"


@define
class SecureBroker:
    """
    A broker that demands clients' certificates.

    :ivar directory: has ``server.pem``, ``ca.pem``, and clients' ``alice.pem`` and ``mallory.pem``.
    """

    server: Broker
    directory: Path
    authority: Authority

    @property
    def address(self) -> str:
        return self.server.bootstrap

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def librdkafka(self, own: str | None = "alice.pem", **more: Any) -> dict[str, Any]:
        """Settings of a client of librdkafka."""
        settings = {
            "bootstrap.servers": self.address,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.directory / "ca.pem"),
            **more,
        }
        if own is not None:
            settings |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(self.directory / own))
        return settings

    def subject(self) -> str:
        """The common name of the certificate that new connections get."""
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        context.load_cert_chain(self.directory / "alice.pem")
        with (
            socket.create_connection(("127.0.0.1", self.port), SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            subject: Any = secure.getpeercert()["subject"]  # type: ignore[index]
            return str(subject[0][0][1])


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SecureBroker]:
    """A broker with a key store in PEM, which has another key for clients that ask for ``other.test``."""
    authority = Authority.new()
    authority.write(tmp_path / "ca.pem")
    first = Authority.new("CN=Middle", authority).issue("CN=first")
    other = authority.issue("CN=other", hosts=("other.test",))
    (tmp_path / "server.pem").write_text(first.pem() + other.pem())
    authority.issue("CN=alice").write(tmp_path / "alice.pem")
    Authority.new("CN=Strangers").issue("CN=mallory").write(tmp_path / "mallory.pem")
    options = getattr(request, "param", {})
    with Broker({**settings(tmp_path), STORE: str(tmp_path / "server.pem")}, **options) as server:
        yield SecureBroker(server, tmp_path, authority)


def settings(directory: Path) -> dict[str, str]:
    """Those of a broker, but for its key store."""
    return {
        "listener.security.protocol.map": "kafka:SSL,PLAINTEXT:PLAINTEXT",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "ssl.client.auth": "required",
    }


def round_trip(settings: dict[str, Any], topic: str) -> list[bytes | None]:
    """Write ten records, and read them."""
    producer = Producer(settings)
    for n in range(10):
        producer.produce(topic, str(n).encode())
    assert producer.flush(SECONDS) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        return [message.value() for message in consumer.consume(10, SECONDS)]
    finally:
        consumer.close()


def test_confluent(broker: SecureBroker) -> None:
    """librdkafka writes and reads, with its certificate."""
    assert round_trip(broker.librdkafka(), "t") == [str(n).encode() for n in range(10)]


@pytest.mark.parametrize("own", [None, "mallory.pem"], ids=["without", "a stranger's"])
def test_wrong_certificates(broker: SecureBroker, own: str | None) -> None:
    """A client without a certificate, or with another authority's, gets nothing."""
    errors: list[KafkaError] = []
    client = AdminClient(broker.librdkafka(own, error_cb=errors.append))
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    client.poll(5)
    broker.server.wait_logged("the TLS handshake of 127.0.0.1:")


def test_pkcs12(tmp_path: Path) -> None:
    """kafka-python over a key store and a trust store in PKCS12, for which the listener has keys of its own."""
    authority = Authority.new()
    authority.write(tmp_path / "ca.pem")
    (tmp_path / "server.p12").write_bytes(Authority.new("CN=Middle", authority).issue().pkcs12("secret"))
    (tmp_path / "ca.p12").write_bytes(authority.pkcs12("public"))
    alice = authority.issue("CN=alice").write(tmp_path / "alice.pem")
    stores = {
        STORE: str(tmp_path / "server.p12"),
        "listener.name.kafka.ssl.keystore.type": "PKCS12",
        "listener.name.kafka.ssl.keystore.password": "secret",
        "listener.name.kafka.ssl.truststore.location": str(tmp_path / "ca.p12"),
        "listener.name.kafka.ssl.truststore.type": "PKCS12",
        "listener.name.kafka.ssl.truststore.password": "public",
    }
    with Broker({**settings(tmp_path), **stores}) as server:
        producer = kafka.KafkaProducer(
            bootstrap_servers=server.bootstrap,
            security_protocol="SSL",
            ssl_cafile=str(tmp_path / "ca.pem"),
            ssl_certfile=str(alice),
            ssl_keyfile=str(alice),
        )
        try:
            assert producer.send("t", b"hello").get(SECONDS).offset == 0
        finally:
            producer.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        ("-tls1_2", "first"),
        ("-tls1_3", "first"),
        ("-tls1_2 -servername other.test", "other"),
        ("-tls1_3 -servername other.test", "other"),
        ("-tls1_3 -servername unknown.test", "first"),
        ("-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256", "first"),
        ("-tls1_2 -cipher AES128-SHA", None),
        ("-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA", None),
        ("-tls1_1 -cipher ALL:@SECLEVEL=0", None),
    ],
)
def test_openssl(broker: SecureBroker, words: str, accepted: str | None) -> None:
    """
    A client gets the certificate of the host that it asks for; suites without forward secrecy or authenticated
    encryption, and old versions, are refused.
    """
    own = broker.directory / "alice.pem"
    done = subprocess.run(
        [
            *("openssl", "s_client", "-verify_return_error", "-connect", broker.address, "-cert", own, "-key", own),
            *("-CAfile", broker.directory / "ca.pem", *words.split()),
        ],
        input="",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ("Cipher is (NONE)" not in done.stdout) == (accepted is not None), done.stdout + done.stderr
    if accepted is not None:
        assert f"subject=CN={accepted}" in done.stdout.replace(" ", ""), done.stdout
    assert "Verification: OK" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("broker", [{"in_process": False}], indirect=True, ids=["process"])
def test_hangup(broker: SecureBroker) -> None:
    """After SIGHUP new connections get new certificates, wrong ones are refused, and nobody loses a connection."""
    producer = Producer(broker.librdkafka())
    broker_store = broker.directory / "server.pem"

    def write(text: bytes) -> None:
        producer.produce("t", text)
        assert producer.flush(SECONDS) == 0

    write(b"before")
    assert broker.subject() == "first"
    broker.authority.issue("CN=second").write(broker_store)
    os.kill(broker.server.pid, signal.SIGHUP)
    broker.server.wait_logged("listener kafka: new connections use the certificate of CN=second")
    assert broker.subject() == "second"
    write(b"after")
    broker_store.write_text("nonsense")
    os.kill(broker.server.pid, signal.SIGHUP)
    broker.server.wait_logged("the listener keeps its old certificates")
    assert broker.subject() == "second"
    write(b"at last")


def test_alter_configs(broker: SecureBroker) -> None:
    """The key's file is read again when the key is altered, be it to the same value; a wrong one is refused."""
    admin = AdminClient(broker.librdkafka())

    def alter(path: Path) -> None:
        entry = ConfigEntry(STORE, str(path), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
        (done,) = admin.incremental_alter_configs([resource]).values()
        done.result(SECONDS)

    store = broker.directory / "server.pem"
    for name in ("second", "third"):
        broker.authority.issue(f"CN={name}").write(store)
        alter(store)
        assert broker.subject() == name
    for wrong, words in (
        (broker.directory / "absent.pem", "cannot be read"),
        (broker.directory / "ca.pem", "private key"),
    ):
        with pytest.raises(KafkaException) as refused:
            alter(wrong)
        assert words in str(refused.value)
        assert STORE in str(refused.value)
    assert broker.subject() == "third"


def test_sasl_over_tls(tmp_path: Path) -> None:
    """With SASL_SSL a client logs in by its password, and needs no certificate."""
    authority = Authority.new()
    authority.write(tmp_path / "ca.pem")
    authority.issue().write(tmp_path / "server.pem")
    config = {
        "listener.security.protocol.map": "kafka:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "ssl.keystore.location": str(tmp_path / "server.pem"),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.kafka.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'
        ),
    }
    with Broker(config) as server:
        client = {
            "bootstrap.servers": server.bootstrap,
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "wonderland",
        }
        assert round_trip(client, "t") == [str(n).encode() for n in range(10)]
        with pytest.raises(KafkaException):
            AdminClient({**client, "sasl.password": "rabbit"}).list_topics(timeout=1)

"""Users and quotas, set and shown by Kafka's own tool, by clients of others, and by ours."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from benchmarks.compare.jars import KAFKA_VERSION, tools_jars
from logbus.testing import Broker
from tests.cli import command_line
from tests.interop.clients import SECONDS
from tests.interop.java_client import CACHE

Tool = Callable[..., str]


@pytest.fixture
def kafka_configs(logbus_broker: Broker) -> Tool:
    """Apache Kafka's ``kafka-configs``; what it prints."""
    jars = tools_jars(KAFKA_VERSION, CACHE)
    command = ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "kafka.admin.ConfigCommand"]

    def run(*arguments: str) -> str:
        given = [*command, "--bootstrap-server", logbus_broker.bootstrap, *arguments]
        done = subprocess.run(given, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_kafka_configs(kafka_configs: Tool) -> None:
    """Kafka's tool sets, describes and deletes credentials and quotas of users, client ids and addresses."""
    alice = ("--entity-type", "users", "--entity-name", "alice")
    added = "SCRAM-SHA-256=[iterations=8192,password=alice-secret],SCRAM-SHA-512=[password=x]"
    assert "Completed updating config for user alice" in kafka_configs("--alter", "--add-config", added, *alice)
    kafka_configs("--alter", "--add-config", "producer_byte_rate=1024", *alice)
    app = ("--entity-type", "clients", "--entity-default")
    kafka_configs("--alter", "--add-config", "request_percentage=200", *alice, *app)
    kafka_configs(
        "--alter", "--add-config", "connection_creation_rate=1000", "--entity-type", "ips", "--entity-default"
    )
    shown = kafka_configs("--describe", *alice)
    for part in ("producer_byte_rate=1024.0", "SCRAM-SHA-256=iterations=8192", "SCRAM-SHA-512=iterations=4096"):
        assert part in shown, shown
    both = kafka_configs("--describe", "--entity-type", "users", "--entity-type", "clients")
    assert "request_percentage=200.0" in both
    assert "connection_creation_rate=1000.0" in kafka_configs("--describe", "--entity-type", "ips")
    kafka_configs("--alter", "--delete-config", "SCRAM-SHA-512", *alice)
    kafka_configs("--alter", "--delete-config", "producer_byte_rate", *alice)
    shown = kafka_configs("--describe", *alice)
    assert "SCRAM-SHA-256" in shown
    assert "SCRAM-SHA-512" not in shown
    assert "producer_byte_rate" not in shown


def test_librdkafka(logbus_broker: Broker) -> None:
    """confluent-kafka sets, describes and deletes credentials, and understands each refusal."""
    admin = AdminClient({"bootstrap.servers": logbus_broker.bootstrap})
    sha_512 = ScramMechanism.SCRAM_SHA_512

    def alter(*changes: object) -> str:
        """The name of the error."""
        [done] = admin.alter_user_scram_credentials(list(changes)).values()
        try:
            done.result(SECONDS)
        except KafkaException as e:
            return str(e.args[0].name())
        return ""

    def put(iterations: int) -> UserScramCredentialUpsertion:
        return UserScramCredentialUpsertion("ann", ScramCredentialInfo(sha_512, iterations), b"secret")

    assert alter(put(4096)) == ""
    found = admin.describe_user_scram_credentials().result(SECONDS)["ann"].scram_credential_infos
    assert [(one.mechanism, one.iterations) for one in found] == [(sha_512, 4096)]
    assert alter(put(100)) == "UNACCEPTABLE_CREDENTIAL"
    gone = UserScramCredentialDeletion("ann", sha_512)
    assert alter(gone) == ""
    assert alter(gone) == "RESOURCE_NOT_FOUND"
    with pytest.raises(KafkaException, match="RESOURCE_NOT_FOUND"):
        admin.describe_user_scram_credentials(["ann"])["ann"].result(SECONDS)


def test_logbus(logbus_broker: Broker, tmp_path: Path) -> None:
    """Our command line adds, changes and deletes users, and sets quotas; it prints no password."""
    (tmp_path / "password").write_text("secret\n")

    def logbus(*arguments: str, status: int = 0) -> str:
        done = command_line.run(*arguments, "--bootstrap", logbus_broker.bootstrap)
        assert done.status == status, done.out + done.err
        assert "secret" not in done.out + done.err
        return done.out + done.err

    password = ("--password-file", str(tmp_path / "password"))
    logbus("users", "add", "ann", *password)
    assert "already" in logbus("users", "add", "ann", *password, status=1)
    logbus("users", "alter", "ann", *password, "--iterations", "5000")
    assert logbus("users", "list", "--json") == (
        '[{"user": "ann", "iterations": {"SCRAM-SHA-256": 5000, "SCRAM-SHA-512": 5000}}]\n'
    )
    logbus("users", "delete", "ann", "--mechanism", "SCRAM-SHA-256")
    logbus("users", "delete", "ann")
    assert "no user 'ann'" in logbus("users", "describe", "ann", status=1)
    logbus("quotas", "set", "--user", "ann", "producer_byte_rate=1048576", "request_percentage=12.5")
    logbus("quotas", "set", "--ip-default", "connection_creation_rate=300")
    assert logbus("quotas", "describe", "--user", "ann", "--json") == (
        '[{"entity": {"user": "ann"}, "quotas": {"producer_byte_rate": 1048576.0, "request_percentage": 12.5}}]\n'
    )
    assert "more than 0" in logbus("quotas", "set", "--user", "ann", "producer_byte_rate=0", status=1)
    logbus("quotas", "delete", "--user", "ann")
    assert logbus("quotas", "list", "--json").count("entity") == 1


def test_first_user(tmp_path: Path) -> None:
    """A user that is added before the first start is there after it."""
    (tmp_path / "password").write_text("secret\n")
    command = ["logbus", "users", "add", "admin", "--data-dir", str(tmp_path / "data")]
    command += ["--password-file", str(tmp_path / "password")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout == f"user admin was added, in the new directory {tmp_path}/data\n"
    assert subprocess.run(command, capture_output=True, timeout=300, check=False).returncode == 1
    with Broker(data_dir=tmp_path / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert list(admin.describe_user_scram_credentials().result(SECONDS)) == ["admin"]
        assert subprocess.run(command, capture_output=True, timeout=300, check=False).returncode == 1


def test_quotas_in_force(logbus_broker: Broker) -> None:
    """
    A producer and a consumer are held to quotas that are set while they are connected, and told so; without them, not.
    """
    waits: list[float] = []
    common = {
        "bootstrap.servers": logbus_broker.bootstrap,
        "client.id": "app",
        "throttle_cb": lambda event: waits.append(event.throttle_time),
    }

    def logbus(*arguments: str) -> None:
        subprocess.run(["logbus", *arguments, "--bootstrap", logbus_broker.bootstrap], check=True, timeout=300)

    def produced(megabytes: float) -> float:
        """The seconds it took."""
        begun = time.monotonic()
        for _ in range(int(megabytes * 100)):
            producer.produce("quotas", bytes(10_000), on_delivery=delivered)
        assert producer.flush(SECONDS) == 0
        return time.monotonic() - begun

    def delivered(error: object, message: object) -> None:
        assert error is None

    producer = Producer({**common, "batch.size": 50_000, "linger.ms": 5})
    produced(1)
    assert not waits
    logbus("quotas", "set", "--client-id", "app", "producer_byte_rate=500000", "consumer_byte_rate=500000")
    # A second's worth is free, and then each takes a second.
    assert produced(1.5) > 1.5
    assert waits
    assert max(waits) < 2
    logbus("quotas", "delete", "--client-id", "app", "producer_byte_rate")
    produced(0.1)
    waits.clear()
    produced(1)
    assert not waits
    consumer = Consumer({**common, "group.id": "quotas", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        consumer.subscribe(["quotas"])
        begun, got = time.monotonic(), 0
        while got < 2_000_000:
            message = consumer.poll(SECONDS)
            assert message is not None
            assert message.error() is None
            got += len(message.value())
            begun = begun if got > 10_000 else time.monotonic()
        assert time.monotonic() - begun > 2
        consumer.poll(0)
        assert waits
    finally:
        consumer.close()

"""Tests each client's version negotiation, and brokers on IPv6."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer

from logbus.testing import Broker
from tests.interop.clients import CLIENTS, SECONDS, Client, Message, kcat


@pytest.mark.parametrize("kind", [KafkaProducer, KafkaConsumer])
def test_kafka_python_infers_the_release(broker: Broker, kind: type) -> None:
    """kafka-python infers a release from the table, and chooses by it what it does."""
    client = kind(bootstrap_servers=broker.bootstrap)
    try:
        assert client.config["api_version"] == (4, 3)
    finally:
        client.close()


@pytest.mark.parametrize("release", ["2.1", "2.8", "3.0", "3.5", "3.9", "4.0", "4.3"])
def test_kafka_python_infers_an_older_release(release: str) -> None:
    """A broker that advertises an older release is taken for one."""
    with Broker(as_version=release) as older:
        client = KafkaProducer(bootstrap_servers=older.bootstrap)
        try:
            assert ".".join(map(str, client.config["api_version"])) == release
            client.send("topic", b"value").get(20)
        finally:
            client.close()


@pytest.mark.parametrize("release", ["2.8", "3.9"])
def test_older_releases(client: Client, release: str) -> None:
    """Clients of all libraries work with the versions of older releases."""
    with Broker(as_version=release) as older:
        sent = [Message(b"%d" % number) for number in range(3)]
        client.produce(older.bootstrap, "topic", sent)
        assert client.fetch(older.bootstrap, "topic", 3) == sent


def test_librdkafka_features(broker: Broker) -> None:
    """librdkafka's features of a broker that do not hang on groups are all there."""
    from confluent_kafka import Producer

    said: list[str] = []

    class Log:
        def log(self, level: int, message: str, *arguments: object) -> None:
            said.append(message % arguments if arguments else message)

    producer = Producer({"bootstrap.servers": broker.bootstrap, "debug": "feature"}, logger=Log())
    producer.list_topics(timeout=SECONDS)
    producer.poll(0.1)
    text = "\n".join(said)
    for feature in ("MsgVer1", "MsgVer2", "ApiVersion", "IdempotentProducer", "ZSTD"):
        assert feature in text, text


@pytest.mark.one_broker
@pytest.mark.parametrize("arguments", [[], ["-X", "api.version.request=true"], ["-X", "broker.version.fallback=2.0.0"]])
def test_kcat_lists(broker: Broker, topic: str, arguments: list[str]) -> None:
    """kcat -L shows the cluster, whatever it is told to expect."""
    CLIENTS[0].produce(broker.bootstrap, topic, [Message(b"x")])
    said = kcat(broker.bootstrap, "-L", *arguments).decode()
    assert f"broker 0 at {broker.bootstrap} (controller)" in said
    assert f'topic "{topic}" with 1 partitions' in said


@pytest.fixture(scope="module")
def ipv6_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that listens on ::1 only, which those of the test kit cannot."""
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", "logbus"]
    command += ["--listen", r"kafka:tcp6:0:interface=\:\:1", "--listen", "admin:tcp:0:interface=127.0.0.1"]
    command += ["--data-dir", str(tmp_path_factory.mktemp("ipv6") / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"logbus broker 0 ready: kafka=(\S+)", line):
                    yield found[1]
                    break
            else:
                pytest.fail("the broker did not start")
        finally:
            process.terminate()
            process.stdout.read()


def has_ipv6() -> bool:
    """Whether ::1 is an address of this machine."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_ipv6(client: Client, ipv6_bootstrap: str) -> None:
    """A listener on ::1 is reached, and what it advertises is, too."""
    assert ipv6_bootstrap.startswith("[::1]:")
    sent = [Message(b"%d" % number) for number in range(3)]
    client.produce(ipv6_bootstrap, f"six-{client.name}", sent)
    assert client.fetch(ipv6_bootstrap, f"six-{client.name}", 3) == sent

"""Tests the example plugin of ``docs/howto/line_protocol``, served beside the Kafka protocol."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "howto" / "line_protocol"
READY = re.compile(r"logbus broker 0 ready: (.*)")
TIMEOUT = 120.0


class Broker:
    """``twistd logbus`` with the plugin on its path, as the page says."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", "logbus"]
        command += ["--data-dir", str(directory), "--listen", "kafka:tcp:0:interface=127.0.0.1"]
        command += ["--listen", "logs=lines:tcp:0:interface=127.0.0.1"]
        path = os.pathsep.join([str(EXAMPLE), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        self.said: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            found = READY.search(line)
            if found:
                self.addresses = dict(part.split("=") for part in found[1].split())
                break
        else:
            raise AssertionError("the broker did not start:\n" + "".join(self.said))
        self._reader = threading.Thread(target=lambda: self.said.extend(self.process.stdout or ()), daemon=True)
        self._reader.start()

    def connect(self) -> socket.socket:
        """A connection to the line listener."""
        host, _, port = self.addresses["logs"].rpartition(":")
        return socket.create_connection((host, int(port)), TIMEOUT)

    def read(self, topic: str, count: int) -> list[bytes | None]:
        """The first ``count`` records of a topic's only partition, through the Kafka protocol."""
        consumer = KafkaConsumer(bootstrap_servers=self.addresses["kafka"], consumer_timeout_ms=TIMEOUT * 1000)
        try:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek_to_beginning()
            return [record.value for _, record in zip(range(count), consumer, strict=False)]
        finally:
            consumer.close()

    def stop(self) -> str:
        """SIGTERM, and what the broker said."""
        self.process.terminate()
        self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return "".join(self.said)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with a line listener ``logs``."""
    running = Broker(tmp_path / "data")
    yield running
    if running.process.poll() is None:
        running.stop()


def test_lines_become_records_of_the_topic_named_after_the_listener(broker: Broker) -> None:
    """A Kafka client reads the lines that were sent, in order, without the line ends."""
    with broker.connect() as sender:
        sender.sendall(b"first\nsecond\r\nthi")
        sender.sendall(b"rd\n\nfifth\n")
        assert broker.read("logs", 5) == [b"first", b"second", b"third", b"", b"fifth"]


def test_connection_stays_open(broker: Broker) -> None:
    """Writes that are over at once, and writes that are not, leave the connection ready for the next line."""
    with broker.connect() as sender:
        for number in range(5):
            sender.sendall(b"%d\n" % number)
            assert len(broker.read("logs", number + 1)) == number + 1


def test_many_connections_share_a_topic(broker: Broker) -> None:
    """Each connection's lines keep their order, however they interleave."""
    senders = [broker.connect() for _ in range(4)]
    for number in range(50):
        for name, sender in enumerate(senders):
            sender.sendall(b"%d %d\n" % (name, number))
    read = [value.split() for value in broker.read("logs", 200) if value is not None]
    for name in range(4):
        assert [int(number) for sender, number in read if int(sender) == name] == list(range(50))
    for sender in senders:
        sender.close()


def test_line_too_long(broker: Broker) -> None:
    """The lines before it are written, and other connections go on."""
    with broker.connect() as endless, broker.connect() as modest:
        endless.sendall(b"short\n" + b"x" * 200_000)
        endless.settimeout(TIMEOUT)
        try:
            assert endless.recv(1) == b""
        except ConnectionError:
            pass  # Closed with bytes unread, a connection is reset.
        modest.sendall(b"fine\n")
        assert broker.read("logs", 2) == [b"short", b"fine"]


def test_shutdown(broker: Broker, tmp_path: Path) -> None:
    """A broker that is told to stop loses none of the lines it took, does not wait for idle senders, and is clean."""
    with broker.connect() as idle, broker.connect() as sender:
        sender.sendall(b"".join(b"line %d\n" % number for number in range(1000)))
        assert len(broker.read("logs", 1000)) == 1000
        said = broker.stop()
        idle.settimeout(TIMEOUT)
        assert idle.recv(1) == b""
    assert "Traceback" not in said, said
    assert (tmp_path / "data" / ".logbus_cleanshutdown").exists()


def test_missing_plugin(tmp_path: Path) -> None:
    """Naming a protocol that nobody provides is one clear line, and status 1."""
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", "logbus"]
    command += ["--data-dir", str(tmp_path / "data"), "--listen", "logs=lines:tcp:0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 1
    assert "there is no protocol 'lines'; there are: admin, kafka" in done.stderr
    assert not (tmp_path / "data").exists()

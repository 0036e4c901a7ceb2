"""Three brokers of Apache Kafka, each a process that is broker and controller, which can be killed."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.compare.jars import KAFKA_VERSION, kafka_jars
from benchmarks.compare.systems import free_port
from tests.interop.java_client import CACHE, SMALL_JVM

SECONDS = 180.0
CLUSTER_ID = "bWlycm9yLXNvYWstLS0tLQ"
BROKERS = 3


class KafkaBroker:
    """One of them, in a directory of its own."""

    def __init__(self, number: int, ports: Sequence[tuple[int, int]], home: Path, jars: Path) -> None:
        self.number = number
        self.port, control = ports[number - 1]
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, (_, port) in enumerate(ports, 1))
        home.mkdir(parents=True)
        self._properties, self._output = home / "server.properties", home / "output"
        self._properties.write_text(
            f"process.roles=broker,controller\nnode.id={number}\ncontroller.quorum.voters={voters}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{control}\n"
            f"controller.listener.names=CONTROLLER\nlog.dirs={home / 'data'}\n"
            "default.replication.factor=3\nmin.insync.replicas=2\noffsets.topic.replication.factor=3\n"
            "transaction.state.log.replication.factor=3\ntransaction.state.log.min.isr=2\n"
            "offsets.topic.num.partitions=3\ntransaction.state.log.num.partitions=3\n"
            "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"
            "controller.quorum.fetch.timeout.ms=2000\ncontroller.quorum.election.timeout.ms=1000\n"
            "group.initial.rebalance.delay.ms=0\nreplica.lag.time.max.ms=5000\n"
        )
        self._java = ["java", *SMALL_JVM, "-Xmx400m", "-cp", f"{jars}/*"]
        self._run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties))
        self._process: subprocess.Popen[bytes] | None = None

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([*self._java, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Begin; it serves a while later."""
        with self._output.open("ab") as sink:
            command = [*self._java, "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)

    def kill(self) -> None:
        """As by a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def accepts(self) -> bool:
        """Whether it takes connections, as it does once the controller knows of its new life."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS).close()
        except ConnectionRefusedError:
            return False
        return True

    @property
    def output(self) -> str:
        """The end of what it said."""
        return self._output.read_text(errors="replace")[-3000:] if self._output.exists() else ""


class KafkaCluster:
    """
    All of them.

    :ivar bootstrap: their addresses.
    """

    def __init__(self, home: Path) -> None:
        jars = kafka_jars(KAFKA_VERSION, CACHE)
        ports = [(free_port(), free_port()) for _ in range(BROKERS)]
        self.brokers = [KafkaBroker(n, ports, home / f"kafka-{n}", jars) for n in range(1, BROKERS + 1)]
        self.bootstrap = ",".join(f"127.0.0.1:{each.port}" for each in self.brokers)

    def __enter__(self) -> Self:
        try:
            for each in self.brokers:
                each.start()
            self.wait_whole()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, topic: str, partitions: int) -> None:
        """A topic whose records are on three brokers, and on two before they count."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(SECONDS)
        self.wait_whole()

    @contextmanager
    def killed(self, broker: KafkaBroker) -> Iterator[None]:
        """A broker's process ends, as by a crash; it is started again at the end, and waited for."""
        broker.kill()
        try:
            yield
        finally:
            broker.start()
        self.wait_whole()

    def wait_whole(self) -> None:
        """Wait until all brokers are there, with all replicas in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        until, seen = time.monotonic() + SECONDS, "nothing"
        while time.monotonic() < until:
            # A broker that was away for less than its session is in sync by what the others say.
            if refusing := [each.port for each in self.brokers if not each.accepts]:
                seen = f"nobody at the ports {refusing}"
                time.sleep(0.2)
                continue
            try:
                found = admin.list_topics(timeout=5)
            except KafkaException as e:
                seen = str(e)
                continue
            partitions = [each for topic in found.topics.values() for each in topic.partitions.values()]
            if len(found.brokers) == BROKERS and all(len(each.isrs) == len(each.replicas) for each in partitions):
                return
            seen = f"brokers {sorted(found.brokers)}, in sync {[each.isrs for each in partitions]}"
            time.sleep(0.2)
        raise AssertionError(f"Kafka is not whole: {seen}\n" + "\n".join(each.output for each in self.brokers))

    def close(self) -> None:
        """End all."""
        for each in self.brokers:
            each.kill()

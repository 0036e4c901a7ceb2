"""Kafka's own command line tools, in one Java process that runs them one after the other."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from benchmarks.compare.jars import KAFKA_VERSION, tools_jars
from tests.interop.java_client import CACHE, QUICK_JAVAC, SMALL_JVM, JavaFailed

SECONDS = 60.0
"""For one tool."""

SOURCE = Path(__file__).parent / "KafkaTools.java"

CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
}
"""The class that each of Kafka's scripts runs."""


class Printed(NamedTuple):
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


class KafkaTools:
    """The process; it compiles what it runs first."""

    def __init__(self) -> None:
        if shutil.which("javac") is None:
            raise JavaFailed("javac is missing: apt-get install default-jdk-headless")
        self._home = tempfile.TemporaryDirectory(prefix="logbus-kafka-tools-")
        classes = f"{tools_jars(KAFKA_VERSION, CACHE)}/*"
        subprocess.run(
            [*QUICK_JAVAC, "-cp", classes, "-d", self._home.name, str(SOURCE)], check=True, timeout=300, env=os.environ
        )
        # Log4j would write to the output by which it answers.
        quiet = ["-Dlog4j2.level=OFF", "-Dlog4j2.statusLoggerLevel=OFF"]
        command = ["java", *SMALL_JVM, *quiet, "-cp", f"{self._home.name}:{classes}", "KafkaTools"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, script: str, *arguments: str, stdin: str = "") -> Printed:
        """Run a tool by its script's name."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\t".join([CLASSES[script], *map(_base64, (stdin, *arguments))]) + "\n")
        self._process.stdin.flush()
        patience = threading.Timer(SECONDS, self._process.kill)
        patience.start()
        try:
            answer = self._process.stdout.readline()
        finally:
            patience.cancel()
        if not answer:
            raise JavaFailed(f"{script} {' '.join(arguments)}: no answer in {SECONDS} s")
        status, out, err = answer.rstrip("\n").split("\t")
        return Printed(int(status), base64.b64decode(out).decode(), base64.b64decode(err).decode())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._home.cleanup()

    def __enter__(self) -> KafkaTools:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

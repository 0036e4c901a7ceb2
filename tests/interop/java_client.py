"""
Kafka's own Java client, ``kafka-clients``, in a process driven by the tests: ``tests/interop/java``.

The jars come from Maven Central, once, into a cache outside the checkout; the driver is compiled for each session.
"""

from __future__ import annotations

import base64
import itertools
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from benchmarks.compare.jars import KAFKA_VERSION, client_jars
from tests.interop.clients import CLIENT_MAX, SECONDS, Message

SOURCES = Path(__file__).parent / "java"
CACHE = Path(os.environ.get("LOGBUS_JARS", "~/.cache/logbus-benchmarks")).expanduser()
SMALL_JVM = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
QUICK_JAVAC = ["javac", "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1"]

Words = list[str]


class JavaFailed(Exception):
    """A Java exception: the name of its class, and its message."""


class Call:
    """A command that runs: what it says, as it says it."""

    def __init__(self, java: Java, number: str) -> None:
        self._java = java
        self._number = number
        self.said: queue.Queue[Words] = queue.Queue()

    def next(self, timeout: float = SECONDS) -> Words | None:
        """
        The next line that it says, split into words; None: it has ended.

        :raise JavaFailed: it has failed.
        :raise queue.Empty: it says nothing.
        """
        words = self.said.get(timeout=timeout)
        if words[0] == "failed":
            raise JavaFailed(*words[1:])
        return None if words[0] == "done" else words

    def stop(self) -> None:
        """Tell it to come to an end."""
        self._java.write(["0", "stop", self._number])

    def rest(self, timeout: float = SECONDS) -> list[Words]:
        """All lines until it ends."""
        found = []
        while (words := self.next(timeout)) is not None:
            found.append(words)
        return found


class Java:
    """The process; it compiles what it runs first."""

    name = "java"
    cannot: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._calls: dict[str, Call] = {}
        self._lock = threading.Lock()
        self._home = tempfile.TemporaryDirectory(prefix="logbus-java-")
        if shutil.which("javac") is None:
            raise JavaFailed("javac is missing: apt-get install default-jdk-headless")
        jars = client_jars(KAFKA_VERSION, CACHE)
        classes = f"{jars}/*"
        sources = sorted(map(str, SOURCES.glob("*.java")))
        subprocess.run([*QUICK_JAVAC, "-cp", classes, "-d", self._home.name, *sources], check=True, timeout=120)
        command = ["java", *SMALL_JVM, "-cp", f"{self._home.name}:{classes}", "Driver"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, *words = line.rstrip("\n").split("\t")
            self._calls[number].said.put(words)

    def write(self, words: Sequence[str]) -> None:
        """Say one line to it."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()

    def start(self, command: str, *arguments: object) -> Call:
        """Have a command run, and return at once."""
        number = str(next(self._numbers))
        call = self._calls[number] = Call(self, number)
        self.write([number, command, *map(str, arguments)])
        return call

    def run(self, command: str, *arguments: object, timeout: float = SECONDS) -> list[Words]:
        """
        Run a command to its end.

        :return: the lines that it said.
        :raise JavaFailed: it failed.
        """
        return self.start(command, *arguments).rest(timeout)

    # As the other clients do.

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        idempotent: bool = False,
    ) -> None:
        told: list[object] = []
        for one in messages:
            headers = ",".join(f"{name}:{_text(value)}" for name, value in one.headers)
            told += [_text(one.key), _text(one.value), "-" if one.timestamp is None else one.timestamp, headers]
        settings = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "compression.type": codec,
            "enable.idempotence": str(idempotent).lower(),
            "max.request.size": CLIENT_MAX,
            "delivery.timeout.ms": SECONDS * 1000,
            "request.timeout.ms": SECONDS * 1000 - 5_000,
            "max.in.flight.requests.per.connection": 5 if idempotent else 1,
        }
        self.run("produce", spelled(settings), topic, partition, *told)

    def fetch(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "none", "check.crcs": "true"}
        said = self.run("fetch", spelled(settings), topic, partition, offset, count)
        return [message for _, message in map(record, said)]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._home.cleanup()

    def __enter__(self) -> Java:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def spelled(settings: dict[str, object]) -> str:
    """Settings as the driver reads them."""
    return ";".join(f"{name}={value}" for name, value in settings.items())


def record(words: Words) -> tuple[int, Message]:
    """Partition and message of a line "record"."""
    word, _, partition, offset, key, value, timestamp, appended, headers = words
    assert word == "record"
    pairs = [header.partition(":") for header in headers.split(",")] if headers else []
    return int(partition), Message(
        _bytes(value),
        _bytes(key),
        tuple((name, _bytes(held)) for name, _, held in pairs),
        int(timestamp),
        int(offset),
        appended == "true",
    )


def _text(data: bytes | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text)

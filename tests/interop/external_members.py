"""Group members that are not Python libraries: kcat and Kafka's own client, with the records they have processed."""

from __future__ import annotations

import subprocess
import threading
from typing import Protocol

from tests.interop.clients import SECONDS
from tests.interop.java_client import Call, Java, record, spelled


class Reader(Protocol):
    """A member of a group that commits what it has processed."""

    def values(self) -> list[bytes]:
        """The records it has processed so far."""
        ...

    def close(self) -> None:
        """Have it leave, with its offsets committed."""
        ...


class KcatReader:
    """kcat as a member; it commits by itself, and when it leaves."""

    def __init__(self, bootstrap: str, group_id: str, topic: str) -> None:
        settings = ["auto.offset.reset=earliest", "auto.commit.interval.ms=200", "session.timeout.ms=6000"]
        command = ["kcat", "-b", bootstrap, "-u", "-q", *(word for each in settings for word in ("-X", each))]
        command += ["-f", "%s\n", "-G", group_id, topic]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._values: list[bytes] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._values.append(line.rstrip(b"\n"))

    def values(self) -> list[bytes]:
        return list(self._values)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._thread.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


class JavaReader:
    """
    Kafka's own consumer as a member.

    :ivar committed: where the group goes on, by partition, once it has left.
    """

    def __init__(self, java: Java, bootstrap: str, group_id: str, topic: str, protocol: str = "classic") -> None:
        settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "metadata.max.age.ms": 500,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 100}
        self._call: Call = java.start("member", spelled(settings), topic)
        self._values: list[bytes] = []
        self.committed: dict[int, int] = {}

    def _take(self, words: list[str]) -> None:
        if words[0] == "record":
            _, message = record(words)
            self._values.append(message.value or b"")
        elif words[0] == "committed":
            self.committed[int(words[1])] = int(words[2])

    def values(self) -> list[bytes]:
        while not self._call.said.empty():
            words = self._call.next()
            assert words is not None, "it has ended"
            self._take(words)
        return list(self._values)

    def close(self) -> None:
        self._call.stop()
        for words in self._call.rest():
            self._take(words)

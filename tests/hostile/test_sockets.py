"""
Misbehaving clients on real sockets: they do not read, disconnect in the middle, connect by the hundred, or fill the
disk.
"""

from __future__ import annotations

import os
import resource
import socket
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from logbus.errors import ErrorCode
from logbus.records.file_slice import joined
from logbus.testing import Broker
from logbus.testing.broker_process import BrokerProcess
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.handlers.kit import a_batch, fetch_request, produce_request

NOW_MS = int(time.time() * 1000)
#: For what hangs; a busy machine may be slow.
SECONDS = 120.0


class Peer:
    """A blocking connection."""

    def __init__(self, address: str, timeout: float = SECONDS) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.wire = ClientConnection("peer")

    def send(self, message: Any, version: int) -> None:
        self.socket.sendall(joined(self.wire.request(message, version)[1]))

    def frame(self) -> bytes:
        (length,) = struct.unpack(">i", self.exactly(4))
        return self.exactly(length)

    def exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise EOFError(f"closed after {len(data)} of {count} bytes")
            data += more
        return data

    def ask(self, message: Any, version: int) -> Any:
        self.send(message, version)
        return self.wire.receive(self.frame())[1]

    def create(self, name: str) -> int:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        return int(self.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code)

    def produce(self, records: bytes, acks: int = -1) -> tuple[int, int]:
        answer = self.ask(produce_request(records, acks=acks), 9).responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close as a process does that is killed with data unread."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def resident(pid: int) -> int:
    """Bytes of memory a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


class InProcess(unittest.TestCase):
    """Against a broker in this process."""

    broker: Broker

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = Broker().start()
        cls.addClassCleanup(cls.broker.close)
        with Peer(cls.broker.bootstrap) as peer:
            assert peer.create("t") == 0

    def setUp(self) -> None:
        self.honest = Peer(self.broker.bootstrap)
        self.addCleanup(self.honest.close)

    def tearDown(self) -> None:
        self.assertEqual(self.honest.produce(a_batch(b"v", timestamp=NOW_MS), 1)[0], 0)
        self.assertEqual([topic.name for topic in self.honest.ask(MetadataRequest(topics=None), 9).topics], ["t"])

    def assertClosed(self, peer: Peer) -> None:
        try:
            self.assertEqual(peer.socket.recv(1), b"")
        except ConnectionResetError:
            pass

    def test_broken_streams(self) -> None:
        """Each is closed; a connection that was there before goes on."""
        from tests.hostile.test_requests import broken_streams

        for what, data in broken_streams():
            with self.subTest(what), Peer(self.broker.bootstrap) as peer:
                peer.socket.sendall(data)
                self.assertClosed(peer)

    def test_half_a_frame(self) -> None:
        """Half a frame and then a FIN: closed, nothing answered; with a RST: gone."""
        frame = joined(ClientConnection("x").request(produce_request(a_batch(bytes(50_000)), "t"), 9)[1])
        for cut in (2, 4, 9, 30_000):
            with Peer(self.broker.bootstrap) as peer:
                peer.socket.sendall(frame[:cut])
                peer.socket.shutdown(socket.SHUT_WR)
                self.assertClosed(peer)
            peer = Peer(self.broker.bootstrap)
            peer.socket.sendall(frame[:cut])
            peer.reset()

    def test_a_last_request(self) -> None:
        """A client that closes its sending side after a request is answered all the same."""
        with Peer(self.broker.bootstrap) as peer:
            peer.send(MetadataRequest(topics=None), 9)
            peer.socket.shutdown(socket.SHUT_WR)
            self.assertEqual(len(peer.wire.receive(peer.frame())[1].brokers), 1)
            self.assertClosed(peer)

    def test_tiny_frames(self) -> None:
        """Twenty thousand requests in one go are answered in order."""
        with Peer(self.broker.bootstrap) as peer:
            count, request = 20_000, b"\x00\x12\x00\x00"
            sent = b"".join(struct.pack(">i", 10) + request + struct.pack(">ih", number, -1) for number in range(count))
            peer.socket.setblocking(False)
            at, answers = 0, bytearray()
            deadline = time.monotonic() + SECONDS
            numbers: list[int] = []
            while len(numbers) < count and time.monotonic() < deadline:
                if at < len(sent):
                    try:
                        at += peer.socket.send(sent[at : at + 65536])
                    except BlockingIOError:
                        pass
                try:
                    answers += peer.socket.recv(1 << 20)
                except BlockingIOError:
                    time.sleep(0.001)
                pos = 0
                while len(answers) - pos >= 8:
                    length, number = struct.unpack_from(">ii", answers, pos)
                    if len(answers) - pos < 4 + length:
                        break
                    numbers.append(number)
                    pos += 4 + length
                del answers[:pos]
            self.assertEqual(numbers, list(range(count)))

    def test_client_that_never_reads(self) -> None:
        """Its requests stay with it: the broker stops reading, and holds about a megabyte of its answers."""
        self.honest.produce(a_batch(bytes(900_000), timestamp=NOW_MS), 1)
        before = resident(os.getpid())
        with Peer(self.broker.bootstrap) as peer:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.socket.setblocking(False)
            asked = joined(peer.wire.request(MetadataRequest(topics=None), 9)[1]) * 100
            asked += joined(peer.wire.request(fetch_request([("t", 0, 0)]), 12)[1]) * 100
            sent, stuck, deadline = 0, 0, time.monotonic() + SECONDS
            while stuck < 50 and time.monotonic() < deadline:
                try:
                    sent += peer.socket.send(asked)
                    stuck = 0
                except BlockingIOError:
                    stuck += 1
                    time.sleep(0.01)
            self.assertEqual(stuck, 50, "the broker took everything")
            self.assertEqual(self.honest.produce(a_batch(b"meanwhile", timestamp=NOW_MS), 1)[0], 0)
            self.assertLess(resident(os.getpid()) - before, 32 << 20)

    def test_a_storm_of_connections(self) -> None:
        """A hundred connections that come and go without a word."""
        for _ in range(100):
            Peer(self.broker.bootstrap).close()


class DescriptorTests(unittest.TestCase):
    """Against a process that may open few files."""

    def served(self, address: str) -> bool:
        """Whether a newcomer is served before long: the broker closes those it has no room for."""
        software = ApiVersionsRequest(client_software_name="late", client_software_version="1")
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                with Peer(address) as late:
                    return bool(late.ask(software, 3).error_code == 0)
            except (EOFError, ConnectionError):
                time.sleep(0.05)
        return False

    def exhausted(self, broker: Broker) -> bool:
        """Whether the broker comes to have nearly all the descriptors it may."""
        assert isinstance(broker._runner, BrokerProcess)
        held = Path(f"/proc/{broker._runner.process.pid}/fd")
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if len(list(held.iterdir())) >= 90:
                return True
            time.sleep(0.01)
        return False

    def test_too_many_connections(self) -> None:
        """At its limit of descriptors a broker goes on with whom it has, and takes others when there is room."""
        broker = Broker(in_process=False)
        self.addCleanup(broker.close)
        broker.launch()
        broker.wait_ready()
        # It would else take in no more connections than it has descriptors for.
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (96, 96))
        with Peer(broker.bootstrap) as honest:
            self.assertEqual(honest.create("t"), 0)
            self.assertEqual(honest.produce(a_batch(b"1", timestamp=NOW_MS)), (0, 0))
            crowd = [Peer(broker.bootstrap) for _ in range(150)]
            self.assertTrue(self.exhausted(broker), "the crowd did not use up the descriptors")
            self.assertEqual(honest.produce(a_batch(b"2", timestamp=NOW_MS)), (0, 1))
            self.assertEqual(len(honest.ask(MetadataRequest(topics=None), 9).topics), 1)
            # There may or may not be a descriptor for it; what matters is what comes after.
            self.assertIn(honest.create("u"), (0, ErrorCode.KAFKA_STORAGE_ERROR))
            for peer in crowd:
                peer.close()
            self.assertTrue(self.served(broker.bootstrap), "nobody else is served any more")
            self.assertEqual(honest.produce(a_batch(b"3", timestamp=NOW_MS)), (0, 2))
            self.assertEqual(honest.create("later"), 0)


@unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "mounting takes root")
class FullDiskTests(unittest.TestCase):
    """Against a file system of 16 MB."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="logbus-full-"))
        self.addCleanup(self.directory.rmdir)
        mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "logbus-test", str(self.directory)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            self.skipTest("a tmpfs cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", str(self.directory)], check=True)

    def test_a_full_disk(self) -> None:
        """Refused while it is full, taken again when there is room, and whole after a restart."""
        ballast = self.directory / "ballast"
        broker = Broker({"log.flush.before.ack": "true"}, data_dir=self.directory / "data")
        with broker:
            with Peer(broker.bootstrap) as peer:
                self.assertEqual(peer.create("t"), 0)
                ballast.write_bytes(bytes(8 << 20))
                written, code = 0, 0
                while written < 100:
                    code, _ = peer.produce(a_batch(os.urandom(300_000), timestamp=NOW_MS))
                    if code:
                        break
                    written += 1
                self.assertEqual(code, ErrorCode.KAFKA_STORAGE_ERROR)
                self.assertGreater(written, 3)
                self.assertEqual(peer.produce(a_batch(os.urandom(300_000), timestamp=NOW_MS))[0], code)
                self.assertEqual(len(peer.ask(MetadataRequest(topics=None), 9).topics), 1)
                ballast.unlink()
                self.assertEqual(peer.produce(a_batch(b"room", timestamp=NOW_MS)), (0, written))
            broker.restart()
            with Peer(broker.bootstrap) as peer:
                answer = peer.ask(fetch_request([("t", 0, written)]), 12).responses[0].partitions[0]
                self.assertEqual(answer.high_watermark, written + 1)
                self.assertIn(b"room", bytes(answer.records))

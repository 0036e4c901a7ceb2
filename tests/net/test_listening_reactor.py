"""Endpoint strings with our transport, and the cases in which another one is used."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import tempfile
from pathlib import Path
from typing import Any

from attrs import evolve
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from twisted.internet.interfaces import IReactorTCP, IReactorTime
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.protocols import tls
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.connection_limits import ConnectionLimits
from logbus.net.listening_reactor import ListeningReactor
from logbus.net.transport import ServerPort
from tests.net.fakes import SERVED, Handler, Loop, TemporaryFile, fetch, metadata, produce
from tests.net.test_transport import RealCase

CONTENT = os.urandom(3 << 20)


def write_certificate(directory: Path) -> tuple[Path, Path]:
    """A key and a certificate of its own for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    key_path, certificate_path = directory / "key.pem", directory / "certificate.pem"
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return key_path, certificate_path


class ChoiceTests(SynchronousTestCase):
    def test_other_factories_get_the_ordinary_port(self) -> None:
        """
        A factory without frame buffers gets Twisted's own port.
        """
        loop = Loop()
        self.addCleanup(loop.close)
        port = ListeningReactor(loop.reactor).listenTCP(0, Factory(), interface="127.0.0.1")
        self.assertNotIsInstance(port, ServerPort)

    def test_receive_buffer_of_other_factories(self) -> None:
        """
        A port of another factory has the listener's receive buffer, too, and need not be shared.
        """
        loop = Loop()
        self.addCleanup(loop.close)
        tuned = ListeningReactor(loop.reactor, receive_buffer=48 * 1024)
        port = tuned.listenTCP(0, Factory(), interface="127.0.0.1")
        self.assertNotIsInstance(port, ServerPort)
        self.assertIn(port.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), (48 * 1024, 2 * 48 * 1024))
        self.assertFalse(port.socket.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))

    def test_other_reactors_get_their_own_port(self) -> None:
        """
        A reactor without descriptors, such as one in memory, listens itself.
        """
        from logbus.net.factory import KafkaServerFactory
        from logbus.net.shared_resources import SharedResources

        reactor = MemoryReactorClock()
        factory = KafkaServerFactory(SERVED, Handler(), SharedResources(reactor))
        ListeningReactor(reactor).listenTCP(9092, factory)
        self.assertIs(reactor.tcpServers[0][1], factory)

    def test_passes_everything_else_on(self) -> None:
        """
        It provides what the reactor does, and passes everything else on.
        """
        reactor = MemoryReactorClock()
        wrapped = ListeningReactor(reactor)
        self.assertTrue(IReactorTCP.providedBy(wrapped))
        self.assertTrue(IReactorTime.providedBy(wrapped))
        self.assertEqual(wrapped.seconds(), reactor.seconds())


class IPv6Tests(RealCase):
    def test_ipv6(self) -> None:
        """
        An IPv6 endpoint has our transport too, and its peers have IPv6 addresses.
        """
        try:
            port = self.listen("tcp6:0:interface=\\:\\:1")
        except Exception as e:
            self.skipTest(f"no IPv6 here: {e}")
        self.assertIsInstance(port, ServerPort)
        with socket.create_connection(("::1", port.getHost().port)) as sock:
            sock.send(self.client.ask(metadata()))
            self.loop.until(lambda: self.handler.contexts)
        self.assertEqual(self.handler.contexts[0].host, "::1")


class TLSPeer:
    """A TLS client over a socket that does not block."""

    def __init__(self, sock: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.sock = context.wrap_socket(sock, do_handshake_on_connect=False)
        self.sock.setblocking(False)
        self.received = bytearray()
        self.ended = False

    def shake(self) -> bool:
        try:
            self.sock.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read(self, most: int = 1 << 16) -> None:
        try:
            data = self.sock.recv(most)
        except ssl.SSLWantReadError:
            return
        except OSError:
            data = b""
        self.ended = self.ended or not data
        self.received += data


class TLSTests(RealCase):
    def setUp(self) -> None:
        def no_default() -> Any:
            raise AssertionError("TLS asked for the global reactor's clock")

        self.patch(tls, "_get_default_clock", no_default)
        with tempfile.TemporaryDirectory() as directory:
            key, certificate = write_certificate(Path(directory))
            self.endpoint = f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={certificate}"
            super().setUp()

    def connect_tls(self) -> TLSPeer:
        peer = TLSPeer(socket.create_connection(("127.0.0.1", self.port.getHost().port)))
        self.addCleanup(peer.sock.close)
        return peer

    def test_a_real_conversation(self) -> None:
        """
        Over TLS requests are served the same: large ones, pipelined ones, slices of files, to a slow reader.
        """
        self.handler.records = TemporaryFile(CONTENT).slice()
        peer = self.connect_tls()
        self.loop.until(peer.shake)
        stream = memoryview(
            self.client.ask(produce(1, bytes(500_000))) + self.client.ask(fetch(2)) + self.client.ask(produce(3))
        )
        answers = bytearray()

        def enough() -> bool:
            nonlocal stream
            if stream:
                try:
                    stream = stream[peer.sock.send(stream[:16384]) :]
                except ssl.SSLWantWriteError:
                    pass
            peer.read(10_000)
            return len(peer.received) > len(CONTENT) and self.complete(peer.received, 3)

        self.loop.until(enough, 30)
        answers += peer.received
        first, second, third = self.client.answers(bytes(answers))
        self.assertEqual(bytes(second.responses[0].partitions[0].records), CONTENT)
        self.assertEqual(first.responses[0].partition_responses[0].index, 1)
        self.assertEqual(third.responses[0].partition_responses[0].index, 3)

    def complete(self, stream: bytearray, count: int) -> bool:
        at = 0
        for _ in range(count):
            if len(stream) < at + 4:
                return False
            at += 4 + int.from_bytes(stream[at : at + 4], "big")
        return len(stream) >= at

    def test_plaintext_to_a_tls_port(self) -> None:
        """
        A client that forgot TLS is hung up on, and nothing of it is served.
        """
        peer = self.connect()
        peer.sock.send(self.client.ask(metadata()))

        def ended() -> bool:
            peer.read()
            return peer.ended

        self.loop.until(ended)
        self.assertEqual((self.handler.seen, self.factory.metrics.connections_open), ([], 0))

    def test_incomplete_handshake(self) -> None:
        """
        A connection with an incomplete handshake is closed, and one with a complete handshake is not.
        """
        patient = self.connect_tls()
        self.loop.until(patient.shake)
        silent = self.connect()
        half = self.connect()
        half.sock.send(b"\x16\x03\x01\x02\x00\x01")
        self.assertEqual(self.factory.metrics.connections_open, 3)
        timers = [call for call in self.loop.reactor.getDelayedCalls() if "handshake" in str(call.func)]
        self.assertEqual(len(timers), 3)
        for call in timers:
            call.reset(0)

        def ended() -> bool:
            silent.read()
            half.read()
            return silent.ended and half.ended

        self.loop.until(ended)
        self.loop.until(lambda: self.factory.metrics.connections_open == 1)
        self.assertEqual(self.factory.metrics.connections_expired, 2)
        self.assertFalse(patient.ended)

    def test_lost_connection_leaves_no_timer(self) -> None:
        """
        A handshake's deadline ends with its connection.
        """
        before = len(self.loop.reactor.getDelayedCalls())
        peer = self.connect()
        peer.sock.close()
        self.loop.until(lambda: not self.factory.metrics.connections_open)
        self.assertEqual(len(self.loop.reactor.getDelayedCalls()), before)

    def test_connection_limit_with_tls(self) -> None:
        """The limits hold for TLS, too."""
        self.factory.shared.quotas.limits = evolve(ConnectionLimits(), max_connections=1)
        first = self.connect_tls()
        self.loop.until(first.shake)
        refused = socket.create_connection(("127.0.0.1", self.port.getHost().port))
        refused.setblocking(False)
        self.addCleanup(refused.close)

        def ended() -> bool:
            try:
                return not refused.recv(1)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True

        self.loop.until(ended)
        self.assertEqual(self.factory.metrics.connections_refused, 1)
        self.assertEqual(len(self.flushLoggedErrors()), 0)


class PlaintextTests(RealCase):
    def test_tls_to_a_plaintext_port(self) -> None:
        """
        A TLS client on a plaintext port is recognized by its first bytes, and disconnected.
        """
        peer = TLSPeer(socket.create_connection(("127.0.0.1", self.port.getHost().port)))
        self.addCleanup(peer.sock.close)

        def refused() -> bool:
            try:
                return peer.shake()
            except OSError:
                return True

        self.loop.until(refused)
        self.loop.until(lambda: not self.factory.metrics.connections_open)
        self.assertEqual(self.factory.metrics.broken_frames, 1)

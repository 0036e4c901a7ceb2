"""
Misbehaving clients of a TLS listener whose clients log in, on real sockets.

A canary that has logged in goes on asking meanwhile, and each of its requests is answered.
"""

from __future__ import annotations

import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field
from OpenSSL import SSL

from logbus.records.file_slice import joined
from logbus.security.sasl.plain import plain_message
from logbus.testing import Broker
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.certificates import Authority
from tests.hostile.secured_fuzz import framed
from tests.hostile.test_sockets import Peer, resident

SECONDS = 120.0
MEBIBYTE = 1 << 20
#: A ClientHello without its end.
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40)


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class SecurePeer(Peer):
    """A blocking connection over TLS, which has not logged in."""

    def __init__(self, address: str) -> None:
        super().__init__(address, SECONDS)
        self.socket = client_context().wrap_socket(self.socket)

    def log_in(self) -> SecurePeer:
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = plain_message("alice", "secret")
        assert self.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
        return self


@define
class Canary:
    """
    Asks all the time, on a connection of its own.

    :ivar seconds: how long each answer took.
    """

    peer: SecurePeer
    seconds: list[float] = field(factory=list)
    failure: BaseException | None = None
    _end: threading.Event = field(factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def run(self) -> None:
        try:
            while not self._end.is_set():
                began = time.monotonic()
                assert self.peer.ask(MetadataRequest(topics=[]), 9).brokers
                self.seconds.append(time.monotonic() - began)
                self._end.wait(0.01)
        except BaseException as e:
            self.failure = e

    def __enter__(self) -> Canary:
        self._thread = threading.Thread(target=self.run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(SECONDS)
        self.peer.close()
        assert self.failure is None
        print(f"the canary had {len(self.seconds)} answers, each within {1000 * max(self.seconds, default=0):.0f} ms")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp("certificates")
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KAFKA:SASL_SSL",
        "ssl.keystore.location": str(Authority.new().issue().write(Path(directory) / "server.pem")),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.kafka.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
        ),
    }
    with Broker(settings, in_process=False) as broker:
        yield broker


@pytest.fixture(autouse=True)
def canary(broker: Broker) -> Iterator[Canary]:
    """It is served from the beginning of a test to its end, and the broker does not grow."""
    before = resident(broker.pid)
    with Canary(SecurePeer(broker.bootstrap).log_in()) as canary:
        yield canary
    assert resident(broker.pid) - before < 64 * MEBIBYTE
    SecurePeer(broker.bootstrap).log_in().close()


def ends(connection: socket.socket) -> bytes:
    """What the broker says until it closes the connection."""
    said = b""
    try:
        while data := connection.recv(1 << 16):
            said += data
    except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
        pass
    return said


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        framed(bytes(range(64))),
        bytes(600),
        b"\x16\x03\x01\xff\xff" + bytes(100),
        b"\x80\x2e\x01\x00\x02" + bytes(44),
        HALF_A_HELLO.replace(b"\x01\xfc", b"\xff\xff") + b"\xff" * 600,
    ],
    ids=["HTTP", "a frame", "zeros", "a record too long", "SSL 2", "garbage"],
)
def test_no_tls(broker: Broker, data: bytes) -> None:
    """What is no TLS is closed, with an alert at most."""
    with Peer(broker.bootstrap, SECONDS) as peer:
        peer.socket.sendall(data)
        peer.socket.shutdown(socket.SHUT_WR)
        assert len(ends(peer.socket)) < 100


def test_garbage_after_the_handshake(broker: Broker) -> None:
    """Bytes that are no TLS records, after some that were, before the login and after it."""
    for logged_in in (False, True):
        peer = SecurePeer(broker.bootstrap)
        if logged_in:
            peer.log_in()
        with socket.socket(fileno=peer.socket.detach()) as bare:
            bare.settimeout(SECONDS)
            bare.sendall(b"\x17\x03\x03\x00\x40" + b"garbage!" * 8)
            assert len(ends(bare)) < 5000


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 65_537, 2**31 - 1])
def test_lengths_before_the_login(broker: Broker, length: int) -> None:
    """A frame that is too long for who has not logged in, or cannot be."""
    with SecurePeer(broker.bootstrap) as peer:
        peer.socket.sendall(length.to_bytes(4, "big", signed=True) + bytes(8))
        assert ends(peer.socket) == b""


def test_a_request_before_the_login(broker: Broker) -> None:
    """It is not answered."""
    with SecurePeer(broker.bootstrap) as peer:
        peer.send(MetadataRequest(topics=None), 9)
        assert ends(peer.socket) == b""


def test_renegotiation(broker: Broker) -> None:
    """A client of TLS 1.2 that wants to negotiate again is refused."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    with Peer(broker.bootstrap, SECONDS) as peer:
        peer.socket.settimeout(None)
        connection = SSL.Connection(context, peer.socket)
        connection.set_connect_state()
        connection.do_handshake()
        connection.renegotiate()
        with pytest.raises(SSL.Error):
            for _ in range(3):
                connection.do_handshake()
                connection.send(b"\0\0\0\1")
                connection.recv(1)
        assert connection.renegotiate_pending()


def test_one_byte_in_each_record(broker: Broker) -> None:
    """A login in records of one byte is answered, like any other."""
    with SecurePeer(broker.bootstrap) as peer:
        wire = ClientConnection("slow")
        request = joined(wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)[1])
        for byte in request:
            peer.socket.sendall(bytes([byte]))
        assert wire.receive(peer.frame())[1].error_code == 0


@pytest.mark.slow
def test_handshakes_that_do_not_end(broker: Broker) -> None:
    """Half of them never say a word, the others stop within one; all are closed in time, as is a login that stops."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert min(soft, hard) > 400
    peers = [Peer(broker.bootstrap, SECONDS) for _ in range(200)]
    for peer in peers[::2]:
        peer.socket.sendall(HALF_A_HELLO)
    stopped = SecurePeer(broker.bootstrap)
    stopped.socket.sendall(b"\0\0\0\x20\0")
    for peer in [*peers, stopped]:
        ends(peer.socket)
        peer.close()


def test_a_flood_of_handshakes(broker: Broker) -> None:
    """Hundreds at once, each dropped as soon as it is complete, or reset in its middle."""

    def flood() -> None:
        for number in range(60):
            peer = SecurePeer(broker.bootstrap)
            peer.reset() if number % 2 else peer.close()
            half = Peer(broker.bootstrap, SECONDS)
            half.socket.sendall(HALF_A_HELLO)
            half.reset()

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()

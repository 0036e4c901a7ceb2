"""Tests of :mod:`logbus.admin.channel`: limits, timeouts, invalid requests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.http_limits import HttpLimits
from logbus.admin.request_guard import SECURITY_HEADERS
from logbus.admin.routing import FOR_ALL, ViewRequest, ViewResponse, route
from tests.admin.harness import Answered, Connection, World, request

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@frozen
class MisbehavingRoutes:
    """Routes of misbehaving views."""

    pieces: list[bytes]

    @route("GET", "/odd/bug", "A bug", content_types=(), rights=FOR_ALL)
    def bug(self, call: ViewRequest) -> Any:
        raise KeyError("hunter2")

    @route("GET", "/odd/stream", "Pieces", content_types=("text/plain",), rights=FOR_ALL)
    def stream(self, call: ViewRequest) -> ViewResponse:
        return ViewResponse(HTTPStatus.OK, "text/plain", lambda: iter(self.pieces))

    @route("GET", "/odd/broken", "Pieces, then a bug", content_types=("text/plain",), rights=FOR_ALL)
    def broken(self, call: ViewRequest) -> ViewResponse:
        def pieces() -> Iterator[bytes]:
            yield b"one"
            raise KeyError("two")

        return ViewResponse(HTTPStatus.OK, "text/plain", pieces)


class ChannelCase(SynchronousTestCase):
    """A world with odd routes and a connection."""

    limits = HttpLimits()

    def setUp(self) -> None:
        self.world = World(limits=self.limits)
        self.pieces = [b"a" * 1000, b"b" * 1000, b"c" * 1000]
        self.world.site.router.add([MisbehavingRoutes(self.pieces)])
        self.connection = self.world.connect()

    def assert_refused(self, connection: Connection, status: int, word: str) -> Answered:
        """There is one answer, a problem, and then the end; nothing is left behind."""
        answered = Answered(connection.take())
        self.assertEqual(answered.status, status, answered.body)
        self.assertEqual(answered.headers["Content-Type"], "application/problem+json")
        self.assertEqual(answered.headers["Connection"], "close")
        self.assertIn(word, answered.json["detail"])
        self.assertEqual(answered.rest, b"")
        self.world.clock.advance(self.world.limits.linger_seconds)
        self.assertTrue(connection.closed)
        connection.lose()
        self.assert_nothing_left()
        return answered

    def assert_nothing_left(self) -> None:
        """No timer runs, no connection is remembered."""
        self.assertEqual(self.world.clock.getDelayedCalls(), [])
        http = self.world.site._http
        assert http is not None
        self.assertEqual(http.connections - {self.connection.protocol}, set())


class RequestTests(ChannelCase):
    """Requests as they should be, and nearly."""

    def test_headers(self) -> None:
        """Every answer has the headers that keep browsers out of trouble, the date of our clock, and no CORS."""
        for target in ("/healthz", "/", "/nope", "/metrics", "/odd/bug", "/api/v1/openapi.json"):
            answered = self.world.ask("GET", target, headers={"Origin": "http://evil.example"})
            for name, value in SECURITY_HEADERS.items():
                self.assertEqual(answered.headers[name], value, (target, name))
            self.assertEqual(answered.headers["Date"], "Tue, 14 Nov 2023 22:13:20 GMT")
            self.assertEqual(answered.headers["Server"], "logbus")
            self.assertFalse([name for name in answered.headers if name.lower().startswith("access-control")])
        self.flushLoggedErrors(KeyError)

    def test_keep_alive(self) -> None:
        """A connection serves one request after the other."""
        for _ in range(3):
            self.connection.send(GET)
            self.assertEqual(Answered(self.connection.take()).status, 200)
        self.assertFalse(self.connection.closed)

    def test_no_http(self) -> None:
        """A client of Kafka is answered at its first bytes: it sends no more before that."""
        self.connection.send(b"\0\0\0\x1f\0\x12\0\x04")
        self.assert_refused(self.connection, 400, "This is not HTTP/1.1")

    @given(st.lists(st.integers(1, len(GET)), max_size=6))
    def test_cut_anywhere(self, cuts: list[int]) -> None:
        """A request is the same however its bytes come."""
        connection = self.world.connect()
        marks = [0, *sorted(set(cuts)), len(GET)]
        for begin, end in itertools.pairwise(marks):
            if end > begin:
                connection.send(GET[begin:end])
        self.assertEqual(Answered(connection.take()).status, 200)
        connection.lose()

    def test_head(self) -> None:
        """HEAD has the headers of GET, and no body, also where the body would be made piece by piece."""
        for target in ("/healthz", "/metrics", "/odd/stream", "/nope"):
            self.connection.send(request("HEAD", target))
            self.world.turn()
            raw = self.connection.take()
            self.assertTrue(raw.endswith(b"\r\n\r\n"), raw)
            told, got = Answered(raw, "HEAD"), self.world.ask("GET", target)
            self.assertEqual(told.status, got.status)
            self.assertEqual(told.headers["Content-Type"], got.headers["Content-Type"])
            self.assertEqual(told.headers["Content-Length"], got.headers["Content-Length"])
        self.assertFalse(self.connection.closed)

    def test_methods(self) -> None:
        """A method that a path does not support is refused with those it does, without echoing the request."""
        for method in ("PUT", "TRACE", "CONNECT", "DELETE", "BREW", "get"):
            answered = self.world.ask(method, "/api/v1/topics", headers={"X-Secret": "hunter2"})
            self.assertEqual(answered.status, 405, method)
            self.assertEqual(answered.headers["Allow"], "GET, HEAD, OPTIONS, POST")
            self.assertNotIn(b"hunter2", answered.body)

    def test_options(self) -> None:
        """A preflight is told what there is, and granted nothing."""
        answered = self.world.ask(
            "OPTIONS",
            "/api/v1/topics",
            headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"},
        )
        self.assertEqual((answered.status, answered.body), (204, b""))
        self.assertEqual(answered.headers["Allow"], "GET, HEAD, OPTIONS, POST")
        self.assertNotIn("Access-Control-Allow-Origin", answered.headers)

    def test_not_found(self) -> None:
        """A missing path is answered with JSON, whatever the path looks like."""
        for target in (
            "/nope",
            "/api/v1/topics/",
            "//",
            "//GET",
            "/api",
            "/../etc/passwd",
            "/healthz/x",
            "/%",
            "/\u00a0",
        ):
            answered = self.world.ask("GET", target)
            self.assertEqual(answered.status, 404, target)
            self.assertEqual((answered.json["status"], answered.json["type"]), (404, "about:blank"))
            self.assertEqual(set(answered.json), {"type", "title", "status", "detail", "retriable"})

    def test_targets_without_a_path(self) -> None:
        """Requests as for a proxy are refused."""
        for method, target in (("OPTIONS", "*"), ("GET", "http://localhost/healthz"), ("CONNECT", "localhost:80")):
            self.assertEqual(self.world.ask(method, target).status, 400, target)

    def test_http_1_0(self) -> None:
        """A client of HTTP/1.0 gets its answer, whole, and the end of the connection."""
        self.connection.send(b"GET /odd/stream HTTP/1.0\r\n\r\n")
        self.world.turn()
        self.assertEqual(Answered(self.connection.take()).body, b"".join(self.pieces))
        self.assertTrue(self.connection.closed)

    def test_connection_close(self) -> None:
        """``Connection: close`` is honoured."""
        self.connection.send(request("GET", "/healthz", headers={"Connection": "close"}))
        self.assertEqual(Answered(self.connection.take()).headers["Connection"], "close")
        self.assertTrue(self.connection.closed)

    def test_bug(self) -> None:
        """A bug is for the log; the client learns that there was one, and the connection lives."""
        answered = self.world.ask("GET", "/odd/bug")
        self.assertEqual(answered.status, 500)
        self.assertNotIn(b"hunter2", answered.body)
        self.assertNotIn(b"Traceback", answered.body)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_wrong_host(self) -> None:
        """A rebound name is refused."""
        answered = self.world.ask("GET", "/metrics", headers={"Host": "evil.example"}, local="10.0.0.1")
        self.assertEqual(answered.status, 421)
        self.assertIn("admin.allowed.hosts", answered.json["detail"])
        self.assertEqual(self.world.ask("GET", "/healthz", headers={"Host": "a.example"}).status, 421)
        self.assertEqual(self.world.ask("GET", "/metrics", headers={"Host": "node1:8080"}).status, 200)

    def test_cross_site_change(self) -> None:
        """The headers are checked before anything is done."""
        answered = self.world.ask("POST", "/api/v1/topics", {"name": "x"}, headers={"Content-Type": "text/plain"})
        self.assertEqual(answered.status, 415)
        answered = self.world.ask("POST", "/api/v1/topics", {"name": "x"}, headers={"Origin": "http://evil.example"})
        self.assertEqual(answered.status, 403)
        self.assertEqual(self.world.topics.created, [])

    def test_forms_are_not_parsed(self) -> None:
        """The body of a form is not even looked at."""
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data"):
            answered = self.world.ask("POST", "/api/v1/topics", b"&" * 60_000, headers={"Content-Type": kind})
            self.assertEqual(answered.status, 415, kind)

    def test_body_where_none_belongs(self) -> None:
        """A GET with a body is refused, and the connection can go on."""
        self.connection.send(request("GET", "/healthz", {"a": 1}))
        self.assertEqual(Answered(self.connection.take()).status, 400)
        self.connection.send(GET)
        self.assertEqual(Answered(self.connection.take()).status, 200)


class PipeliningTests(ChannelCase):
    """One request at a time."""

    def test_requests_in_one_segment(self) -> None:
        """The first of many requests that come together is answered; the connection ends with that."""
        self.connection.send(GET * 1000)
        answered = Answered(self.connection.take())
        self.assertEqual((answered.status, answered.headers["Connection"], answered.rest), (200, "close", b""))
        self.assertTrue(self.connection.closed)
        self.connection.send(GET)
        self.assertEqual(self.connection.take(), b"")

    def test_behind_a_body(self) -> None:
        """The same behind a body, of either kind."""
        for head in ("Content-Length: 12\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nc\r\n"):
            connection = self.world.connect()
            tail = b"\r\n0\r\n\r\n" if "chunked" in head else b""
            connection.send(
                b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + head.encode()
                + b'{"name":"x"}'
                + tail
                + GET
            )
            answered = Answered(connection.take())
            self.assertIn(answered.status, (201, 409))
            self.assertEqual((answered.headers["Connection"], answered.rest), ("close", b""))
            self.assertTrue(connection.closed)

    def test_while_answering(self) -> None:
        """Bytes received while an answer is made are discarded."""
        self.connection.send(request("GET", "/odd/stream"))
        for _ in range(100):
            self.connection.send(b"x" * 65_536)
        self.world.turn()
        self.assertEqual(Answered(self.connection.take()).body, b"".join(self.pieces))
        self.assertTrue(self.connection.closed)

    def test_empty_line_behind_a_post(self) -> None:
        """Old browsers send an empty line behind a POST; that is no request."""
        self.connection.send(request("POST", "/api/v1/topics", {"name": "x"}) + b"\r\n")
        self.assertEqual(Answered(self.connection.take()).status, 201)
        self.connection.send(GET)
        self.assertEqual(Answered(self.connection.take()).status, 200)


class RefusalTests(ChannelCase):
    """Invalid requests."""

    HEAD = b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    def test_announced_too_long(self) -> None:
        """A body announced as too long is refused before any of it is read, and is not asked for."""
        for length in (b"65537", b"1000000000000", b"9" * 100):
            connection = self.world.connect()
            connection.send(self.HEAD + b"Expect: 100-continue\r\nContent-Length: " + length + b"\r\n\r\n")
            self.assert_refused(connection, 413, "65536")

    def test_as_long_as_can_be(self) -> None:
        """A body of just the limit is read."""
        body = b'{"name":"x"}'.ljust(65_536)
        answered = self.world.ask("POST", "/api/v1/topics", body)
        self.assertEqual(answered.status, 201)

    def test_endless_chunks(self) -> None:
        """Chunks without an end are refused once they are more than a body may have."""
        connection = self.world.connect()
        connection.send(self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(65):
            connection.send(b"400\r\n" + b" " * 1024 + b"\r\n")
        self.assert_refused(connection, 413, "65536")

    def test_small_chunks(self) -> None:
        """Chunks of one byte count like any."""
        connection = self.world.connect()
        connection.send(self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.send(b"1\r\n \r\n" * 65_537)
        self.assert_refused(connection, 413, "65536")

    def test_discards_with_an_end(self) -> None:
        """A client that continues to send after a refusal is disconnected: after 2 seconds, or 1 MiB."""
        self.connection.send(self.HEAD + b"Content-Length: 100000000\r\n\r\n")
        for _ in range(16):
            self.connection.send(b"x" * 65_536)
        self.assertFalse(self.connection.closed)
        self.connection.send(b"x")
        self.assertTrue(self.connection.closed)

    def test_long_lines(self) -> None:
        """A line without an end is refused when it is long enough, in the request line as in headers."""
        for start in (b"GET /", b"GET / HTTP/1.1\r\nX: "):
            connection = self.world.connect()
            connection.send(start)
            for _ in range(9):
                connection.send(b"a" * 1000)
            self.assert_refused(connection, 431, "8192")

    def test_many_headers(self) -> None:
        """Headers have a limit by number and by size."""
        for line in (b"A: b\r\n" * 100, b"A: " + b"b" * 6000 + b"\r\n", b"A: b\r\n" + b" c\r\n" * 10_000):
            connection = self.world.connect()
            connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + line * 3 + b"\r\n")
            self.assert_refused(connection, 400, "64 headers")

    def test_smuggling(self) -> None:
        """Ambiguous requests are refused (RFC 9112, 11.2)."""
        for head in (
            b"Content-Length: 5\r\nContent-Length: 6\r\n",
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            b"Content-Length: +5\r\n",
            b"Content-Length: -1\r\n",
            b"Content-Length: 0x5\r\n",
            b"Content-Length: \xb2\r\n",
            b"Transfer-Encoding: chunked, chunked\r\n",
            b"Transfer-Encoding: xchunked\r\n",
            b"Content-Length : 5\r\n",
            b"Host: a\x00b\r\n",
            b"no colon\r\n",
        ):
            connection = self.world.connect()
            connection.send(b"POST /api/v1/topics HTTP/1.1\r\n" + head + b"\r\n0\r\n\r\n" + GET)
            self.assert_refused(connection, 400, "RFC 9112")

    def test_bad_chunks(self) -> None:
        """Chunks of nonsense are refused."""
        for chunk in (b"zz\r\n", b"-1\r\n", b"0x1\r\n", b"5\r\nabcdefgh\r\n"):
            connection = self.world.connect()
            connection.send(self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
            self.assert_refused(connection, 400, "RFC 9112")

    def test_not_http(self) -> None:
        """Other protocols are told once that this is HTTP."""
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n",
            b"\x00\x00\x00\x10\x00\x12\x00\x00\r\n",
            b"GET /\r\n",
            b"GET / HTTP/2.0\r\n",
            b"GET  / HTTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ):
            connection = self.world.connect()
            connection.send(data)
            self.assert_refused(connection, 400, "RFC 9112")

    @given(st.lists(st.binary(max_size=100), max_size=5))
    def test_any_bytes(self, parts: list[bytes]) -> None:
        """Whatever comes, no exception leaves the protocol, and nothing stays when the connection goes."""
        connection = self.world.connect()
        for part in parts:
            connection.send(part)
        connection.lose()
        self.assert_nothing_left_but_idle()

    @given(st.integers(0, len(GET) - 1), st.binary(min_size=1, max_size=3))
    def test_mutated(self, at: int, by: bytes) -> None:
        """A request with a few bytes changed is answered, refused, or waited for."""
        connection = self.world.connect()
        connection.send(GET[:at] + by + GET[at + len(by) :])
        self.world.turn(5)
        answer = connection.take()
        if answer:
            self.assertIn(Answered(answer).status, (200, 400, 404, 405, 415, 421, 431))
        connection.lose()
        self.assert_nothing_left_but_idle()

    def assert_nothing_left_but_idle(self) -> None:
        """Only the idle timer of the connection of the test itself runs."""
        self.assertEqual(len(self.world.clock.getDelayedCalls()), 1)

    def assert_refused(self, connection: Connection, status: int, word: str) -> Answered:
        self.connection.lose()
        return super().assert_refused(connection, status, word)


class TimeTests(ChannelCase):
    """Slow and idle clients."""

    def test_slow_head(self) -> None:
        """A byte a second does not keep a connection."""
        for byte in b"GET /healthz HTTP/1.1\r\nX-Padding: ":
            self.connection.send(bytes([byte]))
            self.world.clock.advance(1)
        self.assert_refused(self.connection, 408, "30 seconds")

    def test_slow_body(self) -> None:
        """Neither does a body of a byte a second."""
        self.connection.send(RefusalTests.HEAD + b"Content-Length: 1000\r\n\r\n")
        for _ in range(31):
            self.connection.send(b" ")
            self.world.clock.advance(1)
        self.assert_refused(self.connection, 408, "30 seconds")

    def test_time_is_for_each_request(self) -> None:
        """The time runs from the first byte of a request, not from the connection's begin."""
        for _ in range(5):
            self.world.clock.advance(25)
            self.connection.send(GET)
            self.assertEqual(Answered(self.connection.take()).status, 200)

    def test_idle(self) -> None:
        """An idle connection is closed silently, before its first request and between two."""
        used = self.world.connect()
        used.send(GET)
        used.take()
        self.world.clock.advance(61)
        for connection in (self.connection, used):
            self.assertTrue(connection.closed)
            self.assertEqual(connection.take(), b"")
            connection.lose()
        self.assert_nothing_left()

    def test_unread_end(self) -> None:
        """A client that does not read the end of the last answer is disconnected."""
        self.connection.send(request("GET", "/healthz", headers={"Connection": "close"}))
        self.assertTrue(self.connection.closed)
        self.assertFalse(self.connection.aborted)
        self.world.clock.advance(61)
        self.assertTrue(self.connection.aborted)
        self.connection.lose()
        self.assert_nothing_left()


class SlotTests(ChannelCase):
    """More connections than allowed."""

    limits = HttpLimits(connections=4, connections_per_address=3, health_connections=2)

    def setUp(self) -> None:
        super().setUp()
        self.connection.lose()

    def busy(self, peer: str) -> Connection:
        """A connection whose request is being answered."""
        connection = self.world.connect(peer=peer)
        connection.send(request("GET", "/odd/stream"))
        return connection

    def at_once(self, path: str) -> Answered:
        """The answer to a newcomer, before the reactor turns."""
        connection = self.world.connect()
        connection.send(request("GET", path))
        self.assertTrue(connection.closed)
        answered = Answered(connection.take())
        connection.lose()
        return answered

    def test_idle_connection_makes_room(self) -> None:
        """However many idle connections there are, the next request is answered; the oldest of them is closed."""
        idle = [self.world.connect(peer=f"10.0.0.{number}") for number in range(4)]
        idle[0].send(b"GET /healthz HTTP/1.1\r\n")
        self.assertEqual(self.world.ask("GET", "/healthz").status, 200)
        self.assertEqual([each.aborted for each in idle], [True, False, False, False])

    def test_share_of_an_address(self) -> None:
        """The address with most connections loses one first, and one with its full share loses its own."""
        lonely = self.world.connect(peer="10.0.0.1")
        crowd = [self.world.connect(peer="10.0.0.2") for _ in range(3)]
        self.world.connect(peer="10.0.0.3")
        self.world.connect(peer="10.0.0.2")
        self.assertEqual([each.aborted for each in crowd], [True, True, False])
        self.assertFalse(lonely.aborted)

    def test_used_connections_stay(self) -> None:
        """A client that keeps its connection and uses it stays."""
        faithful, other = self.world.connect(peer="10.0.0.1"), self.world.connect(peer="10.0.0.1")
        faithful.send(request("GET", "/healthz"))
        faithful.take()
        for _ in range(2):
            self.world.connect(peer="10.0.0.1")
        self.assertTrue(other.aborted)
        self.assertFalse(faithful.aborted)

    def test_health_when_all_are_busy(self) -> None:
        """When all connections are being answered, a few more may ask how the broker is, and nothing else."""
        busy = [self.busy(f"10.0.0.{number}") for number in range(4)]
        for path in ("/healthz", "/readyz", "/readyz/in-sync"):
            answered = self.at_once(path)
            self.assertEqual((answered.status, answered.headers["Connection"]), (200, "close"))
        refused = self.at_once("/api/v1/topics")
        self.assertEqual((refused.status, refused.headers["Retry-After"]), (503, "1"))
        self.assertIn("/healthz", refused.json["detail"])
        self.world.turn()
        for each in busy:
            self.assertEqual(Answered(each.take()).body, b"".join(self.pieces))

    def test_places_for_health_are_not_kept(self) -> None:
        """One of them that asks nothing ends soon, or at once if another needs its place."""
        for number in range(4):
            self.busy(f"10.0.0.{number}")
        idle = [self.world.connect() for _ in range(2)]
        self.assertEqual(self.at_once("/healthz").status, 200)
        self.assertEqual([each.aborted for each in idle], [True, False])
        self.world.clock.advance(self.limits.health_seconds)
        self.assertTrue(idle[1].aborted)

    def test_crowd_in_the_places_for_health(self) -> None:
        """An address that takes them again and again loses its own, not that of another's probe."""
        for number in range(4):
            self.busy(f"10.0.0.{number}")
        probe = self.world.connect(peer="10.0.0.8")
        crowd = [self.world.connect(peer="10.0.0.9") for _ in range(3)]
        self.assertEqual([each.aborted for each in (probe, *crowd)], [False, True, True, False])
        probe.send(request("GET", "/healthz"))
        self.assertEqual(Answered(probe.take()).status, 200)

    def test_no_free_slot(self) -> None:
        """A connection for which there is no slot gets an error."""
        for number in range(4):
            self.busy(f"10.0.0.{number}")
        for _ in range(2):
            connection = self.world.connect()
            connection.send(request("GET", "/healthz"))
            connection.protocol._busy = True  # type: ignore[attr-defined]
        late = self.world.connect()
        answered = Answered(late.take())
        self.assertEqual((answered.status, answered.headers["Retry-After"]), (503, "1"))
        for name, value in SECURITY_HEADERS.items():
            self.assertEqual(answered.headers[name], value)
        self.assertTrue(late.closed)


class StreamTests(ChannelCase):
    """Streamed answers."""

    def test_a_piece_a_turn(self) -> None:
        """Each piece has a turn of its own, and two answers share them."""
        other = self.world.connect()
        self.connection.send(request("GET", "/odd/stream"))
        other.send(request("GET", "/odd/stream"))
        self.world.clock.turn()
        self.assertEqual((len(self.connection.take()) > 1000, other.take()), (True, b""))
        self.world.clock.turn()
        self.assertEqual((self.connection.take(), len(other.take()) > 1000), (b"", True))

    def test_complete_stream(self) -> None:
        """The pieces make up the response, and the connection stays open."""
        self.connection.send(request("GET", "/odd/stream"))
        self.world.turn()
        self.assertEqual(Answered(self.connection.take()).body, b"".join(self.pieces))
        self.connection.send(GET)
        self.assertEqual(Answered(self.connection.take()).status, 200)

    def test_slow_reader(self) -> None:
        """While a client takes nothing nothing is made; when it takes again, the answer goes on."""
        self.connection.send(request("GET", "/odd/stream"))
        self.world.clock.turn()
        producer = self.connection.transport.producer
        producer.pauseProducing()
        before = self.connection.transport.value()
        self.world.turn()
        self.world.clock.advance(59)
        self.assertEqual(self.connection.transport.value(), before)
        producer.resumeProducing()
        self.world.turn()
        self.assertEqual(Answered(self.connection.take()).body, b"".join(self.pieces))

    def test_stalled_reader(self) -> None:
        """A client that reads nothing for a minute is disconnected, and the rest of its response is dropped."""
        self.connection.send(request("GET", "/odd/stream"))
        self.world.clock.turn()
        self.connection.transport.producer.pauseProducing()
        self.world.clock.advance(61)
        self.assertTrue(self.connection.aborted)
        self.connection.lose()
        self.assert_nothing_left()

    def test_disconnected_reader(self) -> None:
        """A client that disconnects ends the building of its response, whether or not the transport tells producers."""
        for tells in (True, False):
            connection = self.world.connect()
            connection.send(request("GET", "/odd/stream"))
            self.world.clock.turn()
            connection.lose(tells)
            self.assertEqual(len(self.world.clock.getDelayedCalls()), 1)  # the idle timer of self.connection

    def test_bug_in_the_middle(self) -> None:
        """An answer that breaks off does not look whole: the last chunk is missing and the connection is gone."""
        self.connection.send(request("GET", "/odd/broken"))
        self.world.turn()
        self.assertFalse(self.connection.take().endswith(b"0\r\n\r\n"))
        self.assertTrue(self.connection.aborted)
        self.connection.lose()
        self.assert_nothing_left()
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)


class DrainTests(ChannelCase):
    """The broker stops."""

    def test_no_connections(self) -> None:
        """A site without any request is drained."""
        self.successResultOf(World().site.drain())

    def test_idle_and_busy(self) -> None:
        """Idle connections end at once, busy ones with their answer, and that is the end."""
        busy = self.world.connect()
        busy.send(request("GET", "/odd/stream"))
        drained = self.world.site.drain()
        self.assertTrue(self.connection.closed)
        self.assertFalse(busy.closed)
        late = self.world.connect()
        refused = Answered(late.take())
        self.assertEqual((refused.status, refused.headers["Retry-After"]), (503, "1"))
        self.assertEqual((refused.json["retriable"], refused.json["status"]), (True, 503))
        self.assertTrue(late.closed)
        self.world.turn()
        self.assertEqual(Answered(busy.take()).body, b"".join(self.pieces))
        self.assertTrue(busy.closed)
        self.connection.lose()
        self.assertNoResult(drained)
        busy.lose()
        self.successResultOf(drained)
        self.assert_nothing_left()

    def test_connection_that_does_not_end(self) -> None:
        """A connection that does not end in time is aborted."""
        drained = self.world.site.drain()
        self.world.clock.advance(6)
        self.assertTrue(self.connection.aborted)
        self.connection.lose()
        self.successResultOf(drained)
        self.assert_nothing_left()

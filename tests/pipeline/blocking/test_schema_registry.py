"""Tests what the client of schema registries makes of their errors, over real HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from twisted.internet import task
from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.blocking import schema_registry
from logbus.pipeline.blocking.schema_registry import NoSuchSchema, RegistryClient, RegistryFailed
from logbus.pipeline.functions.avro import AvroDecoder


class Clock(task.Clock):
    """A clock that stands in for the module ``time``: it advances by what is slept."""

    def monotonic(self) -> float:
        """The clock's time."""
        return float(self.seconds())

    def sleep(self, seconds: float) -> None:
        """Advance."""
        self.advance(seconds)


class Answers(BaseHTTPRequestHandler):
    """Answers each request with the server's ``body``, as not found."""

    status = 404

    def do_GET(self) -> None:
        body: bytes = self.server.body  # type: ignore[attr-defined]
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Found(Answers):
    """Answers each request with the server's ``body``."""

    status = 200


class CutOff(BaseHTTPRequestHandler):
    """Ends in the middle of an answer with an error, as a registry that stops behind a proxy."""

    def do_GET(self) -> None:
        self.send_response(503)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"50\r\n{")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Greeting(BaseHTTPRequestHandler):
    """Answers as a server of SSH does."""

    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(b"SSH-2.0-server\r\n")


class NotFoundTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = HTTPServer(("127.0.0.1", 0), Answers)
        self.addCleanup(self.server.server_close)
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def failure(self, body: bytes) -> RegistryFailed:
        self.server.body = body  # type: ignore[attr-defined]
        return self.assertRaises(RegistryFailed, RegistryClient(self.url).schema, 7)

    def test_a_schema_that_is_not_there(self) -> None:
        """
        A registry's own error says that the schema is missing.
        """
        failure = self.failure(json.dumps({"error_code": 40403, "message": "Schema 7 not found"}).encode())
        self.assertIsInstance(failure, NoSuchSchema)
        self.assertEqual(str(failure), f"{self.url}/schemas/ids/7: Schema 7 not found")

    def test_something_else_at_the_address(self) -> None:
        """
        Another server's error means that the address is wrong, and not that a value's schema is missing: values would
        count as unreadable.
        """
        wrong_path = b'{"error_code": 404, "message": "HTTP 404 Not Found"}'  # Confluent's, as below /elsewhere
        pages = (b"", b"<html>Not Found</html>", b"[]", b'{"message": "No such page"}', b'{"error": "no"}', wrong_path)
        for body in pages:
            failure = self.failure(body)
            self.assertNotIsInstance(failure, NoSuchSchema)
            self.assertIn(f"{self.url} is no schema registry (", str(failure))
            self.assertIn("is at http://HOST:PORT/registry", str(failure))

    def test_no_http(self) -> None:
        """What is no answer of HTTP, as of a server of something else, is an error like others."""
        self.server.RequestHandlerClass = Greeting
        self.patch(schema_registry, "_ATTEMPTS", 1)
        failure = self.assertRaises(RegistryFailed, RegistryClient(self.url).schema, 7)
        self.assertEqual(str(failure), f"the schema registry fails: {self.url}/schemas/ids/7: SSH-2.0-server")

    def test_no_schema(self) -> None:
        """What is no schema is not taken for one: all records would be unreadable by it."""
        self.server.RequestHandlerClass = Found
        self.patch(schema_registry, "_ATTEMPTS", 1)
        for body, words in (
            (b'{"schema": "", "schemaType": "JSON"}', "/schemas/ids/7: its type is JSON, not AVRO"),
            (
                b'{"schema": null}',
                "ids/7: the registry's answer is no schema: TypeError('its schema is None')",
            ),
            (b'{"schema": 12}', "its schema is 12"),
            (b"<html>Welcome</html>", "/schemas/ids/7: the answer is no JSON object: '<html>Welcome</html>'"),
            (b"[1]", "the answer is no JSON object: '[1]'"),
        ):
            self.assertIn(words, str(self.failure(body)))

    def test_silent(self) -> None:
        """That a registry does not answer is said while it is waited for."""
        told: list[str] = []

        @contextmanager
        def telling(what: str) -> Iterator[None]:
            told.append(what)
            yield

        self.patch(schema_registry, "telling", telling)
        self.failure(b"[]")
        self.assertEqual(told, [f"the schema registry at {self.url} has not answered for 5 s; still trying"])

    def test_restart(self) -> None:
        """A registry that is away for a while, as in a restart, is asked until it is back: a stream goes on."""
        clock = Clock()
        self.patch(schema_registry, "time", clock)
        self.server.RequestHandlerClass = Found
        self.server.body = json.dumps({"schema": '"string"'}).encode()  # type: ignore[attr-defined]
        self.patch(Found, "status", 503)
        clock.callLater(50, setattr, Found, "status", 200)
        self.assertEqual(RegistryClient(self.url).schema(7), '"string"')
        self.assertGreaterEqual(clock.seconds(), 50)

    def test_cut_off(self) -> None:
        """An answer that ends in the middle of its error is asked for again, as a whole one is."""
        clock = Clock()
        self.patch(schema_registry, "time", clock)
        self.server.RequestHandlerClass = CutOff
        self.server.body = json.dumps({"schema": '"string"'}).encode()  # type: ignore[attr-defined]
        clock.callLater(10, setattr, self.server, "RequestHandlerClass", Found)
        self.assertEqual(RegistryClient(self.url).schema(7), '"string"')

    def test_away(self) -> None:
        """One that does not come back fails after as long as a broker."""
        clock = Clock()
        self.patch(schema_registry, "time", clock)
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
            failure = self.assertRaises(RegistryFailed, RegistryClient(url).schema, 7)
        self.assertEqual(str(failure), f"the schema registry fails: {url}/schemas/ids/7: Connection refused")
        self.assertTrue(55 < clock.seconds() <= 60)

    def test_a_certificate_that_is_missing(self) -> None:
        """On a worker without it values are not taken for malformed, which would make each of them null."""
        missing = "/no/such/certificate.pem"
        for files in ({"trusted_file": missing}, {"own_file": missing}):
            decoder = AvroDecoder(RegistryClient("https://127.0.0.1:1", **files), '"string"')
            failure = self.assertRaises(RegistryFailed, decoder.decode, b"\0\0\0\0\7\2x")
            self.assertIn(f"the registry's {missing!r} cannot be used on ", str(failure))
            self.assertIn(": No such file or directory", str(failure))

"""Tests of :mod:`logbus.admin.request_guard`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.problem_details import HttpProblem
from logbus.admin.request_guard import RequestGuard
from tests.admin.harness import World

JSON_TYPE = {"content-type": ["application/json"]}


class RequestGuardTests(SynchronousTestCase):
    """Hosts, origins and kinds of bodies."""

    def check(
        self,
        headers: Mapping[str, Sequence[str]],
        *,
        method: str = "GET",
        version: str = "HTTP/1.1",
        allowed: Sequence[str] = (),
        own: Sequence[str] = (),
    ) -> HTTPStatus | None:
        """The status a request is refused with, or None."""
        try:
            RequestGuard(lambda: allowed, lambda: own).check(method, version, headers)
        except HttpProblem as e:
            return e.status
        return None

    def host(self, *hosts: str, allowed: Sequence[str] = (), own: Sequence[str] = ()) -> HTTPStatus | None:
        """The same for a request that only has a Host."""
        return self.check({"host": hosts}, allowed=allowed, own=own)

    def test_own_names(self) -> None:
        """Addresses and localhost are good on every listener: no foreign page can be called that."""
        for name in ("localhost:8080", "127.0.0.1", "[::1]:80", "LOCALHOST.", "192.0.2.1:8080", "a.localhost"):
            self.assertIsNone(self.host(name), name)

    def test_rebinding(self) -> None:
        """A page that makes its own name point to the broker's address is refused, whichever address that is."""
        for name in ("evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example"):
            self.assertEqual(self.host(name), HTTPStatus.MISDIRECTED_REQUEST, name)
            self.assertEqual(self.host(name, own=["node1"], allowed=["logbus.example"]), HTTPStatus.MISDIRECTED_REQUEST)

    def test_names_of_the_machine(self) -> None:
        """The machine's name, advertised names and listed names are accepted."""
        self.assertIsNone(self.host("Logbus-0.svc:8080", own=["node1", "logbus-0.SVC"]))
        self.assertIsNone(self.host("LogBus.example:8080", allowed=["logbus.Example"]))
        self.assertIsNone(self.host("anything", allowed=["*"]))

    def test_exactly_one_host(self) -> None:
        """There is one Host, of the form host:port; none only in HTTP/1.0."""
        self.assertEqual(self.host(), HTTPStatus.BAD_REQUEST)
        self.assertEqual(self.host("localhost", "localhost"), HTTPStatus.BAD_REQUEST)
        for name in ("", "a b", "user@localhost", "localhost:80:80", "localhost/x", "[::1", "\u00e9"):
            self.assertEqual(self.host(name), HTTPStatus.BAD_REQUEST, name)
        self.assertIsNone(self.check({}, version="HTTP/1.0"))

    def test_simple_requests_of_browsers(self) -> None:
        """Requests that a page may send to a foreign origin without a preflight change nothing."""
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain; application/json",
            "",
        ):
            headers = {"host": ["localhost"], "content-type": [kind]}
            self.assertEqual(self.check(headers, method="POST"), HTTPStatus.UNSUPPORTED_MEDIA_TYPE, kind)
        self.assertEqual(self.check({"host": ["localhost"]}, method="POST"), HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        twice = {"host": ["localhost"], "content-type": ["application/json", "text/plain"]}
        self.assertEqual(self.check(twice, method="POST"), HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        for kind in ("application/json", "Application/JSON; charset=utf-8"):
            self.assertIsNone(self.check({"host": ["localhost"], "content-type": [kind]}, method="POST"))

    def test_no_body_no_type(self) -> None:
        """A DELETE without a body needs no type: browsers never send it unasked; one with a body does."""
        self.assertIsNone(self.check({"host": ["localhost"]}, method="DELETE"))
        self.assertIsNone(self.check({"host": ["localhost"], "content-length": ["0"]}, method="DELETE"))
        for headers in ({"content-length": ["2"]}, {"transfer-encoding": ["chunked"]}):
            refused = self.check({"host": ["localhost"], **headers}, method="DELETE")
            self.assertEqual(refused, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)

    def test_wrong_method_first(self) -> None:
        """Whoever uses a wrong method is told which ones are right, and not what type a body would have to be."""
        for path, status in (("/healthz", 405), ("/api/v1/topics/t", 405), ("/api/v1/topics", 415), ("/nowhere", 415)):
            answered = World().ask("POST", path, b"a=b", headers={"Content-Type": "text/plain"})
            self.assertEqual(answered.status, status, path)
        refused = World().ask("POST", "/healthz", headers={"Host": "evil.example"})
        self.assertEqual(refused.status, HTTPStatus.MISDIRECTED_REQUEST)

    def test_long_numbers(self) -> None:
        """A number in a query is one of 64 bits."""
        where = "/api/v1/topics/orders/partitions/0/offsets?timestamp="
        for number, told in ((2**63, "accepted: -9223372036854775808 to"), ("9" * 30, "is string, not integer")):
            self.assertIn(told, World().ask("GET", f"{where}{number}").json["detail"])
        self.assertNotEqual(World().ask("GET", f"{where}{2**63 - 1}").status, HTTPStatus.BAD_REQUEST)

    def test_encoded_bodies(self) -> None:
        """Nothing is unpacked."""
        headers = {"host": ["localhost"], "content-encoding": ["gzip"], **JSON_TYPE}
        self.assertEqual(self.check(headers, method="POST"), HTTPStatus.UNSUPPORTED_MEDIA_TYPE)

    def test_origins(self) -> None:
        """A change that names the page it comes from comes from our own."""
        for origin, good in (
            ("http://localhost:8080", True),
            ("http://localhost:9000", False),
            ("http://evil.example", False),
            ("null", False),
        ):
            headers = {"host": ["localhost:8080"], "origin": [origin], **JSON_TYPE}
            self.assertEqual(self.check(headers, method="PATCH") is None, good, origin)
            self.assertIsNone(self.check(headers, method="GET"))

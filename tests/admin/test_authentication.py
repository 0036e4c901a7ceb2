"""Tests of :mod:`logbus.admin.authentication`: who gets in."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin import authentication
from logbus.admin.authentication import HttpLogins
from logbus.admin.http_limits import HttpLimits
from logbus.security.sasl.mechanism import Login, SaslAuthenticationError
from logbus.security.sasl.plain import verifier
from logbus.security.sasl.scram_credential import ScramCredential
from logbus.security.tls.ssl_principal_mapper import NoMatchingRule
from tests.admin.harness import Answered, Connection, World, request
from tests.admin.test_site import Page, PagePlugin

SHA256, SHA512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
DELAY = 0.1


def token_of(token: str) -> Login:
    if token != "good":
        raise SaslAuthenticationError("the token is for somebody else")
    return Login("carol")


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


class AuthenticationCase(SynchronousTestCase):
    """A site whose users are alice (SCRAM), bob (PLAIN) and carol (tokens)."""

    def setUp(self) -> None:
        self.world = World(logins=HttpLogins(True, (SHA512, SHA256), verifier({"bob": "builder"}), token_of))
        self.world.accounts[SHA256, "alice"] = ScramCredential.make(SHA256, "wonderland", 4096)

    def sent(self, headers: dict[str, str], target: str = "/api/v1/cluster") -> Connection:
        connection = self.world.connect()
        connection.send(request("GET", target, headers=headers))
        self.world.turn(5)
        return connection

    def ask(self, headers: dict[str, str], target: str = "/api/v1/cluster", late: float = DELAY) -> Answered:
        """The answer; a login that fails is answered after the delay."""
        connection = self.sent(headers, target)
        if connection.transport.value():
            return Answered(connection.take())
        self.world.clock.advance(late)
        self.world.turn(5)
        return Answered(connection.take())

    def status(self, headers: dict[str, str]) -> int:
        return self.ask(headers).status


PROBES = ("/healthz", "/readyz", "/readyz/in-sync")
PARTS = [
    "api",
    "v1",
    "topics",
    "orders",
    "configs",
    "brokers",
    "0",
    "shutdown",
    "metrics",
    "healthz",
    "readyz",
    "in-sync",
    "registry",
]
PATHS = st.lists(
    st.sampled_from([*PARTS, "", ".", "..", "%2e%2e", "%68ealthz", "metri%63s", "healthz;x", "page", "a%2Fhealthz"]),
    max_size=6,
).map(lambda parts: "/" + "/".join(parts))


class LoginTests(AuthenticationCase):
    """Right and wrong credentials."""

    @given(
        st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
        PATHS,
        st.sampled_from(["", "?", "?confirm=orders", "?/healthz", "#/healthz", "%3F/healthz"]),
        st.sampled_from(["/healthz", "", "https://x/healthz"]),
    )
    def test_no_way_around(self, method: str, path: str, query: str, header: str) -> None:
        """However a path is written, nothing but the probes themselves is answered without a login."""
        world = World(logins=HttpLogins(True, (SHA256,)), plugins=[PagePlugin(page=Page())], stop=self.fail)
        body = {"name": "x"} if method in ("POST", "PUT", "PATCH") else None
        headers = {"X-Original-URL": header, "X-Forwarded-User": "admin", "X-Forwarded-For": "127.0.0.1"}
        status = world.ask(method, path + query, body, headers).status
        if path in PROBES and query[:1] in ("", "?"):
            self.assertIn(status, (200, 204, 400, 405))
        else:
            self.assertIn(status, (400, 401))
        self.assertEqual((world.topics.created, world.topics.deleted), ([], []))

    def test_nobody_gets_in(self) -> None:
        """Without credentials nothing is told, be it there or not, and the client learns how to log in."""
        for target in ("/", "/metrics", "/api/v1/topics", "/nope", "/api/v1/openapi.json"):
            answered = self.ask({}, target)
            self.assertEqual(answered.status, 401, target)
            offered = answered.headers["WWW-Authenticate"]
            self.assertEqual(offered, 'Basic realm="logbus", charset="UTF-8", Bearer realm="logbus"')
            self.assertEqual(answered.headers["Cache-Control"], "no-store")
        self.assertEqual(self.world.ask("DELETE", "/api/v1/topics/orders?confirm=orders").status, 401)
        self.assertEqual(self.world.topics.deleted, [])

    def test_probes(self) -> None:
        """The probes are public by default, whatever credentials come with them; /metrics may be."""
        for target in PROBES:
            self.assertEqual(self.ask({}, target).status, 200)
            self.assertEqual(self.ask(basic("alice", "wrong"), target).status, 200)
        self.assertEqual(self.world.threads.ran, 0)
        world = World(logins=HttpLogins(True), settings={"admin.public.paths": "/metrics"})
        self.assertEqual(world.ask("GET", "/metrics").status, 200)
        self.assertEqual(world.ask("GET", "/healthz").status, 403)

    def test_right(self) -> None:
        """Users of SCRAM and PLAIN log in by their password, others by a token."""
        for headers in (basic("alice", "wonderland"), basic("bob", "builder"), {"Authorization": "Bearer good"}):
            self.assertEqual(self.status(headers), 200)
        self.assertEqual((self.world.login_metrics.authentications, self.world.login_metrics.failures), (3, 0))

    def test_wrong(self) -> None:
        """Whatever is wrong, the answer is the same, and comes late."""
        answers = set()
        for headers in (
            basic("alice", "wonderlan"),
            basic("bob", "wonderland"),
            basic("carol", "good"),
            basic("nobody", "x"),
            basic("", "x"),
            {"Authorization": "Bearer bad"},
            {"Authorization": "Basic"},
            {"Authorization": "Digest x"},
        ):
            connection = self.sent(headers)
            self.world.clock.advance(DELAY / 2)
            self.assertEqual(connection.take(), b"")
            self.world.clock.advance(DELAY / 2 + 0.001)
            answered = Answered(connection.take())
            self.assertEqual(answered.status, 401)
            answers.add(answered.body)
        self.assertEqual(len(answers), 1)
        self.assertEqual(self.world.login_metrics.failures, 8)

    def test_same_work_for_everybody(self) -> None:
        """A user who exists and one who does not cost one PBKDF2 for each mechanism, with the least iterations."""
        seen: list[tuple[str, int]] = []
        original = ScramCredential.fits

        def fits(credential: ScramCredential, mechanism: str, password: str) -> bool:
            seen.append((mechanism, credential.iterations))
            return original(credential, mechanism, password)

        self.patch(ScramCredential, "fits", fits)
        for user in ("alice", "nobody"):
            self.assertEqual(self.status(basic(user, "x")), 401)
        self.assertEqual(seen, [(SHA512, 4096), (SHA256, 4096)] * 2)

    def test_slow_verification_is_not_slower_to_fail(self) -> None:
        """The delay counts from the request: whether it took long to find a password wrong does not show."""
        self.world.threads.hold = True
        connection = self.sent(basic("alice", "x"))
        self.world.clock.advance(DELAY * 3 / 4)
        self.world.threads.release()
        self.assertEqual(connection.take(), b"")
        self.world.clock.advance(DELAY / 4 + 0.001)
        self.assertEqual(Answered(connection.take()).status, 401)

    def test_not_needed(self) -> None:
        """Where a login is optional, credentials that are sent must be right all the same."""
        self.world.logins = HttpLogins(False, (SHA256,))
        self.assertEqual(self.status({}), 200)
        self.assertEqual(self.status(basic("alice", "wonderland")), 200)
        self.assertEqual(self.status(basic("alice", "x")), 401)
        refused = self.ask({"Authorization": "Bearer good"})
        self.assertEqual(refused.headers["WWW-Authenticate"], 'Basic realm="logbus", charset="UTF-8"')

    def test_no_mechanism(self) -> None:
        """Where passwords could be read on the way, they are not accepted."""
        self.world.logins = HttpLogins(False)
        self.assertEqual(self.status(basic("alice", "wonderland")), 403)
        self.assertEqual(self.world.threads.ran, 0)

    def test_log(self) -> None:
        """The log says who could not log in, from where and why, once a second; nothing of the password."""
        with capturedLogs() as logged:
            self.status(basic("alice", "hunter2"))
            self.status(basic("alice\n", "hunter2"))
        said = [event for event in logged if event["log_namespace"] == "logbus.security"]
        self.assertEqual([one["host"] for one in said], ["127.0.0.1"])
        self.assertIn("'alice'", said[0]["why"])
        self.assertNotIn("hunter2", str(said))


class CostTests(AuthenticationCase):
    """What a client can make the broker do."""

    def test_remembered(self) -> None:
        """A right password is verified once a minute, and again when the user is changed; a wrong one always."""
        for _ in range(3):
            self.assertEqual(self.status(basic("alice", "wonderland")), 200)
        self.assertEqual(self.world.threads.ran, 1)
        self.assertEqual(self.status(basic("alice", "x")), 401)
        self.assertEqual(self.status(basic("alice", "x")), 401)
        self.assertEqual(self.world.threads.ran, 3)
        self.world.accounts[SHA256, "alice"] = ScramCredential.make(SHA256, "looking-glass", 4096)
        self.assertEqual(self.status(basic("alice", "wonderland")), 401)
        self.assertEqual(self.status(basic("alice", "looking-glass")), 200)
        del self.world.accounts[SHA256, "alice"]
        self.assertEqual(self.status(basic("alice", "looking-glass")), 401)

    def test_few_at_a_time(self) -> None:
        """Passwords wait for a thread; there may be so many of them, of one address fewer."""
        self.patch(authentication, "MOST_WAITING", 5)
        self.patch(authentication, "MOST_WAITING_OF_ADDRESS", 3)
        self.world.threads.hold = True

        def one(peer: str) -> Connection:
            connection = self.world.connect(peer=peer)
            connection.send(request("GET", "/api/v1/cluster", headers=basic("alice", "wonderland")))
            return connection

        waiting = [one("10.0.0.1") for _ in range(3)]
        self.assertEqual(len(self.world.threads.held), authentication.THREADS)
        self.assertEqual(Answered(one("10.0.0.1").take()).status, 503)
        waiting += [one("10.0.0.2") for _ in range(2)]
        refused = Answered(one("10.0.0.3").take())
        self.assertEqual((refused.status, refused.headers["Retry-After"]), (503, "1"))
        while self.world.threads.held:
            self.world.threads.release()
        self.assertEqual([Answered(each.take()).status for each in waiting], [200] * 5)
        self.assertEqual(self.status(basic("alice", "wonderland")), 200)

    def test_failing_logins_hold_no_connection(self) -> None:
        """However many connections wait for a login that fails, the next one is served."""
        self.world = World(
            logins=HttpLogins(True, (SHA256,)), limits=HttpLimits(connections=4, connections_per_address=4)
        )
        failing = []
        for number in range(4):
            connection = self.world.connect(peer=f"10.0.0.{number}")
            connection.send(request("GET", "/api/v1/brokers", headers=basic("alice", "x")))
            failing.append(connection)
        self.assertEqual(self.status({}), 401)
        self.assertEqual([each.aborted for each in failing], [True, False, False, False])
        failing[0].lose()
        self.world.clock.advance(DELAY + 0.001)
        self.assertEqual([Answered(each.take()).status for each in failing[1:]], [401] * 3)

    def test_client_leaves(self) -> None:
        """What a client asks for that leaves during its login is not done."""
        self.world.threads.hold = True
        connection = self.world.connect()
        delete = request("DELETE", "/api/v1/topics/orders?confirm=orders", headers=basic("alice", "wonderland"))
        connection.send(delete)
        connection.lose()
        self.world.threads.release()
        self.world.turn(5)
        self.assertEqual(self.world.topics.deleted, [])
        failing = self.sent(basic("alice", "x"))
        failing.lose()
        self.world.clock.advance(DELAY)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])


class CertificateTests(AuthenticationCase):
    """Clients that show a certificate."""

    def certified(self, principal: Any) -> None:
        def of(transport: object) -> str | None:
            if isinstance(principal, Exception):
                raise principal
            return principal  # type: ignore[no-any-return]

        self.world.site.authentication.certificate = of

    def test_principal(self) -> None:
        """A certificate is a login; credentials come before it."""
        self.certified("User:CN=dan")
        self.assertEqual(self.status({}), 200)
        self.assertEqual(self.status(basic("alice", "x")), 401)
        self.certified(None)
        self.assertEqual(self.status({}), 401)

    def test_no_rule(self) -> None:
        """A certificate that no rule names is refused."""
        self.certified(NoMatchingRule("CN=mallory"))
        self.assertEqual(self.status({}), 403)

"""The logins of listeners with SASL."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.environment import Environment
from logbus.broker.sasl_listeners import SaslListeners
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.security.sasl.mechanism import SaslAuthenticationError
from logbus.security.sasl.oauthbearer import oauthbearer_message
from logbus.security.sasl.plain import plain_message
from tests.security.sasl.tokens import AUDIENCE, ISSUER, Issuer

OUT = Listener("OUT", "kafka", "tcp:0:interface=127.0.0.1", None, "SASL_PLAINTEXT")
OPEN = Listener("OPEN", "kafka", "tcp:0")
USERS = "listener.name.out.plain.sasl.jaas.config"


def users(**passwords: str) -> str:
    options = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {options};"


class SaslListenersTests(SynchronousTestCase):
    def start(self, **settings: str) -> SaslListeners:
        self.config = ConfigView.load(set={name.replace("_", "."): text for name, text in settings.items()})
        self.clock = Clock()
        env = Environment(self.clock, self.config, self.clock.seconds, random.Random(1))
        found = SaslListeners(env, [OUT, OPEN], SecurityNodes)
        found.load()
        self.addCleanup(found.stop)
        return found

    def settings(self, found: SaslListeners) -> Any:
        login = found.login(OUT)
        assert login is not None
        return login.settings()

    def logs_in(self, found: SaslListeners, user: str, password: str) -> bool:
        server = self.settings(found).mechanisms["PLAIN"]()
        try:
            server.evaluate(plain_message(user, password))
        except SaslAuthenticationError:
            return False
        return True

    def test_only_where_it_is_asked_for(self) -> None:
        """
        A listener without SASL has no login; one with it has the mechanisms that are enabled.
        """
        found = self.start()
        self.assertIsNone(found.login(OPEN))
        self.assertEqual(list(self.settings(found).mechanisms), ["SCRAM-SHA-256", "SCRAM-SHA-512"])

    def test_delay(self) -> None:
        """
        Failed logins are answered after the delay, and up to as much at random.
        """
        found = self.start(**{"connection.failed.authentication.delay.ms": "200"})
        login = found.login(OUT)
        assert login is not None
        delays = [login.delay() for _ in range(100)]
        self.assertTrue(all(0.2 <= one < 0.4 for one in delays))
        self.assertGreater(len(set(delays)), 50)

    def test_changes(self) -> None:
        """
        New users can log in without a restart; what is wrong changes nothing, and is refused beforehand.
        """
        found = self.start(**{"sasl.enabled.mechanisms": "PLAIN", USERS: users(alice="old")})
        self.assertTrue(self.logs_in(found, "alice", "old"))
        self.config.update(broker={USERS: users(alice="new", bob="b")})
        self.assertFalse(self.logs_in(found, "alice", "old"))
        self.assertTrue(self.logs_in(found, "alice", "new"))
        self.assertTrue(self.logs_in(found, "bob", "b"))
        with self.assertRaisesRegex(ConfigError, "has no user for PLAIN"):
            found.check(self.config.with_broker_overrides({USERS: users()}))
        self.config.update(broker={USERS: users()})
        self.assertTrue(self.logs_in(found, "bob", "b"))
        self.flushLoggedErrors()

    def test_tokens(self) -> None:
        """
        Tokens are checked by the keys in a file, which must be there.
        """
        issuer = Issuer()
        with tempfile.TemporaryDirectory() as directory:
            keys = Path(directory) / "keys.json"
            settings = {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
            }
            with self.assertRaisesRegex(ConfigError, "No such file"):
                self.start(**settings)
            keys.write_bytes(issuer.jwks)
            server = self.settings(self.start(**settings)).mechanisms["OAUTHBEARER"]()
            server.evaluate(oauthbearer_message(issuer.token()))
            self.assertEqual(server.login.user, "alice")

"""Tests of :mod:`logbus.broker.http_listeners`."""

from __future__ import annotations

import base64
import random
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.environment import Environment
from logbus.broker.http_listeners import HttpListeners
from logbus.broker.sasl_listeners import SaslListeners
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.listener_config import http_login_config

LOCAL = Listener("admin", "admin", "tcp:8080:interface=127.0.0.1")
OPEN = Listener("admin", "admin", "tcp:8080:interface=10.0.0.1")
SECURE = Listener("admin", "admin", "tcp:8080:interface=10.0.0.1", security_protocol="SSL")
USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
OWN_USERS = {"listener.name.admin.plain.sasl.jaas.config": USERS}


class ConfigTests(SynchronousTestCase):
    """Whether clients must log in, and how."""

    def read(self, listener: Listener, **settings: str) -> tuple[bool, tuple[str, ...] | None]:
        view = ConfigView.load(set={name.replace("__", "."): value for name, value in settings.items()})
        found = http_login_config(view, listener)
        return found.required, None if found.sasl is None else found.sasl.mechanisms

    def refused(self, listener: Listener, **settings: str) -> str:
        return str(self.assertRaises(ConfigError, self.read, listener, **settings))

    def test_default(self) -> None:
        """Who is not on this machine must log in, over TLS."""
        scram = ("SCRAM-SHA-256", "SCRAM-SHA-512")
        self.assertEqual(self.read(LOCAL), (False, scram))
        self.assertEqual(self.read(SECURE), (True, scram))
        self.assertEqual(self.read(Listener("admin", "admin", "unix:/run/x")), (False, scram))
        for endpoint in ("tcp:8080", "tcp:8080:interface=0.0.0.0", r"tcp:8080:interface=\:\:"):
            self.refused(Listener("admin", "admin", endpoint))

    def test_open(self) -> None:
        """A listener that others reach without TLS does not start; the error names all ways out."""
        said = self.refused(OPEN)
        for words in ("https://", "127.0.0.1", "admin.authentication=optional", "sasl.plain.allow.unencrypted=true"):
            self.assertIn(words, said)
        self.assertEqual(self.read(OPEN, admin__authentication="optional"), (False, None))
        self.assertEqual(self.read(OPEN, sasl__plain__allow__unencrypted="true")[0], True)
        self.refused(OPEN, admin__authentication="required")

    def test_said(self) -> None:
        """The key says otherwise, for all listeners or for one."""
        self.assertTrue(self.read(LOCAL, admin__authentication="required")[0])
        self.assertFalse(self.read(SECURE, admin__authentication="optional")[0])
        own = {"listener.name.admin.admin.authentication": "required"}
        self.assertTrue(self.read(LOCAL, **own)[0])

    def test_mechanisms_of_other_listeners(self) -> None:
        """Mechanisms enabled for all listeners count here if they have users here."""
        all_of = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER"}
        self.assertEqual(self.read(LOCAL, **all_of), (False, ("SCRAM-SHA-256",)))
        self.assertEqual(self.read(LOCAL, **all_of, **OWN_USERS), (False, ("PLAIN", "SCRAM-SHA-256")))
        own = {"listener.name.admin.sasl.enabled.mechanisms": "PLAIN"}
        self.assertIn("PLAIN needs its users", self.refused(LOCAL, **own))

    def test_nobody_could(self) -> None:
        """A login that nobody has is an error, unless there are certificates."""
        none = {"sasl.enabled.mechanisms": "PLAIN"}
        self.assertIn("nobody could log in", self.refused(SECURE, **none))
        self.assertEqual(self.read(SECURE, ssl__client__auth="required", **none), (True, ()))
        self.assertEqual(self.read(LOCAL, **none), (False, ()))


class LoginTests(SynchronousTestCase):
    """Authentication as composed of the configuration."""

    def setUp(self) -> None:
        self.view = ConfigView.load(
            set={
                "listener.name.admin.sasl.enabled.mechanisms": "PLAIN",
                "admin.authentication": "required",
                **OWN_USERS,
            }
        )
        env = Environment(Clock(), self.view, lambda: 0.0, random.Random(1))
        nodes = SecurityNodes()
        self.sasl = SaslListeners(env, [], lambda: nodes)
        self.http = HttpListeners(env, self.sasl, lambda: nodes)
        self.authentication = self.http.authentication(LOCAL, None)

    def principal(self, password: str) -> Any:
        given = base64.b64encode(f"alice:{password}".encode()).decode()
        return self.authentication.principal("127.0.0.1", None, {"authorization": [f"Basic {given}"]})

    def test_users(self) -> None:
        """Users are those of the configuration, also after it has changed; a wrong change changes nothing."""
        self.assertEqual(self.principal("secret"), "User:alice")
        key = "listener.name.admin.plain.sasl.jaas.config"
        self.view.update(broker={key: USERS.replace("secret", "other")})
        self.assertEqual(self.principal("other"), "User:alice")
        self.assertNotEqual(self.principal("secret"), "User:alice")
        self.http.stop()

    def test_warning(self) -> None:
        """A listener that is open to a network is in the log."""
        for listener, authorizer, warned in ((OPEN, "", 1), (LOCAL, "", 0), (OPEN, "a.B", 0)):
            config = ConfigView.load(set={"admin.authentication": "optional", "authorizer.class.name": authorizer})
            env = Environment(Clock(), config, lambda: 0.0, random.Random(1))
            with capturedLogs() as logged:
                HttpListeners(env, self.sasl, SecurityNodes).authentication(listener, None)
            self.assertEqual(len(logged), warned)

    def test_check(self) -> None:
        """A change that nobody could log in with is refused."""
        wrong = ConfigView.load(set={"listener.name.admin.sasl.enabled.mechanisms": "PLAIN"})
        self.assertRaises(ConfigError, self.http.check, wrong)
        self.http.check(self.view)

"""Tests of :mod:`logbus.metastore.zookeeper_security`; those with a real ZooKeeper are in ``tests/zookeeper``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.metastore.zookeeper_security import ANONYMOUS, ZooKeeperSecurity
from tests.certificates import Authority

PLACE = {"zookeeper.connect": "zk"}
USER = {"zookeeper.digest.username": "logbus"}
PASSWORD = {"zookeeper.digest.password": "tell nobody"}
ACL = {"zookeeper.set.acl": "true"}
TLS = {"zookeeper.ssl.client.enable": "true"}


def security(*settings: dict[str, str]) -> ZooKeeperSecurity:
    """What settings say."""
    return ZooKeeperSecurity.of(ConfigView.load(set={name: text for some in settings for name, text in some.items()}))


class SettingsTests(SynchronousTestCase):
    def test_good(self) -> None:
        """Without settings there is no security; the password is not shown."""
        self.assertEqual(security(), ANONYMOUS)
        found = security(PLACE, USER, PASSWORD, ACL)
        self.assertEqual((found.digest, found.set_acl, found.tls), ("logbus:tell nobody", True, None))
        self.assertNotIn("tell", repr(found))

    def test_wrong(self) -> None:
        """Errors name the key, and what is missing."""
        for settings, words in (
            ((ACL, USER, PASSWORD), "zookeeper.set.acl=true needs zookeeper.connect"),
            ((ACL, PLACE), "zookeeper.set.acl=true needs credentials: set zookeeper.digest.username and "),
            ((ACL, PLACE, TLS), "or zookeeper.ssl.client.enable=true and zookeeper.ssl.keystore.location"),
            ((USER,), "zookeeper.digest.username needs zookeeper.digest.password, which is not set"),
            ((PASSWORD,), "zookeeper.digest.password needs zookeeper.digest.username, which is not set"),
            (({"zookeeper.digest.username": "a:b"}, PASSWORD), "zookeeper.digest.username: a user"),
            ((TLS, {"zookeeper.ssl.truststore.location": "/none"}), "zookeeper.ssl.truststore.location: /none cannot"),
        ):
            self.assertIn(words, str(self.assertRaises(ConfigError, security, *settings)))

    def test_certificate(self) -> None:
        """A certificate is a credential, too."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        store = Authority.new().issue().write(Path(directory.name) / "broker.pem")
        found = security(PLACE, ACL, TLS, {"zookeeper.ssl.keystore.location": str(store)})
        assert found.tls is not None
        self.assertTrue(found.tls.has_certificate)

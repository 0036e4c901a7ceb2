"""The secret that the brokers of a cluster share."""

from __future__ import annotations

from random import Random

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.broker_secret import REFRESH_SECONDS, BrokerSecret
from logbus.cluster.membership import ensure_paths
from logbus.errors import ConfigError
from logbus.metastore.cluster_znodes import BrokerSecretZnode
from logbus.metastore.memory_store import MemoryEnsemble, MemoryStore
from logbus.metastore.znodes import BROKER_SECRET


class BrokerSecretTests(SynchronousTestCase):
    """Brokers on one store."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.ensemble = MemoryEnsemble(self.clock.seconds)
        self.store = self.opened()
        self.successResultOf(ensure_paths(self.store))

    def opened(self) -> MemoryStore:
        client = self.ensemble.client()
        self.successResultOf(client.open())
        return client

    def secret(self, configured: str | None = None, seed: int = 1) -> BrokerSecret:
        return BrokerSecret(self.opened(), self.clock, Random(seed).randbytes, configured)

    def load(self, secret: BrokerSecret) -> None:
        self.successResultOf(Deferred.fromCoroutine(secret.load()))

    def fits(self, secret: BrokerSecret, value: bytes) -> bool:
        found: bool = self.successResultOf(Deferred.fromCoroutine(secret.fits(lambda known: known == value)))
        return found

    def test_first_broker(self) -> None:
        """The first broker makes the secret, and others read it."""
        first, second = self.secret(), self.secret(seed=2)
        self.load(first)
        self.load(second)
        self.assertEqual(len(first.value), 32)
        self.assertEqual(first.value, second.value)
        self.assertEqual(BrokerSecretZnode.decode(self.ensemble.tree.get(BROKER_SECRET)[0]), first.value)
        self.assertNotIn(str(first.value), repr(first))
        self.assertNotEqual(first.nonce(), first.nonce())

    def test_both_at_once(self) -> None:
        """Of two that make one, the second takes the first's."""
        store = self.store
        first, second = self.secret(), self.secret(seed=2)
        store.suspend()
        for secret in (first, second):
            Deferred.fromCoroutine(secret.load())
        self.load(first)
        self.load(second)
        self.assertEqual(first.value, second.value)

    def test_broken_connection(self) -> None:
        """It waits for the store."""
        secret = self.secret()
        secret._store.suspend()  # type: ignore[attr-defined]
        loading = Deferred.fromCoroutine(secret.load())
        self.assertNoResult(loading)
        secret._store.resume()  # type: ignore[attr-defined]
        self.successResultOf(loading)
        self.assertEqual(len(secret.value), 32)

    def test_changed(self) -> None:
        """A changed secret is read when a proof does not fit, but not for every wrong proof."""
        secret = self.secret()
        self.load(secret)
        self.assertTrue(self.fits(secret, secret.value))
        self.assertFalse(self.fits(secret, b"wrong"))
        new = b"another secret, as long as needed"
        self.successResultOf(self.store.set(BROKER_SECRET, BrokerSecretZnode.encode(new), -1))
        self.assertFalse(self.fits(secret, new))
        self.clock.advance(REFRESH_SECONDS)
        self.assertTrue(self.fits(secret, new))

    def test_store_out_of_reach(self) -> None:
        """A proof that does not fit is refused then."""
        secret = self.secret()
        self.load(secret)
        secret._store.suspend()  # type: ignore[attr-defined]
        self.assertFalse(self.fits(secret, b"wrong"))

    def test_configured(self) -> None:
        """A setting counts instead of the node, which is not made; a short one is refused."""
        secret = self.secret("0123456789abcdef")
        self.load(secret)
        self.assertEqual(secret.value, b"0123456789abcdef")
        self.assertFalse(self.fits(secret, b"wrong"))
        self.assertIsNone(self.ensemble.tree.exists(BROKER_SECRET))
        failed = self.failureResultOf(Deferred.fromCoroutine(self.secret("short").load()), ConfigError)
        self.assertIn("inter.broker.secret: shorter than 16", str(failed.value))

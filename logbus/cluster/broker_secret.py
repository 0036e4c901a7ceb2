"""
The secret that all brokers of a cluster know: a node of the metadata store, or a setting.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.cluster.membership import connected_again
from logbus.errors import ConfigError
from logbus.metastore.cluster_znodes import BrokerSecretZnode
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import ConnectionLost, MetastoreError, NodeExists, NoNode, SessionLost
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import BROKER_SECRET
from logbus.security.broker_challenge import NONCE_BYTES

SECRET_BYTES = 32
"""Length of a secret that a broker makes."""

LEAST_BYTES = 16
"""Least length of a secret that is configured."""

REFRESH_SECONDS = 1.0
"""The secret is read again at most this often: anyone can send a wrong proof."""


@define(eq=False)
class BrokerSecret:
    """
    The secret of the cluster's brokers.

    The first broker makes the node. To change the secret, delete the node and restart the brokers, one after the other:
    the first makes another, and those that still have the old one read it when a proof does not fit.

    :param configured: the setting; None: the node counts.
    :param random_bytes: returns that many random bytes.
    """

    _store: IMetadataStore
    _clock: IReactorTime
    _random_bytes: Callable[[int], bytes] = field(repr=False)
    _configured: str | None = field(default=None, repr=False)
    _value: bytes = field(default=b"", init=False, repr=False)
    _read_at: float = field(default=float("-inf"), init=False)
    _log = Logger()

    @property
    def value(self) -> bytes:
        """The secret; empty until it was loaded."""
        return self._value

    def nonce(self) -> bytes:
        """Return a nonce for a challenge."""
        return self._random_bytes(NONCE_BYTES)

    async def load(self) -> None:
        """
        Read the secret, or make it; retried while the connection to the store breaks.

        :raise ConfigError: the setting is too short.
        """
        if self._configured is not None:
            self._value = self._configured.encode()
            if len(self._value) < LEAST_BYTES:
                raise ConfigError(f"inter.broker.secret: shorter than {LEAST_BYTES} characters")
            return
        while not self._value:
            try:
                await self._read()
            except NoNode:
                await self._make()
            except (ConnectionLost, SessionLost):
                await connected_again(self._store)

    async def fits(self, check: Callable[[bytes], bool]) -> bool:
        """
        Check a proof that another broker gave.

        :param check: whether the proof was made with this secret; called again if the secret has changed meanwhile.
        """
        if check(self._value):
            return True
        now = self._clock.seconds()
        if self._configured is not None or now < self._read_at + REFRESH_SECONDS:
            return False
        self._read_at = now
        try:
            await self._read()
        except (MetastoreError, BadZnode) as e:
            self._log.warn("the secret of the brokers cannot be read again: {error}", error=str(e))
        return check(self._value)

    async def _read(self) -> None:
        data, _ = await self._store.get(BROKER_SECRET)
        self._value = BrokerSecretZnode.decode(data)

    async def _make(self) -> None:
        try:
            await self._store.create(BROKER_SECRET, BrokerSecretZnode.encode(self._random_bytes(SECRET_BYTES)))
        except NodeExists:
            pass  # Another broker was first; its secret is read next.
        except (ConnectionLost, SessionLost):
            await connected_again(self._store)

"""
A client's login to ZooKeeper, and the protection of the nodes that it creates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from attrs import field, frozen

from logbus.config import ConfigView, keys
from logbus.errors import ConfigError
from logbus.extras import install_hint

if TYPE_CHECKING:
    from logbus.security.tls.zookeeper_tls import ZooKeeperTls


@frozen
class ZooKeeperSecurity:
    """
    The settings ``zookeeper.*`` about TLS, credentials and ACLs.

    :ivar digest: user and password of ZooKeeper's scheme ``digest``, as ``USER:PASSWORD``.
    :ivar set_acl: whether only those with the same credentials may change the nodes that this client creates.
    :ivar tls: None: the connection is not encrypted.
    """

    digest: str | None = field(default=None, repr=False)
    set_acl: bool = False
    tls: ZooKeeperTls | None = None

    @classmethod
    def of(cls, config: ConfigView) -> Self:
        """
        Read the settings, and the keys and certificates that they name.

        :raise ConfigError: names the key that is wrong or missing.
        """
        user, password = keys.ZOOKEEPER_DIGEST_USERNAME, keys.ZOOKEEPER_DIGEST_PASSWORD
        name, secret = config.get(user), config.get(password)
        if (name is None) != (secret is None):
            missing, given = (user, password) if name is None else (password, user)
            raise ConfigError(f"{given.name} needs {missing.name}, which is not set")
        if name is not None and ":" in name:
            raise ConfigError(f"{user.name}: a user of ZooKeeper's has no colon in its name")
        found = cls(None if name is None else f"{name}:{secret}", config.get(keys.ZOOKEEPER_SET_ACL), cls._tls(config))
        if found.set_acl:
            if not config.get(keys.ZOOKEEPER_CONNECT):
                raise ConfigError(f"{keys.ZOOKEEPER_SET_ACL.name}=true needs {keys.ZOOKEEPER_CONNECT.name}")
            found.require_credentials(f"{keys.ZOOKEEPER_SET_ACL.name}=true")
        return found

    def require_credentials(self, purpose: str) -> None:
        """
        Check that ZooKeeper can know this client again.

        :param purpose: what needs it.
        :raise ConfigError: it cannot; says what to set.
        """
        if self.digest is None and (self.tls is None or not self.tls.has_certificate):
            raise ConfigError(
                f"{purpose} needs credentials: set {keys.ZOOKEEPER_DIGEST_USERNAME.name} and "
                f"{keys.ZOOKEEPER_DIGEST_PASSWORD.name}, or {keys.ZOOKEEPER_SSL_CLIENT_ENABLE.name}=true and "
                f"{keys.ZOOKEEPER_SSL_KEYSTORE_LOCATION.name}"
            )

    @staticmethod
    def _tls(config: ConfigView) -> ZooKeeperTls | None:
        if not config.get(keys.ZOOKEEPER_SSL_CLIENT_ENABLE):
            return None
        try:
            from logbus.security.tls.zookeeper_tls import ZooKeeperTls
        except ImportError as e:
            raise ConfigError(
                f"{keys.ZOOKEEPER_SSL_CLIENT_ENABLE.name}: TLS needs a package that is not installed ({e}): "
                f"{install_hint('tls')}"
            ) from None
        return ZooKeeperTls.of(config)


ANONYMOUS = ZooKeeperSecurity()
"""No credentials, no TLS, and nodes that are open to all."""

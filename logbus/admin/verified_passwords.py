"""
Remembers for a short time which passwords were right, so that not every request runs PBKDF2. Pure.

What is kept is a keyed hash that is of no use outside of this process.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable

from attrs import define, field, frozen

from logbus.admin.authorization_header import PasswordCredentials


@frozen
class _Verified:
    digest: bytes = field(repr=False)
    basis: Hashable = field(repr=False)
    until: float


@define(eq=False)
class VerifiedPasswords:
    """
    The last right password of each user.

    :ivar seconds: a monotonic clock.
    :ivar lifetime: seconds after which a password is verified again.
    :ivar most: users that are remembered; beyond, those are forgotten that were verified first.
    """

    seconds: Callable[[], float]
    lifetime: float = 60.0
    most: int = 1000
    _secret: bytes = field(factory=lambda: secrets.token_bytes(32), init=False, repr=False)
    _by_user: OrderedDict[str, _Verified] = field(factory=OrderedDict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self._by_user)

    def add(self, given: PasswordCredentials, basis: Hashable) -> None:
        """
        Remember a right password.

        :param basis: what it was compared with: the user's stored credentials.
        """
        self._by_user.pop(given.user, None)
        self._by_user[given.user] = _Verified(self._digest(given), basis, self.seconds() + self.lifetime)
        if len(self._by_user) > self.most:
            self._by_user.popitem(last=False)

    def has(self, given: PasswordCredentials, basis: Hashable) -> bool:
        """Whether this password was right a short time ago, and the user has not been changed since."""
        known = self._by_user.get(given.user)
        if known is None:
            return False
        if known.basis != basis or known.until <= self.seconds():
            del self._by_user[given.user]
            return False
        return hmac.compare_digest(known.digest, self._digest(given))

    def _digest(self, given: PasswordCredentials) -> bytes:
        user = given.user.encode()
        return hmac.digest(self._secret, len(user).to_bytes(4, "big") + user + given.password.encode(), "sha256")

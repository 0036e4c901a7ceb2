"""
Generates member ids. Pure.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from attrs import frozen

MAX_CLIENT_ID = 1000
"""Number of characters of a client id used in a member id (Kafka uses all), since a record holds 32 kB of text."""


@frozen
class MemberIds:
    """
    Generates unique member ids.

    :param random: the broker's source of randomness.
    """

    _random: Random

    def unique(self) -> str:
        """A random UUID, for members of the consumer protocol."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def named(self, name: str) -> str:
        """A prefix and a random UUID, for members of the classic protocol."""
        return f"{name[:MAX_CLIENT_ID]}-{self.unique()}"

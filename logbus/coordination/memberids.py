"""
Names that members of groups are given. Pure.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from attrs import frozen

MAX_CLIENT_ID = 1000
"""How much of a client's name goes into the ids of its members: a record holds 32 kB of text, and Kafka all of it."""


@frozen
class MemberIds:
    """
    Makes ids that nobody else has.

    :param random: the broker's chance.
    """

    _random: Random

    def unique(self) -> str:
        """One that says nothing, as members of the consumer protocol have it."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def named(self, name: str) -> str:
        """One that begins with the client's name, as members of the classic protocol have it."""
        return f"{name[:MAX_CLIENT_ID]}-{self.unique()}"

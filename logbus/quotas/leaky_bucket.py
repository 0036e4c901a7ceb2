"""A leaky bucket: a client's use that it has not waited for yet; it drains at the rate of the client's quota. Pure."""

from __future__ import annotations

from attrs import define


@define
class LeakyBucket:
    """
    The level of a bucket, which rises by what a client takes, and falls by its quota each second.

    So a client gets its quota and at most one burst more, over any time. (Kafka measures a rate over some windows,
    with a burst each time those are forgotten.)

    :param at: when the level was computed, in seconds; ``quota``: by which quota.
    """

    at: float
    level: float = 0.0
    quota: float = 1.0

    def add(self, amount: float, quota: float, now: float) -> float:
        """Add what was taken; the new level, in seconds of the quota."""
        level = self.level - (now - self.at) * quota
        self.level = level = amount if level < 0.0 else level + amount
        self.at, self.quota = now, quota
        return level / quota

    @property
    def empty_at(self) -> float:
        """When it is empty, in seconds, if nothing more is added."""
        return self.at + self.level / self.quota

    def cap(self, most: float) -> None:
        """Forgive what is above a level."""
        if self.level > most:
            self.level = most

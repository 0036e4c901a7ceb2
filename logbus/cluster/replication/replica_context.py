"""The interface by which a replica knows the cluster around it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, TypeVar

R_contra = TypeVar("R_contra", contravariant=True)
"""The replica, which stands on this module."""


class ReplicaContext(Protocol[R_contra]):
    """The cluster as a leader needs to know it: settings, time, live brokers, and the way to change the ISR."""

    @property
    def max_lag(self) -> float:
        """Seconds that a follower in sync may be behind (``replica.lag.time.max.ms``)."""

    @property
    def followers_serve(self) -> bool:
        """Whether consumers read from followers, too, which must soon learn a new high watermark."""

    def seconds(self) -> float:
        """The time, on a monotonic clock."""

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered, as far as this broker knows."""

    def epoch_of(self, broker_id: int) -> int:
        """The epoch of a broker's registration, as far as this broker knows; 0 if it has none."""

    def shutting_down(self) -> Collection[int]:
        """The brokers that are shutting down, as far as this broker knows."""

    def request_isr_change(self, replica: R_contra) -> None:
        """The ISR of the partition should change: ask the controller."""


class StandaloneContext:
    """The context of a broker without others."""

    max_lag = 30.0
    followers_serve = False

    def seconds(self) -> float:
        return 0.0

    def is_alive(self, broker_id: int) -> bool:
        return False

    def epoch_of(self, broker_id: int) -> int:
        return 0

    def shutting_down(self) -> Collection[int]:
        return ()

    def request_isr_change(self, replica: object) -> None:
        pass

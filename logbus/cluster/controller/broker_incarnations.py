"""
The incarnations of brokers that a controller has noted, to tell which registrations are new. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from logbus.cluster.images import BrokerImage
from logbus.metastore.cluster_znodes import BrokerIncarnation


@define(eq=False)
class BrokerIncarnations:
    """:ivar version: of the node that keeps them; −1 if there is none."""

    by_broker: Mapping[int, BrokerIncarnation] = field(factory=dict)
    version: int = -1

    def unnoted(self, brokers: Mapping[int, BrokerImage]) -> dict[int, BrokerImage]:
        """The brokers among ``brokers`` whose registration no controller has noted yet."""
        return {
            number: broker
            for number, broker in brokers.items()
            if number not in self.by_broker or self.by_broker[number].epoch != broker.epoch
        }

    def unclean(self, registered: Mapping[int, BrokerImage]) -> frozenset[int]:
        """
        The brokers among ``registered`` that started after an unclean stop, and may lack records that they had. A
        registration says it of a process, and repeats it when only the session was replaced.
        """
        return frozenset(
            number
            for number, broker in registered.items()
            if (broker.unclean_shutdown or broker.unsynced_lost or broker.logs_lost)
            and (number not in self.by_broker or self.by_broker[number].incarnation != broker.incarnation)
        )

    def with_registered(self, registered: Mapping[int, BrokerImage]) -> BrokerIncarnations:
        """These and the incarnations of brokers that have registered."""
        new = {number: BrokerIncarnation(one.epoch, one.incarnation) for number, one in registered.items()}
        return BrokerIncarnations({**self.by_broker, **new}, self.version)

"""
The reports that the controller got from brokers since they registered. Pure.
"""

from __future__ import annotations

from attrs import define, field

from logbus.model import LogEnd, TopicPartition


@define(eq=False)
class BrokerReports:
    """
    The reports of live brokers.

    :ivar failed: replicas whose log directory failed, by broker.
    :ivar incomplete: replicas that were reported as incomplete, by broker.
    :ivar log_ends: of partitions without a leader: where the logs end, by broker.
    :ivar shutting_down: brokers in controlled shutdown.
    """

    failed: dict[int, set[TopicPartition]] = field(factory=dict)
    incomplete: dict[int, set[TopicPartition]] = field(factory=dict)
    log_ends: dict[TopicPartition, dict[int, LogEnd]] = field(factory=dict)
    shutting_down: set[int] = field(factory=set)

    def forget(self, broker_id: int) -> None:
        """Drop a broker's reports: it is gone, or has registered anew."""
        self.failed.pop(broker_id, None)
        self.incomplete.pop(broker_id, None)
        self.shutting_down.discard(broker_id)
        for ends in self.log_ends.values():
            ends.pop(broker_id, None)

"""
Selects the replica that a consumer should fetch from (KIP-392; Kafka: ReplicaSelector).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from logbus.cluster.replication.follower_state import FollowerState
from logbus.cluster.replication.partition import Partition

LEADER = -1


@frozen
class RackAwareReplicaSelector:
    """
    Selects a replica in the consumer's rack: the leader if it is there, else the in-sync follower with the longest log.

    :ivar racks: the rack of a live broker; None if it has none, or is not alive.
    """

    racks: Callable[[int], str | None]

    def select(self, partition: Partition, offset: int, rack: str) -> int:
        """
        The broker to read from.

        :param partition: led by this broker.
        :param offset: the consumer's fetch offset.
        :param rack: the consumer's rack.
        :return: the id of a follower, or −1: the leader.
        """
        if self.racks(partition.broker_id) == rack:
            return LEADER
        isr = partition.leader_and_isr.isr
        near: list[FollowerState] = [
            follower
            for follower in partition.followers.values()
            if follower.broker_id in isr
            and 0 <= follower.log_start_offset <= offset <= follower.log_end_offset
            and self.racks(follower.broker_id) == rack
        ]
        if not near:
            return LEADER
        return max(near, key=lambda follower: (follower.log_end_offset, -follower.broker_id)).broker_id

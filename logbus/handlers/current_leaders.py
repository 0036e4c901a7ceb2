"""
The current leader and its address, for responses to requests that should have gone to it (KIP-951).
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages.records import LeaderIdAndEpoch, NodeEndpoint

WRONG_LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors whose responses carry the current leader."""


@frozen
class CurrentLeaders:
    """Looks up current leaders in the metadata, which may be newer than the state of this broker's replicas."""

    _metadata: ClusterMetadata

    def hint(self, topic: str, partition: int, error: ApiError) -> LeaderIdAndEpoch | None:
        """The current leader of a partition, if it is known and ``error`` calls for it."""
        if error.code not in WRONG_LEADER_ERRORS:
            return None
        known = self._metadata.partition(TopicPartition(topic, partition))
        if known is None or known.leader < 0:
            return None
        return LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)

    def endpoints(self, listener: str, hints: Iterable[LeaderIdAndEpoch | None]) -> list[NodeEndpoint]:
        """The addresses of leaders on a client's listener."""
        found = []
        for number in dict.fromkeys(hint.leader_id for hint in hints if hint is not None):
            broker = self._metadata.brokers.get(number)
            at = broker.endpoints.get(listener) if broker is not None else None
            if broker is not None and at is not None:
                found.append(NodeEndpoint(node_id=number, host=at.host, port=at.port, rack=broker.rack))
        return found

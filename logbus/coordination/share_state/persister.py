"""
Reads and writes the states of share partitions at their coordinators (Kafka: DefaultStatePersister).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, fail

from logbus.coordination.share_state.share_state import SharePartitionKey, ShareState, StateBatch
from logbus.errors import ApiError, ErrorCode


@define(eq=False)
class SharePersister:
    """
    The states of share partitions, wherever their coordinators are.

    All methods retry while the coordinator is not found, is loading, or cannot be reached. Their Deferreds fail with
    ApiError: FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, or, after all
    retries, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR: then it is unknown whether a
    change was made.
    """

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Deferred[None]:
        """
        Create a state, or set one anew with a higher state epoch.

        :param start_offset: −1: decided by whoever leads the share partition.
        """
        return _missing(key)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Deferred[ShareState]:
        """Read a state; from then on, writes with a lower leader epoch are refused."""
        return _missing(key)

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Deferred[None]:
        """
        Change a state.

        :param start_offset: −1: as it is.
        :param batches: the batches that have changed.
        """
        return _missing(key)

    def summary(self, key: SharePartitionKey) -> Deferred[ShareState]:
        """Read a state without its batches, and without a leader's claim."""
        return _missing(key)

    def delete(self, key: SharePartitionKey) -> Deferred[None]:
        """Remove a state, if there is one."""
        return _missing(key)


def _missing(key: SharePartitionKey) -> Deferred[Any]:
    return fail(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{key} has no coordinator"))

"""
Leaders' wishes to change the in-sync replicas (AlterPartition, KIP-497): pure.

A wish is a compare-and-set: it must come from the leader, of this epoch, and build on the state that is stored. One
that was granted already, and whose answer was lost, is granted again without a change.

Who joins must be the one who has fetched: a broker that restarted since may have lost what it had, and nothing was
written that would make the wish void (KIP-903). Members need no such look: those that come back with less leave, which
is written.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from logbus.cluster.controller.rules import TopicRules, still_eligible
from logbus.cluster.controller.state import PartitionRecord
from logbus.cluster.icluster import IsrChange
from logbus.errors import ApiError, ErrorCode
from logbus.model import LeaderAndIsr


def granted(
    change: IsrChange,
    record: PartitionRecord,
    broker_id: int,
    joins: Callable[[int, int], bool],
    rules: TopicRules,
    controller_epoch: int,
) -> LeaderAndIsr:
    """
    The state after a wish; the one that is, if the wish was granted before.

    :param broker_id: who wishes it.
    :param joins: whether a broker, of that epoch, could become in sync: it lives, and in that very life, its log
        directory works, it is not shutting down.
    :raise ApiError: FENCED_LEADER_EPOCH, NOT_CONTROLLER (the epoch is one that we never gave), INVALID_REQUEST,
        INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA.
    """
    current = record.state
    name = change.topic_partition
    if current is None or current.leader != broker_id or current.leader_epoch > change.leader_epoch:
        raise ApiError(
            ErrorCode.FENCED_LEADER_EPOCH, f"broker {broker_id} does not lead {name} in epoch {change.leader_epoch}"
        )
    if current.leader_epoch < change.leader_epoch:
        raise ApiError(
            ErrorCode.NOT_CONTROLLER, f"{name}: leader epoch {change.leader_epoch} was given by a newer controller"
        )
    if broker_id not in change.isr or len(set(change.isr)) != len(change.isr):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{name}: the in-sync replicas must name the leader, {broker_id}, and nobody twice: {list(change.isr)}",
        )
    if change.version < current.version and set(change.isr) == set(current.isr):
        return current
    if change.version != current.version:
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION, f"{name} is at version {current.version}, not {change.version}"
        )
    added = set(change.isr) - set(current.isr)
    unfit = sorted(one for one in added if one not in record.replicas or not joins(one, change.epoch_of(one)))
    if unfit:
        raise ApiError(
            ErrorCode.INELIGIBLE_REPLICA,
            f"{name}: brokers {unfit} are no replicas of it, or have not fetched it in their present lives, or are "
            "shutting down",
        )
    left = (one for one in current.isr if one not in change.isr)
    return evolve(
        current,
        isr=change.isr,
        eligible=still_eligible(current.eligible, left, change.isr, record.replicas, rules),
        controller_epoch=controller_epoch,
        version=current.version + 1,
        # The leader lives, and has all that they had.
        unproven=(),
    )

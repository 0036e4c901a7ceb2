"""
Decides leaders' requests to change the in-sync replicas (AlterPartition, KIP-497): pure.

A request is a compare-and-set: it must come from the leader, in this epoch, and build on the stored state. A request
that was applied already, and whose answer was lost, succeeds again without a change.

A joining broker must still have the registration with which it fetched: it may have restarted since and lost records,
and no write to the store made the request void (KIP-903). Present members need no such check: those that come back with
fewer records leave the ISR, which is written.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from logbus.cluster.controller.controller_context import PartitionRecord
from logbus.cluster.controller.topic_rules import TopicRules, still_eligible
from logbus.errors import ApiError, ErrorCode
from logbus.model import IsrChange, LeaderAndIsr


def altered_state(
    change: IsrChange,
    record: PartitionRecord,
    broker_id: int,
    joins: Callable[[int, int], bool],
    rules: TopicRules,
    controller_epoch: int,
) -> LeaderAndIsr:
    """
    The state after a change; the present one, if the change was applied before.

    :param broker_id: of the sender.
    :param joins: whether a broker of that epoch could join the ISR: it still has that epoch, its log directory works,
        and it is not shutting down.
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
        # The leader is alive, and has all their records.
        unproven=(),
    )

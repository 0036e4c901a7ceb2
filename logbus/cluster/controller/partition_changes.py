"""
Elections and reassignments on request, by the active controller. They run on its event queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from twisted.logger import Logger

from logbus.cluster.controller.active_controller import UNITS_TO_LOG, ActiveController
from logbus.cluster.controller.broker_channels import PendingUpdates
from logbus.cluster.controller.controller_context import NO_LEADER
from logbus.cluster.controller.leader_election import ElectionResult, preferred_leader, unclean_leader
from logbus.cluster.controller.reassignment import Move, cancelled_move, move_to
from logbus.cluster.controller.update_batch import UpdateBatch
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.operations import Delete, NoNode, Watcher
from logbus.metastore.znode_json import BadZnode
from logbus.metastore.znodes import REASSIGN_PARTITIONS, ReassignmentsZnode
from logbus.model import TopicPartition

Outcomes = dict[TopicPartition, ApiError | None]
"""By partition: None, or the error."""

UNITS_TO_DECIDE = 4
"""Units of a time slice that it takes to decide about one partition."""

_log = Logger(namespace="logbus.cluster.controller")


class ElectionType(Enum):
    """PREFERRED: elect the first replica, if it is in sync. UNCLEAN: elect any live replica where none leads."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect(
    active: ActiveController,
    kind: ElectionType,
    names: Sequence[TopicPartition] | None,
    *,
    validate_only: bool = False,
) -> tuple[Outcomes, PendingUpdates | None]:
    """Hold elections of one kind, of all partitions if ``names`` is None."""
    outcomes: Outcomes = {}
    elections: dict[TopicPartition, ElectionResult] = {}
    decide = preferred_leader if kind is ElectionType.PREFERRED else unclean_leader
    async for name in active.time_slice().over(active.state.partitions() if names is None else names, UNITS_TO_DECIDE):
        try:
            topic, record = active.existing(name)
            if record.state is not None:
                elections[name] = decide(active.situation(name, topic, record))
            outcomes[name] = None
        except ApiError as error:
            # There may be thousands of them, and tracebacks would keep their frames alive.
            outcomes[name] = error.without_frames()
    if validate_only or not elections:
        return outcomes, None
    await active.write(elections)
    return outcomes, await active.send(UpdateBatch(partitions=frozenset(elections)))


async def reassign(
    active: ActiveController,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
    *,
    factor_may_change: bool = True,
    validate_only: bool = False,
) -> tuple[Outcomes, PendingUpdates | None]:
    """Begin or cancel reassignments; those in which no replica has to fetch complete at once."""
    outcomes: Outcomes = {}
    moves: dict[TopicPartition, Move] = {}
    time_slice = active.time_slice()
    async for name, replicas in time_slice.over(wanted.items(), UNITS_TO_DECIDE):
        try:
            topic, record = active.existing(name)
            if record.state is None:
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name} never had a leader")
            now = active.situation(name, topic, record)
            if replicas is None:
                moves[name] = cancelled_move(name, record, now)
            else:
                moves[name] = move_to(
                    name, record, now, replicas, active.state.brokers, factor_may_change=factor_may_change
                )
            outcomes[name] = None
        except ApiError as error:
            # There may be thousands of them, and tracebacks would keep their frames alive.
            outcomes[name] = error.without_frames()
    if validate_only or not moves:
        return outcomes, None
    delivery = await active.move(moves)
    async for name, move in time_slice.over(moves.items(), UNITS_TO_LOG):
        _log.info(
            "{partition} moves: brokers {replicas}, adding {adding}, removing {removing}",
            partition=name,
            replicas=move.replicas,
            adding=move.adding,
            removing=move.removing,
        )
    await active.finish_moves(moves)
    return outcomes, delivery


async def start_znode_reassignments(active: ActiveController, watch: Watcher) -> None:
    """
    Begin the reassignments that a tool wrote to ``/admin/reassign_partitions``, and remove the node.

    :param watch: fires when the node is created again.
    """
    store = active.fence.store
    if await store.exists(REASSIGN_PARTITIONS, watch) is None:
        return
    try:
        data, stat = await store.get(REASSIGN_PARTITIONS)
        wanted = ReassignmentsZnode.decode(data)
    except NoNode:
        return  # The watch fires when it is created again.
    except BadZnode as error:
        _log.error("nothing is reassigned: {error}", error=error)
        return
    outcomes, _ = await reassign(active, wanted)
    for name, refused in outcomes.items():
        if refused is not None:
            _log.error("{path}: {error}", path=REASSIGN_PARTITIONS, partition=name, error=refused.message)
    await active.fence.write([(Delete(REASSIGN_PARTITIONS, stat.version),)])


async def reapply_topic_rules(active: ActiveController) -> None:
    """
    Do what a change of all topics' defaults makes due: a lower minimum of in-sync replicas ends eligibility outside the
    ISR, and reassignments that waited for more of them; where unclean elections are allowed now, a partition without a
    leader gets one.
    """
    doubtful, moving = [], []
    async for name in active.time_slice().over(active.state.partitions()):
        record = active.state.partition(name)
        state = record.state
        if state is not None and (state.eligible or state.leader == NO_LEADER):
            doubtful.append(name)
        if record.reassigning:
            moving.append(name)
    if doubtful:
        await active.settle(doubtful)
    await active.finish_moves(moving)

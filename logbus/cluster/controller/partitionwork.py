"""
What a controller does to partitions when somebody asks: elections, reassignments. Each function runs on its queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from twisted.logger import Logger

from logbus.cluster.controller.announcements import Batch
from logbus.cluster.controller.election import NO_LEADER, Election, preferred_leader, unclean_leader
from logbus.cluster.controller.reassignment import Move, move_to, moved_back
from logbus.cluster.controller.sending import Delivery
from logbus.cluster.controller.tenure import UNITS_TO_LOG, Tenure
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.imetastore import Delete, NoNode, Watcher
from logbus.metastore.znodejson import BadZnode
from logbus.metastore.znodes import REASSIGN_PARTITIONS, ReassignmentsZnode
from logbus.model import TopicPartition

Outcomes = dict[TopicPartition, ApiError | None]
"""By partition: None, or why not."""

UNITS_TO_DECIDE = 4
"""Units of a time slice that it takes to decide about one partition."""

_log = Logger(namespace="logbus.cluster.controller")


class ElectionType(Enum):
    """PREFERRED: the first replica, if it is in sync. UNCLEAN: whoever lives, where nobody leads."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect(
    tenure: Tenure, kind: ElectionType, names: Sequence[TopicPartition] | None
) -> tuple[Outcomes, Delivery | None]:
    """Hold elections on the controller's queue."""
    outcomes: Outcomes = {}
    elections: dict[TopicPartition, Election] = {}
    decide = preferred_leader if kind is ElectionType.PREFERRED else unclean_leader
    async for name in tenure.time_slice().over(tenure.state.partitions() if names is None else names, UNITS_TO_DECIDE):
        try:
            topic, record = tenure.existing(name)
            if record.state is not None:
                elections[name] = decide(tenure.situation(name, topic, record))
            outcomes[name] = None
        except ApiError as error:
            # What is kept of thousands of errors is their words.
            outcomes[name] = error.with_traceback(None)
    if not elections:
        return outcomes, None
    await tenure.write(elections)
    return outcomes, tenure.announcer.announce(Batch(partitions=frozenset(elections)))


async def reassign(
    tenure: Tenure, wanted: Mapping[TopicPartition, Sequence[int] | None], *, factor_may_change: bool = True
) -> tuple[Outcomes, Delivery | None]:
    """Begin, or cancel, moves on the controller's queue; what needs nobody to fetch ends at once."""
    outcomes: Outcomes = {}
    moves: dict[TopicPartition, Move] = {}
    time_slice = tenure.time_slice()
    async for name, replicas in time_slice.over(wanted.items(), UNITS_TO_DECIDE):
        try:
            topic, record = tenure.existing(name)
            if record.state is None:
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name} never had a leader")
            now = tenure.situation(name, topic, record)
            if replicas is None:
                moves[name] = moved_back(name, record, now)
            else:
                moves[name] = move_to(
                    name, record, now, replicas, tenure.state.brokers, factor_may_change=factor_may_change
                )
            outcomes[name] = None
        except ApiError as error:
            # What is kept of thousands of errors is their words.
            outcomes[name] = error.with_traceback(None)
    if not moves:
        return outcomes, None
    delivery = await tenure.move(moves)
    async for name, move in time_slice.over(moves.items(), UNITS_TO_LOG):
        _log.info(
            "{partition} moves: brokers {replicas}, adding {adding}, removing {removing}",
            partition=name,
            replicas=move.replicas,
            adding=move.adding,
            removing=move.removing,
        )
    await tenure.finish_moves(moves)
    return outcomes, delivery


async def take_orders(tenure: Tenure, watch: Watcher) -> None:
    """
    Carry out what a tool left in ``/admin/reassign_partitions``, and remove the node.

    :param watch: hears when there is something again.
    """
    store = tenure.fence.store
    if await store.exists(REASSIGN_PARTITIONS, watch) is None:
        return
    try:
        data, stat = await store.get(REASSIGN_PARTITIONS)
        wanted = ReassignmentsZnode.decode(data)
    except NoNode:
        return  # The watch tells of what comes next.
    except BadZnode as error:
        _log.error("nothing is reassigned: {error}", error=error)
        return
    outcomes, _ = await reassign(tenure, wanted)
    for name, refused in outcomes.items():
        if refused is not None:
            _log.error("{path}: {error}", path=REASSIGN_PARTITIONS, partition=name, error=refused.message)
    await tenure.fence.write([(Delete(REASSIGN_PARTITIONS, stat.version),)])


async def tidy(tenure: Tenure) -> None:
    """
    Decide again what hangs on settings that changed for all topics at once: with a lower minimum of in-sync replicas
    nobody is eligible any more, and leaders go on; where unclean elections are allowed now, somebody leads.
    """
    doubtful = []
    async for name in tenure.time_slice().over(tenure.state.partitions()):
        state = tenure.state.partition(name).state
        if state is not None and (state.eligible or state.leader == NO_LEADER):
            doubtful.append(name)
    if doubtful:
        await tenure.settle(doubtful)

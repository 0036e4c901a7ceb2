"""
Who leads a partition: pure.

The rules (cluster.md, KIP-101, KIP-966): a leader comes from the in-sync replicas, the one that is first in the
assignment; the leader epoch grows by one with every election; without a living in-sync replica the partition has no
leader, and its ISR is kept, so that one of those who have the data may return; only where the topic allows it another
replica takes over, and with it committed records may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import evolve, frozen

from logbus.cluster.controller.state import ControllerState
from logbus.errors import ApiError, ErrorCode
from logbus.model import LeaderAndIsr, TopicPartition

NO_LEADER = -1


@frozen
class Election:
    """
    An outcome.

    :ivar result: what is to be written; its version is the one that the node will have then.
    :ivar unclean: the leader was not in sync.
    """

    result: LeaderAndIsr
    unclean: bool = False


def first_leader(replicas: Sequence[int], serves: Callable[[int], bool], controller_epoch: int) -> Election:
    """
    Of a new partition: the first replica that lives; those that live are in sync, as all are empty.

    With none alive there is no leader, and all are in sync.
    """
    alive = tuple(replica for replica in replicas if serves(replica))
    leader = alive[0] if alive else NO_LEADER
    return Election(LeaderAndIsr(leader, 0, alive or tuple(replicas), controller_epoch, 0))


def next_leader(
    replicas: Sequence[int],
    current: LeaderAndIsr,
    serves: Callable[[int], bool],
    controller_epoch: int,
    *,
    renew: bool = False,
    unclean_allowed: bool = False,
) -> Election | None:
    """
    After something happened to the brokers.

    :param renew: elect even though the leader lives (it restarted); it stays if it is in sync.
    :return: None: all stays as it is.
    """
    in_sync = tuple(replica for replica in replicas if replica in current.isr and serves(replica))
    if current.leader in in_sync and not renew:
        return None
    if in_sync:
        leader = current.leader if current.leader in in_sync else in_sync[0]
        return _elected(current, leader, in_sync, controller_epoch)
    alive = [replica for replica in replicas if serves(replica)]
    if alive and unclean_allowed:
        return _elected(current, alive[0], (alive[0],), controller_epoch, unclean=True)
    if current.leader == NO_LEADER:
        return None
    return _elected(current, NO_LEADER, current.isr, controller_epoch)


def preferred_leader(
    replicas: Sequence[int], current: LeaderAndIsr, serves: Callable[[int], bool], controller_epoch: int
) -> Election:
    """
    Give leadership back to the first replica of the assignment.

    :raise ApiError: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE.
    """
    preferred = replicas[0]
    if current.leader == preferred:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred}, the preferred one, leads already")
    if preferred not in current.isr or not serves(preferred):
        raise ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred}, the preferred one, is not alive and in sync"
        )
    return _elected(current, preferred, current.isr, controller_epoch)


def due_elections(
    state: ControllerState,
    names: Iterable[TopicPartition],
    controller_epoch: int,
    unclean_allowed: Callable[[Mapping[str, str]], bool],
) -> dict[TopicPartition, Election]:
    """
    Every election that is due among ``names``.

    :param unclean_allowed: whether a topic's overrides (over the defaults) allow unclean election.
    """
    outcomes: dict[TopicPartition, Election] = {}
    allowed: dict[str, bool] = {}
    for name in names:
        topic = state.topics[name.topic]
        record = topic.partitions[name.partition]

        def serves(broker_id: int, name: TopicPartition = name) -> bool:
            return state.serves(broker_id, name)

        if record.state is None:
            outcomes[name] = first_leader(record.replicas, serves, controller_epoch)
            continue
        if name.topic not in allowed:
            allowed[name.topic] = unclean_allowed(topic.overrides)
        outcome = next_leader(
            record.replicas,
            record.state,
            serves,
            controller_epoch,
            renew=state.restarted(name),
            unclean_allowed=allowed[name.topic],
        )
        if outcome is not None:
            outcomes[name] = outcome
    return outcomes


def _elected(
    current: LeaderAndIsr, leader: int, isr: tuple[int, ...], controller_epoch: int, *, unclean: bool = False
) -> Election:
    return Election(
        evolve(
            current,
            leader=leader,
            leader_epoch=current.leader_epoch + 1,
            isr=isr,
            controller_epoch=controller_epoch,
            version=current.version + 1,
            unclean_epoch=current.leader_epoch + 1 if unclean else current.unclean_epoch,
        ),
        unclean,
    )

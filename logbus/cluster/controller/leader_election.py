"""
Elects leaders, and decides the ISR when brokers register or go (Kafka: PartitionLeaderElectionAlgorithms): pure.

The rules (KIP-101, KIP-497, KIP-966):

* The leader is the in-sync replica that is first in the assignment; the leader epoch grows by one with every election.
  A live leader stays.
* In-sync replicas whose brokers are gone leave the ISR, as long as one stays: live replicas can acknowledge records.
* A replica that leaves while too few are in sync stays *eligible*: it has every committed record. When no in-sync
  replica is left, an eligible one is elected, cleanly.
* Otherwise the partition has no leader, and its ISR is kept, so that one of those with the records may return. Only
  where the topic allows unclean elections another replica is elected, and committed records may be lost.
* A broker that comes back after an unclean stop may lack records, even synced ones (KIP-966). It is neither in sync nor
  eligible while a replica without an unclean stop can lead. It is *unproven*: an unproven replica is elected only when
  no other could ever be, all of them are back, and it has the longest log.  A last member is elected at once.
* The unproven replicas are kept until the leader that was elected instead has changed the ISR: until then it may be
  dead, too, its registration about to expire.
* A broker with a new log directory is neither in sync nor eligible, unless no other ever could be: then it is elected,
  and that is an unclean election.
* A replica that was reported as incomplete leads only while no other can.
* Where records are synced before they are acknowledged, a broker whose machine lost power has all acknowledged records.
  It may lack records that were read, though: a leader lets followers and consumers read records that it has not synced
  yet.  If such a broker is elected, the epoch is marked as after an unclean election, so that replicas with more
  records may follow it; without the syncs it is an unclean election.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from attrs import evolve, frozen

from logbus.cluster.controller.controller_context import NO_LEADER, ControllerContext, PartitionRecord
from logbus.cluster.controller.topic_rules import ReplicaAvailability, RulesFor, TopicRules, still_eligible
from logbus.cluster.images import BrokerImage
from logbus.errors import ApiError, ErrorCode
from logbus.model import LeaderAndIsr, LogEnd, TopicPartition

_DEFAULT_RULES = TopicRules()

RegisteredBrokers = Mapping[int, BrokerImage]
"""Brokers that have registered: for the first time, or anew."""


@frozen
class ElectionResult:
    """
    The result of an election.

    :ivar result: the state to write; its version is that of the node after the write.
    :ivar unclean: committed records may be lost: the leader was not in sync, or came back without them.
    """

    result: LeaderAndIsr
    unclean: bool = False


@frozen
class Situation:
    """
    The input of a decision about one partition.

    :ivar availability: of the replica on each broker.
    :ivar controller_epoch: of the deciding controller.
    :ivar log_ends: log end offsets of the replicas that have reported them since they came back.
    :ivar unsynced_lost: brokers whose machines lost power, and unsynced records with it.
    """

    replicas: Sequence[int]
    current: LeaderAndIsr
    availability: Callable[[int], ReplicaAvailability]
    rules: TopicRules = _DEFAULT_RULES
    controller_epoch: int = 0
    log_ends: Mapping[int, LogEnd] = MappingProxyType({})
    unsynced_lost: Collection[int] = ()

    def up(self, among: Collection[int]) -> list[int]:
        """The replicas that could lead, in the order of the assignment."""
        return [one for one in self.replicas if one in among and self.availability(one) is ReplicaAvailability.UP]


class _Leadership(NamedTuple):
    """The leader, the ISR and the other replicas that may have every committed record, as an election wants them."""

    leader: int
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    unproven: tuple[int, ...]


def first_leader(
    replicas: Sequence[int], availability: Callable[[int], ReplicaAvailability], controller_epoch: int
) -> ElectionResult:
    """
    The first election of a partition: the first live replica leads; all live ones are in sync, as all are empty.

    With none alive there is no leader, and all are in sync.
    """
    alive = tuple(replica for replica in replicas if availability(replica) is ReplicaAvailability.UP)
    leader = alive[0] if alive else NO_LEADER
    return ElectionResult(LeaderAndIsr(leader, 0, alive or tuple(replicas), controller_epoch, 0))


def next_leader(
    now: Situation, *, renew: bool = False, lost: Collection[int] = (), unclean: Collection[int] = ()
) -> ElectionResult | None:
    """
    The election after a change of the brokers.

    :param renew: the leader has registered anew: it is elected again, if it may stay.
    :param unclean: brokers that came back after an unclean stop; ``lost``: those among them with a new log directory.
    :return: None: nothing changes.
    """
    current = now.current
    isr, eligible, is_unclean = _trusted(current, lost)
    suspected = [one for one in (*isr, *eligible) if one in unclean]
    unproven = tuple(dict.fromkeys(one for one in (*current.unproven, *suspected) if one not in lost or one in isr))
    sure, able = (tuple(one for one in group if one not in unproven) for group in (isr, eligible))
    serves = current.leader in sure and now.availability(current.leader) is not ReplicaAvailability.GONE
    yields = serves and now.availability(current.leader) is ReplicaAvailability.INCOMPLETE and now.up(able)
    equals: list[int] = []
    short = False
    if up := now.up(sure):
        leader = current.leader if current.leader in up else up[0]
        members = tuple(up)
    elif serves and not yields:
        leader, members = current.leader, (current.leader,)
    elif heirs := now.up(able):
        leader = heirs[0]
        members = (leader,)
    elif longest := _longest(now, tuple(dict.fromkeys((*isr, *eligible, *unproven))), unproven):
        leader, *equals = longest
        members = (leader,)
        short = leader in now.unsynced_lost
        is_unclean = is_unclean or (short and not now.rules.flushes)
        unproven = ()
    elif now.rules.unclean_allowed and (others := now.up(now.replicas) or _incomplete(now)):
        # Prefer one that may have every committed record.
        leader = max(others, key=lambda one: (one in unproven, now.log_ends.get(one, _NO_LOG)))
        members, is_unclean = (leader,), True
    else:
        leader, members = NO_LEADER, isr
    if leader == NO_LEADER:
        is_unclean = False
    elif is_unclean:
        eligible, unproven = (), ()
    else:
        left = [
            one for one in sure if one not in members and now.availability(one) is not ReplicaAvailability.INCOMPLETE
        ]
        eligible = still_eligible(able, [*left, *equals], members, tuple(now.replicas), now.rules)
    wanted = _Leadership(leader, members, eligible, unproven)
    return _outcome(now, wanted, renew=renew, unclean=is_unclean, short=short)


_NO_LOG = LogEnd(-1, -1)


def _incomplete(now: Situation) -> list[int]:
    return [one for one in now.replicas if now.availability(one) is ReplicaAvailability.INCOMPLETE]


def _longest(now: Situation, holders: Sequence[int], unproven: Collection[int]) -> tuple[int, ...]:
    """
    The replica with the longest log, and those whose logs end at the same offset, if no absent one could have more.
    Empty: a replica is away, or has not reported its log end yet.

    :param holders: replicas that may have every committed record; ``unproven``: those back after an unclean stop.
    """
    availability = {one: now.availability(one) for one in holders}
    if any(one not in unproven and availability[one] is not ReplicaAvailability.INCOMPLETE for one in holders):
        return ()
    if len(holders) == 1:
        return (
            tuple(holders)
            if availability[holders[0]] in (ReplicaAvailability.UP, ReplicaAvailability.INCOMPLETE)
            else ()
        )
    there = [one for one in holders if availability[one] is not ReplicaAvailability.GONE]
    if any(one not in now.log_ends for one in there):
        return ()
    if len(there) < len(holders):
        # A replica with records of the last leader's epoch was in sync later than absent ones without any.
        last = now.current.leader_epoch - (now.current.leader == NO_LEADER)
        latest = [one for one in there if now.current.isr == (one,) and now.log_ends[one].epoch >= last]
        return tuple(latest) if now.up(latest) else ()
    most = max(now.log_ends[one] for one in holders)
    equals = [one for one in now.replicas if one in holders and now.log_ends[one] == most]
    # Of equally long logs, prefer one that is not reported as damaged.
    able = [one for one in equals if availability[one] is not ReplicaAvailability.LEAVING]
    able.sort(key=lambda one: availability[one] is ReplicaAvailability.INCOMPLETE)
    return (*able[:1], *(one for one in equals if one not in able[:1])) if able else ()


def preferred_leader(now: Situation) -> ElectionResult:
    """
    Give leadership back to the first replica of the assignment.

    :raise ApiError: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE.
    """
    preferred, current = now.replicas[0], now.current
    if current.leader == preferred:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred}, the preferred one, leads already")
    if preferred not in now.up(current.isr) or preferred in current.unproven:
        raise ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred}, the preferred one, is not alive and in sync"
        )
    return _elected(now, _Leadership(preferred, current.isr, current.eligible, current.unproven))


def unclean_leader(now: Situation) -> ElectionResult:
    """
    Elect any live replica, whatever is lost, at an operator's request.

    :raise ApiError: ELECTION_NOT_NEEDED, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    if now.current.leader != NO_LEADER:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {now.current.leader} leads")
    outcome = next_leader(evolve(now, rules=evolve(now.rules, unclean_allowed=True)))
    if outcome is None:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"none of the replicas {list(now.replicas)} is alive")
    return outcome


def restricted_to(now: Situation, replicas: Sequence[int]) -> ElectionResult | None:
    """
    Restrict leader, ISR and eligible replicas to the given ones, at the end of a reassignment.

    :return: None: leader and ISR do not change.
    :raise ApiError: INVALID_REPLICA_ASSIGNMENT: none of these is in sync, so that records would be lost.
    """
    current = now.current
    isr = tuple(one for one in current.isr if one in replicas)
    if not isr:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"none of the replicas {list(replicas)} is in sync; those in sync are {list(current.isr)}",
        )
    eligible, unproven = (
        tuple(one for one in group if one in replicas) for group in (current.eligible, current.unproven)
    )
    narrow = evolve(now, replicas=tuple(replicas))
    leader = current.leader
    if leader not in replicas:
        leader = next(iter(narrow.up([one for one in isr if one not in unproven])), NO_LEADER)
    return _outcome(narrow, _Leadership(leader, isr, eligible, unproven))


def due_elections(
    state: ControllerContext,
    names: Iterable[TopicPartition],
    controller_epoch: int,
    rules_for: RulesFor,
    registered: RegisteredBrokers = {},  # noqa: B006 - read only
    unclean: Collection[int] = (),
) -> dict[TopicPartition, ElectionResult]:
    """
    The elections that are due among ``names``.

    :param registered: brokers whose new registration was not noted yet: they are elected again for what they lead.
    :param unclean: those of them that came back after an unclean stop.
    """
    outcomes: dict[TopicPartition, ElectionResult] = {}
    topic_name: str | None = None
    lost = [one for one in unclean if registered[one].logs_lost]
    for name in names:
        topic = state.topics[name.topic]
        if topic.name != topic_name:
            topic_name, rules = topic.name, rules_for(topic.overrides)
        record = topic.partitions[name.partition]
        if record.state is None:
            outcomes[name] = first_leader(record.replicas, _availability(state, name), controller_epoch)
            continue
        now = situation(state, name, record, rules, controller_epoch)
        outcome = next_leader(now, renew=record.state.leader in registered, lost=lost, unclean=unclean)
        if outcome is not None:
            outcomes[name] = outcome
    return outcomes


def situation(
    state: ControllerContext, name: TopicPartition, record: PartitionRecord, rules: TopicRules, controller_epoch: int
) -> Situation:
    """The input for a partition that had its first election."""
    assert record.state is not None
    return Situation(
        record.replicas,
        record.state,
        _availability(state, name),
        rules,
        controller_epoch,
        state.reports.log_ends.get(name, {}),
        [one for one in record.replicas if one in state.brokers and state.brokers[one].unsynced_lost],
    )


def _availability(state: ControllerContext, name: TopicPartition) -> Callable[[int], ReplicaAvailability]:
    return lambda broker_id: state.availability(broker_id, name)


def _trusted(current: LeaderAndIsr, lost: Collection[int]) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """
    The ISR and the eligible replicas without those that came back without their logs; and whether no other is left, so
    that one of them must be elected.
    """
    holders = (*current.isr, *current.eligible)
    if not any(one in lost for one in holders):
        return current.isr, current.eligible, False
    isr, eligible = (tuple(one for one in group if one not in lost) for group in (current.isr, current.eligible))
    if isr:
        return isr, eligible, False
    if eligible:
        return eligible, (), False
    # The last leader has the longest log.
    return (current.leader if current.leader in holders else holders[0],), (), True


def _outcome(
    now: Situation, wanted: _Leadership, *, renew: bool = False, unclean: bool = False, short: bool = False
) -> ElectionResult | None:
    """:param short: the leader may lack records that others have, though no acknowledged ones."""
    current = now.current
    if set(wanted.isr) == set(current.isr):
        wanted = wanted._replace(isr=current.isr)
    leader, isr, eligible, unproven = wanted
    if leader != current.leader or unclean or (renew and leader != NO_LEADER):
        return _elected(now, wanted, unclean=unclean, short=short)
    if (isr, set(eligible), set(unproven)) == (current.isr, set(current.eligible), set(current.unproven)):
        return None
    changed = evolve(
        current,
        isr=isr,
        eligible=eligible,
        unproven=unproven,
        controller_epoch=now.controller_epoch,
        version=current.version + 1,
    )
    return ElectionResult(changed)


def _elected(now: Situation, wanted: _Leadership, *, unclean: bool = False, short: bool = False) -> ElectionResult:
    current = now.current
    epoch = current.leader_epoch + 1
    return ElectionResult(
        LeaderAndIsr(
            wanted.leader,
            epoch,
            wanted.isr,
            now.controller_epoch,
            current.version + 1,
            wanted.eligible,
            epoch if unclean or short else current.unclean_epoch,
            wanted.unproven,
        ),
        unclean,
    )

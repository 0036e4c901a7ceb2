"""
Who leads a partition, and who is in sync when brokers come and go: pure.

The rules (KIP-101, KIP-497, KIP-966):

* A leader comes from the in-sync replicas, the one that is first in the assignment; the leader epoch grows by one with
  every election. A leader that lives stays.
* In-sync replicas whose brokers are gone leave, as long as one stays: records are acknowledged by those that live.
* Who leaves while too few are in sync stays eligible: it lacks nothing that was committed. When nobody in sync is left
  an eligible one leads, cleanly.
* Otherwise the partition has no leader, and its in-sync replicas are kept, so that one of those who have the data may
  return; only where the topic allows it another replica takes over, and with it committed records may be lost.
* A broker that came back without its last records is neither in sync nor eligible, unless nobody else ever could be:
  then it leads, and that is an unclean election.
* Where records are synced before they are acknowledged, a broker that lost what it had not synced has all that was
  acknowledged.  It may lack what could be read, though: a leader lets followers and readers have what it has not synced
  yet.  So others come first, and of several like it those that did not lead last: a follower counts by what it has
  synced.  Where such a one leads all the same, the epoch is marked as after an unclean election, so that others who
  have more may follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from attrs import evolve, frozen

from logbus.cluster.controller.rules import RulesFor, Standing, TopicRules, still_eligible
from logbus.cluster.controller.state import ControllerState, PartitionRecord
from logbus.cluster.images import BrokerImage
from logbus.errors import ApiError, ErrorCode
from logbus.model import LeaderAndIsr, TopicPartition

NO_LEADER = -1

_DEFAULT_RULES = TopicRules()

Lives = Mapping[int, BrokerImage]
"""Brokers that came: for the first time, or with a new life."""


@frozen
class Election:
    """
    An outcome.

    :ivar result: what is to be written; its version is the one that the node will have then.
    :ivar unclean: committed records may be lost: the leader was not in sync, or came back without them.
    """

    result: LeaderAndIsr
    unclean: bool = False


@frozen
class Situation:
    """
    One partition, when something is to be decided.

    :ivar standing: of each of its brokers.
    :ivar controller_epoch: of the one who decides.
    """

    replicas: Sequence[int]
    current: LeaderAndIsr
    standing: Callable[[int], Standing]
    rules: TopicRules = _DEFAULT_RULES
    controller_epoch: int = 0

    def up(self, among: Collection[int]) -> list[int]:
        """Those that could lead, in the order of the assignment."""
        return [one for one in self.replicas if one in among and self.standing(one) is Standing.UP]


def first_leader(replicas: Sequence[int], standing: Callable[[int], Standing], controller_epoch: int) -> Election:
    """
    Of a new partition: the first replica that lives; those that live are in sync, as all are empty.

    With none alive there is no leader, and all are in sync.
    """
    alive = tuple(replica for replica in replicas if standing(replica) is Standing.UP)
    leader = alive[0] if alive else NO_LEADER
    return Election(LeaderAndIsr(leader, 0, alive or tuple(replicas), controller_epoch, 0))


def next_leader(
    now: Situation, *, renew: bool = False, lost: Collection[int] = (), doubted: Collection[int] = ()
) -> Election | None:
    """
    After something happened to the brokers.

    :param renew: the leader has begun a new life: it is elected anew, if it may stay.
    :param lost: brokers that came back without some of what was acknowledged, perhaps; ``doubted``: only without some
        of what could be read.
    :return: None: all stays as it is.
    """
    current = now.current
    if any(one not in doubted for one in now.up([one for one in current.isr if one not in lost])):
        # Others have it all, and are there: the doubted fetch again what they lack, and join again.
        lost = {*lost, *doubted}
    isr, eligible, unclean = _trusted(current, lost)
    serves = current.leader in isr and now.standing(current.leader) is not Standing.GONE
    if up := now.up(isr):
        leader = _best(current.leader, up, doubted)
        members = tuple(up)
    elif serves:
        leader, members = current.leader, (current.leader,)
    elif heirs := now.up(eligible):
        leader = _best(NO_LEADER, heirs, doubted)
        members = (leader,)
    elif now.rules.unclean_allowed and (others := now.up(now.replicas)):
        leader, members, unclean = others[0], (others[0],), True
    else:
        leader, members = NO_LEADER, isr
    if unclean:
        eligible = ()
    elif leader != NO_LEADER:
        left = (one for one in isr if one not in members)
        eligible = still_eligible(eligible, left, members, tuple(now.replicas), now.rules)
    return _outcome(now, leader, members, eligible, renew=renew, unclean=unclean, short=leader in doubted)


def _best(leader: int, able: Sequence[int], doubted: Collection[int]) -> int:
    """Who of those who can should lead: who does, then the first; of the doubted rather who did not."""
    return min(able, key=lambda one: (one in doubted, (one == leader) is (one in doubted)))


def preferred_leader(now: Situation) -> Election:
    """
    Give leadership back to the first replica of the assignment.

    :raise ApiError: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE.
    """
    preferred, current = now.replicas[0], now.current
    if current.leader == preferred:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred}, the preferred one, leads already")
    if preferred not in now.up(current.isr):
        raise ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred}, the preferred one, is not alive and in sync"
        )
    return _elected(now, preferred, current.isr, current.eligible)


def unclean_leader(now: Situation) -> Election:
    """
    Have somebody lead, whatever is lost: an operator said so.

    :raise ApiError: ELECTION_NOT_NEEDED, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    if now.current.leader != NO_LEADER:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {now.current.leader} leads")
    outcome = next_leader(evolve(now, rules=evolve(now.rules, unclean_allowed=True)))
    if outcome is None:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"none of the replicas {list(now.replicas)} is alive")
    return outcome


def narrowed(now: Situation, replicas: Sequence[int]) -> Election | None:
    """
    The partition is to have these replicas: others are neither in sync nor eligible any more.

    :return: None: nothing about who leads and who is in sync changes.
    :raise ApiError: INVALID_REPLICA_ASSIGNMENT: none of these is in sync, so that data would be lost.
    """
    current = now.current
    isr = tuple(one for one in current.isr if one in replicas)
    if not isr:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"none of the replicas {list(replicas)} is in sync; those in sync are {list(current.isr)}",
        )
    eligible = tuple(one for one in current.eligible if one in replicas)
    narrow = evolve(now, replicas=tuple(replicas))
    leader = current.leader
    if leader not in replicas:
        leader = next(iter(narrow.up(isr)), NO_LEADER)
    return _outcome(narrow, leader, isr, eligible)


def due_elections(
    state: ControllerState,
    names: Iterable[TopicPartition],
    controller_epoch: int,
    rules_for: RulesFor,
    come: Lives = {},  # noqa: B006 - read only
    losers: Collection[int] = (),
) -> dict[TopicPartition, Election]:
    """
    Everything that is due among ``names``.

    :param come: brokers whose new life was not taken note of yet: what they lead they are elected for anew.
    :param losers: those of them that came back without some of what they had.
    """
    outcomes: dict[TopicPartition, Election] = {}
    topic_name: str | None = None
    for name in names:
        topic = state.topics[name.topic]
        if topic.name != topic_name:
            topic_name, rules = topic.name, rules_for(topic.overrides)
            lost = [one for one in losers if come[one].logs_lost or not rules.flushes]
            doubted = [one for one in losers if one not in lost]
        record = topic.partitions[name.partition]
        if record.state is None:
            standing = _standing(state, name)
            outcomes[name] = first_leader(record.replicas, standing, controller_epoch)
            continue
        now = situation(state, name, record, rules, controller_epoch)
        outcome = next_leader(now, renew=record.state.leader in come, lost=lost, doubted=doubted)
        if outcome is not None:
            outcomes[name] = outcome
    return outcomes


def situation(
    state: ControllerState, name: TopicPartition, record: PartitionRecord, rules: TopicRules, controller_epoch: int
) -> Situation:
    """A partition's, which had its first election."""
    assert record.state is not None
    return Situation(record.replicas, record.state, _standing(state, name), rules, controller_epoch)


def _standing(state: ControllerState, name: TopicPartition) -> Callable[[int], Standing]:
    return lambda broker_id: state.standing(broker_id, name)


def _trusted(current: LeaderAndIsr, lost: Collection[int]) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """
    Who is in sync, and who eligible, without those that came back with less; and whether nobody has it all, so that
    one of them must do.
    """
    holders = (*current.isr, *current.eligible)
    if not any(one in lost for one in holders):
        return current.isr, current.eligible, False
    isr, eligible = (tuple(one for one in group if one not in lost) for group in (current.isr, current.eligible))
    if isr:
        return isr, eligible, False
    if eligible:
        return eligible, (), False
    # Who led last has the most.
    return (current.leader if current.leader in holders else holders[0],), (), True


def _outcome(
    now: Situation,
    leader: int,
    isr: tuple[int, ...],
    eligible: tuple[int, ...],
    *,
    renew: bool = False,
    unclean: bool = False,
    short: bool = False,
) -> Election | None:
    """:param short: the leader may lack what others have, though nothing that was acknowledged."""
    current = now.current
    if set(isr) == set(current.isr):
        isr = current.isr
    if leader != current.leader or unclean or (renew and leader != NO_LEADER):
        return _elected(now, leader, isr, eligible, unclean=unclean, short=short)
    if (isr, set(eligible)) == (current.isr, set(current.eligible)):
        return None
    changed = evolve(
        current, isr=isr, eligible=eligible, controller_epoch=now.controller_epoch, version=current.version + 1
    )
    return Election(changed)


def _elected(
    now: Situation,
    leader: int,
    isr: tuple[int, ...],
    eligible: tuple[int, ...],
    *,
    unclean: bool = False,
    short: bool = False,
) -> Election:
    current = now.current
    epoch = current.leader_epoch + 1
    return Election(
        LeaderAndIsr(
            leader,
            epoch,
            isr,
            now.controller_epoch,
            current.version + 1,
            eligible,
            epoch if unclean or short else current.unclean_epoch,
        ),
        unclean,
    )

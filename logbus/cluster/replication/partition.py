"""
The replication state of one partition on this broker (Kafka: Partition): role, high watermark, in-sync replicas.

Pure: its methods take events (a new role, an append, a follower's fetch, the controller's answer) and return the
consequences (the high watermark moved, the ISR should change, a request's leader epoch is fenced).
:mod:`.replica` moves the bytes, :mod:`.isr_manager` talks to the controller.

The *maximal ISR* is the committed ISR and the replicas that the leader has asked the controller to add, until it knows
the answer.  Only records that all of these have are committed (KIP-497).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from attrs import define, field

from logbus.cluster.replication.follower_state import NEVER, FollowerState
from logbus.cluster.replication.isr_change_state import IsrChangeState
from logbus.cluster.replication.role import Role
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_EPOCH, IsrChange, LeaderAndIsr


@define(eq=False)
class Partition(Role):
    """
    This broker's replica of a partition and, on the leader, the state of its followers.

    Invariant: ``high_watermark <= log_end_offset``, and the high watermark never goes back within an epoch.

    :ivar epoch_start_offset: where this leader's epoch begins in its log.
    :ivar is_established: whether the in-sync replicas have shown in this epoch that they have all records before it.
        Until then the high watermark is the one that this replica learned as a follower, and no producer is
        acknowledged by it: the ISR may have changed since.
    :ivar synced_end_offset: the end of the log that counts for the high watermark where committed records must be on
        stable storage; None where they need only be written.
    :ivar followers: on the leader, the other replicas by broker id.
    :ivar isr_change: the requests to change the ISR.
    """

    epoch_start_offset: int = field(default=0, init=False)
    is_established: bool = field(default=False, init=False)
    synced_end_offset: int | None = field(default=None, init=False)
    followers: dict[int, FollowerState] = field(factory=dict, init=False)
    isr_change: IsrChangeState = field(factory=IsrChangeState, init=False)
    _counted: tuple[FollowerState, ...] = field(default=(), init=False)
    _alone: bool = field(default=False, init=False)

    # The role.

    def take_role(
        self, given: LeaderAndIsr, log_end_offset: int, replicas: tuple[int, ...] | None = None, now: float = 0.0
    ) -> bool:
        """
        Take the role the controller gives.

        :param replicas: of the partition; by default those in sync.
        :return: whether anything changed; an older epoch than ours, or an older version of its state, changes nothing
            (it may come from a former controller).
        """
        held = self.leader_and_isr
        if given.leader_epoch < self.leader_epoch:
            return False
        if given.leader_epoch == self.leader_epoch and given.version < held.version:
            return False
        if replicas is None:
            replicas = given.isr
        if given == held and replicas == self.replicas:
            return False
        led = self.is_leader and given.leader_epoch == self.leader_epoch
        if given.leader_epoch > self.leader_epoch:
            self.in_doubt = False
        self.leader_and_isr = given
        self.leader_epoch = given.leader_epoch
        self.replicas = replicas
        self.is_leader = given.leader == self.broker_id
        self.log_end_offset = log_end_offset
        if not led or given.version > held.version:
            self.isr_change.settle()
        if not self.is_leader:
            self.followers = {}
            self.is_established = False
        elif led:
            self._continue_leading(held.isr, now)
        else:
            self._begin_leading(log_end_offset, now)
        self._recount()
        self.advance()
        return True

    def _begin_leading(self, log_end_offset: int, now: float) -> None:
        """
        Lead in a new epoch. Followers' offsets of another epoch do not count, since those records may differ from the
        ones in this log. The in-sync replicas get some time to fetch.
        """
        self.epoch_start_offset = log_end_offset
        self.is_established = False
        self.isr_change.begin_epoch()
        isr = self.leader_and_isr.isr
        self.followers = {n: FollowerState(n, now if n in isr else NEVER) for n in self._others()}

    def _continue_leading(self, isr_before: Collection[int], now: float) -> None:
        """Go on leading in the same epoch, with other replicas or another ISR."""
        known = self.followers
        self.isr_change.restrict(self.leader_and_isr.isr)
        self.followers = {n: known.get(n) or FollowerState(n, NEVER) for n in self._others()}
        for n, follower in self.followers.items():
            if n in self.leader_and_isr.isr and n not in isr_before:
                # It must keep up from now on.
                follower.caught_up_at = max(follower.caught_up_at, now)
                follower.leave()

    def _others(self) -> tuple[int, ...]:
        others = dict.fromkeys((*self.replicas, *self.leader_and_isr.isr))
        others.pop(self.broker_id, None)
        return tuple(others)

    def configure(self, min_insync_replicas: int) -> bool:
        """Set the topic's ``min.insync.replicas``; return whether the high watermark moved with it."""
        if min_insync_replicas == self.min_insync_replicas:
            return False
        self.min_insync_replicas = min_insync_replicas
        return self._left()

    def retire(self) -> None:
        """The replica was removed from this broker; it leads no more."""
        self.is_leader = self.is_established = False
        self.followers = {}
        self.isr_change.settle()
        self._recount()

    # The high watermark.

    def log_grew(self, log_end_offset: int) -> bool:
        """Set the log's end offset; return whether the high watermark moved with it."""
        self.log_end_offset = log_end_offset
        # Otherwise a follower's fetch moves it.
        if self._alone and log_end_offset > self.high_watermark:
            self.high_watermark = log_end_offset
            return True
        return False

    def advance(self) -> bool:
        """
        Raise the high watermark to the lowest end of the replicas that count for it; return whether it moved.

        It does not move until every replica in the maximal ISR has fetched in this epoch and reached its start, nor
        while fewer replicas than ``min.insync.replicas`` are in sync.
        """
        if not self.is_leader:
            return False
        end = self.others_end_offset
        own = self.log_end_offset if self.synced_end_offset is None or self._alone else self.synced_end_offset
        end = min(end, own)
        if end <= self.high_watermark and self.is_established:
            return False  # As at every other fetch: the rest need not be looked at.
        if end < self.epoch_start_offset or not self.has_enough_replicas:
            return False
        self.is_established = True
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    @property
    def others_end_offset(self) -> int:
        """The lowest end offset of the other replicas that count for the high watermark."""
        counted = self._counted
        if not counted:
            return self.log_end_offset
        # Not min() of a generator: this runs once for each partition of every follower's fetch.
        lowest = counted[0].log_end_offset
        for follower in counted:
            if follower.log_end_offset < lowest:
                lowest = follower.log_end_offset
        return lowest

    @property
    def confirmed_replicas(self) -> int:
        """
        The number of replicas that are certainly in sync: one that registered anew may have been taken out of the ISR
        without our knowledge.
        """
        return len(self.leader_and_isr.isr) - len(self.isr_change.unconfirmed)

    @property
    def maximal_isr(self) -> frozenset[int]:
        """All replicas that may be in the ISR of the metadata store."""
        return self.isr_change.possible_members.union(self.leader_and_isr.isr)

    def _recount(self) -> None:
        """Recompute which followers count for the high watermark."""
        maximal = self.maximal_isr
        self._counted = tuple(f for f in self.followers.values() if f.broker_id in maximal or f.is_joining)
        self._alone = self.is_leader and not self._counted and self.has_enough_replicas

    # Followers, as their leader sees them.

    def fetched(self, follower: FollowerState, offset: int, log_start_offset: int, now: float, max_lag: float) -> bool:
        """
        A follower fetches from ``offset`` in this leader epoch: it has everything before.

        :param offset: within the leader's log, and not beyond a divergence from it.
        :param max_lag: seconds a follower in sync may be behind.
        :return: whether the high watermark moved. :attr:`FollowerState.is_ready` tells whether the ISR should change.
        """
        follower.fetched(offset, log_start_offset, self.log_end_offset, now)
        if follower.broker_id not in self.leader_and_isr.isr:
            stays = not follower.in_controlled_shutdown
            follower.is_ready = stays and self._may_join(follower)
            joining = stays and not follower.lags(self.log_end_offset, now, max_lag)
            if joining is not follower.is_joining:
                follower.is_joining = joining
                self._recount()
        return self.advance()

    def is_settled(self, follower: FollowerState) -> bool:
        """
        Whether a fetch from the offset of a follower's last one changes nothing: neither the ISR nor the high
        watermark.
        """
        return (
            follower.broker_id in self.leader_and_isr.isr
            and not follower.is_ready
            and not follower.is_joining
            and not self.isr_change.needs_confirmation
        )

    def _may_join(self, follower: FollowerState) -> bool:
        """Whether it may join the ISR: it has every committed record, and has reached the start of this epoch."""
        return follower.log_end_offset >= self.high_watermark and follower.log_end_offset >= self.epoch_start_offset

    def check_lag(self, now: float, max_lag: float) -> bool:
        """
        Periodically: find followers outside the ISR that have been behind for more than ``max_lag`` seconds.

        :return: whether the high watermark moved: it does not wait for a follower that will not join.
        """
        gone = False
        for follower in self.followers.values():
            follower.check_lag(self.log_end_offset, now)
            joins = follower.is_ready or follower.is_joining
            if joins and follower.lags(self.log_end_offset, now, max_lag):
                gone = True
                follower.leave()
        return gone and self._left()

    def brokers_lost(self, brokers: Collection[int]) -> bool:
        """These brokers are gone: the high watermark does not wait for them to join. Return whether it moved."""
        gone = [f for n in brokers if (f := self.followers.get(n)) is not None]
        for follower in gone:
            follower.leave()
        return bool(gone) and self._left()

    def set_shutting_down(self, brokers: Collection[int]) -> bool:
        """
        Set the brokers that are shutting down: they cannot join the ISR. Return whether the high watermark moved.
        """
        leaves = False
        for number, follower in self.followers.items():
            before, follower.in_controlled_shutdown = follower.in_controlled_shutdown, number in brokers
            if follower.in_controlled_shutdown and not before:
                leaves = True
                follower.leave()
        return leaves and self._left()

    def _left(self) -> bool:
        """Recompute after fewer followers may count."""
        self._recount()
        return self.advance()

    # Changes of the ISR (AlterPartition).

    def desired_isr(self, now: float, max_lag: float) -> tuple[int, ...]:
        """The wanted ISR: the members that do not lag, and the followers that are ready to join."""
        isr = self.leader_and_isr.isr
        kept = [n for n in isr if (f := self.followers.get(n)) is None or not f.lags(self.log_end_offset, now, max_lag)]
        return (*kept, *(f.broker_id for f in self._ready() if f.broker_id not in isr))

    def _ready(self) -> Iterator[FollowerState]:
        return (f for f in self.followers.values() if f.is_ready and self._may_join(f))

    def prepare_isr_change(self, now: float, max_lag: float) -> IsrChange | None:
        """
        The ISR change to send to the controller now; it is :attr:`.IsrChangeState.pending` until it is answered.

        After a request without an answer, a change is sent even if it changes nothing: its write makes the earlier
        request void, since that built on an older version. The same when an in-sync replica has registered anew: the
        change is accepted only if it was not taken out of the ISR meanwhile.
        """
        if not self.is_leader or self.isr_change.pending is not None:
            return None
        held = self.leader_and_isr
        isr = self.desired_isr(now, max_lag)
        if isr == held.isr and not self.isr_change.needs_confirmation:
            return None
        epochs = tuple(f.broker_epoch if (f := self.followers.get(n)) is not None else NO_EPOCH for n in isr)
        change = IsrChange(self.topic_partition, held.leader_epoch, held.version, isr, epochs)
        self.isr_change.ask(change)
        self._recount()
        return change

    def granted(self, change: IsrChange, given: LeaderAndIsr, now: float) -> bool:
        """The change was accepted; ``given`` is the stored state. Return whether the high watermark moved."""
        if not self.is_leader or given.leader_epoch != self.leader_epoch or not self.isr_change.granted(change):
            return False
        before = self.high_watermark
        if not self.take_role(given, self.log_end_offset, self.replicas, now):
            self._left()
        return self.high_watermark != before

    def refused(self, change: IsrChange) -> bool:
        """The change was refused. Return whether the high watermark moved."""
        if not self._answered(change):
            return False
        self.isr_change.pending = None
        return self._left()

    def unanswered(self, change: IsrChange) -> None:
        """No answer came: see :meth:`.IsrChangeState.unanswered`."""
        if self._answered(change):
            self.isr_change.unanswered(change)
            self._recount()

    def _answered(self, change: IsrChange) -> bool:
        return self.is_leader and self.isr_change.pending is change

    # Requests.

    def follower(self, broker_id: int, current_epoch: int, broker_epoch: int) -> FollowerState:
        """
        The follower that fetches.

        :raise ApiError: as :meth:`check_leader`, an epoch being required; UNKNOWN_TOPIC_OR_PARTITION if the broker has
            no replica of this partition; STALE_BROKER_EPOCH if the request is from an earlier registration of it.
        """
        if current_epoch != self.leader_epoch or not self.is_leader or self.in_doubt:
            self.check_leader(current_epoch if current_epoch != NO_EPOCH else NO_EPOCH - 1)
        follower = self.followers.get(broker_id)
        if follower is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"broker {broker_id} has no replica of {self.topic_partition}; {list(self.replicas)} have",
            )
        if broker_epoch < follower.broker_epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {broker_id} fetches {self.topic_partition} with epoch {broker_epoch}, and has been seen "
                f"with {follower.broker_epoch}",
            )
        if broker_epoch > follower.broker_epoch:
            if follower.broker_epoch != NO_EPOCH and broker_id in self.leader_and_isr.isr:
                self.isr_change.unconfirm(broker_id)
            follower.begin_incarnation(broker_epoch)
        return follower

    def check_established(self) -> None:
        """
        Refuse to report an offset as out of range while another in-sync replica may have it.

        :raise ApiError: OFFSET_NOT_AVAILABLE on a leader from which the in-sync replicas have not fetched yet up to the
            start of its epoch.
        """
        if self.is_leader and not self.is_established and self.others_end_offset < self.epoch_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition} has a new leader, which may not have all that is committed",
            )

    def check_caught_up(self) -> None:
        """
        Refuse to report the end of the committed records while it could be below that of the former leader.

        :raise ApiError: OFFSET_NOT_AVAILABLE on a leader whose high watermark has not reached its epoch (KIP-207).
        """
        if self.is_leader and self.high_watermark < self.epoch_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition} has a new leader, which does not know yet how much of the log is committed",
            )

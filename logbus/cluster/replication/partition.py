"""
One replica of a partition, as the replication rules see it.

Pure: it is told what happened (a role was given, the log grew, a follower fetched, the controller answered) and says
what follows (the high watermark moved, the in-sync replicas should change, a request's leader epoch is not ours).
:mod:`logbus.cluster.replication.replica` moves the bytes, :mod:`logbus.cluster.replication.isr_manager` talks to the
    controller.

The *maximal ISR* is the committed one and whoever was wished into it, as long as it is not known whether the
controller granted that.  Only what all of these have is committed (KIP-497).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from attrs import define, field

from logbus.cluster.replication.follower_state import NEVER, FollowerState
from logbus.cluster.replication.role import Role
from logbus.errors import ApiError, ErrorCode
from logbus.model import NO_EPOCH, IsrChange, LeaderAndIsr


@define(eq=False)
class Partition(Role):
    """
    A replica, and as leader, what it knows of the others.

    Invariant: ``high_watermark <= log_end_offset``, and the high watermark never goes back within an epoch.

    :ivar epoch_start_offset: where this leader's epoch begins in its log.
    :ivar is_established: whether those who are in sync have shown in this epoch that they have what was before it.
        Until then the high watermark is one that the replica was told as a follower, and nobody may be told by it that
        records last: who is in sync now need not be who had them then.
    :ivar synced_end_offset: as far as the log counts as ours for the high watermark, where what is committed must be on
        stable storage; None where it need only be written.
    :ivar followers: as leader, the other replicas by broker id.
    :ivar pending: the ISR change that the controller has been asked for, or will be.
    """

    epoch_start_offset: int = field(default=0, init=False)
    is_established: bool = field(default=False, init=False)
    synced_end_offset: int | None = field(default=None, init=False)
    followers: dict[int, FollowerState] = field(factory=dict, init=False)
    pending: IsrChange | None = field(default=None, init=False)
    _doubtful: frozenset[int] = field(default=frozenset(), init=False)
    _unconfirmed: frozenset[int] = field(default=frozenset(), init=False)
    _confirming: frozenset[int] = field(default=frozenset(), init=False)
    _asked: IsrChange | None = field(default=None, init=False)
    _counted: tuple[FollowerState, ...] = field(default=(), init=False)
    _alone: bool = field(default=False, init=False)

    # The role.

    def take(
        self, given: LeaderAndIsr, log_end_offset: int, replicas: tuple[int, ...] | None = None, now: float = 0.0
    ) -> bool:
        """
        Take the role the controller gives.

        :param replicas: of the partition; by default those in sync.
        :return: whether anything changed; an older epoch than ours, or an older version of its state, changes nothing
            (a former controller may still speak).
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
            # Whatever was wished built on an older version: it was granted with this one, or can be no more.
            self.pending = None
            self._doubtful = frozenset()
        if not self.is_leader:
            self.followers = {}
            self.is_established = False
        elif led:
            self._go_on(held.isr, now)
        else:
            self._begin(log_end_offset, now)
        self._recount()
        self.advance()
        return True

    def _begin(self, log_end_offset: int, now: float) -> None:
        """
        Lead in a new epoch. Positions of another epoch say nothing (rule 4), and who is in sync has some time to show
        itself.
        """
        self.epoch_start_offset = log_end_offset
        self.is_established = False
        self._unconfirmed = self._confirming = frozenset()
        self._asked = None
        isr = self.leader_and_isr.isr
        self.followers = {n: FollowerState(n, now if n in isr else NEVER) for n in self._others()}

    def _go_on(self, isr_before: Collection[int], now: float) -> None:
        """Lead on in the same epoch, with other replicas, or other ones in sync."""
        known = self.followers
        self._unconfirmed = self._unconfirmed.intersection(self.leader_and_isr.isr)
        self.followers = {n: known.get(n) or FollowerState(n, NEVER) for n in self._others()}
        for n, follower in self.followers.items():
            if n in self.leader_and_isr.isr and n not in isr_before:
                # It keeps the pace from now on.
                follower.caught_up_at = max(follower.caught_up_at, now)
                follower.leave()

    def _others(self) -> tuple[int, ...]:
        others = dict.fromkeys((*self.replicas, *self.leader_and_isr.isr))
        others.pop(self.broker_id, None)
        return tuple(others)

    def configure(self, min_insync_replicas: int) -> bool:
        """The topic's ``min.insync.replicas`` changed; say whether the high watermark moved with it."""
        if min_insync_replicas == self.min_insync_replicas:
            return False
        self.min_insync_replicas = min_insync_replicas
        return self._left()

    def retire(self) -> None:
        """The replica is gone from here; it leads nothing."""
        self.is_leader = self.is_established = False
        self.followers = {}
        self.pending = None
        self._doubtful = frozenset()
        self._recount()

    # The high watermark.

    def grown(self, log_end_offset: int) -> bool:
        """The log now ends at ``log_end_offset``; say whether the high watermark moved with it."""
        self.log_end_offset = log_end_offset
        # Otherwise somebody else's fetch moves it.
        if self._alone and log_end_offset > self.high_watermark:
            self.high_watermark = log_end_offset
            return True
        return False

    def advance(self) -> bool:
        """
        Raise the high watermark as far as the rules allow (4 and 6); say whether it moved.

        It stands still until every replica in the maximal ISR has fetched in this epoch and reached its start, and
        while fewer replicas than ``min.insync.replicas`` are in sync.
        """
        if not self.is_leader or not self.has_enough_replicas:
            return False
        end = self.others_end_offset
        own = self.log_end_offset if self.synced_end_offset is None or self._alone else self.synced_end_offset
        end = min(end, own)
        if end < self.epoch_start_offset:
            return False
        self.is_established = True
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    @property
    def others_end_offset(self) -> int:
        """Up to where everybody else who counts has the log."""
        return min((follower.log_end_offset for follower in self._counted), default=self.log_end_offset)

    @property
    def confirmed_replicas(self) -> int:
        """
        How many replicas are in sync for sure: one that came back in another life may have been taken out of the ISR
        without our hearing of it.
        """
        return len(self.leader_and_isr.isr) - len(self._unconfirmed)

    @property
    def needs_confirmation(self) -> bool:
        """Whether the controller must be asked who is in sync, though no other ISR is wanted."""
        return bool(self._doubtful or self._unconfirmed)

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Everybody who may be in sync by the metadata store."""
        wished = self.pending.isr if self.pending is not None else ()
        return self._doubtful.union(self.leader_and_isr.isr, wished)

    def _recount(self) -> None:
        """Find out whose log ends count."""
        maximal = self.maximal_isr
        self._counted = tuple(f for f in self.followers.values() if f.broker_id in maximal or f.is_joining)
        self._alone = self.is_leader and not self._counted and self.has_enough_replicas

    # Followers, as their leader sees them.

    def fetched(self, follower: FollowerState, offset: int, log_start_offset: int, now: float, max_lag: float) -> bool:
        """
        A follower, which believes in this epoch, asks for what is at ``offset``: it has everything before.

        :param offset: within the leader's log, and not beyond a divergence from it.
        :param max_lag: seconds a follower in sync may be behind.
        :return: whether the high watermark moved. :attr:`FollowerState.is_ready` says whether to wish for another ISR.
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

    def _may_join(self, follower: FollowerState) -> bool:
        """Rule 5: it has everything that is committed, and has reached the start of this epoch."""
        return follower.log_end_offset >= self.high_watermark and follower.log_end_offset >= self.epoch_start_offset

    def look(self, now: float, max_lag: float) -> bool:
        """
        Some time went by: see who has been behind for more than ``max_lag`` seconds.

        :return: whether the high watermark moved, which waits no more for who does not join after all.
        """
        gone = False
        for follower in self.followers.values():
            follower.look(self.log_end_offset, now)
            joins = follower.is_ready or follower.is_joining
            if joins and follower.lags(self.log_end_offset, now, max_lag):
                gone = True
                follower.leave()
        return gone and self._left()

    def lost(self, brokers: Collection[int]) -> bool:
        """These brokers are not there any more: nobody waits for them to join. Whether the high watermark moved."""
        gone = [f for n in brokers if (f := self.followers.get(n)) is not None]
        for follower in gone:
            follower.leave()
        return bool(gone) and self._left()

    def shutting_down(self, brokers: Collection[int]) -> bool:
        """
        These brokers are shutting down, and no others: they come into sync no more. Whether the high watermark moved.
        """
        leaves = False
        for number, follower in self.followers.items():
            before, follower.in_controlled_shutdown = follower.in_controlled_shutdown, number in brokers
            if follower.in_controlled_shutdown and not before:
                leaves = True
                follower.leave()
        return leaves and self._left()

    def _left(self) -> bool:
        """Fewer are waited for, perhaps."""
        self._recount()
        return self.advance()

    # Wishes for another ISR.

    def desired_isr(self, now: float, max_lag: float) -> tuple[int, ...]:
        """The replicas that ought to be in sync: those that are and do not lag, and those that are ready."""
        isr = self.leader_and_isr.isr
        kept = [n for n in isr if (f := self.followers.get(n)) is None or not f.lags(self.log_end_offset, now, max_lag)]
        return (*kept, *(f.broker_id for f in self._ready() if f.broker_id not in isr))

    def _ready(self) -> Iterator[FollowerState]:
        return (f for f in self.followers.values() if f.is_ready and self._may_join(f))

    def wish(self, now: float, max_lag: float) -> IsrChange | None:
        """
        The ISR change to ask for now; from here on it is :attr:`pending`, and must be answered.

        After an answer that never came, a change is asked for even if it changes nothing: what is written then makes
        void what was asked before, as that built on an older version. Likewise when a replica in sync has come back in
        another life: only if nobody took it out of the ISR meanwhile is the change granted.
        """
        if not self.is_leader or self.pending is not None:
            return None
        held = self.leader_and_isr
        isr = self.desired_isr(now, max_lag)
        if isr == held.isr and not self.needs_confirmation:
            return None
        self._confirming = self._unconfirmed
        epochs = tuple(f.broker_epoch if (f := self.followers.get(n)) is not None else NO_EPOCH for n in isr)
        self.pending = self._asked = IsrChange(self.topic_partition, held.leader_epoch, held.version, isr, epochs)
        self._recount()
        return self.pending

    def granted(self, change: IsrChange, given: LeaderAndIsr, now: float) -> bool:
        """The answer: the state that is in the store now. Whether the high watermark moved."""
        if not self.is_leader or self._asked is not change or given.leader_epoch != self.leader_epoch:
            return False
        before = self.high_watermark
        # The announcement of the same state may have been quicker, and ended the wish; but it confirms nobody.
        self._asked = None
        self._unconfirmed -= self._confirming
        if self.pending is change:
            self.pending = None
            self._doubtful = frozenset()
        if not self.take(given, self.log_end_offset, self.replicas, now):
            self._left()
        return self.high_watermark != before

    def refused(self, change: IsrChange) -> bool:
        """The answer: nothing was changed. Whether the high watermark moved."""
        if not self._answered(change):
            return False
        self.pending = None
        return self._left()

    def unanswered(self, change: IsrChange) -> None:
        """It is not known whether the change was made, or will be: who was wished for stays counted."""
        if self._answered(change):
            self.pending = None
            self._doubtful = self._doubtful.union(change.isr)
            self._recount()

    def _answered(self, change: IsrChange) -> bool:
        return self.is_leader and self.pending is change

    # Requests.

    def follower(self, broker_id: int, current_epoch: int, broker_epoch: int) -> FollowerState:
        """
        Who fetches as a replica.

        :raise ApiError: as :meth:`check_leader`, an epoch being required; UNKNOWN_TOPIC_OR_PARTITION if it is no
            replica of this partition; STALE_BROKER_EPOCH from a former life of the broker.
        """
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
                self._unconfirmed |= {broker_id}
                self._confirming -= {broker_id}
            follower.begin_incarnation(broker_epoch)
        return follower

    def check_established(self) -> None:
        """
        Refuse to say that there is nothing at an offset, as long as others in sync may have it.

        :raise ApiError: OFFSET_NOT_AVAILABLE on a leader that others in sync have not fetched from yet, up to the
            start of its epoch.
        """
        if self.is_leader and not self.is_established and self.others_end_offset < self.epoch_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition} has a new leader, which may not have all that is committed",
            )

    def check_caught_up(self) -> None:
        """
        Refuse to say where the committed records end, as long as that could be before where they ended for another.

        :raise ApiError: OFFSET_NOT_AVAILABLE on a leader whose high watermark has not reached its epoch (KIP-207).
        """
        if self.is_leader and self.high_watermark < self.epoch_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition} has a new leader, which does not know yet how much of the log is committed",
            )

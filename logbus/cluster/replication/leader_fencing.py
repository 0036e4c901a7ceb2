"""
Fences the leaderships of a broker that is cut off from the cluster, so that its clients look for the new leader.

A broker without a connection to other brokers cannot know that it still leads: they may have elected another leader.
Leadership of a partition is in doubt when for longer than a session timeout the broker was not connected to the
metadata store, and none of the replicas that could be elected has fetched from it. A fetch ends the doubt, since its
sender still has this broker as the leader. So all partitions are served while only the store is down, and a partition
that no other replica could lead is never in doubt.

A broker that stood still may find its session ended, and the connections that it had filled with what was sent before.
So it serves none of its partitions, and heeds no fetch for a while, until the store has answered in that session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from attrs import define, evolve, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.images import PartitionImage
from logbus.cluster.replication.replica import Replica
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.replication.role import NO_LEADER
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import MetastoreError, SessionState
from logbus.net.standstills import Standstills

CHECKS_PER_SESSION = 4
"""Checks in the time of a session timeout, while the store is away."""

NEVER = float("-inf")

SAFE_SHARE = 2 / 3
"""The share of a session timeout that a session surely outlasts: its heartbeats are a third of the timeout apart."""


@define(eq=False, repr=False)
class LeaderFencing:
    """
    Watches the session and the followers' fetches, and fences partitions in doubt.

    :ivar epoch: of this broker's registration, −1 while there is none.
    :ivar patience: the session timeout, in seconds.
    :ivar standstills: of this process.
    :ivar hang_up: closes clients' connections: some clients ask no other broker as long as they have one.
    """

    replicas: ReplicaManager
    metadata: ClusterMetadata
    store: IMetadataStore
    epoch: Callable[[], int]
    clock: IReactorTime
    patience: float
    standstills: Standstills
    hang_up: Callable[[], object] = lambda: None
    _alone_since: float | None = field(default=None, init=False)
    _stood_still: bool = field(default=False, init=False)
    _unconfirmed: bool = field(default=False, init=False)
    _deaf_until: float = field(default=NEVER, init=False)
    _heard: dict[int, float] = field(factory=dict, init=False)
    _doubted: dict[Replica, None] = field(factory=dict, init=False)
    _next: IDelayedCall | None = field(default=None, init=False)
    _ends: list[Callable[[], None]] = field(factory=list, init=False)
    _log = Logger()

    @property
    def is_cut_off(self) -> bool:
        """
        Whether neither the store nor any follower has answered for a session timeout, so that others may lead by now.
        """
        silent_since = self.clock.seconds() - self.patience
        return bool(self._doubted) and all(at < silent_since for at in self._heard.values())

    def start(self) -> None:
        """Begin to watch the session."""
        self.replicas.heard = self.heard
        self._ends = [
            self.store.subscribe(self._session_changed),
            self.metadata.subscribe(self._metadata_changed),
            self.standstills.subscribe(self._went_on),
        ]

    def stop(self) -> None:
        """Stop watching."""
        ends, self._ends = self._ends, []
        for end in ends:
            end()
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def heard(self, broker_id: int) -> None:
        """A broker fetches from this one."""
        now = self.clock.seconds()
        if now < self._deaf_until:
            return
        self._heard[broker_id] = now
        if self._doubted:
            self._trust([replica for replica in self._doubted if broker_id in _others(replica)])

    # Inside.

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._unconfirmed = False
        if state is SessionState.CLOSED or (state is SessionState.CONNECTED and self._is_registered()):
            self._over()
        elif self._alone_since is None:
            self._alone_since = self.clock.seconds()
            self._schedule_check()

    def _is_registered(self) -> bool:
        """Whether the controller knows the current registration of this broker."""
        me = self.metadata.brokers.get(self.replicas.broker_id)
        is_connected = self.store.state is SessionState.CONNECTED and not self._unconfirmed
        return is_connected and me is not None and me.epoch == self.epoch()

    def _metadata_changed(self) -> None:
        if self._alone_since is None:
            return
        if self._is_registered():
            self._over()
        elif self._stood_still:
            # An update that was sent meanwhile may give roles that others have by now.
            self._doubt_silent()

    def _went_on(self, seconds: float) -> None:
        """This process stood still for so long."""
        if seconds < self.patience * SAFE_SHARE or self.store.state is SessionState.CLOSED:
            return
        now = self.clock.seconds()
        self._alone_since = now - self.patience
        self._stood_still = self._unconfirmed = True
        # Fetches that were sent before are read now: they tell nothing.
        self._heard.clear()
        self._deaf_until = now + self.patience / CHECKS_PER_SESSION
        self._doubt_silent(f"this broker stood still for {seconds:.1f} s")
        if self._next is None:
            self._schedule_check()
        self._confirm()

    def _confirm(self) -> None:
        """Ask the store whether the session lives: it answers nothing in one that has ended."""
        session = self.store.generation

        def alive(_: None) -> None:
            if session == self.store.generation:
                self._unconfirmed = False
                self._metadata_changed()

        self.store.sync().addCallbacks(alive, lambda failure: failure.trap(MetastoreError)).addErrback(
            lambda failure: self._log.failure("the session could not be confirmed", failure)
        )

    def _over(self) -> None:
        self._alone_since = None
        self._stood_still = self._unconfirmed = False
        self._deaf_until = NEVER
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._trust(list(self._doubted))

    def _schedule_check(self) -> None:
        self._next = self.clock.callLater(self.patience / CHECKS_PER_SESSION, self._check_leaderships)

    def _check_leaderships(self) -> None:
        self._next = None
        if self._alone_since is None or self._is_registered():
            self._over()
            return
        self._schedule_check()
        if self._alone_since < self.clock.seconds() - self.patience:
            self._doubt_silent()
            if self.is_cut_off:
                self.hang_up()
        if self._unconfirmed and self.store.state is SessionState.CONNECTED:
            self._confirm()

    def _is_doubtful(self, replica: Replica, silent_since: float) -> bool:
        partition = replica.partition
        if not partition.is_leader or partition.in_doubt:
            return False
        others = _others(replica)
        return bool(others) and all(self._heard.get(number, NEVER) < silent_since for number in others)

    def _doubt_silent(self, reason: str = "") -> None:
        """Doubt the leaderships of partitions of whose other replicas nothing was heard."""
        silent_since = self.clock.seconds() - self.patience
        replicas = [replica for replica in self.replicas if self._is_doubtful(replica, silent_since)]
        if not replicas:
            return
        self._log.warn(
            "{reason}: others may lead {count} partitions that this broker led, and it serves them no more until it "
            "hears of somebody",
            reason=reason or f"cut off from the metadata store and all followers for {self.patience:g} s",
            count=len(replicas),
        )
        self._doubted.update(dict.fromkeys(replicas))
        for replica in replicas:
            self.replicas.doubt_leadership(replica)
        self._show(replicas)

    def _trust(self, replicas: Collection[Replica]) -> None:
        for replica in replicas:
            del self._doubted[replica]
        # The others were given another role meanwhile.
        again = [replica for replica in replicas if replica.partition.in_doubt]
        for replica in again:
            self.replicas.trust_leadership(replica)
        self._show(again)

    def _show(self, replicas: Collection[Replica]) -> None:
        """Show clients the leaders, or no leader where leadership is in doubt."""
        if not replicas:
            return
        with self.metadata.changing() as metadata:
            for replica in replicas:
                name, partition = replica.topic_partition, replica.partition
                topic = metadata.topic(name.topic)
                if topic is not None and topic.topic_id == replica.topic_id:
                    state = partition.leader_and_isr
                    shown = evolve(state, leader=NO_LEADER.leader) if partition.in_doubt else state
                    image = PartitionImage(partition.replicas, shown)
                    metadata.set_partitions(name.topic, replica.topic_id, [(name.partition, image)])


def _others(replica: Replica) -> frozenset[int]:
    """The other brokers that could have been elected."""
    state = replica.partition.leader_and_isr
    return frozenset((*state.isr, *state.eligible)) - {replica.partition.broker_id}

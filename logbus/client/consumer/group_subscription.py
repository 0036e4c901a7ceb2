"""A consumer's subscription: joins the group and leaves it. One membership ends before the next one begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from logbus.client.cluster.cluster import Cluster
from logbus.client.consumer.assignment_listener import AssignmentListener
from logbus.client.consumer.committer import Committer
from logbus.client.consumer.record_poller import RecordPoller
from logbus.client.membership import GroupListener, GroupOptions, Subscription

if TYPE_CHECKING:
    from logbus.client.membership import Membership


@define(eq=False)
class GroupSubscription:
    """
    The subscription of a consumer that has a group.

    :param options: of the group's member.
    :param committer: has the membership, while there is one.
    """

    _cluster: Cluster
    _options: GroupOptions
    _committer: Committer
    _poller: RecordPoller[Any, Any]
    _listener: AssignmentListener
    _next: tuple[Subscription, GroupListener | None] | None = field(default=None, init=False)

    def follow(self, wanted: Subscription, listener: GroupListener | None) -> bool:
        """Subscribe as soon as the membership that is ending has ended; False: none is ending."""
        if self._poller.leaving:
            self._next = wanted, listener
        return self._poller.leaving

    def subscribe(self, wanted: Subscription, listener: GroupListener | None) -> None:
        """Subscribe, as the member that there is, or a new one."""
        membership = self._committer.membership
        if membership is None:
            membership = self._committer.membership = self._join()
        self._listener.listener = listener or GroupListener()
        self._listener.failure = None
        membership.subscribe(wanted)

    def forget_next(self) -> None:
        """Subscribe to nothing when the membership has ended."""
        self._next = None

    async def leave(self) -> None:
        """End the membership, if there is one."""
        membership = self._committer.membership
        if membership is not None:
            self._poller.leaving = True
            self._poller.stop_waiting()
            try:
                await membership.close()
            finally:
                self._poller.leaving = False
        self._committer.membership = None

    def subscribe_next(self) -> bool:
        """Subscribe to what was wanted while the membership was ending; False: nothing was."""
        following, self._next = self._next, None
        if following is None or self._poller.closed:
            return False
        self.subscribe(*following)
        return True

    def _join(self) -> Membership:
        from logbus.client.membership.protocol_choice import membership_of

        return membership_of(self._cluster, self._options, self._listener)

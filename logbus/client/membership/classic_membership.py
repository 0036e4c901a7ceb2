"""
A membership in the classic protocol: sends JoinGroup, SyncGroup, Heartbeat and LeaveGroup as
:mod:`~logbus.client.membership.classic_state_machine` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IDelayedCall

from logbus.client.cluster.cluster import Cluster
from logbus.client.membership.actions import Action
from logbus.client.membership.assignors import ASSIGNORS, are_cooperative, assignors_by_name
from logbus.client.membership.base_membership import Membership, code_of
from logbus.client.membership.classic_codec import (
    MemberSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from logbus.client.membership.classic_state_machine import ClassicStateMachine
from logbus.client.membership.classic_states import (
    NO_GENERATION,
    ClassicMemberState,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
)
from logbus.client.membership.interface import GroupListener, GroupOptions
from logbus.client.membership.subscription import Subscription
from logbus.client.membership.topic_watch import TopicWatch
from logbus.client.retry import ClientClosed, api_error
from logbus.coroutines import sleep
from logbus.errors import ErrorCode, LogbusError, RequestTimedOut
from logbus.model import TopicPartition
from logbus.wire.messages.consumer_protocol import PROTOCOL_TYPE
from logbus.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

_LEAVE_GROUP, _SEVERAL_LEAVE = 13, 3
_BEYOND_REBALANCE = 5.0
"""Seconds that a response may take beyond the rebalance timeout."""
_HEARD = 3.0
"""
Seconds after which a coordinator has heard of a JoinGroup that was sent. On a busy machine a heartbeat may overtake it,
on another connection; a member that then took itself for forgotten would join twice, and the group would wait for the
one that nobody is.
"""


class ClassicMembership(Membership):
    """
    A membership in the classic protocol.

    :raise ConfigError: an assignor is not known.
    """

    def __init__(self, cluster: Cluster, options: GroupOptions, listener: GroupListener) -> None:
        super().__init__(cluster, options, listener)
        self._assignors = assignors_by_name(options.assignors)
        self._state_machine: ClassicStateMachine = ClassicStateMachine(
            options.group_id, are_cooperative(self._assignors), options.group_instance_id
        )
        # JoinGroup blocks its connection until others have joined, so it uses one of its own.
        self._lane = cluster.lane("join")
        self._joining: tuple[int, Deferred[None]] | None = None
        self._joined = JoinGroupResponse()
        self._had: tuple[frozenset[TopicPartition], int] = (frozenset(), NO_GENERATION)
        self._attempt = 0
        self._heartbeat_timer: IDelayedCall | None = None
        self._is_heartbeating = False
        self._join_sent: float | None = None
        self._watch = TopicWatch(cluster, options.metadata_max_age, lambda: self._start(self._check()))

    def subscribe(self, subscription: Subscription) -> None:
        """
        Subscribe to this from now on.

        :raise ConfigError: the pattern is not a regular expression.
        """
        subscription.among([])
        if self._closed or (
            subscription == self._subscription and self._state_machine.phase is not ClassicMemberState.UNJOINED
        ):
            return
        self._subscription = subscription
        self._missing.watch(subscription)
        if subscription.pattern is None:
            self._state_machine.topics = frozenset(subscription.topics)
        if self._state_machine.phase in (ClassicMemberState.UNJOINED, ClassicMemberState.LEAVING) or self._stopping:
            self._begin()
        else:
            self._do(self._state_machine.rejoin())

    def rejoin(self, reason: str) -> None:
        """Trigger a rebalance."""
        if self._state_machine.phase is ClassicMemberState.STABLE:
            self._log.info("group {group}: joining again: {reason}", group=self.options.group_id, reason=reason)
        self._do(self._state_machine.rejoin())

    # Actions of the state machine.

    def _do(self, actions: Sequence[Action]) -> None:
        self._remember()
        self._drop_void_request()
        for action in actions:
            if isinstance(action, SendJoinGroup):
                self._request(self._join, self._state_machine.turn, action.wait)
            elif isinstance(action, SendSyncGroup):
                self._request(self._sync, self._state_machine.turn)
            elif isinstance(action, SendLeaveGroup):
                self._start(self._leave(action))
            else:
                self._do_common(action)
        if self._heartbeat_timer is None and not self._is_heartbeating:
            self._schedule_heartbeat(self.options.heartbeat_interval)
        self._commits.settle()

    def _drop_void_request(self) -> None:
        """Stop waiting for a response that comes too late. The next one would have to wait for it on its connection."""
        if self._joining is not None and self._joining[0] != self._state_machine.turn:
            (_, task), self._joining = self._joining, None
            task.cancel()
            self._cluster.close_lane(self._lane)

    @property
    def is_settled(self) -> bool:
        """Whether the identity in the group is known, since no join is in progress."""
        return self._state_machine.phase not in (ClassicMemberState.JOINING, ClassicMemberState.SYNCING)

    def _stop_activity(self) -> None:
        if self._heartbeat_timer is not None and self._heartbeat_timer.active():
            self._heartbeat_timer.cancel()
        self._heartbeat_timer = None
        self._watch.stop()
        self._cluster.close_lane(self._lane)

    def _request(self, send: Any, turn: int, *arguments: Any) -> None:
        """Send a request and pass its response to the state machine, unless its turn is over by then."""

        async def ask() -> None:
            try:
                answer = await send(*arguments)
            except ClientClosed as e:
                closed = self._closed_under(e)
                answer = lambda: self._state_machine.fail(closed)  # noqa: E731
            except LogbusError as e:
                self._log.debug("group {group}: {error}", group=self.options.group_id, error=e)
                code, said = code_of(e), str(e)
                self._coordinator.noticed(code)
                answer = lambda: self._state_machine.refused(code, said)  # noqa: E731
            except CancelledError:
                raise
            except Exception:
                self._log.failure("group {group}: joining failed", group=self.options.group_id)
                answer = lambda: self._state_machine.refused(ErrorCode.UNKNOWN_SERVER_ERROR)  # noqa: E731
            if turn == self._state_machine.turn:
                self._joining = None
                self._do(answer())

        task = self._start(ask())
        if not task.called:
            self._joining = (turn, task)

    # JoinGroup and SyncGroup.

    async def _join(self, wait: bool) -> Any:
        if wait:
            self._attempt += 1
            await sleep(self._clock, self._cluster.backoff.before(self._attempt))
        member = self._state_machine
        member.topics = frozenset(await self._watch.wanted(self._subscription or Subscription()))
        request = JoinGroupRequest(
            group_id=self.options.group_id,
            session_timeout_ms=int(self.options.session_timeout * 1000),
            rebalance_timeout_ms=int(self.options.max_poll_interval * 1000),
            member_id=member.member_id,
            group_instance_id=self.options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=each.name, metadata=write_subscription(self._subscription_for(each.name)))
                for each in self._assignors
            ],
        )
        await self._coordinator.channel(self._lane)
        self._join_sent = self._clock.seconds()
        try:
            response: JoinGroupResponse = await self._coordinator.ask(
                request, lane=self._lane, seconds=self._patience()
            )
        finally:
            self._join_sent = None
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED and response.member_id != request.member_id:
            return lambda: member.member_id_required(response.member_id)
        if response.error_code:
            raise api_error(response.error_code, f"group {self.options.group_id!r}")
        if response.protocol_name not in {each.name for each in self._assignors}:
            what = f"group {self.options.group_id!r}: assignor {response.protocol_name!r} was never offered"
            raise api_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what)
        self._joined = response
        return lambda: member.joined(response.member_id, response.generation_id)

    def _subscription_for(self, assignor: str) -> MemberSubscription:
        member = self._state_machine
        had, generation = self._had
        return MemberSubscription(
            topics=tuple(sorted(member.topics)),
            owned=tuple(sorted(member.owned)),
            generation=member.generation,
            rack=self.options.client_rack,
            user_data=ASSIGNORS[assignor].user_data(had, generation),
        )

    async def _sync(self) -> Any:
        member, joined = self._state_machine, self._joined
        self._watch.counts = {}
        assignments = []
        if joined.leader == member.member_id:
            subscriptions = {
                each.member_id: read_subscription(bytes(each.metadata), each.group_instance_id)
                for each in joined.members
            }
            counts = await self._watch.count(topic for each in subscriptions.values() for topic in each.topics)
            self._watch.counts = counts
            is_somewhere = any(each.rack for each in subscriptions.values())
            self._watch.racks = self._watch.find_racks(counts) if is_somewhere else {}
            if not joined.skip_assignment:
                assignor = ASSIGNORS[joined.protocol_name or ""]
                assignments = [
                    SyncGroupRequestAssignment(member_id=each, assignment=write_assignment(partitions))
                    for each, partitions in assignor.assign(counts, subscriptions, self._watch.racks).items()
                ]
        request = SyncGroupRequest(
            group_id=self.options.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=self.options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        response = await self._coordinator.ask(request, lane=self._lane, seconds=self._patience())
        if response.error_code:
            raise api_error(response.error_code, f"group {self.options.group_id!r}")
        assigned = read_assignment(bytes(response.assignment))
        self._attempt = 0
        self._had = (assigned, member.generation)
        self._watch.schedule_check()
        return lambda: member.synced(assigned)

    def _patience(self) -> float:
        return max(self._cluster.timeout, self.options.max_poll_interval + _BEYOND_REBALANCE)

    async def _check(self) -> None:
        """Check for new topics or partitions."""
        member = self._state_machine
        try:
            if member.phase is ClassicMemberState.STABLE and self._subscription is not None:
                change = await self._watch.change(self._subscription, member.topics)
                if change is not None:
                    self.rejoin(change)
        except LogbusError as e:
            self._log.debug("group {group}: {error}", group=self.options.group_id, error=e)
        if member.phase is not ClassicMemberState.UNJOINED:
            self._watch.schedule_check()

    # Heartbeat and LeaveGroup.

    def _schedule_heartbeat(self, seconds: float) -> None:
        if self._state_machine.sends_heartbeats or self._state_machine.phase is ClassicMemberState.JOINING:
            self._heartbeat_timer = self._clock.callLater(seconds, self._send_heartbeat)

    def _send_heartbeat(self) -> None:
        self._heartbeat_timer = None
        if self._state_machine.sends_heartbeats:
            self._is_heartbeating = True
            self._start(self._heartbeat_now())
        elif self._is_join_heard and self._state_machine.member_id:
            self._is_heartbeating = True
            self._start(self._probe())
        else:
            self._schedule_heartbeat(self.options.heartbeat_interval)

    @property
    def _is_join_heard(self) -> bool:
        return self._join_sent is not None and self._clock.seconds() - self._join_sent >= _HEARD

    async def _probe(self) -> None:
        """
        Ask the coordinator by a heartbeat whether it still has this member's JoinGroup: one whose machine was without
        power has not, and the connection shows nothing of it. Its answer is an error in any case.
        """
        member = self._state_machine
        turn, code = member.turn, ErrorCode.NONE
        request = HeartbeatRequest(
            group_id=self.options.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=self.options.group_instance_id,
        )
        seconds = self._heartbeat_patience()
        try:
            asking = Deferred.fromCoroutine(self._coordinator.ask(request, seconds=seconds))
            if error := (await asking.addTimeout(seconds, self._clock)).error_code:
                raise api_error(error, f"group {self.options.group_id!r}")
        except (LogbusError, TimeoutError) as e:
            code = code_of(e) if isinstance(e, LogbusError) else ErrorCode.COORDINATOR_NOT_AVAILABLE
        finally:
            self._is_heartbeating = False
        self._coordinator.noticed(code)
        if self._heartbeat_timer is None:
            self._schedule_heartbeat(self.options.heartbeat_interval)
        if turn == member.turn and self._join_sent is not None:
            self._do(member.probe_answered(code))

    async def _heartbeat_now(self) -> None:
        sent = self.metadata
        request = HeartbeatRequest(
            group_id=sent.group_id,
            generation_id=sent.generation,
            member_id=sent.member_id,
            group_instance_id=sent.group_instance_id,
        )
        wait = self.options.heartbeat_interval
        error: LogbusError | None = None
        failed = ErrorCode.NONE
        try:
            seconds = self._heartbeat_patience()
            asking = Deferred.fromCoroutine(self._coordinator.ask(request, seconds=seconds))
            code = (await asking.addTimeout(seconds, self._clock)).error_code
            if code:
                raise api_error(code, f"group {sent.group_id!r}")
        except (LogbusError, TimeoutError) as e:
            error = e if isinstance(e, LogbusError) else RequestTimedOut("the heartbeat was not answered in time")
            failed = code_of(error)
            self._coordinator.noticed(failed)
            wait = min(wait, self._cluster.backoff.most)
        finally:
            self._is_heartbeating = False
        if self._heartbeat_timer is None:
            self._schedule_heartbeat(wait)
        # Ignore an error of an earlier generation.
        if error is None or self.metadata != sent:
            return
        if isinstance(error, ClientClosed):
            self._do(self._state_machine.fail(self._closed_under(error)))
        else:
            self._do(self._state_machine.heartbeat_answered(failed, str(error)))

    def _heartbeat_patience(self) -> float:
        """
        Seconds for a heartbeat, with its connection. It begins one interval after an answer at the latest, and has
        failed when the session is over, so that a member notices then that its coordinator is gone.
        """
        interval, session = self.options.heartbeat_interval, self.options.session_timeout
        return min(self._cluster.timeout, max(session - interval, interval))

    async def _leave(self, action: SendLeaveGroup) -> None:
        instance = self.options.group_instance_id
        identity = MemberIdentity(member_id=action.member_id, group_instance_id=instance, reason=action.reason)

        async def ask() -> int:
            channel = await self._coordinator.channel()
            request = LeaveGroupRequest(group_id=self.options.group_id, members=[identity])
            if channel.version(_LEAVE_GROUP) < _SEVERAL_LEAVE:
                request = LeaveGroupRequest(group_id=self.options.group_id, member_id=action.member_id)
            code: int = (await self._coordinator.ask(request)).error_code
            return code

        await self._send_leave(ask)
        if self._state_machine.phase is ClassicMemberState.LEAVING:
            self._do(self._state_machine.left())

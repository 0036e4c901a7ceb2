"""
A membership in the consumer protocol: sends ConsumerGroupHeartbeat as
:mod:`~logbus.client.membership.consumer_state_machine` says.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence

from twisted.internet.interfaces import IDelayedCall

from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.client.membership.actions import Action
from logbus.client.membership.base_membership import Membership, code_of
from logbus.client.membership.consumer_state_machine import (
    ConsumerMemberState,
    ConsumerStateMachine,
    HeartbeatFields,
    SendHeartbeat,
    SendLeaveHeartbeat,
)
from logbus.client.membership.interface import GroupListener, GroupOptions
from logbus.client.membership.subscription import Subscription
from logbus.client.retry import ClientClosed, api_error
from logbus.errors import ApiError, ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from logbus.wire.messages.partitions import TopicIdPartitions

_HEARTBEAT = 68
_MEMBER_MAKES_ID = 1
"""The first version in which members generate their ids, and subscribe by regular expressions (KIP-1082)."""
_OFTEN, _SELDOM = 0.05, 300.0
"""Bounds for the heartbeat interval, in seconds, which brokers choose."""
_FIRST_INTERVAL = 5.0
"""The heartbeat interval in seconds before the coordinator has sent one."""


class ConsumerMembership(Membership):
    """
    A membership in the consumer protocol.

    :param new_id: generates the member id.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: GroupOptions,
        listener: GroupListener,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        super().__init__(cluster, options, listener)
        self._state_machine: ConsumerStateMachine = ConsumerStateMachine(
            options.group_id, new_id(), options.group_instance_id
        )
        self._interval = _FIRST_INTERVAL
        self._attempt = 0
        self._heartbeat_timer: IDelayedCall | None = None
        self._is_heartbeating = False
        self._is_heartbeat_due = False
        self._names: dict[bytes, str] = {}
        self._resolving = 0

    def subscribe(self, subscription: Subscription) -> None:
        """Subscribe to this from now on."""
        if self._closed:
            return
        self._subscription = subscription
        self._missing.watch(subscription)
        actions = self._state_machine.want(subscription)
        if self._state_machine.phase in (ConsumerMemberState.UNJOINED, ConsumerMemberState.LEAVING) or self._stopping:
            self._begin()
        else:
            self._do(actions)

    # Actions of the state machine.

    def _do(self, actions: Sequence[Action]) -> None:
        self._remember()
        for action in actions:
            if isinstance(action, SendHeartbeat):
                self._schedule_heartbeat_soon()
            elif isinstance(action, SendLeaveHeartbeat):
                self._start(self._depart(action))
            else:
                self._do_common(action)
        self._commits.settle()

    @property
    def is_settled(self) -> bool:
        """Whether the identity in the group is known, since no join is in progress."""
        return self._state_machine.phase is not ConsumerMemberState.JOINING

    def _stop_activity(self) -> None:
        self._stop_timer()
        self._resolving += 1

    # Heartbeats.

    def _stop_timer(self) -> None:
        if self._heartbeat_timer is not None and self._heartbeat_timer.active():
            self._heartbeat_timer.cancel()
        self._heartbeat_timer = None

    def _schedule_heartbeat_soon(self) -> None:
        if self._attempt and not self._is_heartbeating:
            # Use the backoff after errors.
            self._schedule_heartbeat(self._cluster.backoff.before(self._attempt))
        else:
            self._heartbeat_at_once()

    def _heartbeat_at_once(self) -> None:
        if self._is_heartbeating:
            self._is_heartbeat_due = True
        elif self._state_machine.sends_heartbeats:
            self._stop_timer()
            self._is_heartbeating = True
            self._start(self._heartbeat_now())

    def _schedule_heartbeat(self, seconds: float) -> None:
        self._stop_timer()
        if self._is_heartbeat_due:
            seconds = 0
        self._is_heartbeat_due = False
        if self._state_machine.sends_heartbeats:
            self._heartbeat_timer = self._clock.callLater(seconds, self._heartbeat_at_once)

    async def _heartbeat_now(self) -> None:
        member = self._state_machine
        turn, report = member.turn, member.report()
        wait = self._interval
        actions: Callable[[], Sequence[Action]] = list
        try:
            response = await self._send(report)
            if response.error_code:
                raise api_error(response.error_code, f"group {self.options.group_id!r}", response.error_message)
            self._attempt = 0
            wait = self._interval = min(max(response.heartbeat_interval_ms / 1000, _OFTEN), _SELDOM)
            actions = lambda: self._handle_response(report, response)  # noqa: E731
        except ClientClosed as e:
            closed = self._closed_under(e)
            actions = lambda: member.fail(closed)  # noqa: E731
        except LogbusError as e:
            self._log.debug("group {group}: {error}", group=self.options.group_id, error=e)
            code, said = code_of(e), str(e)
            if not isinstance(e, ApiError):
                member.response_lost()
            self._coordinator.noticed(code)
            self._attempt += 1
            wait = min(wait, self._cluster.backoff.before(self._attempt))
            actions = lambda: member.refused(code, said)  # noqa: E731
        finally:
            self._is_heartbeating = False
        if turn == member.turn:
            self._do(actions())
        if not self._is_heartbeating:
            self._schedule_heartbeat(wait)

    async def _send(self, report: HeartbeatFields) -> ConsumerGroupHeartbeatResponse:
        member, options = self._state_machine, self.options
        version = (await self._coordinator.channel()).version(_HEARTBEAT)
        subscription, joins = report.subscription, report.joins
        if version < _MEMBER_MAKES_ID and subscription is not None and subscription.pattern is not None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "the broker knows no subscriptions by expressions")
        topics: list[str] | None = None
        pattern: str | None = None
        is_full = subscription is not None and report.owned is not None
        if subscription is not None:
            # An empty value removes the earlier one.
            topics, pattern = list(subscription.topics), subscription.pattern or (None if joins else "")
        request = ConsumerGroupHeartbeatRequest(
            group_id=options.group_id,
            member_id="" if joins and version < _MEMBER_MAKES_ID else member.member_id,
            member_epoch=report.epoch,
            instance_id=options.group_instance_id,
            rack_id=options.client_rack if joins else None,
            rebalance_timeout_ms=int(options.max_poll_interval * 1000) if is_full else -1,
            subscribed_topic_names=topics,
            subscribed_topic_regex=pattern if version >= _MEMBER_MAKES_ID else None,
            server_assignor=options.group_remote_assignor if joins else None,
            topic_partitions=None if report.owned is None else self._by_id(report.owned),
        )
        response: ConsumerGroupHeartbeatResponse = await self._coordinator.ask(request, highest=version)
        return response

    def _handle_response(self, report: HeartbeatFields, response: ConsumerGroupHeartbeatResponse) -> list[Action]:
        actions = self._state_machine.confirmed(report, response.member_id, response.member_epoch)
        if response.assignment is not None:
            self._resolving += 1
            wanted = {each.topic_id: list(each.partitions) for each in response.assignment.topic_partitions}
            self._start(self._resolve(wanted, self._resolving))
        return actions

    # Topic ids and names.

    def _by_id(self, partitions: Iterable[TopicPartition]) -> list[TopicIdPartitions]:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        found: dict[bytes, list[int]] = {}
        for topic, number in sorted(partitions):
            found.setdefault(ids[topic], []).append(number)
        return [TopicIdPartitions(topic_id=each, partitions=numbers) for each, numbers in found.items()]

    async def _resolve(self, wanted: dict[bytes, list[int]], turn: int) -> None:
        """
        Look up the names of assigned topics, and pass the target assignment to the state machine as far as they are
        known.
        """
        attempts = self._cluster.attempts()
        while True:
            missing = wanted.keys() - self._names.keys()
            if missing:
                try:
                    # A pattern has all topics of the cluster looked up.
                    found = {each.topic_id.bytes: each.name for each in await self._topics()}
                    self._names |= {topic_id: found[topic_id] for topic_id in missing & found.keys()}
                except LogbusError as e:
                    self._log.debug("group {group}: {error}", group=self.options.group_id, error=e)
            if turn != self._resolving:
                return
            known = frozenset(
                TopicPartition(self._names[topic_id], number)
                for topic_id, numbers in wanted.items()
                if topic_id in self._names
                for number in numbers
            )
            self._do(self._state_machine.target(known))
            used = {topic for topic, _ in self._state_machine.owned}
            self._names = {each: name for each, name in self._names.items() if each in wanted or name in used}
            if wanted.keys() <= self._names.keys() or turn != self._resolving:
                return
            await attempts.again()

    async def _topics(self) -> Sequence[TopicMetadata]:
        subscription = self._state_machine.subscription
        if subscription.pattern is not None:
            return await self._cluster.topics()
        await self._cluster.refresh_topics(subscription.topics)
        known = [self._cluster.known(each) for each in subscription.topics]
        return [each for each in known if each is not None]

    # Leaving.

    async def _depart(self, action: SendLeaveHeartbeat) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.options.group_id,
            member_id=action.member_id,
            member_epoch=action.epoch,
            instance_id=self.options.group_instance_id,
        )

        async def ask() -> int:
            code: int = (await self._coordinator.ask(request)).error_code
            return code

        await self._send_leave(ask)
        if self._state_machine.phase is ConsumerMemberState.LEAVING:
            self._do(self._state_machine.left())

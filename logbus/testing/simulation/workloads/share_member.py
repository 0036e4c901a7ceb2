"""A member of a share group: it takes part in the group, fetches from all leaders, and says what became of records."""

from __future__ import annotations

import struct
from collections.abc import Coroutine, Mapping, Sequence
from itertools import groupby
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.errors import DecodeError, ErrorCode, LogbusError
from logbus.records.batch import iter_records
from logbus.share.share_partition import AcknowledgeType
from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.checks.share_history import Delivery, ShareHistory
from logbus.testing.simulation.workloads.client_router import GROUP, MOVED, ClientRouter
from logbus.testing.simulation.workloads.cluster_client import Unavailable, name_of
from logbus.testing.simulation.workloads.consumer import DAMAGED, WorkloadContext, whole_batches
from logbus.wire.messages.share_fetches import (
    AcknowledgementBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
    ShareForgottenTopic,
)
from logbus.wire.messages.share_groups import ShareGroupHeartbeatRequest

HEARTBEAT_S = 1.0
_JOIN_AGAIN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_ACCEPT, _RELEASE, _REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
_RENEW = AcknowledgeType.RENEW
_DONE = frozenset({_ACCEPT, _REJECT})
_KINDS, _WEIGHTS = (_ACCEPT, _RELEASE, _REJECT, None), (85, 9, 2, 4)
"""What is said of records, and how often; None: nothing, until the time is over."""
_WORK_S = (0.0, 0.05, 0.05, 0.5, 4.0)
"""How long records take, in seconds; the last is longer than they are acquired for, and half of such are renewed."""


@define(eq=False)
class Held:
    """
    Records that were acquired.

    :ivar values: by offset.
    """

    partition: int
    values: dict[int, int]

    def say(self, kinds: Mapping[int, AcknowledgeType]) -> list[AcknowledgementBatch]:
        """Acknowledge offsets: a batch for each run of them."""
        runs = groupby(enumerate(sorted(kinds)), key=lambda each: each[1] - each[0])
        batches = []
        for _, run in runs:
            offsets = [offset for _, offset in run]
            types = [int(kinds[offset]) for offset in offsets]
            batches.append(
                AcknowledgementBatch(first_offset=offsets[0], last_offset=offsets[-1], acknowledge_types=types)
            )
        return batches


Said = dict[int, tuple[Held, dict[int, AcknowledgeType]]]
"""By partition: what is said of the offsets of records."""


@define(eq=False)
class ShareMember:
    """
    A member.

    :ivar name: its member id, which nobody else ever has.
    :ivar router: its own connections.
    """

    name: str
    group_id: str
    router: ClientRouter
    job: WorkloadContext
    history: ShareHistory
    random: Random
    _epoch: int = field(default=0, init=False)
    _assigned: frozenset[int] = field(default=frozenset(), init=False)
    _stopped: bool = field(default=False, init=False)
    _leaves: bool = field(default=False, init=False)

    def work(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What it does at the same time, until it is stopped."""
        return [self._take_part(), *(self._fetch_from(broker_id) for broker_id in self.router.view.brokers)]

    def stop(self, *, leaves: bool = False) -> None:
        """Stop, and leave the group, or say nothing."""
        self._stopped, self._leaves = True, leaves

    # The group.

    async def _take_part(self) -> None:
        while not self._stopped:
            await self._beat(self._epoch)
            await self.router.view.sleep(HEARTBEAT_S)
        if self._leaves:
            await self._beat(-1)

    async def _beat(self, epoch: int) -> None:
        topics: Any = [self.router.view.topic] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.name, member_epoch=epoch, subscribed_topic_names=topics
        )
        try:
            answer = await self.router.ask_coordinator(GROUP, self.group_id, request, 1)
        except (LogbusError, Unavailable) as error:
            self.job.errors[type(error).__name__] += 1
            return
        if not answer.error_code:
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                self._assigned = frozenset(
                    number for topic in answer.assignment.topic_partitions for number in topic.partitions
                )
            return
        self.job.errors[name_of(answer.error_code)] += 1
        if answer.error_code in _JOIN_AGAIN:
            self._epoch, self._assigned = 0, frozenset()
        elif answer.error_code in MOVED:
            self.router.moved(GROUP, self.group_id)

    # Its sessions, one with each broker.

    async def _fetch_from(self, broker_id: int) -> None:
        session = _Session(self, broker_id)
        view = self.router.view
        while not self._stopped:
            if not all(number in view.leaders for number in self._assigned):
                await view.refresh()
            mine = {number for number in self._assigned if view.leaders.get(number, (-1,))[0] == broker_id}
            if not mine and not session.partitions:
                await view.sleep(self.random.uniform(0.1, 0.4))
                continue
            try:
                await session.turn(mine)
            except (LogbusError, Unavailable) as error:
                # What it has said may have arrived.
                self.job.errors[type(error).__name__] += 1
                session.lost()
                for number in mine:
                    view.forget(number)
                await view.sleep(self.random.uniform(0.05, 0.3))
        if self._leaves:
            await session.end()

    def refused(self, code: int, partition: int) -> None:
        """A broker has refused something about a partition."""
        self.job.errors[name_of(code)] += 1
        if code in MOVED:
            self.router.view.forget(partition)

    def strange(self, kind: str, what: str, partition: int) -> None:
        """No broker may say this."""
        now = self.router.now
        self.job.strange.append(Anomaly(kind, f"{self.name} at {now:.3f}: {what}", partition, now))


@define(eq=False)
class _Session:
    """
    A member's session with a broker.

    :ivar epoch: of the next request; ``partitions``: those in the session.
    """

    member: ShareMember
    broker_id: int
    epoch: int = field(default=0, init=False)
    partitions: set[int] = field(factory=set, init=False)
    _held: list[Held] = field(factory=list, init=False)

    def lost(self) -> None:
        """Begin anew: what was acquired is released then."""
        self.epoch = 0
        self.partitions.clear()
        self._held.clear()

    async def turn(self, mine: set[int]) -> None:
        """
        Say what became of the records that it has, and get others.

        :raise LogbusError, Unavailable: it is not known whether that arrived.
        """
        member = self.member
        said = await self._work()
        if said and member.random.random() < 0.5:
            await self._acknowledge(said)
            said = {}
            if not self.epoch:
                return
        await self._fetch(mine, said)

    async def _work(self) -> Said:
        """Work on what it has; what is to be said of it."""
        random, said = self.member.random, {}
        if self._held:
            is_over = self.member.job.over
            seconds = 0.0 if is_over else random.choice(_WORK_S)
            if seconds == _WORK_S[-1] and random.random() < 0.5:
                seconds /= 2
                await self.member.router.view.sleep(seconds)
                await self._acknowledge(
                    {each.partition: (each, dict.fromkeys(each.values, _RENEW)) for each in self._held}
                )
            await self.member.router.view.sleep(seconds)
            for held in self._held:
                kinds = {}
                for offset in held.values:
                    kind = _ACCEPT if is_over else random.choices(_KINDS, _WEIGHTS)[0]
                    if kind is not None:
                        kinds[offset] = kind
                if kinds:
                    said[held.partition] = held, kinds
            self._held = []
        return said

    async def _fetch(self, mine: set[int], said: Said) -> None:
        member = self.member
        view = member.router.view
        added = mine - self.partitions
        forgotten = self.partitions - mine - said.keys()
        request = ShareFetchRequest(
            group_id=member.group_id,
            member_id=member.name,
            share_session_epoch=self.epoch,
            max_wait_ms=member.random.choice((0, 300, 300)),
            min_bytes=1,
            max_records=member.random.choice((1, 5, 100)),
            batch_size=100,
            share_acquire_mode=member.random.choice((0, 1)),
            topics=_topics(
                ShareFetchTopic,
                view.topic_id,
                [
                    ShareFetchPartition(partition_index=number, acknowledgement_batches=_batches(said, number))
                    for number in sorted(added | said.keys())
                ],
            ),
            forgotten_topics_data=_topics(ShareForgottenTopic, view.topic_id, sorted(forgotten)),
        )
        asked = member.router.now
        response = await self._ask(request, said)
        if response is None:
            return
        self.partitions = (self.partitions | added | said.keys()) - forgotten
        for topic in response.responses:
            for each in topic.partitions:
                number = each.partition_index
                if number in said:
                    self._settle(*said.pop(number), each.acknowledge_error_code)
                if each.error_code:
                    member.refused(each.error_code, number)
                else:
                    self._take(each, asked)
        for number in said:
            member.strange("no-outcome", f"broker {self.broker_id} says nothing of acknowledgements", number)

    async def _acknowledge(self, said: Said) -> None:
        request = ShareAcknowledgeRequest(
            group_id=self.member.group_id,
            member_id=self.member.name,
            share_session_epoch=self.epoch,
            is_renew_ack=any(kind is _RENEW for _, kinds in said.values() for kind in kinds.values()),
            topics=_topics(
                ShareAcknowledgeTopic,
                self.member.router.view.topic_id,
                [
                    ShareAcknowledgePartition(partition_index=number, acknowledgement_batches=_batches(said, number))
                    for number in sorted(said)
                ],
            ),
        )
        response = await self._ask(request, said)
        if response is not None:
            for topic in response.responses:
                for each in topic.partitions:
                    self._settle(*said[each.partition_index], each.error_code)

    async def end(self) -> None:
        """End the session in order."""
        if self.epoch:
            self.epoch = -1
            try:
                await self._acknowledge({})
            except (LogbusError, Unavailable):
                pass

    async def _ask(self, request: Any, said: Said) -> Any:
        """
        Send a request; the response, None if it was refused as a whole.

        :param said: what it says of records.
        """
        member = self.member
        channel = await member.router.view.channel(self.broker_id, "share")
        asked: Deferred[Any] = member.router.send(channel, request, 2)
        try:
            response = await asked
        except LogbusError:
            for held, kinds in said.values():
                self._unsure(held, kinds)
            raise
        if response.error_code:
            member.job.errors[name_of(response.error_code)] += 1
            self.lost()
            await member.router.pause()
            return None
        self.epoch += 1
        return response

    def _settle(self, held: Held, kinds: Mapping[int, AcknowledgeType], code: int) -> None:
        if code:
            self.member.refused(code, held.partition)
            if code != ErrorCode.INVALID_RECORD_STATE:
                # A write that has failed may be kept.
                self._unsure(held, kinds)
            return
        done = [held.values[offset] for offset, kind in kinds.items() if kind in _DONE]
        self.member.history.settle(done, self.member.name, self.member.router.now)

    def _unsure(self, held: Held, kinds: Mapping[int, AcknowledgeType]) -> None:
        self.member.history.unsure.update(held.values[offset] for offset, kind in kinds.items() if kind in _DONE)

    def _take(self, answer: Any, asked: float) -> None:
        """Note what was acquired."""
        member, number = self.member, answer.partition_index
        data = bytes(answer.records or b"")
        whole = whole_batches(data)
        found: dict[int, int] = {}
        try:
            for record in iter_records(whole):
                found[record.offset] = struct.unpack(">q", record.value or b"")[0]
        except (DecodeError, struct.error) as error:
            member.strange("damaged-read", f"{error}", number)
            return
        if len(whole) < len(data):
            member.job.errors[DAMAGED] += 1
        held = Held(number, {})
        for each in answer.acquired_records:
            for offset in range(each.first_offset, each.last_offset + 1):
                if offset not in found:
                    if len(whole) == len(data):
                        member.strange("no-record", f"offset {offset} was acquired, and not sent", number)
                    continue
                held.values[offset] = found[offset]
                member.history.deliveries.append(
                    Delivery(member.name, number, offset, found[offset], each.delivery_count, asked, member.router.now)
                )
        if held.values:
            self._held.append(held)


def _topics(kind: type[Any], topic_id: bytes, partitions: Sequence[Any]) -> list[Any]:
    return [kind(topic_id=topic_id, partitions=list(partitions))] if partitions else []


def _batches(said: Said, number: int) -> list[AcknowledgementBatch]:
    if number not in said:
        return []
    held, kinds = said[number]
    return held.say(kinds)

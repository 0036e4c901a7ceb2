"""
Simulated members and producers of groups that record and check the broker's promises.

Each has at most one request in flight; the response may arrive at once, later, or never, if the connection is closed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field

from logbus.errors import ErrorCode
from logbus.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from logbus.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from logbus.wire.messages.offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from logbus.wire.messages.partitions import TopicIdPartitions
from logbus.wire.messages.transactions import (
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.handlers.kit import Client

PARTITIONS = 4

UNKNOWN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""Try again; of a commit it is not known whether it was made."""

LOST_PLACE = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
"""The group has moved on: what was asked was not done."""

BUSY = UNKNOWN | {ErrorCode.CONCURRENT_TRANSACTIONS}

OVER = {ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
"""The transaction was aborted: it took too long."""


@define(eq=False)
class Promises:
    """
    What all clients were told, over all lives of the broker. It is they who complain if it does not fit together.

    :ivar asked: the last offset that was sent as a commit, by group and partition: each is larger than the one before.
    :ivar acknowledged: the last of them that was acknowledged.
    :ivar refused: those that were refused for good.
    :ivar generation: the newest generation of each classic group in which an assignment was told.
    :ivar assigned: who was given a partition: by group, generation and partition.
    :ivar counts: how often what happened, to see that it did.
    """

    asked: dict[tuple[str, int], int] = field(factory=dict)
    acknowledged: dict[tuple[str, int], int] = field(factory=dict)
    refused: set[tuple[str, int, int]] = field(factory=set)
    generation: dict[str, int] = field(factory=dict)
    assigned: dict[tuple[str, int, int], str] = field(factory=dict)
    counts: dict[str, int] = field(factory=dict)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def check(self, group_id: str, committed: dict[tuple[str, int], int]) -> None:
        """Hold what a group has committed, as the broker says, against what was promised."""
        for (group, partition), asked in self.asked.items():
            if group == group_id:
                found = committed.get(("t", partition), -1)
                least = self.acknowledged.get((group, partition), -1)
                assert least <= found <= asked, f"{group}-{partition}: {found}, not {least} to {asked}"
                assert (group, partition, found) not in self.refused, f"{group}-{partition}: {found} was refused"


@define(eq=False)
class Actor:
    """
    One client.

    :ivar connect: makes a connection to the broker as it is now.
    :ivar gone: it will not do anything any more.
    """

    group_id: str
    promises: Promises
    rng: Random
    connect: Callable[[], Client]
    clock: Callable[[], float]
    client: Client | None = field(default=None, init=False)
    gone: bool = field(default=False, init=False)
    _heard: Callable[[Any], None] | None = field(default=None, init=False)

    @property
    def waits(self) -> bool:
        """Whether a request is out."""
        return self._heard is not None

    def ask(self, message: Any, version: int, heard: Callable[[Any], None]) -> None:
        """Send a request."""
        if self.client is None or self.client.closed:
            self.client = self.connect()
        self._heard = heard
        self.client.send(message, version)

    def listen(self) -> None:
        """Take in the answer, if there is one."""
        if self._heard is None:
            return
        assert self.client is not None
        answers = self.client.answers()
        if answers:
            heard, self._heard = self._heard, None
            heard(*answers)
        elif self.client.closed:
            self._heard = None

    def cut_off(self) -> None:
        """The far end is gone, and the answer with it."""
        self.client = self._heard = None

    def hang_up(self) -> None:
        """Give up the connection, and with it the answer."""
        if self.client is not None and not self.client.closed:
            self.client.transport.loseConnection()
        self._heard = None

    def act(self) -> None:
        """Do the next thing."""
        self.commit(self.rng.randrange(PARTITIONS))

    def commit(self, partition: int, epoch: int = -1, member_id: str = "", *, stale: bool = False) -> None:
        """Commit the next offset; ``stale``: it must be refused."""
        promises, group_id = self.promises, self.group_id
        key = (group_id, partition)
        offset = promises.asked[key] = promises.asked.get(key, 0) + 1
        newest = promises.generation.get(group_id, -1)
        # Whatever generation the member believes to be in.
        stale = stale or -1 < epoch < newest

        def heard(answer: Any) -> None:
            code = answer.topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                assert not stale, f"{member_id} of {group_id} committed in epoch {epoch}, which was over ({newest})"
                promises.acknowledged[key] = max(promises.acknowledged.get(key, 0), offset)
                promises.count("commits")
            elif code in LOST_PLACE:
                promises.refused.add((*key, offset))
                promises.count("stale" if stale else "refused")
            else:
                assert code in UNKNOWN, answer

        asked = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        message = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=None,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[asked])],
        )
        self.ask(message, 9, heard)


@define(eq=False)
class TransactionalActor(Actor):
    """
    A producer that commits the same offset for two partitions in each transaction.

    :ivar producer: its id and epoch; None: it has to get one, and what it had begun is aborted by that.
    :ivar number: the last offset that it sent.
    :ivar decision: how its transaction is to end, once it has committed an offset in it; None: it has none open.
    """

    producer: tuple[int, int] | None = None
    number: int = 0
    decision: bool | None = None
    _answered: bool = field(default=True, init=False)

    def ask(self, message: Any, version: int, heard: Callable[[Any], None]) -> None:
        def answered(answer: Any) -> None:
            self._answered = True
            heard(answer)

        self._answered = False
        super().ask(message, version, answered)

    def act(self) -> None:
        if not self._answered:
            # Nobody knows what became of it: begin anew, under the same name.
            self.producer = self.decision = None
        if self.producer is None:
            asked = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=30_000)
            self.ask(asked, 4, self._has_begun)
        elif self.decision is None:
            self.number += 1
            partitions = [
                TxnOffsetCommitRequestPartition(partition_index=n, committed_offset=self.number, committed_metadata="")
                for n in (0, 1)
            ]
            message = TxnOffsetCommitRequest(
                transactional_id="x",
                group_id=self.group_id,
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)],
            )
            self.ask(message, 5, self._has_committed)
        else:
            if self.decision:
                self._note(self.promises.asked)
            producer_id, epoch = self.producer
            ending = EndTxnRequest(
                transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=self.decision
            )
            self.ask(ending, 5, self._has_ended)

    def _has_begun(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.NONE:
            self.producer = (answer.producer_id, answer.producer_epoch)
            if self.promises.asked.get((self.group_id, 0), 0) < self.number:
                self._refused()
        else:
            assert answer.error_code in BUSY, answer

    def _has_committed(self, answer: Any) -> None:
        codes = {one.error_code for one in answer.topics[0].partitions}
        if codes == {ErrorCode.NONE}:
            self.decision = self.rng.random() < 0.7
        else:
            assert codes <= BUSY, answer

    def _has_ended(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.NONE:
            if self.decision:
                self._note(self.promises.acknowledged)
                self.promises.count("transactions")
            else:
                self._refused()
                self.promises.count("aborted transactions")
            self.producer, self.decision = (answer.producer_id, answer.producer_epoch), None
        elif answer.error_code in BUSY:
            pass  # The same is asked again.
        else:
            # It took too long, and was aborted.
            assert answer.error_code in OVER, answer
            self.producer = self.decision = None

    def _note(self, where: dict[tuple[str, int], int]) -> None:
        for partition in (0, 1):
            where[self.group_id, partition] = self.number

    def _refused(self) -> None:
        self.promises.refused |= {(self.group_id, partition, self.number) for partition in (0, 1)}


@define(eq=False)
class ClassicMember(Actor):
    """
    A member of the classic protocol; as a leader it gives partitions in turn.

    :ivar joined: the answer to its JoinGroup, while it is to ask for its assignment.
    :ivar parts: what it reads; None: it is not in a generation.
    """

    member_id: str = ""
    generation: int = -1
    joined: Any = None
    parts: list[int] | None = None

    def act(self) -> None:
        if self.joined is not None:
            self._sync()
        elif self.parts is None:
            self._join()
        else:
            what = self.rng.random()
            if what < 0.06:
                self._leave()
            elif what < 0.5:
                self._beat()
            elif what < 0.6:
                self.commit(self.rng.randrange(PARTITIONS), self.generation - 1, self.member_id, stale=True)
            elif self.parts:
                self.commit(self.rng.choice(self.parts), self.generation, self.member_id)

    def _out(self, code: int) -> None:
        """Go by an error."""
        assert code in UNKNOWN | LOST_PLACE, ErrorCode(code)
        if code in LOST_PLACE:
            self.joined = self.parts = None
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def _join(self) -> None:
        message = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=8_000,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="toy", metadata=b"m")],
        )
        self.ask(message, 9, self._has_joined)

    def _has_joined(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code:
            self._out(answer.error_code)
        else:
            self.member_id, self.generation, self.joined = answer.member_id, answer.generation_id, answer

    def _sync(self) -> None:
        members = [one.member_id for one in self.joined.members] if self.joined.leader == self.member_id else []
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=json.dumps(
                    [member_id, self.generation, list(range(place, PARTITIONS, len(members)))]
                ).encode(),
            )
            for place, member_id in enumerate(members)
        ]
        message = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="toy",
            assignments=assignments,
        )
        self.ask(message, 5, self._has_synced)

    def _has_synced(self, answer: Any) -> None:
        if answer.error_code:
            self._out(answer.error_code)
            return
        member_id, generation, parts = json.loads(answer.assignment)
        assert (member_id, generation) == (self.member_id, self.generation), answer
        self.joined, self.parts = None, parts
        promises = self.promises
        promises.generation[self.group_id] = max(promises.generation.get(self.group_id, -1), generation)
        promises.count("assignments")
        for partition in parts:
            owner = promises.assigned.setdefault((self.group_id, generation, partition), member_id)
            assert owner == member_id, f"{partition} has two owners in generation {generation}: {owner}, {member_id}"

    def _beat(self) -> None:
        message = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self.member_id, group_instance_id=None
        )
        self.ask(message, 4, lambda answer: self._out(answer.error_code) if answer.error_code else None)

    def _leave(self) -> None:
        self.gone = True
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=None)
        self.ask(LeaveGroupRequest(group_id=self.group_id, members=[identity]), 5, lambda answer: None)


@define(eq=False)
class ConsumerMember(Actor):
    """
    A member of the consumer protocol.

    :ivar reads: what it may be reading: given up only when it says so with its next heartbeat.
    :ivar told: what it is to read.
    :ivar settled_at: when it sent the last heartbeat that was answered well, and left it nothing to give up.
    :ivar missed: the last was not: in the next it says everything, to be told everything.
    """

    member_id: str = ""
    epoch: int = 0
    reads: set[int] = field(factory=set)
    told: set[int] = field(factory=set)
    settled_at: float = 0.0
    missed: bool = False
    topic_id: bytes = b""

    REBALANCE_TIMEOUT_MS = 8_000

    @property
    def holds(self) -> set[int]:
        """Partitions that no other member may read; none, if the member may have been removed."""
        return self.reads if self.clock() - self.settled_at < self.REBALANCE_TIMEOUT_MS / 1000 else set()

    def act(self) -> None:
        what = self.rng.random()
        if self.epoch <= 0 or what < 0.6:
            self._beat(self.epoch)
        elif what < 0.65:
            self.gone = True
            self.reads = set()
            self._beat(-1)
        elif what < 0.72:
            self.commit(self.rng.randrange(PARTITIONS), self.epoch - 1, self.member_id, stale=True)
        elif self.told:
            self.commit(self.rng.choice(sorted(self.told)), self.epoch, self.member_id)

    def _beat(self, epoch: int) -> None:
        self.reads = set(self.told) if epoch > 0 else set()
        owned = [TopicIdPartitions(topic_id=self.topic_id, partitions=sorted(self.reads))] if self.reads else []
        message: dict[str, Any] = {"group_id": self.group_id, "member_id": self.member_id, "member_epoch": epoch}
        if epoch >= 0:
            message |= {"topic_partitions": owned}
        if epoch == 0 or (epoch > 0 and self.missed):
            message |= {"rebalance_timeout_ms": self.REBALANCE_TIMEOUT_MS, "subscribed_topic_names": ["t"]}
        sent_at = self.clock()
        self.missed = True

        def heard(answer: Any) -> None:
            if answer.error_code in LOST_PLACE:
                self.epoch, self.reads, self.told = 0, set(), set()
            elif answer.error_code:
                assert answer.error_code in UNKNOWN, answer
            elif answer.member_epoch < 0:
                self.epoch = 0
            else:
                assert answer.member_epoch >= self.epoch, answer
                self.epoch, self.missed = answer.member_epoch, False
                if answer.assignment is not None:
                    self.told = {p for topic in answer.assignment.topic_partitions for p in topic.partitions}
                    self.reads |= self.told
                    self.promises.count("assignments")
                if self.reads == self.told:
                    self.settled_at = sent_at

        self.ask(ConsumerGroupHeartbeatRequest(**message), 1, heard)

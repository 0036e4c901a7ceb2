"""Property-based tests of a share group and its members."""

from __future__ import annotations

from typing import Any

from attrs import define, evolve, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, Partitions, pairs
from logbus.coordination.group import Change
from logbus.coordination.group_records import decode_change, encode_change
from logbus.coordination.share.heartbeat import ShareHeartbeat
from logbus.coordination.share.recorded_state import RecordedState
from logbus.coordination.share.share_group import ShareGroup
from logbus.coordination.share.share_group_settings import ShareGroupSettings
from logbus.errors import ApiError, ErrorCode
from tests.coordination.consumer.kit import Cluster

NAMES = ["a", "b", "c"]
SESSION_S = 45.0
MAX_SIZE = 5


@define(eq=False)
class Client:
    """A member that follows the protocol."""

    member_id: str
    topics: tuple[str, ...]
    epoch: int = 0
    assigned: Partitions = field(default=NO_PARTITIONS)
    full: bool = True


def everything(recorded: RecordedState) -> dict[str, Any]:
    """The fields of a recorded state."""
    names = ("epoch", "target_epoch", "target_ms", "members", "positions", "targets", "partitions")
    return {name: getattr(recorded, name) for name in names}


class ShareGroupMachine(RuleBasedStateMachine):
    """
    Members join, stay, miss answers, vanish, change their minds; topics come, grow and go; states are made and deleted;
    the broker cannot write for a while, or starts again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.create("a", 3)
        self.settings = ShareGroupSettings(session_timeout_ms=int(SESSION_S * 1000), max_size=MAX_SIZE)
        self.records: list[tuple[bytes, bytes | None]] = []
        self.broken = False
        self.group = self.new_group()
        self.clients: list[Client] = []
        self.now = 1000.0
        self.made = 0

    @initialize(interval_ms=st.sampled_from([0, 5000]))
    def begin(self, interval_ms: int) -> None:
        """Assignments follow each other at once, or not."""
        self.settings = evolve(self.settings, assignment_interval_ms=interval_ms)

    def new_group(self) -> ShareGroup:
        """An empty group."""
        return ShareGroup("group", lambda: self.settings, self.cluster, self.save)

    def save(self, changes: list[Change], done: Any = None) -> None:
        """Append changes."""
        if self.broken and changes:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self.records += map(encode_change, changes)

    def change(self, changes: list[Change]) -> None:
        """Append changes that were made, or undo them."""
        try:
            self.save(changes)
        except ApiError:
            self.group.undo()
            raise

    def beat(self, client: Client, *, answered: bool = True) -> None:
        """A heartbeat, and what the client makes of the answer, if it comes."""
        topics = client.topics if client.full or client.epoch == 0 else None
        before = everything(self.group.recorded)
        try:
            result, changes = self.group.heartbeat(
                self.now, ShareHeartbeat(client.member_id, client.epoch, None, topics)
            )
            self.change(changes)
        except ApiError as e:
            assert everything(self.group.recorded) == before
            if answered and e.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                client.epoch, client.assigned, client.full = 0, NO_PARTITIONS, True
            elif e.code is ErrorCode.GROUP_MAX_SIZE_REACHED:
                assert self.group.size == MAX_SIZE
            elif answered:
                assert self.broken, e
            return
        if answered:
            client.epoch, client.full = result.epoch, False
            if result.assignment is not None:
                client.assigned = result.assignment
            assert client.assigned == self.group.recorded.position(client.member_id).assigned

    @rule(topics=st.sets(st.sampled_from(NAMES), min_size=1).map(sorted))
    @precondition(lambda self: len(self.clients) < 7)
    def appear(self, topics: list[str]) -> None:
        """A consumer starts."""
        self.made += 1
        self.clients.append(Client(f"m{self.made}", tuple(topics)))

    @rule(data=st.data(), times=st.integers(1, 3), answered=st.booleans())
    @precondition(lambda self: self.clients)
    def stay(self, data: st.DataObject, times: int, answered: bool) -> None:
        """A member sends heartbeats, between which states are made; the answer to the last one may be lost."""
        client = data.draw(st.sampled_from(self.clients))
        for left in range(times, 0, -1):
            if left == 1 and not self.broken:
                self.make_states()
            self.beat(client, answered=answered or left > 1)

    @rule(data=st.data(), topics=st.sets(st.sampled_from(NAMES), min_size=1).map(sorted))
    @precondition(lambda self: self.clients)
    def change_mind(self, data: st.DataObject, topics: list[str]) -> None:
        """A member subscribes to something else."""
        client = data.draw(st.sampled_from(self.clients))
        client.topics, client.full = tuple(topics), True

    @rule(data=st.data(), says=st.booleans())
    @precondition(lambda self: self.clients)
    def go(self, data: st.DataObject, says: bool) -> None:
        """A member leaves, or dies."""
        client = data.draw(st.sampled_from(self.clients))
        if says and client.epoch:
            client.epoch = -1
            self.beat(client, answered=False)
        self.clients.remove(client)

    @rule(seconds=st.sampled_from([1.0, 20.0, 50.0]))
    def wait(self, seconds: float) -> None:
        """Time goes by."""
        self.now += seconds
        if self.group.deadline is not None and self.group.deadline <= self.now:
            self.group.expire(self.now)

    @rule(name=st.sampled_from(NAMES), size=st.integers(1, 4))
    def make_topic(self, name: str, size: int) -> None:
        """A topic comes, or grows."""
        if name in self.cluster.topics:
            self.cluster.grow(name)
        else:
            self.cluster.create(name, size)

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        """A topic goes."""
        if name in self.cluster.topics:
            self.cluster.delete(name)

    @rule()
    @precondition(lambda self: not self.broken)
    def make_states(self) -> None:
        """The share coordinator has made what was to be made."""
        if self.group.to_initialize:
            self.change(self.group.initialized(self.group.to_initialize, {}))

    @rule(data=st.data(), ends=st.booleans())
    @precondition(lambda self: not self.broken and self.group.recorded.partitions.known)
    def delete_states(self, data: st.DataObject, ends: bool) -> None:
        """States of a topic are deleted, or that is begun."""
        topic = frozenset({data.draw(st.sampled_from(sorted(self.group.recorded.partitions.known)))})
        self.change(self.group.begin_deletion(topic))
        if ends:
            self.change(self.group.deleted(topic))

    @rule()
    def restart(self) -> None:
        """Another broker takes over: it knows what this one knew."""
        before = everything(self.group.recorded)
        self.group = self.new_group()
        for key, value in self.records:
            change: Any = decode_change(key, value)
            self.group.apply(change)
        self.group.activate(self.now)
        assert everything(self.group.recorded) == before

    @rule()
    def break_log(self) -> None:
        """Nothing can be appended; then it can again."""
        self.broken = not self.broken

    @invariant()
    def books_are_right(self) -> None:
        """Only partitions with a state are in targets of the present epoch, and each member can expire."""
        recorded = self.group.recorded
        assert set(recorded.positions) == set(recorded.members)
        assert not recorded.members or self.group.deadline is not None
        partitions = recorded.partitions
        assert not set(pairs(partitions.initialized)) & set(pairs(partitions.initializing))
        assert partitions.names.keys() >= partitions.known.keys() | partitions.deleting

    def teardown(self) -> None:
        """If all members follow the protocol, and states are made, all partitions are soon assigned."""
        self.broken = False
        self.wait(50.0)
        for topic in sorted(self.group.recorded.partitions.deleting):
            self.change(self.group.deleted(frozenset({topic})))
        for _ in range(6):
            for client in self.clients:
                self.beat(client)
            self.make_states()
            self.now += 5.0
        members = [client for client in self.clients if client.epoch > 0]
        assert {client.member_id for client in members} == set(self.group.recorded.members)
        assert len(members) == min(len(self.clients), MAX_SIZE)
        held = set()
        for client in members:
            assert client.assigned == self.group.recorded.targets[client.member_id]
            assert client.epoch == self.group.recorded.epoch
            held |= set(pairs(client.assigned))
        assert held == set(pairs(self.cluster.every_partition(self.group.targets.names)))


ShareGroupTests = ShareGroupMachine.TestCase

"""Property-based tests of a consumer group and its members: the invariants of KIP-848."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from logbus.coordination.consumer.consumer_group_member import AWAY, LEFT
from logbus.coordination.consumer.consumer_group_settings import ConsumerGroupSettings
from logbus.coordination.consumer.partition_sets import NO_PARTITIONS, count, pairs, union
from logbus.coordination.consumer.recorded_state import RecordedState
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from tests.coordination.consumer.kit import Client, Cluster, Log, overlap

NAMES = ["a", "b", "c"]
SESSION_S = 45.0
NUMBERS = ("epoch", "target_epoch", "target_ms")
START_ANEW = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}

wishes = st.tuples(st.sets(st.sampled_from(NAMES)).map(sorted), st.sampled_from(["", "a|b", "[bc]", ".*"]))


def everything(recorded: RecordedState) -> dict[str, Any]:
    """The fields of a recorded state."""
    return {
        name: getattr(recorded, name)
        for name in (*NUMBERS, "members", "positions", "targets", "expressions", "instances", "owners")
    }


class GroupMachine(RuleBasedStateMachine):
    """
    Members join, stay, miss answers, are told late, vanish, come back, change their minds; topics come, grow and go;
    the broker cannot write for a while, or starts again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.create("a", 3)
        self.log = Log(self.cluster, ConsumerGroupSettings(session_timeout_ms=int(SESSION_S * 1000), max_size=6))
        self.clients: list[Client] = []
        self.now = 1000.0
        self.made = 0

    @initialize(interval_ms=st.sampled_from([0, 5000]))
    def begin(self, interval_ms: int) -> None:
        """Assignments follow each other at once, or not."""
        self.log.settings = evolve(self.log.settings, assignment_interval_ms=interval_ms)

    def client(self, data: st.DataObject) -> Client:
        """Any client."""
        return data.draw(st.sampled_from(self.clients))

    def beat(self, client: Client, *, answered: bool = True) -> None:
        """A heartbeat, and what the client makes of the answer, if it comes."""
        try:
            result = self.log.heartbeat(self.now, client.beat())
        except ApiError as e:
            if answered and e.code in START_ANEW:
                client.abandon()
            elif answered and client.epoch == 0:
                assert e.code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED) or self.log.broken
            else:
                assert self.log.broken or not answered, e
                client.full = True
            return
        if answered:
            client.receive(self.now, result)
        else:
            client.full = True

    # Members.

    @rule(wish=wishes, static=st.sampled_from([None, None, "i", "j"]), assignor=st.sampled_from([None, "range"]))
    @precondition(lambda self: len(self.clients) < 8)
    def appear(self, wish: tuple[list[str], str], static: str | None, assignor: str | None) -> None:
        """A consumer starts."""
        if static is not None and any(client.instance_id == static for client in self.clients):
            return
        self.made += 1
        topics, regex = wish
        self.clients.append(Client(f"m{self.made}", static, tuple(topics), regex, assignor))

    @rule(data=st.data(), times=st.integers(1, 3))
    @precondition(lambda self: self.clients)
    def stay(self, data: st.DataObject, times: int) -> None:
        """A member sends heartbeats."""
        client = self.client(data)
        for _ in range(times):
            self.beat(client)

    @rule(data=st.data())
    @precondition(lambda self: self.clients)
    def obey(self, data: st.DataObject) -> None:
        """A member revokes partitions."""
        self.client(data).obey()

    @rule(data=st.data())
    @precondition(lambda self: self.clients)
    def lose_answer(self, data: st.DataObject) -> None:
        """A heartbeat arrives, and the answer does not."""
        self.beat(self.client(data), answered=False)

    @rule(data=st.data(), wish=wishes)
    @precondition(lambda self: self.clients)
    def change_mind(self, data: st.DataObject, wish: tuple[list[str], str]) -> None:
        """A member subscribes to something else."""
        client = self.client(data)
        client.topics, client.regex = tuple(wish[0]), wish[1]
        client.full = True

    @rule(data=st.data())
    @precondition(lambda self: self.clients)
    def leave(self, data: st.DataObject) -> None:
        """A member gives up all and says goodbye; a static one comes back later."""
        client = self.client(data)
        client.owned = client.told = NO_PARTITIONS
        if client.epoch:
            client.epoch = LEFT if client.instance_id is None else AWAY
            self.beat(client, answered=False)
        self.clients.remove(client)

    @rule(data=st.data())
    @precondition(lambda self: self.clients)
    def vanish(self, data: st.DataObject) -> None:
        """A process dies."""
        self.clients.remove(self.client(data))

    # Time, topics, and the broker.

    @rule(seconds=st.sampled_from([1.0, 20.0, 50.0, 100.0]))
    def wait(self, seconds: float) -> None:
        """Time goes by; who was not heard of for a session knows that it has lost all, and so does the group."""
        self.now += seconds
        for client in self.clients:
            if client.epoch > 0 and client.heard + SESSION_S <= self.now:
                client.abandon()
        deadline = self.log.group.deadline
        if deadline is not None and deadline <= self.now:
            members = set(self.log.group.recorded.members)
            self.log.group.expire(self.now)
            # Who was late in giving up was removed without being asked, and finds out at the next heartbeat. A client
            # that takes longer than its rebalance timeout may not go on reading: here it stops at once.
            for client in self.clients:
                if client.member_id in members - set(self.log.group.recorded.members):
                    client.owned = client.told = NO_PARTITIONS
                    client.full = True

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
    def restart(self) -> None:
        """Another broker takes over: it knows what this one knew."""
        before = everything(self.log.group.recorded)
        self.log.restart(self.now)
        assert everything(self.log.group.recorded) == before

    @rule()
    def break_log(self) -> None:
        """Nothing can be appended; then it can again."""
        self.log.broken = not self.log.broken

    # What always holds.

    @invariant()
    def one_owner(self) -> None:
        """No partition is read by two."""
        assert not overlap(self.clients), overlap(self.clients)

    @invariant()
    def books_are_right(self) -> None:
        """The group counts each partition as held by at most one member, and has no member without an expiry."""
        recorded = self.log.group.recorded
        held = [(p, member_id) for member_id, position in recorded.positions.items() for p in pairs(position.held)]
        assert dict(held) == recorded.owners
        assert len(held) == len(recorded.owners)
        assert set(recorded.positions) <= set(recorded.members)
        for position in recorded.positions.values():
            assert set(position.since) == set(pairs(position.held))
            assert position.epoch < 0 or all(since <= position.epoch for since in position.since.values())
        assert not recorded.members or self.log.group.deadline is not None

    @invariant()
    def targets_are_complete(self) -> None:
        """Targets name no partition twice."""
        targets = [p for target in self.log.group.recorded.targets.values() for p in pairs(target)]
        assert len(targets) == len(set(targets))

    @invariant()
    def only_owners_commit(self) -> None:
        """Only commits with a member's present epoch are accepted, or since which it has had the partition."""
        group = self.log.group
        topics = self.cluster.topics.items()
        names = {(topic.topic_id, n): (name, n) for name, topic in topics for n in range(topic.partitions)}
        for client in self.clients:
            position = group.recorded.position(client.member_id)
            some = next((names[each] for each in sorted(position.since) if each in names), None)
            for epoch in range(-1, (group.recorded.epoch or 0) + 2):
                right = client.member_id in group.recorded.members and epoch == position.epoch
                right = right or (epoch < 0 and group.is_empty)
                partition = TopicPartition("no such topic", 0)
                if some is not None:
                    partition = TopicPartition(*some)
                    since = position.since[self.cluster.topics[some[0]].topic_id, some[1]]
                    right = right or since <= epoch <= position.epoch
                try:
                    group.check_commit(client.member_id, client.instance_id, epoch, 9, partitions=[partition])
                except ApiError as e:
                    assert not right, e
                    assert e.code in (*START_ANEW, ErrorCode.STALE_MEMBER_EPOCH)
                else:
                    assert right, (client, epoch)

    def teardown(self) -> None:
        """If all members follow the protocol, they soon have their targets, which contain all partitions."""
        self.log.broken = False
        self.wait(100.0)
        for _ in range(12):
            for client in self.clients:
                client.obey()
                self.beat(client)
                self.one_owner()
            self.now += 5.0
        group = self.log.group
        members = [client for client in self.clients if client.epoch > 0]
        assert {client.member_id for client in members} == set(group.recorded.members)
        assert len(members) == min(len(self.clients), 6)
        if not members:
            assert group.state_name in ("Empty", "Dead")
            return
        assert group.state_name == "Stable", group.state_name
        owned = NO_PARTITIONS
        for client in members:
            assert client.owned == group.recorded.targets[client.member_id]
            owned = union(owned, client.owned)
        assert owned == self.cluster.every_partition(group.targets.names)
        assert len(group.recorded.owners) == count(owned)


GroupTests = GroupMachine.TestCase

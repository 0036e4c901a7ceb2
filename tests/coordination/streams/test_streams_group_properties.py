"""Property-based tests of a streams group and its members."""

from __future__ import annotations

from typing import Any

from attrs import define, evolve, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from logbus.coordination.group import Change
from logbus.coordination.group_records import decode_change, encode_change
from logbus.coordination.streams.heartbeat import StreamsHeartbeat
from logbus.coordination.streams.recorded_state import RecordedState
from logbus.coordination.streams.streams_group import StreamsGroup
from logbus.coordination.streams.streams_group_settings import StreamsGroupSettings
from logbus.coordination.streams.tasks import NO_TASK_SETS, TaskSets, pairs
from logbus.coordination.streams.topology import InternalTopic, Subtopology, Topology
from logbus.errors import ApiError, ErrorCode
from tests.coordination.consumer.kit import Cluster

PROCESSES = ["p", "q", "r"]
MAX_SIZE = 5
REBALANCE_MS = 60_000

#: A stateless part, and one with a store.
TOPOLOGY = Topology(
    0,
    (
        Subtopology("0", ("a",)),
        Subtopology("1", ("b",), state_changelog_topics=(InternalTopic("store"),)),
    ),
)


@define(eq=False)
class Client:
    """
    A member that follows the protocol as Kafka Streams does: it describes itself when it joins, and says which tasks it
    has after they have changed, and after an error.

    :ivar has: the tasks that it works on.
    :ivar said: those that it said last; None: nothing, or the response did not come.
    """

    member_id: str
    process_id: str
    epoch: int = 0
    has: TaskSets = field(default=NO_TASK_SETS)
    told: TaskSets = field(default=NO_TASK_SETS)
    said: TaskSets | None = None

    def revoke(self) -> None:
        """Give up what it was told to, and begin with the rest."""
        self.has = self.told

    def fenced(self) -> None:
        self.epoch, self.has, self.told, self.said = 0, NO_TASK_SETS, NO_TASK_SETS, None


def everything(recorded: RecordedState) -> dict[str, Any]:
    """The fields of a recorded state."""
    names = ("epoch", "topology", "target_epoch", "target_ms", "members", "positions", "targets", "owners", "copies")
    return {name: getattr(recorded, name) for name in names}


def copied(recorded: RecordedState) -> dict[str, Any]:
    """A copy of them, as dictionaries are changed in place."""
    found = {name: dict(value) if isinstance(value, dict) else value for name, value in everything(recorded).items()}
    return found | {"copies": {task: set(members) for task, members in recorded.copies.items()}}


class StreamsGroupMachine(RuleBasedStateMachine):
    """
    Members join, stay, miss answers and vanish; topics come, grow and go; the number of copies changes; the broker
    cannot write for a while, or starts again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        for name in ("a", "b", "store"):
            self.cluster.create(name, 3)
        self.settings = StreamsGroupSettings(max_size=MAX_SIZE, initial_rebalance_delay_ms=3000)
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

    def new_group(self) -> StreamsGroup:
        """An empty group."""
        return StreamsGroup("group", lambda: self.settings, self.cluster, self.save)

    def save(self, changes: list[Change], done: Any = None) -> None:
        """Append changes."""
        if self.broken and changes:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        self.records += map(encode_change, changes)

    def beat(self, client: Client, *, answered: bool = True) -> None:
        """A heartbeat, and what the client makes of the answer, if it comes."""
        before = copied(self.group.recorded)
        joins = client.epoch == 0
        owned = None if client.has == client.said else client.has
        beat = StreamsHeartbeat(
            client.member_id,
            client.epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            topology=TOPOLOGY if joins else None,
            owned=NO_TASK_SETS if joins else owned,
            process_id=client.process_id if joins else None,
        )
        client.said = None
        try:
            result, changes = self.group.heartbeat(self.now, beat)
            try:
                self.save(changes)
            except ApiError:
                self.group.undo()
                raise
        except ApiError as e:
            assert copied(self.group.recorded) == before
            if answered and e.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                client.fenced()
            elif answered and e.code is ErrorCode.INVALID_REQUEST:
                # A task is gone, since its topic was made anew with fewer partitions.
                client.fenced()
            elif e.code is ErrorCode.GROUP_MAX_SIZE_REACHED:
                assert self.group.size == MAX_SIZE
            elif answered:
                assert self.broken, e
            return
        if answered and client.epoch >= 0:
            client.epoch = result.epoch
            client.said = client.has
            if result.tasks is not None:
                client.told = result.tasks
            assert client.told == self.group.recorded.position(client.member_id).assigned
            # It begins with nothing new before it has given up the rest, which it says with the next heartbeat.
            client.revoke()

    @rule(process_id=st.sampled_from(PROCESSES))
    @precondition(lambda self: len(self.clients) < 7)
    def appear(self, process_id: str) -> None:
        """A thread starts."""
        self.made += 1
        self.clients.append(Client(f"m{self.made}", process_id))

    @rule(data=st.data(), times=st.integers(1, 3), answered=st.booleans())
    @precondition(lambda self: self.clients)
    def stay(self, data: st.DataObject, times: int, answered: bool) -> None:
        """A member sends heartbeats; the answer to the last one may be lost."""
        client = data.draw(st.sampled_from(self.clients))
        for left in range(times, 0, -1):
            self.beat(client, answered=answered or left > 1)

    @rule(data=st.data(), times=st.integers(1, 2))
    @precondition(lambda self: self.clients)
    def all_stay(self, data: st.DataObject, times: int) -> None:
        """All members send heartbeats; one may miss the answers."""
        misses = data.draw(st.sampled_from([None, *self.clients]))
        self.wait(5.0)
        for _ in range(times):
            for client in self.clients:
                self.beat(client, answered=client is not misses)

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

    @rule(name=st.sampled_from(["a", "b"]), size=st.integers(1, 4))
    def make_topic(self, name: str, size: int) -> None:
        """A topic comes, or grows."""
        if name in self.cluster.topics:
            self.cluster.grow(name)
        else:
            self.cluster.create(name, size)
        self.repair()

    def repair(self) -> None:
        """The changelog topic has as many partitions as there are tasks."""
        if "b" in self.cluster.topics:
            self.cluster.create("store", self.cluster.topics["b"].partitions)

    @rule(name=st.sampled_from(["a", "b"]))
    def delete_topic(self, name: str) -> None:
        """A topic goes."""
        if name in self.cluster.topics:
            self.cluster.delete(name)

    @rule(copies=st.integers(0, 2))
    def set_copies(self, copies: int) -> None:
        """An operator wants other copies."""
        self.settings = evolve(self.settings, num_standby_replicas=copies)

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
        """No active task has two owners, no process a task twice, and each member can expire."""
        recorded = self.group.recorded
        assert set(recorded.positions) == set(recorded.members)
        assert not recorded.members or self.group.deadline is not None
        owners: dict[Any, str] = {}
        held: dict[Any, list[str]] = {}
        for member_id, position in recorded.positions.items():
            for task in pairs(position.held.active):
                assert task not in owners
                owners[task] = member_id
            assert set(position.since) == set(pairs(position.held.active))
            assert all(0 < since <= position.epoch for since in position.since.values())
            for tasks in (position.assigned, position.revoking):
                for task in (*pairs(tasks.active), *pairs(tasks.standby)):
                    held.setdefault(task, []).append(member_id)
        assert recorded.owners == owners
        for members in held.values():
            # The same member may be about to change its role.
            processes = [recorded.members[member_id].process_id for member_id in set(members)]
            assert len(processes) == len(set(processes))
        # Nobody works on what is another's.
        working = [task for client in self.clients for task in pairs(client.has.active) if self.is_known(client)]
        assert len(working) == len(set(working))

    def is_known(self, client: Client) -> bool:
        """Whether the group still waits for what it says."""
        return client.epoch > 0 and self.group.recorded.position(client.member_id).epoch >= client.epoch

    def teardown(self) -> None:
        """If all members follow the protocol, all tasks are soon assigned."""
        self.broken = False
        self.wait(50.0)
        for _ in range(8):
            for client in self.clients:
                self.beat(client)
            self.now += 5.0
        members = [client for client in self.clients if client.epoch > 0]
        recorded = self.group.recorded
        assert {client.member_id for client in members} == set(recorded.members)
        assert len(members) == min(len(self.clients), MAX_SIZE)
        if not members:
            return
        configured = self.group.targets.configured()
        assert configured is not None
        for client in members:
            assert client.has == recorded.targets[client.member_id], (client, recorded.targets)
            assert recorded.epoch is not None
            assert client.epoch == recorded.epoch.epoch
        active = [task for client in members for task in pairs(client.has.active)]
        expected = [(key, number) for key, each in configured.subtopologies.items() for number in range(each.tasks)]
        assert sorted(active) == (sorted(expected) if configured.is_ready else [])
        assert self.group.state_name == ("Stable" if configured.is_ready else "NotReady")


StreamsGroupTests = StreamsGroupMachine.TestCase

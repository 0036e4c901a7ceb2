"""
The assignor ``sticky`` of streams groups (KIP-1071; Kafka: StickyTaskAssignor). Pure.

Active tasks stay with the members that have them, or go to those that have a copy of their state, as far as members get
equal numbers of active tasks, or one more. The rest goes to the members with the fewest tasks. Then come the standby
tasks of subtopologies with state, in the same way: each on a process of its own, which does not have the active task.
The result depends on the input only. For 1,000 tasks it takes 2 to 10 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from operator import itemgetter

from attrs import define, field, frozen

from logbus.coordination.streams.configured_topology import ConfiguredTopology
from logbus.coordination.streams.tasks import NO_TASKS, Tasks, TaskSets, from_pairs, pairs

Task = tuple[str, int]

NAME = "sticky"
"""By which clients know it."""


@frozen
class MemberSpec:
    """
    A member, as the assignor sees it.

    :ivar process_id: equal for members that share a process, and the state on its disk.
    :ivar active: its tasks so far.
    """

    process_id: str
    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS


def assign(
    members: Mapping[str, MemberSpec], topology: ConfiguredTopology, standby_replicas: int = 0
) -> dict[str, TaskSets]:
    """
    Assign each active task to one member, and standby tasks to as many others as there are processes for.

    :param members: by member id.
    :param standby_replicas: how many standby tasks each task with state should have.
    :return: the tasks of each member.
    """
    if not members:
        return {}
    group = _Group(members)
    subtopologies = sorted(topology.subtopologies.items())
    active = [(key, number) for key, each in subtopologies for number in range(each.tasks)]
    stateful = {key for key, each in subtopologies if each.is_stateful}
    standby = [task for task in active if task[0] in stateful]
    replicas = min(standby_replicas, len(group.processes) - 1)
    total = _Quota(len(active) + replicas * len(standby), len(members))
    group.assign_active(active, total)
    if replicas > 0:
        group.assign_standby(standby, replicas, total)
    return {
        key: TaskSets(from_pairs(member.active), from_pairs(member.standby)) for key, member in group.members.items()
    }


@define(eq=False)
class _Process:
    """A process with its members; they share the tasks that it has in any role."""

    members: list[_Member] = field(factory=list)
    tasks: set[Task] = field(factory=set)

    @property
    def load(self) -> float:
        """Tasks per member."""
        return len(self.tasks) / len(self.members)


@define(eq=False)
class _Member:
    process: _Process
    active: list[Task] = field(factory=list)
    standby: list[Task] = field(factory=list)

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)

    def take(self, task: Task, *, active: bool) -> None:
        (self.active if active else self.standby).append(task)
        self.process.tasks.add(task)


class _Quota:
    """
    How many tasks a member may have: an equal share, rounded up until enough members have one more than others.

    :ivar each: that number.
    """

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.each = -(-tasks // members)

    def took(self, count: int) -> None:
        """A member has one more task now: this many."""
        if count == self.each:
            self._tasks -= count
            self._members -= 1
            self.each = -(-self._tasks // self._members) if self._members else 0


class _Fewest:
    """Finds the member with the fewest tasks; of several, the one whose process has the fewest tasks per member."""

    def __init__(self, processes: Iterable[_Process]) -> None:
        self._processes = list(processes)
        self._members = [
            [(member.count, order, member) for order, member in enumerate(process.members)]
            for process in self._processes
        ]
        for members in self._members:
            heapify(members)
        self._heap = [self._key(place) for place in range(len(self._processes))]
        heapify(self._heap)

    def take(self, task: Task, *, active: bool) -> int:
        """Give it a task that its process does not have yet, and return how many it has then."""
        passed = []
        while task in self._processes[self._heap[0][-1]].tasks:
            passed.append(heappop(self._heap))
        place = self._heap[0][-1]
        members = self._members[place]
        _, order, member = members[0]
        member.take(task, active=active)
        heapreplace(members, (member.count, order, member))
        heapreplace(self._heap, self._key(place))
        for each in passed:
            heappush(self._heap, each)
        return member.count

    def _key(self, place: int) -> tuple[int, float, int]:
        return self._members[place][0][0], self._processes[place].load, place


class _Group:
    def __init__(self, specs: Mapping[str, MemberSpec]) -> None:
        self.processes: dict[str, _Process] = {}
        self.members: dict[str, _Member] = {}
        self._had_active: dict[Task, list[_Member]] = {}
        self._had_standby: dict[Task, list[_Member]] = {}
        for key, spec in sorted(specs.items(), key=lambda item: (item[1].process_id, item[0])):
            process = self.processes.setdefault(spec.process_id, _Process())
            member = self.members[key] = _Member(process)
            process.members.append(member)
            for had, tasks in ((self._had_active, spec.active), (self._had_standby, spec.standby)):
                for task in pairs(tasks):
                    had.setdefault(task, []).append(member)

    def assign_active(self, tasks: list[Task], total: _Quota) -> None:
        """Assign active tasks, which are sorted, before there are standby tasks."""
        quota = _Quota(len(tasks), len(self.members))
        new = sorted(tasks, key=itemgetter(1))
        for had in (self._had_active, self._had_standby):
            left = []
            for task in new:
                member = _least(each for each in had.get(task, ()) if each.count < quota.each)
                if member is None:
                    left.append(task)
                else:
                    member.take(task, active=True)
                    quota.took(member.count)
                    total.took(member.count)
            new = left
        fewest = _Fewest(self.processes.values())
        for task in sorted(new):
            total.took(fewest.take(task, active=True))

    def assign_standby(self, tasks: list[Task], replicas: int, total: _Quota) -> None:
        """Assign so many standby tasks for each of these, which are sorted. There are more processes than that."""
        new = []
        for task in sorted(tasks, key=itemgetter(1), reverse=True):
            left = replicas
            for had in (self._had_active, self._had_standby):
                while left and (
                    member := _least(
                        each for each in had.get(task, ()) if each.count < total.each and task not in each.process.tasks
                    )
                ):
                    member.take(task, active=False)
                    total.took(member.count)
                    left -= 1
            new += [task] * left
        fewest = _Fewest(self.processes.values())
        for task in sorted(new, reverse=True):
            total.took(fewest.take(task, active=False))


def _least(members: Iterable[_Member]) -> _Member | None:
    """The member with the least loaded process, and of several in it, that with the fewest tasks."""
    return min(members, key=lambda member: (member.process.load, member.count), default=None)

"""
Moves partitions among the workers of machines, by reassignments (KIP-455), and follows their progress.

A few partitions move at a time, so that each is soon done. A worker that dies meanwhile is started again, and its moves
go on; if the command is interrupted, what it has begun is completed by the cluster, and another run does the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from logbus.cli.reassignment import current_replicas
from logbus.cli.rebalance_plan import CannotRebalance, Move, machines, rebalanced, replicas_after
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.log_dir_admin import LogDir
from logbus.client.retry import Unreachable, is_retriable
from logbus.errors import ApiError, Disconnected, ErrorCode
from logbus.model import TopicPartition

AT_ONCE = 16
"""Partitions that move at a time."""
PAUSE_SECONDS = 0.1
ROUNDS = 5
"""Plans that are made: partitions are created meanwhile."""
BEHIND_SECONDS = 5.0
"""How long a broker may take to hear of a move that has ended."""
STALLED_SECONDS = 120.0
"""Without any partition that has moved."""

T = TypeVar("T")


@define(eq=False)
class Rebalance:
    """
    A rebalancing of all machines.

    :ivar workers: how many workers of each are to have partitions; None: all.
    :ivar topics: those whose partitions move; None: all.
    :ivar shown: called with the number of partitions that have moved, and of all that are to.
    """

    admin: AdminClient
    clock: IReactorTime
    workers: int | None = None
    topics: Sequence[str] | None = None
    shown: Callable[[int, int], object] = lambda moved, total: None
    _begun: bool = field(default=False, init=False)
    _heard: float = field(default=0.0, init=False)

    async def plan(self) -> list[Move]:
        """
        Plan the moves.

        :raise CommandFailed: no machine has several workers, or partitions are being reassigned.
        :raise CannotRebalance: workers cannot be emptied.
        :raise ApiError: BROKER_NOT_AVAILABLE: a worker that may be one to be emptied is away.
        """
        until = self.clock.seconds() + BEHIND_SECONDS
        while True:
            try:
                return await self._plan()
            except CannotRebalance:
                # A broker that has not heard of the end of a move yet says that both workers have the partition.
                if self.clock.seconds() >= until:
                    raise
            await deferLater(self.clock, PAUSE_SECONDS)

    async def _plan(self) -> list[Move]:
        nodes = (await self.admin.describe_cluster()).nodes
        directories = {node.node_id: await self.admin.describe_log_dirs(node.node_id) for node in nodes}
        hosts = {node.node_id: node.host for node in nodes}
        found = machines(
            {broker: (hosts[broker], [each.path for each in listed]) for broker, listed in directories.items()}
        )
        if not found:
            raise CommandFailed(
                "there is nothing to spread: no machine has several workers, as by 'logbus start --workers 2'"
            )
        current = await current_replicas(self.admin, self.topics)
        moving = await self.admin.list_reassignments(current)
        if moving:
            raise CommandFailed(
                f"{len(moving)} partitions are being reassigned, such as {min(moving)}; wait for them, or see "
                "logbus cluster reassign --list"
            )
        away = sorted({broker for replicas in current.values() for broker in replicas} - directories.keys())
        if away and self.workers is not None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {away[0]} has partitions, and is not running")
        moves: list[Move] = []
        for brokers in found:
            load = {broker: _held(broker, current, directories[broker]) for broker in brokers}
            stay = [broker for broker in brokers if self.workers is None or broker - brokers[0] < self.workers]
            moves += rebalanced(load, stay)
        return moves

    async def carry_out(self) -> int:
        """
        Plan the moves, and make them; returns how many partitions have moved.

        :raise CommandFailed: as :meth:`plan`; a move is refused, or does not end.
        """
        done: set[TopicPartition] = set()
        for _ in range(ROUNDS):
            moves = await self._again(self.plan)
            if not moves:
                break
            done |= await self._make(moves)
        return len(done)

    async def _make(self, moves: Sequence[Move]) -> set[TopicPartition]:
        by_partition: dict[TopicPartition, list[Move]] = {}
        for move in moves:
            by_partition.setdefault(move.partition, []).append(move)
        self._begun = True
        waiting, moving, moved = list(by_partition), set[TopicPartition](), set[TopicPartition]()
        self._heard = self.clock.seconds()
        while waiting or moving:
            self.shown(len(moved), len(by_partition))
            begun, waiting = waiting[: AT_ONCE - len(moving)], waiting[AT_ONCE - len(moving) :]
            if begun:
                moving |= await self._begin({name: by_partition[name] for name in begun})
            under_way = await self._again(partial(self.admin.list_reassignments, frozenset(moving)))
            ended = moving - under_way.keys()
            if ended:
                self._heard = self.clock.seconds()
            moving -= ended
            moved |= ended
            if moving:
                await self._pause(f"{min(moving)} and {len(moving) - 1} others do not get on: is a worker down?")
        self.shown(len(moved), len(by_partition))
        await self._until_gone([move for move in moves if move.partition in moved])
        return moved

    async def _begin(self, moves: Mapping[TopicPartition, Sequence[Move]]) -> set[TopicPartition]:
        """Begin to move partitions; returns those that exist."""
        current = await self._again(lambda: current_replicas(self.admin, self.topics))
        targets = {name: replicas_after(current[name], each) for name, each in moves.items() if name in current}
        answers = await self._again(lambda: self.admin.alter_reassignments(targets)) if targets else {}
        refused = {
            name: error
            for name, error in answers.items()
            if error is not None and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        if refused:
            raise CommandFailed("; ".join(error.message for error in refused.values()))
        return {name for name, error in answers.items() if error is None}

    async def _until_gone(self, moves: Sequence[Move]) -> None:
        """Wait until the workers that had the partitions have them no more: their number may be lowered then."""
        self._heard = self.clock.seconds()
        for broker in dict.fromkeys(move.origin for move in moves):
            gone = {move.partition for move in moves if move.origin == broker}
            while True:
                found = await self._again(partial(self.admin.describe_log_dirs, broker))
                left = sorted(gone.intersection(name for each in found for name in each.replicas))
                if not left:
                    break
                await self._pause(f"{left[0]} has moved, and broker {broker} has not removed it yet")

    async def _again(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of work that is tried again where a worker was away."""
        while True:
            try:
                return await work()
            except (ApiError, Disconnected, Unreachable) as error:
                if not self._begun or (isinstance(error, ApiError) and not is_retriable(error)):
                    raise
                await self._pause(str(error))

    async def _pause(self, problem: str) -> None:
        if self.clock.seconds() - self._heard > STALLED_SECONDS:
            raise CommandFailed(f"{problem}; run the command again for what has not moved")
        await deferLater(self.clock, PAUSE_SECONDS)


def _held(
    broker: int, current: Mapping[TopicPartition, Sequence[int]], directories: Iterable[LogDir]
) -> dict[TopicPartition, int]:
    """What a broker holds, and the bytes of that."""
    sizes = {
        name: replica.size for each in directories for name, replica in each.replicas.items() if not replica.is_future
    }
    return {name: sizes.get(name, 0) for name, replicas in current.items() if broker in replicas}

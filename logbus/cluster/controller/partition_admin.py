"""
Administration of partitions, on the controller: leader elections (KIP-460) and reassignments (KIP-455).

All of it is checked and carried out on the controller's event queue; each partition has its own outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.broker_channels import PendingUpdates
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.partition_changes import ElectionType, Outcomes, elect, reapply_topic_rules, reassign
from logbus.cluster.controller.preferred_leaders import not_led_by_preferred
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

__all__ = ["ElectionType", "Outcomes", "PartitionAdmin", "Reassignment"]


@frozen
class Reassignment:
    """A reassignment under way: all replicas, and those being added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@define(eq=False)
class PartitionAdmin:
    """Elections and reassignments; on a broker that is not the controller every call fails with NOT_CONTROLLER."""

    controller: Controller
    clock: IReactorTime
    _log = Logger()

    def elect_leaders(
        self,
        kind: ElectionType,
        names: Sequence[TopicPartition] | None,
        *,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> Deferred[Outcomes]:
        """
        Hold elections; fires when the live brokers have applied them, or on the timeout.

        :param names: None: all partitions; those that need none are left out of the result.
        :param validate_only: decide, and change nothing.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[Outcomes, PendingUpdates | None]:
            outcomes, delivery = await elect(active, kind, names, validate_only=validate_only)
            if names is None:
                items = active.time_slice().over(outcomes.items())
                outcomes = {name: one async for name, one in items if not _not_needed(one)}
            return outcomes, delivery

        return Deferred.fromCoroutine(self._heard(self.controller.submit(run), timeout_ms))

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        factor_may_change: bool = True,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> Deferred[Outcomes]:
        """
        Begin reassignments, or (None) cancel them; fires when the live brokers have begun.

        :param validate_only: check them, and change nothing.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[Outcomes, PendingUpdates | None]:
            return await reassign(active, wanted, factor_may_change=factor_may_change, validate_only=validate_only)

        return Deferred.fromCoroutine(self._heard(self.controller.submit(run), timeout_ms))

    def reassignments(
        self, names: Iterable[TopicPartition] | None = None
    ) -> Deferred[Mapping[TopicPartition, Reassignment]]:
        """
        The reassignments under way, of ``names`` or (None) of all partitions; unknown partitions have none.

        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> Mapping[TopicPartition, Reassignment]:
            found = {}
            among = None if names is None else frozenset(names)
            async for name in active.time_slice().over(active.state.partitions()):
                record = active.state.partition(name)
                if record.reassigning and (among is None or name in among):
                    found[name] = Reassignment(record.replicas, record.adding, record.removing)
            return found

        return self.controller.submit(run)

    def balance(self, percentage: int) -> Deferred[int]:
        """
        Hand leadership back to preferred leaders that have lost too much of it; fires with the number of partitions.

        :param percentage: see :func:`.not_led_by_preferred`.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> int:
            names = not_led_by_preferred(active.state, percentage)
            outcomes, _ = await elect(active, ElectionType.PREFERRED, names)
            if outcomes:
                self._log.info("handed {count} partitions back to their preferred leaders", count=len(outcomes))
            await reapply_topic_rules(active)
            return len(outcomes)

        return self.controller.submit(run)

    async def _heard(self, done: Deferred[tuple[Outcomes, PendingUpdates | None]], timeout_ms: int) -> Outcomes:
        outcomes, delivery = await done
        if delivery is not None and timeout_ms > 0:
            waiting = delivery.wait()
            # The change is made; brokers that have not applied it in time will.
            await waiting.addTimeout(timeout_ms / 1000, self.clock, lambda *_: {})
        return outcomes


def _not_needed(outcome: ApiError | None) -> bool:
    return outcome is not None and outcome.code is ErrorCode.ELECTION_NOT_NEEDED

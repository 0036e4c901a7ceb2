"""
What operators ask of the controller about leaders and replicas: elections, reassignments.

Everything is checked and carried out on the controller's queue; each partition has its own outcome.
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
    """One under way: all replicas, and which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@define(eq=False)
class PartitionAdmin:
    """All of it works on the controller only; elsewhere every request fails with NOT_CONTROLLER."""

    controller: Controller
    clock: IReactorTime
    _log = Logger()

    def elect_leaders(
        self, kind: ElectionType, names: Sequence[TopicPartition] | None, *, timeout_ms: int = 0
    ) -> Deferred[Outcomes]:
        """
        Hold elections; fires when the brokers alive have heard, or the time is over.

        :param names: None: all partitions; those that need none are left out of the answer.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(tenure: ActiveController) -> tuple[Outcomes, PendingUpdates | None]:
            outcomes, delivery = await elect(tenure, kind, names)
            if names is None:
                items = tenure.time_slice().over(outcomes.items())
                outcomes = {name: one async for name, one in items if not _not_needed(one)}
            return outcomes, delivery

        return Deferred.fromCoroutine(self._heard(self.controller.submit(run), timeout_ms))

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        factor_may_change: bool = True,
        timeout_ms: int = 0,
    ) -> Deferred[Outcomes]:
        """
        Begin to move partitions, or (None) cancel that; fires when the brokers alive have begun.

        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(tenure: ActiveController) -> tuple[Outcomes, PendingUpdates | None]:
            return await reassign(tenure, wanted, factor_may_change=factor_may_change)

        return Deferred.fromCoroutine(self._heard(self.controller.submit(run), timeout_ms))

    def reassignments(
        self, names: Iterable[TopicPartition] | None = None
    ) -> Deferred[Mapping[TopicPartition, Reassignment]]:
        """
        Those under way, among ``names`` or (None) all; unknown partitions have none.

        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(tenure: ActiveController) -> Mapping[TopicPartition, Reassignment]:
            found = {}
            among = None if names is None else frozenset(names)
            async for name in tenure.time_slice().over(tenure.state.partitions()):
                record = tenure.state.partition(name)
                if record.reassigning and (among is None or name in among):
                    found[name] = Reassignment(record.replicas, record.adding, record.removing)
            return found

        return self.controller.submit(run)

    def balance(self, percentage: int) -> Deferred[int]:
        """
        Hand leadership back to preferred leaders where too much of it is elsewhere; fires with how often that was.

        :param percentage: see :func:`.not_led_by_preferred`.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(tenure: ActiveController) -> int:
            names = not_led_by_preferred(tenure.state, percentage)
            outcomes, _ = await elect(tenure, ElectionType.PREFERRED, names)
            if outcomes:
                self._log.info("handed {count} partitions back to their preferred leaders", count=len(outcomes))
            await reapply_topic_rules(tenure)
            return len(outcomes)

        return self.controller.submit(run)

    async def _heard(self, done: Deferred[tuple[Outcomes, PendingUpdates | None]], timeout_ms: int) -> Outcomes:
        outcomes, delivery = await done
        if delivery is not None and timeout_ms > 0:
            waiting = delivery.wait()
            # The change is made; who has not heard of it in time will.
            await waiting.addTimeout(timeout_ms / 1000, self.clock, lambda *_: {})
        return outcomes


def _not_needed(outcome: ApiError | None) -> bool:
    return outcome is not None and outcome.code is ErrorCode.ELECTION_NOT_NEEDED

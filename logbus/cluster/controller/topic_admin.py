"""
Administration of topics on the controller: create, delete, add partitions.

Requests are checked and carried out on the controller's event queue, so that two for the same name cannot interleave.
Each topic has its own outcome, in the order of the request. The answer comes when the brokers serve the change (KIP-4,
and librdkafka's issue 4904: a client that created a topic produces to it at once).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from random import Random
from typing import TypeVar
from uuid import UUID

from attrs import define, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.cluster.controller import topic_changes
from logbus.cluster.controller.active_controller import UNITS_TO_LOG, ActiveController
from logbus.cluster.controller.broker_channels import PendingUpdates
from logbus.cluster.controller.change_timeout import in_time
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.controller_context import TopicRecord
from logbus.cluster.controller.replica_assignment import Replicas
from logbus.cluster.controller.topic_plan import (
    MAX_NEW_PARTITIONS,
    ConfigCheck,
    NameCollisions,
    NewPartitions,
    NewTopic,
    TopicDefaults,
    TopicQuota,
    changed,
    internal,
    plan_partitions,
    plan_topic,
    unknown,
)
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.model import INTERNAL_TOPICS, TopicPartition
from logbus.net.time_slices import SliceScheduler, TimeSlice

NO_ID = UUID(int=0)

UNITS_TO_PLAN = 5
"""Units of a time slice for checking the change of one topic, and"""
PARTITIONS_A_UNIT = 5
"""so many of its new partitions are another one."""

TOPICS_COUNTED_AT_ONCE = 20
"""Existing topics that are counted in one step of a time slice, each of which is a unit of work."""

T = TypeVar("T")


@frozen
class CreatedTopic:
    """A created topic (or, with ``validate_only``, one that would be: then the id is 0)."""

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@define(eq=False)
class TopicAdmin:
    """
    Administers topics; on a broker that is not the controller every call fails with NOT_CONTROLLER.

    :ivar defaults: read for each request, as they can change while the broker runs.
    :ivar check_topic: whether a topic's overrides are valid.
    :ivar check_change: whether a topic's overrides may change so; raises ConfigError.
    :ivar scheduler: gives time slices to requests of many topics; None: they are checked at once.
    """

    controller: Controller
    clock: IReactorTime
    random: Random
    defaults: Callable[[], TopicDefaults]
    check_topic: ConfigCheck
    scheduler: SliceScheduler | None = None
    check_change: Callable[[Mapping[str, str], Mapping[str, str]], object] = lambda before, after: None
    _log = Logger()

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 0
    ) -> Deferred[list[CreatedTopic | ApiError]]:
        """
        Create topics.

        :param timeout_ms: 0 or less: :data:`.WAIT_MS`.
        :return: each created topic, or its error: REQUEST_TIMED_OUT means that it exists or soon will.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[list[CreatedTopic | ApiError], PendingUpdates | None]:
            outcomes: list[CreatedTopic | ApiError] = []
            records: list[TopicRecord] = []
            room = MAX_NEW_PARTITIONS
            time_slice = TimeSlice(self.scheduler)
            duplicates = await time_slice.duplicates(topic.name for topic in topics)
            collisions = NameCollisions()
            defaults = self.defaults()
            quota = TopicQuota(len(active.state.brokers), defaults)
            async for some in time_slice.over_parts(active.state.topics.values(), TOPICS_COUNTED_AT_ONCE):
                quota.count(some)
                for known in some:
                    collisions.add(known.name)
            async for topic in time_slice.over(topics, UNITS_TO_PLAN):
                try:
                    _refuse_duplicate(topic.name, duplicates)
                    collisions.check(topic.name)
                    record = plan_topic(active.state, topic, defaults, self.check_topic, self.random, room)
                    changed(self.check_change, {}, record.overrides)
                    quota.take(topic.name, [partition.replicas for partition in record.partitions], is_new=True)
                except ApiError as error:
                    outcomes.append(error.without_frames())
                    continue
                room -= len(record.partitions)
                collisions.add(record.name)
                records.append(record)
                outcomes.append(
                    CreatedTopic(
                        record.name,
                        NO_ID if validate_only else record.topic_id,
                        len(record.partitions),
                        len(record.partitions[0].replicas),
                        record.overrides,
                    )
                )
                if time_slice.used(len(record.partitions) // PARTITIONS_A_UNIT):
                    await time_slice.next()
            if validate_only or not records:
                return outcomes, None
            delivery = await topic_changes.create(active, records)
            async for record in time_slice.over(records, UNITS_TO_LOG):
                self._log.info(
                    "topic {topic} was created: id {id}, {partitions} partitions",
                    topic=record.name,
                    id=record.topic_id,
                    partitions=len(record.partitions),
                )
            return outcomes, delivery

        return self._answered(run, timeout_ms, lambda outcome: outcome.name)

    def delete_topics(
        self, topics: Sequence[str | UUID], *, timeout_ms: int = 0
    ) -> Deferred[list[tuple[str, UUID] | ApiError]]:
        """
        Delete topics, by name or id; fires when their names can be used again.

        :param timeout_ms: 0 or less: :data:`.WAIT_MS`.
        :return: for each its name and id, or its error: REQUEST_TIMED_OUT means that it soon will be gone,
            INVALID_TOPIC_EXCEPTION that it is an internal one.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def find(active: ActiveController) -> list[tuple[str, UUID] | ApiError]:
            time_slice = TimeSlice(self.scheduler)
            by_id: dict[UUID, TopicRecord] = {}
            if any(isinstance(one, UUID) for one in topics):
                async for record in time_slice.over(active.state.topics.values()):
                    by_id[record.topic_id] = record
            outcomes: list[tuple[str, UUID] | ApiError] = []
            seen: set[str] = set()
            async for one in time_slice.over(topics):
                topic = by_id.get(one) if isinstance(one, UUID) else active.state.topics.get(one)
                if topic is None or topic.deleting:
                    outcomes.append(unknown(one))
                elif topic.name in INTERNAL_TOPICS:
                    outcomes.append(internal(topic.name, "is not deleted: it has the state of groups or transactions"))
                elif topic.name in seen:
                    outcomes.append(ApiError(ErrorCode.INVALID_REQUEST, f"the request names {topic.name!r} twice"))
                else:
                    seen.add(topic.name)
                    outcomes.append((topic.name, topic.topic_id))
            if seen:
                begun.append(await topic_changes.begin_deletion(active, sorted(seen)))
            return outcomes

        begun: list[PendingUpdates] = []

        async def delete() -> list[tuple[str, UUID] | ApiError]:
            outcomes = await self.controller.submit(find)
            names = [one[0] for one in outcomes if not isinstance(one, ApiError)]
            if names and not await in_time(self.clock, self.controller.end_deletion(names, begun[0]), timeout_ms):
                late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "the topic is still being deleted")
                return [one if isinstance(one, ApiError) else late for one in outcomes]
            return outcomes

        return Deferred.fromCoroutine(delete())

    def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int = 0
    ) -> Deferred[list[str | ApiError]]:
        """
        Add partitions to topics.

        :param timeout_ms: 0 or less: :data:`.WAIT_MS`.
        :return: for each topic its name, or its error.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[list[str | ApiError], PendingUpdates | None]:
            outcomes: list[str | ApiError] = []
            grown: list[tuple[TopicRecord, Sequence[Replicas]]] = []
            room = MAX_NEW_PARTITIONS
            quota = TopicQuota(len(active.state.brokers), self.defaults())
            time_slice = TimeSlice(self.scheduler)
            duplicates = await time_slice.duplicates(request.name for request in requests)
            async for some in time_slice.over_parts(active.state.topics.values(), TOPICS_COUNTED_AT_ONCE):
                quota.count(some)
            async for request in time_slice.over(requests, UNITS_TO_PLAN):
                try:
                    _refuse_duplicate(request.name, duplicates)
                    topic, added = plan_partitions(active.state, request, self.random, room)
                    quota.take(request.name, added, is_new=False)
                except ApiError as error:
                    outcomes.append(error.without_frames())
                    continue
                room -= len(added)
                grown.append((topic, added))
                outcomes.append(request.name)
                if time_slice.used(len(added) // PARTITIONS_A_UNIT):
                    await time_slice.next()
            if validate_only or not grown:
                return outcomes, None
            delivery = await topic_changes.create_partitions(active, grown)
            async for topic, added in time_slice.over(grown, UNITS_TO_LOG):
                self._log.info("topic {topic} was given {added} more partitions", topic=topic.name, added=len(added))
            return outcomes, delivery

        return self._answered(run, timeout_ms, lambda outcome: outcome)

    @returns_deferred
    async def _answered(
        self,
        run: Callable[[ActiveController], Awaitable[tuple[list[T | ApiError], PendingUpdates | None]]],
        timeout_ms: int,
        topic_of: Callable[[T], str],
    ) -> list[T | ApiError]:
        """Run a change, wait for the brokers, and replace the outcomes of those that failed there by the errors."""
        outcomes, delivery = await self.controller.submit(run)
        if delivery is None:
            return outcomes
        failed: dict[str, ApiError] = {}

        def note(errors: Mapping[TopicPartition, ApiError]) -> None:
            for name, error in errors.items():
                failed.setdefault(name.topic, error)

        if await in_time(self.clock, delivery.wait().addCallback(note), timeout_ms):
            return [
                outcome if isinstance(outcome, ApiError) else failed.get(topic_of(outcome), outcome)
                for outcome in outcomes
            ]
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "not all brokers serve it yet")
        return [outcome if isinstance(outcome, ApiError) else late for outcome in outcomes]


def _refuse_duplicate(name: str, duplicates: Collection[str]) -> None:
    if name in duplicates:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the request names topic {name!r} twice")

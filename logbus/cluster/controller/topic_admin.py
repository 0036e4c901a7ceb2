"""
Administration of topics on the controller: create, delete, add partitions, configure; configs of brokers and groups.

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
from twisted.python.failure import Failure

from logbus.cluster.controller import topic_changes
from logbus.cluster.controller.active_controller import UNITS_TO_LOG, ActiveController
from logbus.cluster.controller.broker_channels import PendingUpdates
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.controller_context import TopicRecord
from logbus.cluster.controller.replica_assignment import Replicas
from logbus.cluster.controller.topic_plan import (
    MAX_NEW_PARTITIONS,
    ConfigCheck,
    ConfigEdit,
    NameCollisions,
    NewPartitions,
    NewTopic,
    Overrides,
    TopicDefaults,
    TopicQuota,
    changed,
    compacted_if_internal,
    edited,
    existing,
    internal,
    plan_partitions,
    plan_topic,
    unknown,
)
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.znodes import DEFAULT_ENTITY
from logbus.model import INTERNAL_TOPICS, TopicPartition
from logbus.net.time_slices import SliceScheduler, TimeSlice

WAIT_MS = 30_000
"""For requests without a timeout of their own."""

MAX_CONFIGURED_GROUPS = 10_000
"""Limit of groups with configs of their own: every broker keeps them all, and clients can invent group ids."""

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
    :ivar check_broker: the same for a broker's (its id), or all brokers' (None).
    :ivar check_group: the same for a consumer group's.
    :ivar scheduler: gives time slices to requests of many topics; None: they are checked at once.
    """

    controller: Controller
    clock: IReactorTime
    random: Random
    defaults: Callable[[], TopicDefaults]
    check_topic: ConfigCheck
    check_broker: Callable[[int | None, Overrides], object]
    check_group: ConfigCheck
    scheduler: SliceScheduler | None = None
    check_change: Callable[[Mapping[str, str], Mapping[str, str]], object] = lambda before, after: None
    _log = Logger()

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 0
    ) -> Deferred[list[CreatedTopic | ApiError]]:
        """
        Create topics.

        :param timeout_ms: 0 or less: :data:`WAIT_MS`.
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

        :param timeout_ms: 0 or less: :data:`WAIT_MS`.
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
            if names and not await self._in_time(self.controller.end_deletion(names, begun[0]), timeout_ms):
                late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "the topic is still being deleted")
                return [one if isinstance(one, ApiError) else late for one in outcomes]
            return outcomes

        return Deferred.fromCoroutine(delete())

    def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int = 0
    ) -> Deferred[list[str | ApiError]]:
        """
        Add partitions to topics.

        :param timeout_ms: 0 or less: :data:`WAIT_MS`.
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

    def alter_topic_configs(
        self, edits: Mapping[str, ConfigEdit], *, validate_only: bool = False
    ) -> Deferred[dict[str, ApiError | None]]:
        """
        Change topics' overrides; fires when the new ones are in force.

        :param edits: run on the controller's queue, so that concurrent edits are not lost.
        :return: by topic: None, or the error.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[dict[str, ApiError | None], PendingUpdates | None]:
            outcomes: dict[str, ApiError | None] = {}
            wanted: dict[str, Mapping[str, str]] = {}
            for name, edit in edits.items():
                try:
                    before = existing(active.state, name).overrides
                    overrides = edited(before, edit, self.check_topic)
                    changed(self.check_change, before, overrides)
                    wanted[name] = compacted_if_internal(name, overrides)
                    outcomes[name] = None
                except ApiError as error:
                    outcomes[name] = error.without_frames()
            if validate_only or not wanted:
                return outcomes, None
            return outcomes, await topic_changes.configure_topics(active, wanted)

        return self._configured(run)

    def alter_broker_configs(
        self, edits: Mapping[int | None, ConfigEdit], *, validate_only: bool = False
    ) -> Deferred[dict[int | None, ApiError | None]]:
        """
        Change the dynamic configuration of brokers, or of all of them (None); fires when it is in force.

        :return: by broker: None, or the error.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[dict[int | None, ApiError | None], PendingUpdates | None]:
            outcomes: dict[int | None, ApiError | None] = {}
            delivery = None
            for broker_id, edit in edits.items():

                def check(given: Overrides, broker_id: int | None = broker_id) -> object:
                    return self.check_broker(broker_id, given)

                entity = DEFAULT_ENTITY if broker_id is None else str(broker_id)
                try:
                    if broker_id is not None and broker_id not in active.state.brokers:
                        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no broker {broker_id} alive")
                    now = active.state.broker_configs.overrides.get(entity, {})
                    wanted = edited(now, edit, check, refused=ErrorCode.INVALID_REQUEST)
                    outcomes[broker_id] = None
                except ApiError as error:
                    outcomes[broker_id] = error.without_frames()
                    continue
                if not validate_only:
                    delivery = await topic_changes.configure_broker(active, entity, wanted)
            return outcomes, delivery  # Updates are applied in order: when the last one is, all are.

        return self._configured(run)

    def alter_group_configs(
        self, edits: Mapping[str, ConfigEdit], *, validate_only: bool = False
    ) -> Deferred[dict[str, ApiError | None]]:
        """
        Change the settings of consumer groups, which need not exist; fires when the new ones are in force.

        :return: by group: None, or the error.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[dict[str, ApiError | None], PendingUpdates | None]:
            outcomes: dict[str, ApiError | None] = {}
            delivery = None
            known = active.state.group_configs.overrides
            for group_id, edit in edits.items():
                try:
                    wanted = edited(known.get(group_id, {}), edit, self.check_group)
                    if wanted and group_id not in known and len(known) >= MAX_CONFIGURED_GROUPS:
                        raise ApiError(
                            ErrorCode.POLICY_VIOLATION,
                            f"{MAX_CONFIGURED_GROUPS} groups have settings of their own, and no more can; "
                            "delete those of groups that are gone",
                        )
                    outcomes[group_id] = None
                except ApiError as error:
                    outcomes[group_id] = error.without_frames()
                    continue
                if not validate_only:
                    delivery = await topic_changes.configure_group(active, group_id, wanted)
            return outcomes, delivery

        return self._configured(run)

    # Waiting.

    @returns_deferred
    async def _configured(self, run: Callable[[ActiveController], Awaitable[tuple[T, PendingUpdates | None]]]) -> T:
        outcomes, delivery = await self.controller.submit(run)
        if delivery is not None:
            await self._in_time(delivery.wait(), WAIT_MS)
        return outcomes

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

        if await self._in_time(delivery.wait().addCallback(note), timeout_ms):
            return [
                outcome if isinstance(outcome, ApiError) else failed.get(topic_of(outcome), outcome)
                for outcome in outcomes
            ]
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "not all brokers serve it yet")
        return [outcome if isinstance(outcome, ApiError) else late for outcome in outcomes]

    def _in_time(self, work: Deferred[T], timeout_ms: int) -> Deferred[bool]:
        """Whether ``work`` ends in time; otherwise it goes on, with another controller if this one is replaced."""
        in_time: Deferred[bool] = Deferred()
        seconds = (timeout_ms if timeout_ms > 0 else WAIT_MS) / 1000
        timer = self.clock.callLater(seconds, lambda: in_time.callback(False))

        def late(failure: Failure) -> None:
            if failure.check(ApiError) is not None:
                self._log.info("not finished here after its request had timed out: {error}", error=failure.value)
            else:
                self._log.failure("administration failed after its request had timed out", failure)

        def done(result: T | Failure) -> None:
            if in_time.called:
                if isinstance(result, Failure):
                    late(result)
                return
            timer.cancel()
            if isinstance(result, Failure):
                in_time.errback(result)
            else:
                in_time.callback(True)

        work.addBoth(done)
        return in_time


def _refuse_duplicate(name: str, duplicates: Collection[str]) -> None:
    if name in duplicates:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the request names topic {name!r} twice")

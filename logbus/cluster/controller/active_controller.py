"""
The work of the elected controller, from its election until another broker is elected.

All changes run on the controller's event queue, one after the other. Each change is first written to the metadata
store under the fence, then applied to the state in memory, then sent to the brokers. The queue does not wait for the
brokers to apply it: a slow broker must not hold up the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, evolve, field
from twisted.logger import Logger

from logbus.cluster.controller.broker_channels import BrokerChannels, PendingUpdates
from logbus.cluster.controller.broker_incarnations import BrokerIncarnations
from logbus.cluster.controller.controller_context import (
    ABSENT,
    NO_LEADER,
    ControllerContext,
    PartitionRecord,
    TopicRecord,
    assignment,
)
from logbus.cluster.controller.controller_metrics import ControllerMetrics
from logbus.cluster.controller.feature_level import compatible_brokers, next_feature_level
from logbus.cluster.controller.fence import Fence
from logbus.cluster.controller.leader_election import (
    ElectionResult,
    RegisteredBrokers,
    Situation,
    due_elections,
    situation,
)
from logbus.cluster.controller.reassignment import Move, finished, moved
from logbus.cluster.controller.state_loader import load_brokers, load_state
from logbus.cluster.controller.topic_rules import RulesFor
from logbus.cluster.controller.update_batch import UpdateBatch, partition_states_in_steps
from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import PartitionState
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.cluster_znodes import BrokerIncarnationsZnode, FeatureLevelZnode
from logbus.metastore.operations import Create, Op, Set, Watcher
from logbus.metastore.znodes import BROKER_INCARNATIONS, FEATURES, PartitionZnode, StateZnode, TopicZnode
from logbus.model import TopicPartition
from logbus.net.time_slices import SliceScheduler, TimeSlice

ELECTIONS_AT_ONCE = 50
"""Partitions that are looked at in one step of a time slice, each of which is a unit of work."""

UNITS_TO_TAKE_STATES = 10
"""Units of a time slice that it takes to take the states of a hundred partitions."""

UNITS_TO_ENCODE = 2
"""Units of a time slice that it takes to encode the state of one partition."""

PARTITIONS_A_UNIT = 5
"""So many partitions in the node of a topic are a unit of a time slice."""

UNITS_TO_LOG = 10
"""Units of a time slice that it takes to write one line of the log."""


@define(eq=False, repr=False)
class ActiveController:
    """
    The active controller of one controller epoch.

    :ivar epoch: the controller epoch; ``fence`` checks at every write that it is still current.
    :ivar rules_for: the rules of a topic, from its overrides and the defaults.
    :ivar brokers_moved: watches the brokers' registrations.
    :ivar metrics: counted, over all controller epochs of this broker.
    :ivar scheduler: gives time slices to work on many partitions; None: all of it runs at once.
    """

    broker_id: int
    epoch: int
    fence: Fence
    channels: BrokerChannels
    rules_for: RulesFor
    brokers_moved: Watcher
    metrics: ControllerMetrics = field(factory=ControllerMetrics)
    scheduler: SliceScheduler | None = None
    state: ControllerContext = field(factory=ControllerContext, init=False)
    _log = Logger()

    def time_slice(self) -> TimeSlice:
        """
        Begin work on many partitions. The queue waits meanwhile: nothing else changes the state between two slices.
        """
        return TimeSlice(self.scheduler)

    # Brokers.

    async def begin(self) -> None:
        """Load the state, hold the elections that are due, and send the full state to all brokers."""
        store = self.fence.store
        await store.sync()
        self.state = self.channels.state = await load_state(store, self.time_slice())
        self.state.brokers = await self._load_brokers()
        for name, reason in sorted(self.state.unreadable.items()):
            self._log.error("topic {topic} is left alone: {reason}", topic=name, reason=reason)
        await self.elect(self.state.partitions(), self.state.incarnations.unnoted(self.state.brokers))
        await self._raise_level()
        self._log.info(
            "controller epoch {epoch}: {brokers} brokers, {topics} topics",
            epoch=self.epoch,
            brokers=len(self.state.brokers),
            topics=len(self.state.topics),
        )
        await self.send(UpdateBatch(), self.state.brokers)
        await self.finish_moves(self.state.partitions())

    async def refresh_brokers(self) -> None:
        """Compare the registrations with those known, hold the elections that follow, and send them to the brokers."""
        before = self.state.brokers
        now = await self._load_brokers()
        registered = {
            number: broker
            for number, broker in now.items()
            if number not in before or before[number].epoch < broker.epoch
        }
        gone = before.keys() - now.keys()
        if not registered and not gone:
            return
        self._log.info(
            "brokers alive: {alive}; new or restarted: {registered}; gone: {gone}",
            alive=sorted(now),
            registered=sorted(registered),
            gone=sorted(gone),
        )
        self.state.brokers = now
        for number in (*gone, *registered):
            self.state.reports.forget(number)
        for number in self.state.reports.shutting_down:
            now[number] = evolve(now[number], in_controlled_shutdown=True)
        elected = await self.elect(self.state.partitions(), registered)
        await self._raise_level()
        await self.send(UpdateBatch(brokers=True, partitions=elected), registered)

    async def _load_brokers(self) -> dict[int, BrokerImage]:
        found = await load_brokers(self.fence.store, self.brokers_moved)
        fit = compatible_brokers(found, self.state.feature_level)
        for number in sorted(found.keys() - fit.keys()):
            self._log.error(
                "broker {broker} is left out: its feature level is {its}, the cluster's {wanted}",
                broker=number,
                its=found[number].feature_level,
                wanted=self.state.feature_level,
            )
        return fit

    async def _raise_level(self) -> None:
        level = next_feature_level(self.state)
        if level is not None:
            data, version = FeatureLevelZnode.encode(level), self.state.feature_version
            await self.fence.write([[Create(FEATURES, data) if version == ABSENT else Set(FEATURES, data, version)]])
            self.state.feature_level, self.state.feature_version = level, version + 1
            self._log.info("the cluster's feature level is {reached}", reached=level)

    async def check_broker(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        """
        Check that a request comes from a broker's current registration.

        :raise ApiError: STALE_BROKER_EPOCH.
        """
        for look_again in (True, False):
            known = self.state.brokers.get(broker_id)
            if known is not None and known.epoch == broker_epoch:
                return known
            if look_again:
                # It may have registered just now, before the watch has fired here.
                await self.refresh_brokers()
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered with the epoch {broker_epoch}"
        )

    # Partitions.

    async def settle(self, names: Iterable[TopicPartition], batch: UpdateBatch | None = None) -> PendingUpdates:
        """Hold the elections that are due among ``names``, and send them to the brokers together with ``batch``."""
        elected = await self.elect(names)
        batch = batch or UpdateBatch()
        return await self.send(evolve(batch, partitions=batch.partitions | elected))

    async def send(self, batch: UpdateBatch, new: Mapping[int, BrokerImage] | None = None) -> PendingUpdates:
        """Send changes that may be about very many partitions; see :meth:`.BrokerChannels.send`."""
        time_slice, state = self.time_slice(), self.state
        states = await time_slice.finish(
            partition_states_in_steps(state, batch.partitions, batch.created), UNITS_TO_TAKE_STATES
        )
        everything: tuple[PartitionState, ...] | None = None
        if new:
            steps = partition_states_in_steps(state, state.partitions())
            everything = await time_slice.finish(steps, UNITS_TO_TAKE_STATES)
        return self.channels.send(batch, new, states, everything)

    async def elect(
        self,
        names: Iterable[TopicPartition],
        registered: RegisteredBrokers | None = None,
        *,
        first: Iterable[Sequence[Op]] = (),
    ) -> frozenset[TopicPartition]:
        """
        Hold the elections that are due among ``names``, without sending them to the brokers.

        :param registered: brokers that have registered; their incarnations are written last.
        :param first: operations to write before the elections, in the same transaction or one of their own.
        :return: the partitions whose state changed.
        """
        registered = registered or {}
        unclean = self.state.incarnations.unclean(registered)
        if unclean and (held := unclean.intersection(self.state.holders())):
            self._log.warn(
                "brokers {brokers} did not stop cleanly: they are in sync again once they have fetched what they lack",
                brokers=sorted(held),
            )
        outcomes: dict[TopicPartition, ElectionResult] = {}
        async for some in self.time_slice().over_parts(names, ELECTIONS_AT_ONCE):
            outcomes |= due_elections(self.state, some, self.epoch, self.rules_for, registered, unclean)
        incarnations = self.state.incarnations.with_registered(registered)
        await self.write(outcomes, first=first, last=[_incarnations_op(incarnations)] if registered else ())
        if registered:
            incarnations.version += 1
            self.state.incarnations = incarnations
        return frozenset(outcomes)

    async def write(
        self,
        outcomes: Mapping[TopicPartition, ElectionResult],
        *,
        first: Iterable[Sequence[Op]] = (),
        last: Iterable[Sequence[Op]] = (),
    ) -> None:
        """Write elections to the store, then apply them to the state."""
        ops = [group async for group in self.time_slice().over(self._election_ops(outcomes), UNITS_TO_ENCODE)]
        await self.fence.write([*first, *ops, *last])
        async for name, outcome in self.time_slice().over(outcomes.items()):
            record = self.state.partition(name)
            before, record.state = record.state, outcome.result
            if outcome.result.leader != NO_LEADER:
                self.state.reports.log_ends.pop(name, None)
            self.metrics.note(before, outcome)
            if outcome.unclean:
                self._log.warn(
                    "{partition}: unclean election of broker {leader}, epoch {epoch}: committed records may be lost",
                    partition=name,
                    leader=outcome.result.leader,
                    epoch=outcome.result.leader_epoch,
                )

    def _election_ops(self, outcomes: Mapping[TopicPartition, ElectionResult]) -> Iterable[Sequence[Op]]:
        for name, outcome in outcomes.items():
            data = StateZnode.encode(outcome.result)
            path = StateZnode.path(*name)
            current = self.state.partition(name).state
            if current is None:
                yield Create(PartitionZnode.path(*name)), Create(path, data)
            else:
                yield (Set(path, data, current.version),)

    # Reassignment.

    async def move(self, moves: Mapping[TopicPartition, Move]) -> PendingUpdates:
        """
        Write the new replicas of partitions, and send them to the brokers.

        The states are written first: after an interruption they name no removed replica, and the move is as far as it
        was.
        """
        time_slice = self.time_slice()
        elections: dict[TopicPartition, ElectionResult] = {}
        after: dict[str, list[PartitionRecord]] = {}
        async for name, one in time_slice.over(moves.items()):
            if one.election is not None:
                elections[name] = one.election
            records = after.get(name.topic)
            if records is None:
                records = after[name.topic] = list(self.state.topics[name.topic].partitions)
            records[name.partition] = moved(records[name.partition], one)
        last: list[Sequence[Op]] = []
        async for topic_name, records in time_slice.over(after.items(), UNITS_TO_ENCODE):
            topic = self.state.topics[topic_name]
            data = TopicZnode.encode(assignment(topic.topic_id, records))
            last.append((Set(TopicZnode.path(topic_name), data, topic.version),))
            if time_slice.used(len(records) // PARTITIONS_A_UNIT):
                await time_slice.next()
        await self.write(elections, last=last)
        for topic_name, records in after.items():
            topic = self.state.topics[topic_name]
            topic.partitions = records
            topic.version += 1
        return await self.send(UpdateBatch(partitions=frozenset(moves)))

    async def finish_moves(self, names: Iterable[TopicPartition]) -> None:
        """End the moves among ``names`` whose new replicas are in sync."""
        moves = {}
        time_slice = self.time_slice()
        async for name in time_slice.over(names):
            topic, record = self.state.topics[name.topic], self.state.partition(name)
            if record.reassigning and record.state is not None:
                move = finished(record, self.situation(name, topic, record))
                if move is not None:
                    moves[name] = move
        if moves:
            await self.move(moves)
            async for name, move in time_slice.over(moves.items(), UNITS_TO_LOG):
                self._log.info("{partition} has moved to brokers {replicas}", partition=name, replicas=move.replicas)

    def situation(self, name: TopicPartition, topic: TopicRecord, record: PartitionRecord) -> Situation:
        """The input of decisions about a partition that had its first election."""
        return situation(self.state, name, record, self.rules_for(topic.overrides), self.epoch)

    def existing(self, name: TopicPartition) -> tuple[TopicRecord, PartitionRecord]:
        """
        A partition that exists and is to stay, with its topic.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        topic = self.state.topics.get(name.topic)
        if topic is None or topic.deleting or not 0 <= name.partition < len(topic.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}")
        return topic, topic.partitions[name.partition]


def _incarnations_op(incarnations: BrokerIncarnations) -> Sequence[Op]:
    data, version = BrokerIncarnationsZnode.encode(incarnations.by_broker), incarnations.version
    return (Create(BROKER_INCARNATIONS, data) if version == ABSENT else Set(BROKER_INCARNATIONS, data, version),)

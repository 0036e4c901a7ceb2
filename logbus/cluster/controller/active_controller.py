"""
The work of the elected controller, from its election until another broker is elected.

All changes run on the controller's event queue, one after the other. Each change is first written to the metadata
store under the fence, then applied to the state in memory, then sent to the brokers. The queue does not wait for the
brokers to apply it: a slow broker must not hold up the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from attrs import define, evolve, field
from twisted.logger import Logger

from logbus.cluster.controller.alter_partition import altered_state
from logbus.cluster.controller.broker_channels import BrokerChannels, PendingUpdates
from logbus.cluster.controller.controller_context import (
    ABSENT,
    ControllerContext,
    PartitionRecord,
    TopicRecord,
    assignment,
)
from logbus.cluster.controller.controller_metrics import ControllerMetrics
from logbus.cluster.controller.feature_level import compatible_brokers, next_feature_level
from logbus.cluster.controller.fence import Fence
from logbus.cluster.controller.incomplete_replicas import check_report
from logbus.cluster.controller.leader_election import (
    NO_LEADER,
    ElectionResult,
    LiveBrokers,
    Situation,
    due_elections,
    situation,
)
from logbus.cluster.controller.reassignment import Move, finished, moved
from logbus.cluster.controller.state_loader import load_brokers, load_state
from logbus.cluster.controller.topic_rules import ReplicaAvailability, RulesFor
from logbus.cluster.controller.update_batch import UpdateBatch
from logbus.cluster.icluster import IsrChange
from logbus.cluster.images import BrokerImage
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.cluster_znodes import BrokerIncarnation, BrokerIncarnationsZnode, FeatureLevelZnode
from logbus.metastore.imetastore import Create, Op, Set, Watcher
from logbus.metastore.znodes import BROKER_INCARNATIONS, FEATURES, PartitionZnode, StateZnode, TopicZnode
from logbus.model import LeaderAndIsr, LogEndReport, ReplicaReport, TopicPartition
from logbus.net.time_slices import SliceScheduler, TimeSlice

ELECTIONS_AT_ONCE = 50
"""Partitions that are looked at in one step of a time slice, each of which is a unit of work."""

UNITS_TO_ENCODE = 2
"""Units of a time slice that it takes to encode the state of one partition."""

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
        self.state = self.channels.state = await load_state(store)
        self.state.brokers = await self._load_brokers()
        for name, reason in sorted(self.state.unreadable.items()):
            self._log.error("topic {topic} is left alone: {reason}", topic=name, reason=reason)
        await self.elect(self.state.partitions(), self.state.come())
        await self._raise_level()
        self._log.info(
            "controller epoch {epoch}: {brokers} brokers, {topics} topics",
            epoch=self.epoch,
            brokers=len(self.state.brokers),
            topics=len(self.state.topics),
        )
        self.channels.send(UpdateBatch(), self.state.brokers)
        await self.finish_moves(self.state.partitions())

    async def refresh_brokers(self) -> None:
        """Compare the registrations with those known, hold the elections that follow, and send them to the brokers."""
        before = self.state.brokers
        now = await self._load_brokers()
        come = {
            number: broker
            for number, broker in now.items()
            if number not in before or before[number].epoch < broker.epoch
        }
        gone = before.keys() - now.keys()
        if not come and not gone:
            return
        self._log.info(
            "brokers alive: {alive}; new or restarted: {come}; gone: {gone}",
            alive=sorted(now),
            come=sorted(come),
            gone=sorted(gone),
        )
        self.state.brokers = now
        for number in (*gone, *come):
            self.state.forget(number)
        for number in self.state.leaving:
            now[number] = evolve(now[number], in_controlled_shutdown=True)
        elected = await self.elect(self.state.partitions(), come)
        await self._raise_level()
        self.channels.send(UpdateBatch(brokers=True, partitions=elected), come)

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

    async def note_failed(self, broker: BrokerImage, names: frozenset[TopicPartition]) -> None:
        """Take replicas of a live broker offline until it registers again, and move their leaders elsewhere."""
        known = self.state.brokers.get(broker.broker_id)
        if known is None or known.epoch != broker.epoch:
            return
        failed = self.state.failed.setdefault(broker.broker_id, set())
        news = {name for name in names - failed if name.topic in self.state.topics}
        failed |= news
        if news:
            await self.settle(name for name in news if not self.state.topics[name.topic].deleting)

    async def shut_down(self, broker_id: int, broker_epoch: int) -> Sequence[TopicPartition]:
        """
        Controlled shutdown of a broker (KIP-143): elect other leaders for the partitions that it leads, and take it out
        of the in-sync replicas where it is not the last. It becomes leader of nothing until it registers again. A
        repeated call continues the work.

        :return: the partitions that it still leads, since no other replica could, in order.
        :raise ApiError: STALE_BROKER_EPOCH.
        """
        await self.check_broker(broker_id, broker_epoch)
        if broker_id not in self.state.leaving:
            self._log.info("broker {broker} is shutting down", broker=broker_id)
            self.state.leaving.add(broker_id)
            self.state.brokers[broker_id] = evolve(self.state.brokers[broker_id], in_controlled_shutdown=True)
        concerned = []
        async for name in self.time_slice().over(self.state.partitions()):
            record = self.state.partition(name)
            if record.state is not None and broker_id in record.state.isr:
                concerned.append(name)
        await self.settle(concerned, UpdateBatch(brokers=True))
        return [name for name in concerned if self._leader(name) == broker_id]

    async def report_replicas(
        self, broker_id: int, broker_epoch: int, reports: Sequence[ReplicaReport]
    ) -> Mapping[TopicPartition, LeaderAndIsr | ApiError]:
        """
        Handle a broker's reports of replicas that lack committed records, or hold damaged ones: other replicas lead,
        where they can.

        A broker's own replica counts as incomplete until the broker reports it complete, or registers again. A report
        about its leader counts if the broker itself is known to have every committed record; the leader is then not
        elected again until it has fetched the records it lacks.

        :return: the states afterwards. FENCED_LEADER_EPOCH, INELIGIBLE_REPLICA, UNKNOWN_TOPIC_OR_PARTITION.
        :raise ApiError: STALE_BROKER_EPOCH.
        """
        await self.check_broker(broker_id, broker_epoch)
        answers: dict[TopicPartition, LeaderAndIsr | ApiError] = {}
        taken: list[ReplicaReport] = []
        for report in reports:
            name = report.topic_partition
            try:
                _, record = self.existing(name)
                check_report(report, record, self.state.standing(broker_id, name), broker_id)
            except ApiError as error:
                answers[name] = error
                continue
            taken.append(report)
            marked = self.state.incomplete.setdefault(report.replica, set())
            if report.complete:
                marked.discard(name)
            else:
                self._log.error(
                    "{partition}: the replica on broker {replica} is incomplete, says broker {broker}: {reason}",
                    partition=name, replica=report.replica, broker=broker_id, reason=report.reason,
                )  # fmt: skip
                self.metrics.incomplete_replicas += name not in marked
                marked.add(name)
        try:
            await self.settle([report.topic_partition for report in taken])
        finally:
            for report in taken:
                if report.replica != broker_id:
                    # It has left the in-sync replicas, and rejoins once it has fetched the records it lacks.
                    self.state.incomplete[report.replica].discard(report.topic_partition)
        for report in taken:
            state = self.state.partition(report.topic_partition).state
            assert state is not None
            answers[report.topic_partition] = state
        return answers

    async def note_log_ends(
        self, broker_id: int, broker_epoch: int, ends: Mapping[TopicPartition, LogEndReport]
    ) -> None:
        """
        Note where a broker's logs end, of partitions without a leader: the replica with the longest log may be elected.

        :raise ApiError: STALE_BROKER_EPOCH.
        """
        await self.check_broker(broker_id, broker_epoch)
        told = []
        for name, (leader_epoch, end) in ends.items():
            topic = self.state.topics.get(name.topic)
            if topic is None or topic.deleting or not 0 <= name.partition < len(topic.partitions):
                continue
            record = topic.partitions[name.partition]
            now = record.state
            if now is None or broker_id not in record.replicas:
                continue
            if (now.leader, now.leader_epoch) == (NO_LEADER, leader_epoch):
                self.state.log_ends.setdefault(name, {})[broker_id] = end
                told.append(name)
        if told:
            await self.settle(told)

    def _leader(self, name: TopicPartition) -> int | None:
        state = self.state.partition(name).state
        return None if state is None else state.leader

    # Partitions.

    async def settle(self, names: Iterable[TopicPartition], batch: UpdateBatch | None = None) -> PendingUpdates:
        """Hold the elections that are due among ``names``, and send them to the brokers together with ``batch``."""
        elected = await self.elect(names)
        batch = batch or UpdateBatch()
        return self.channels.send(evolve(batch, partitions=batch.partitions | elected))

    async def elect(
        self, names: Iterable[TopicPartition], come: LiveBrokers | None = None, *, first: Iterable[Sequence[Op]] = ()
    ) -> frozenset[TopicPartition]:
        """
        Hold the elections that are due among ``names``, without sending them to the brokers.

        :param come: brokers that have registered; their incarnations are written last.
        :param first: operations to write before the elections, in the same transaction or one of their own.
        :return: the partitions whose state changed.
        """
        come = come or {}
        unclean = self.state.unclean(come)
        if unclean and (held := unclean.intersection(self.state.holders())):
            self._log.warn(
                "brokers {brokers} did not stop cleanly: they are in sync again once they have fetched what they lack",
                brokers=sorted(held),
            )
        outcomes: dict[TopicPartition, ElectionResult] = {}
        async for some in self.time_slice().over(_some_at_a_time(names), ELECTIONS_AT_ONCE):
            outcomes |= due_elections(self.state, some, self.epoch, self.rules_for, come, unclean)
        lives = self.state.lives | {
            number: BrokerIncarnation(one.epoch, one.incarnation) for number, one in come.items()
        }
        await self.write(outcomes, first=first, last=[self._lives_op(lives)] if come else ())
        if come:
            self.state.lives = lives
            self.state.lives_version += 1
        return frozenset(outcomes)

    def _lives_op(self, lives: Mapping[int, BrokerIncarnation]) -> Sequence[Op]:
        data, version = BrokerIncarnationsZnode.encode(lives), self.state.lives_version
        return (Create(BROKER_INCARNATIONS, data) if version == ABSENT else Set(BROKER_INCARNATIONS, data, version),)

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
                self.state.log_ends.pop(name, None)
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

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> Mapping[TopicPartition, LeaderAndIsr | ApiError]:
        """
        Grant a leader's wishes to change in-sync replicas, those that can be: see :func:`.altered_state`.

        :raise ApiError: STALE_BROKER_EPOCH: the sender is not registered, or has an earlier epoch.
        """
        await self.check_broker(broker_id, broker_epoch)
        answers: dict[TopicPartition, LeaderAndIsr | ApiError] = {}
        changed: dict[TopicPartition, ElectionResult] = {}
        for change in changes:
            name = change.topic_partition

            def joins(number: int, epoch: int, name: TopicPartition = name) -> bool:
                return (
                    self.state.standing(number, name) is ReplicaAvailability.UP
                    and self.state.brokers[number].epoch == epoch
                )

            try:
                topic, record = self.existing(name)
                rules = self.rules_for(topic.overrides)
                answers[name] = state = altered_state(change, record, broker_id, joins, rules, self.epoch)
            except ApiError as error:
                answers[name] = error
                continue
            if state is not record.state:
                changed[name] = ElectionResult(state)
        if changed:
            await self.write(changed)
            self.channels.send(UpdateBatch(partitions=frozenset(changed)))
            await self._replace_incomplete(changed)
            await self.finish_moves(changed)
        return answers

    async def _replace_incomplete(self, names: Iterable[TopicPartition]) -> None:
        """Elect other leaders where the leader is incomplete, now that another replica has joined the ISR."""
        leaders = ((name, self._leader(name)) for name in names)
        led = [name for name, leader in leaders if leader is not None and name in self.state.incomplete.get(leader, ())]
        if led:
            await self.settle(led)

    # Reassignment.

    async def move(self, moves: Mapping[TopicPartition, Move]) -> PendingUpdates:
        """
        Write the new replicas of partitions, and send them to the brokers.

        The states are written first: after an interruption they name no removed replica, and the move is as far as it
        was.
        """
        elections = {name: one.election for name, one in moves.items() if one.election is not None}
        records = {name: moved(self.state.partition(name), one) for name, one in moves.items()}
        last: list[Sequence[Op]] = []
        for topic_name in dict.fromkeys(name.topic for name in moves):
            topic = self.state.topics[topic_name]
            numbered = enumerate(topic.partitions)
            after = [records.get(TopicPartition(topic_name, number), record) for number, record in numbered]
            data = TopicZnode.encode(assignment(topic.topic_id, after))
            last.append((Set(TopicZnode.path(topic_name), data, topic.version),))
        await self.write(elections, last=last)
        for name, record in records.items():
            self.state.topics[name.topic].partitions[name.partition] = record
        for topic_name in {name.topic for name in moves}:
            self.state.topics[topic_name].version += 1
        return self.channels.send(UpdateBatch(partitions=frozenset(moves)))

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


def _some_at_a_time(names: Iterable[TopicPartition]) -> Iterator[list[TopicPartition]]:
    rest = iter(names)
    while some := list(islice(rest, ELECTIONS_AT_ONCE)):
        yield some

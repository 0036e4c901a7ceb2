"""
One broker's time as controller, from the election to the next: what it knows, writes and announces.

Everything that changes runs on the controller's queue, one thing after the other. Each change is first written under
the fence, then noted, then announced; announcing is not waited for on the queue, as a slow broker must not hold up
the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.controller.announcements import Batch, changes, everything
from logbus.cluster.controller.election import Election, due_elections
from logbus.cluster.controller.fence import Fence
from logbus.cluster.controller.isrchanges import granted
from logbus.cluster.controller.loading import load_brokers, load_state
from logbus.cluster.controller.rules import RulesFor
from logbus.cluster.controller.state import ABSENT, ControllerState, PartitionRecord, TopicRecord
from logbus.cluster.icluster import (
    Announcement,
    DeletedTopic,
    IAnnouncementReceiver,
    IsrChange,
    PartitionErrors,
    ReceiverFor,
)
from logbus.cluster.metadata import BrokerImage
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.imetastore import Create, Delete, NoNode, Op, Set, Watcher
from logbus.metastore.znodes import (
    Assignment,
    ConfigZnode,
    DeletedTopicZnode,
    PartitionZnode,
    StateZnode,
    TopicZnode,
)
from logbus.model import LeaderAndIsr, TopicPartition


@frozen
class Delivery:
    """Announcements on their way."""

    _done: Deferred[PartitionErrors]

    def wait(self) -> Deferred[PartitionErrors]:
        """
        Fires once all brokers alive have heard, with the partitions that somebody could not bring up; never fails.
        """
        waiting: Deferred[PartitionErrors] = Deferred()

        def heard(errors: PartitionErrors) -> PartitionErrors:
            waiting.callback(errors)
            return errors

        self._done.addCallback(heard)
        return waiting


ReplicasFailed = Callable[[BrokerImage, frozenset[TopicPartition]], object]


@define(eq=False)
class Tenure:
    """
    A term of office.

    :ivar epoch: the controller epoch; ``fence`` makes sure that it is still current at every write.
    :ivar receiver_for: how to reach a broker.
    :ivar over: nothing is to be said in its name any more.
    :ivar rules_for: what a topic's overrides say, laid over the defaults.
    :ivar brokers_moved: watches the brokers' registrations.
    :ivar replicas_failed: told when a broker answers that it cannot bring up some of its replicas.
    """

    broker_id: int
    epoch: int
    fence: Fence
    receiver_for: ReceiverFor
    rules_for: RulesFor
    brokers_moved: Watcher
    replicas_failed: ReplicasFailed
    over: bool = field(default=False, init=False)
    state: ControllerState = field(factory=ControllerState, init=False)
    _receivers: dict[int, tuple[int, IAnnouncementReceiver]] = field(factory=dict, init=False)
    _log = Logger()

    # Brokers.

    async def begin(self) -> None:
        """Read everything, elect where it is due, and announce everything to everyone."""
        store = self.fence.store
        await store.sync()
        self.state = await load_state(store)
        self.state.brokers = await load_brokers(store, self.brokers_moved)
        await self._elect(self.state.partitions())
        self._log.info(
            "controller epoch {epoch}: {brokers} brokers, {topics} topics",
            epoch=self.epoch,
            brokers=len(self.state.brokers),
            topics=len(self.state.topics),
        )
        self._send(everything(self.state, self.state.brokers.values(), self.broker_id, self.epoch))

    async def refresh_brokers(self) -> None:
        """Compare the registrations with those known; elect and announce what follows."""
        before = self.state.brokers
        now = await load_brokers(self.fence.store, self.brokers_moved)
        come = [broker for number, broker in now.items() if number not in before or before[number].epoch < broker.epoch]
        gone = before.keys() - now.keys()
        if not come and not gone:
            return
        self._log.info(
            "brokers alive: {alive}; new or restarted: {come}; gone: {gone}",
            alive=sorted(now),
            come=sorted(broker.broker_id for broker in come),
            gone=sorted(gone),
        )
        self.state.brokers = now
        for number in [*gone, *(broker.broker_id for broker in come)]:
            self.state.failed.pop(number, None)
        elected = await self._elect(self.state.partitions())
        full = everything(self.state, come, self.broker_id, self.epoch)
        batch = Batch(brokers=True, partitions=elected)
        self._send({**changes(self.state, batch, self.broker_id, self.epoch), **full})

    async def note_failed(self, broker: BrokerImage, names: frozenset[TopicPartition]) -> None:
        """Replicas of a broker that lives are offline until it registers again: their leaders move elsewhere."""
        known = self.state.brokers.get(broker.broker_id)
        if known is None or known.epoch != broker.epoch:
            return
        failed = self.state.failed.setdefault(broker.broker_id, set())
        news = {name for name in names - failed if name.topic in self.state.topics}
        failed |= news
        if news:
            await self.settle(name for name in news if not self.state.topics[name.topic].deleting)

    # Partitions.

    async def settle(self, names: Iterable[TopicPartition], batch: Batch | None = None) -> Delivery:
        """Hold the elections that are due among ``names`` and announce them, with what ``batch`` has beside."""
        elected = await self._elect(names)
        batch = batch or Batch()
        return self._announce(evolve(batch, partitions=batch.partitions | elected))

    async def _elect(self, names: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        outcomes = due_elections(self.state, names, self.epoch, self._unclean_allowed)
        await self.fence.write(self._election_ops(outcomes))
        self._note(outcomes)
        return frozenset(outcomes)

    def _unclean_allowed(self, overrides: Mapping[str, str]) -> bool:
        return self.rules_for(overrides).unclean_allowed

    def _election_ops(self, outcomes: Mapping[TopicPartition, Election]) -> Iterable[Sequence[Op]]:
        for name, outcome in outcomes.items():
            data = StateZnode.encode(outcome.result)
            path = StateZnode.path(*name)
            current = self.state.partition(name).state
            if current is None:
                yield Create(PartitionZnode.path(*name)), Create(path, data)
            else:
                yield (Set(path, data, current.version),)

    def _note(self, outcomes: Mapping[TopicPartition, Election]) -> None:
        for name, outcome in outcomes.items():
            record = self.state.partition(name)
            record.state = outcome.result
            leader = self.state.brokers.get(outcome.result.leader)
            # Elected in this life of the leader, whatever the number of the transaction.
            record.changed = leader.epoch if leader else 0
            if outcome.unclean:
                self._log.warn(
                    "{partition}: unclean election of broker {leader}, epoch {epoch}: committed records may be lost",
                    partition=name,
                    leader=outcome.result.leader,
                    epoch=outcome.result.leader_epoch,
                )

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> Mapping[TopicPartition, LeaderAndIsr | ApiError]:
        """
        Grant a leader's wishes to change in-sync replicas, those that can be: see :func:`.granted`.

        :raise ApiError: STALE_BROKER_EPOCH: the one who asks is not registered, or was in a former life.
        """
        await self._check_broker(broker_id, broker_epoch)
        answers: dict[TopicPartition, LeaderAndIsr | ApiError] = {}
        changed: dict[TopicPartition, LeaderAndIsr] = {}
        for change in changes:
            name = change.topic_partition
            try:
                topic, record = self._existing(name)
                answers[name] = state = granted(
                    change,
                    record,
                    broker_id,
                    lambda number, name=name: self.state.serves(number, name),  # type: ignore[misc]
                    self.rules_for(topic.overrides),
                    self.epoch,
                )
            except ApiError as error:
                answers[name] = error
                continue
            if state is not record.state:
                changed[name] = state
        await self.fence.write(self._state_ops(changed))
        for name, state in changed.items():
            self.state.partition(name).state = state
        if changed:
            self._announce(Batch(partitions=frozenset(changed)))
        return answers

    def _state_ops(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> Iterable[Sequence[Op]]:
        for name, state in states.items():
            yield (Set(StateZnode.path(*name), StateZnode.encode(state), state.version - 1),)

    def _existing(self, name: TopicPartition) -> tuple[TopicRecord, PartitionRecord]:
        topic = self.state.topics.get(name.topic)
        if topic is None or topic.deleting or not 0 <= name.partition < len(topic.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}")
        return topic, topic.partitions[name.partition]

    async def _check_broker(self, broker_id: int, broker_epoch: int) -> None:
        """Make sure that it is this life of a broker that asks."""
        for look_again in (True, False):
            known = self.state.brokers.get(broker_id)
            if known is not None and known.epoch == broker_epoch:
                return
            if look_again:
                # It may have registered just now, and ask before the watch told us.
                await self.refresh_brokers()
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered with the epoch {broker_epoch}"
        )

    # Topics.

    async def create(self, topics: Sequence[TopicRecord]) -> Delivery:
        """Make topics that do not exist; their partitions are elected in the same transactions."""
        groups: list[Sequence[Op]] = []
        created: set[TopicPartition] = set()
        for topic in topics:
            groups.append(
                (
                    Create(ConfigZnode.topic_path(topic.name), ConfigZnode.encode(topic.overrides)),
                    Create(TopicZnode.path(topic.name), TopicZnode.encode(_assignment(topic))),
                    Create(TopicZnode.partitions_path(topic.name)),
                )
            )
            topic.config_version = 0
            created.update(TopicPartition(topic.name, number) for number in range(len(topic.partitions)))
        return await self._write_new(topics, groups, created)

    async def grow(self, grown: Sequence[tuple[TopicRecord, Sequence[tuple[int, ...]]]]) -> Delivery:
        """Give topics more partitions, with these replicas."""
        groups: list[Sequence[Op]] = []
        created: set[TopicPartition] = set()
        topics = []
        for topic, added in grown:
            records = [*topic.partitions, *(PartitionRecord(replicas) for replicas in added)]
            larger = evolve(topic, partitions=records, version=topic.version + 1)
            groups.append((Set(TopicZnode.path(topic.name), TopicZnode.encode(_assignment(larger)), topic.version),))
            created.update(TopicPartition(topic.name, n) for n in range(len(topic.partitions), len(records)))
            topics.append(larger)
        return await self._write_new(topics, groups, created)

    async def _write_new(
        self, topics: Sequence[TopicRecord], groups: list[Sequence[Op]], created: set[TopicPartition]
    ) -> Delivery:
        before = {topic.name: self.state.topics.get(topic.name) for topic in topics}
        self.state.topics.update((topic.name, topic) for topic in topics)
        try:
            outcomes = due_elections(self.state, sorted(created), self.epoch, self._unclean_allowed)
            await self.fence.write([*groups, *self._election_ops(outcomes)])
        except BaseException:
            for name, topic in before.items():
                if topic is None:
                    del self.state.topics[name]
                else:
                    self.state.topics[name] = topic
            raise
        self._note(outcomes)
        return self._announce(Batch(partitions=frozenset(created), created=frozenset(created)))

    async def configure_topics(self, overrides: Mapping[str, Mapping[str, str]]) -> Delivery:
        """Replace topics' overrides."""
        groups: list[Sequence[Op]] = []
        for name, values in overrides.items():
            topic = self.state.topics[name]
            groups.append((_put_config(ConfigZnode.topic_path(name), values, topic.config_version),))
        await self.fence.write(groups)
        for name, values in overrides.items():
            self.state.topics[name].overrides = dict(values)
            self.state.topics[name].config_version += 1
        # A topic may allow unclean election now: what was offline for want of it is due.
        names = [name for name in self.state.partitions() if name.topic in overrides]
        return await self.settle(names, Batch(configs=frozenset(overrides)))

    async def configure_broker(self, entity: str, overrides: Mapping[str, str]) -> Delivery:
        """Replace the overrides of a broker, or of all brokers (``<default>``)."""
        version = self.state.broker_config_versions.get(entity, ABSENT)
        await self.fence.write([(_put_config(ConfigZnode.broker_path(entity), overrides, version),)])
        self.state.broker_configs[entity] = dict(overrides)
        self.state.broker_config_versions[entity] = version + 1
        return self._announce(Batch(broker_configs=frozenset([entity])))

    async def begin_deletion(self, names: Sequence[str]) -> Delivery:
        """Mark topics, so that their deletion survives us, and have the brokers give up their logs."""
        await self.fence.write((Create(DeletedTopicZnode.path(name)),) for name in names)
        for name in names:
            self.state.topics[name].deleting = True
        return self.announce_deletion(names)

    def announce_deletion(self, names: Sequence[str]) -> Delivery:
        """Tell the brokers alive; those that are not will find the topics gone."""
        topics = [self.state.topics[name] for name in names]
        deleted = tuple(DeletedTopic(topic.name, topic.topic_id, len(topic.partitions)) for topic in topics)
        return self._announce(Batch(deleted=deleted))

    async def finish_deletion(self, names: Sequence[str]) -> None:
        """Remove what is left of topics whose logs are gone; the mark last, so that we begin again if we fail."""
        store = self.fence.store
        for name in names:
            topic = self.state.topics.get(name)
            if topic is None or not topic.deleting:
                continue  # Finished already, and perhaps made anew.
            groups: list[Sequence[Op]] = []
            parent = TopicZnode.partitions_path(name)
            try:
                numbers = await store.children(parent)
            except NoNode:
                numbers = []
            else:
                groups += [(Delete(f"{parent}/{number}/state"), Delete(f"{parent}/{number}")) for number in numbers]
            # What an earlier attempt removed already is left out.
            last = [
                path
                for path in (parent, TopicZnode.path(name), ConfigZnode.topic_path(name), DeletedTopicZnode.path(name))
                if await store.exists(path) is not None
            ]
            await self.fence.write([*groups, [Delete(path) for path in last]])
            self.state.topics.pop(name, None)
            for failed in self.state.failed.values():
                failed.difference_update([one for one in failed if one.topic == name])
            self._log.info("topic {topic} was deleted", topic=name)

    # Announcing.

    def _announce(self, batch: Batch) -> Delivery:
        return self._send(changes(self.state, batch, self.broker_id, self.epoch))

    def _send(self, announcements: Mapping[int, Announcement]) -> Delivery:
        answers = gatherResults(
            [self._send_one(self.state.brokers[number], one) for number, one in announcements.items()]
        )
        return Delivery(answers.addCallback(lambda all: {name: error for one in all for name, error in one.items()}))

    def everything_for(self, broker: BrokerImage) -> Announcement | None:
        """All there is, for a broker that may have missed something; None if it is gone, or the tenure over."""
        known = self.state.brokers.get(broker.broker_id)
        if self.over or known is None or known.epoch != broker.epoch:
            return None
        return everything(self.state, [known], self.broker_id, self.epoch)[broker.broker_id]

    def _send_one(self, broker: BrokerImage, announcement: Announcement) -> Deferred[PartitionErrors]:
        epoch, receiver = self._receivers.get(broker.broker_id, (None, None))
        if receiver is None or epoch != broker.epoch:
            receiver = self.receiver_for(broker, partial(self.everything_for, broker))
            self._receivers[broker.broker_id] = (broker.epoch, receiver)

        def answered(errors: PartitionErrors) -> PartitionErrors:
            if errors:
                self.replicas_failed(broker, frozenset(errors))
            return errors

        def failed(failure: Failure) -> PartitionErrors:
            if failure.check(ApiError) is not None:
                self._log.warn("broker {broker} refused: {error}", broker=broker.broker_id, error=failure.value)
            else:
                self._log.failure("broker {broker} did not apply an announcement", failure, broker=broker.broker_id)
            error = ApiError(ErrorCode.REQUEST_TIMED_OUT, f"broker {broker.broker_id} has not heard of it yet")
            return {
                state.topic_partition: error for state in announcement.partitions if broker.broker_id in state.replicas
            }

        return receiver.apply(announcement).addCallbacks(answered, failed)


def _assignment(topic: TopicRecord) -> Assignment:
    return Assignment(topic.topic_id, tuple(record.replicas for record in topic.partitions))


def _put_config(path: str, overrides: Mapping[str, str], version: int) -> Op:
    data = ConfigZnode.encode(overrides)
    return Create(path, data) if version == ABSENT else Set(path, data, version)

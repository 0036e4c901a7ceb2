"""Applies the controller's metadata updates to this broker: removes replicas, takes roles, updates the metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import groupby, islice
from typing import TypeVar
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import DeferredLock
from zope.interface import implementer

from logbus.cluster.cluster_metadata import ClusterMetadata, PartitionImage
from logbus.cluster.controller_epoch_store import ControllerEpochStore
from logbus.cluster.icluster import IMetadataUpdateReceiver, IReplicaHost, PartitionErrors
from logbus.cluster.metadata_update import DeletedTopic, MetadataUpdate, PartitionState
from logbus.cluster.metadata_update_codec import decode_update
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.net.time_slices import SliceScheduler, TimeSlice
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.messages.inter_broker import MetadataUpdateRequest

T = TypeVar("T")

STATES_A_STEP = 100
"""Partitions that are looked at in one step of a time slice."""

STATES_A_UNIT = 10
"""So many of them are a unit of work."""

STATES_SHOWN = 1000
"""So many partitions at least are shown to readers at once."""


@implementer(IMetadataUpdateReceiver)
@define(eq=False, repr=False)
class MetadataUpdateReceiver:
    """
    Applies metadata updates to this broker, one after the other.

    Clients never see metadata that is not served yet: a deleted partition leaves the metadata before its log is
    removed, and a role is taken before the metadata shows it.

    :ivar broker_epoch: of this broker now; updates for an earlier registration are refused.
    :ivar epochs: updates of a lower controller epoch than the highest are refused.
    :ivar broker_configs: called with new overrides by entity: a broker's id or ``<default>``.
    :ivar scheduler: gives time slices to updates of many partitions; None: all of it runs at once.
    """

    broker_id: int
    metadata: ClusterMetadata
    host: IReplicaHost
    broker_epoch: Callable[[], int]
    broker_configs: Callable[[Mapping[str, Mapping[str, str]]], object]
    epochs: ControllerEpochStore = field(factory=ControllerEpochStore)
    scheduler: SliceScheduler | None = None
    _turn: DeferredLock = field(factory=DeferredLock, init=False)
    # Controller epoch, broker epoch and number of the last numbered update.
    _last: tuple[int, int, int] = field(default=(-1, -1, 0), init=False)

    @returns_deferred
    async def apply(self, update: MetadataUpdate) -> PartitionErrors:
        """See :meth:`IMetadataUpdateReceiver.apply`."""
        await self._turn.acquire()
        try:
            return await self._apply(update, TimeSlice(self.scheduler))
        finally:
            self._turn.release()

    @returns_deferred
    async def apply_encoded(self, request: MetadataUpdateRequest) -> PartitionErrors:
        """
        Decode an update, and apply it, in the order in which they come.

        :raise DecodeError: it cannot be decoded.
        """
        await self._turn.acquire()
        try:
            time_slice = TimeSlice(self.scheduler)
            return await self._apply(await time_slice.finish(decode_update(request), ELEMENTS_PER_STEP), time_slice)
        finally:
            self._turn.release()

    async def _apply(self, update: MetadataUpdate, time_slice: TimeSlice) -> PartitionErrors:
        await self._check(update)
        self._secure(update)
        errors: dict[TopicPartition, ApiError] = {}
        await self._remove(update, errors, time_slice)
        if update.broker_configs:
            self.broker_configs(update.broker_configs)
        for topic, overrides in update.configs.items():
            await self.host.configure(topic, overrides)
        mine: list[PartitionState] = []
        async for some in _parts(time_slice, update.partitions):
            mine += [state for state in some if self.broker_id in state.replicas]
        if mine:
            errors.update(await self.host.become(mine))
        await self._show(update, time_slice)
        return errors

    async def _check(self, update: MetadataUpdate) -> None:
        if update.controller_epoch < self.epochs.highest:
            raise ApiError(
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"controller {update.controller_id} of epoch {update.controller_epoch} was replaced: "
                f"the epoch is {self.epochs.highest}; if no other is elected, the metadata store was set back: "
                "export its metadata, and import them to another chroot",
            )
        epoch = self.broker_epoch()
        # A greater epoch is ours, too: the controller may see our registration before we have the store's answer.
        if update.broker_epoch < epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"the update is for epoch {update.broker_epoch} of broker {self.broker_id}, not {epoch}",
            )
        order = update.controller_epoch, update.broker_epoch, update.number
        if update.number and order <= self._last:
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"the update with the number {update.number} comes after number {self._last[2]}, which replaces it",
            )
        if update.controller_epoch > self.epochs.highest:
            await self.epochs.remember(update.controller_epoch)
        if update.number:
            self._last = order

    def _secure(self, update: MetadataUpdate) -> None:
        """Apply users and ACLs before all else: what was revoked ends now, not after slow work on replicas."""
        if update.security_nodes is not None:
            if update.full:
                self.metadata.security_nodes.replace(update.security_nodes)
            else:
                self.metadata.security_nodes.change(update.security_nodes)

    async def _remove(
        self, update: MetadataUpdate, errors: dict[TopicPartition, ApiError], time_slice: TimeSlice
    ) -> None:
        deleted = list(update.deleted)
        gone = list(deleted)
        if update.full:
            alive: set[tuple[str, UUID]] = set()
            async for some in _parts(time_slice, update.partitions):
                alive.update((state.topic_partition.topic, state.topic_id) for state in some)
            gone += [
                DeletedTopic(topic.name, topic.topic_id, len(topic.partitions))
                for topic in self.metadata.topics.values()
                if (topic.name, topic.topic_id) not in alive and topic.name not in update.unreadable
            ]
        names: list[TopicPartition] = []
        if gone:
            with self.metadata.changing() as metadata:
                for topic in gone:
                    metadata.remove_topic(topic.name, topic.topic_id)
        every = (TopicPartition(topic.name, number) for topic in deleted for number in range(topic.partitions))
        async for named in _parts(time_slice, every):
            names += named
        async for some in _parts(time_slice, update.partitions):
            names += self._moved_away(some)
        if names:
            errors.update(await self.host.remove(names))
        if update.full:
            # Others were deleted, or moved away, while this broker missed updates; or the metadata are older ones.
            held: set[TopicPartition] = set()
            async for some in _parts(time_slice, update.partitions):
                held.update(state.topic_partition for state in some if self.broker_id in state.replicas)
            errors.update(await self.host.retain(held, update.unreadable))

    def _moved_away(self, states: Iterable[PartitionState]) -> list[TopicPartition]:
        """The partitions whose replica here was moved to other brokers."""
        names: list[TopicPartition] = []
        for state in states:
            if self.broker_id not in state.replicas:
                known = self.metadata.partition(state.topic_partition)
                if known is not None and self.broker_id in known.replicas:
                    names.append(state.topic_partition)
        return names

    async def _show(self, update: MetadataUpdate, time_slice: TimeSlice) -> None:
        """
        Show the update to readers: each topic whole, all of them at once unless there are very many partitions, and the
        rest with the last of them.
        """
        shown: list[tuple[str, UUID, list[tuple[int, PartitionImage]], Mapping[str, str]]] = []
        count = 0
        for (name, topic_id), states in groupby(
            update.partitions, lambda state: (state.topic_partition.topic, state.topic_id)
        ):
            images: list[tuple[int, PartitionImage]] = []
            async for some in _parts(time_slice, states):
                images += [
                    (state.topic_partition.partition, PartitionImage(state.replicas, state.leader_and_isr))
                    for state in some
                ]
                overrides = some[-1].overrides
            shown.append((name, topic_id, images, overrides))
            count += len(images)
            if count >= STATES_SHOWN:
                with self.metadata.changing() as metadata:
                    metadata.is_partial = True
                    _show_topics(metadata, shown)
                shown, count = [], 0
                if time_slice.used(STATES_SHOWN // STATES_A_UNIT):
                    await time_slice.next()
        with self.metadata.changing() as metadata:
            metadata.is_partial = False
            metadata.set_controller(update.controller_id)
            if update.brokers is not None:
                metadata.set_brokers(update.brokers)
            _show_topics(metadata, shown)
            for name, overrides in update.configs.items():
                metadata.set_configs(name, overrides)
            for entity, overrides in update.broker_configs.items():
                metadata.set_broker_configs(entity, overrides)
            if update.full:
                for entity in metadata.broker_configs.keys() - update.broker_configs.keys():
                    metadata.set_broker_configs(entity, {})
                for group_id in metadata.group_configs.keys() - update.group_configs.keys():
                    metadata.set_group_configs(group_id, {})
            for group_id, overrides in update.group_configs.items():
                metadata.set_group_configs(group_id, overrides)


async def _parts(time_slice: TimeSlice, every: Iterable[T]) -> AsyncIterator[list[T]]:
    """The states or names of partitions in lists, with waits between them."""
    rest = iter(every)
    while some := list(islice(rest, STATES_A_STEP)):
        yield some
        if time_slice.used(1 + len(some) // STATES_A_UNIT):
            await time_slice.next()


def _show_topics(
    metadata: ClusterMetadata,
    shown: Iterable[tuple[str, UUID, list[tuple[int, PartitionImage]], Mapping[str, str]]],
) -> None:
    for name, topic_id, images, overrides in shown:
        metadata.set_partitions(name, topic_id, images)
        metadata.set_configs(name, overrides)

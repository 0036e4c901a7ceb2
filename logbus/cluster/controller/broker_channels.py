"""
Sends metadata updates to all brokers (Kafka: ControllerChannelManager): one receiver for each registration of a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.controller.controller_context import ControllerContext
from logbus.cluster.controller.update_batch import UpdateBatch, full_updates, incremental_updates
from logbus.cluster.icluster import IMetadataUpdateReceiver, PartitionErrors, ReceiverFor
from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import MetadataUpdate, PartitionState
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

ReplicasFailed = Callable[[BrokerImage, frozenset[TopicPartition]], object]


@frozen
class PendingUpdates:
    """Metadata updates that were sent to the brokers and not yet applied by all of them."""

    _done: Deferred[PartitionErrors]

    def wait(self) -> Deferred[PartitionErrors]:
        """
        Fires once all live brokers have applied them, with the partitions that a broker could not open; never fails.
        """
        waiting: Deferred[PartitionErrors] = Deferred()

        def heard(errors: PartitionErrors) -> PartitionErrors:
            waiting.callback(errors)
            return errors

        self._done.addCallback(heard)
        return waiting


@define(eq=False)
class BrokerChannels:
    """
    Sends the decisions of one active controller to the brokers.

    :ivar receiver_for: how to reach a broker.
    :ivar replicas_failed: called when a broker answers that it cannot open some of its replicas.
    :ivar over: the controller has resigned; no more updates are sent in its name.
    """

    broker_id: int
    epoch: int
    receiver_for: ReceiverFor
    replicas_failed: ReplicasFailed
    state: ControllerContext = field(factory=ControllerContext)
    over: bool = field(default=False, init=False)
    _receivers: dict[int, tuple[int, IMetadataUpdateReceiver]] = field(factory=dict, init=False)
    _log = Logger()

    def send(
        self,
        batch: UpdateBatch,
        new: Mapping[int, BrokerImage] | None = None,
        partitions: tuple[PartitionState, ...] | None = None,
        all_partitions: tuple[PartitionState, ...] | None = None,
    ) -> PendingUpdates:
        """
        Send the changes to the brokers.

        :param new: brokers that have no state yet; they get a full update.
        :param partitions: the states of the batch's partitions, if they are known; ``all_partitions``: those of all.
        """
        updates = dict(incremental_updates(self.state, batch, self.broker_id, self.epoch, partitions))
        if new:
            updates.update(full_updates(self.state, new.values(), self.broker_id, self.epoch, all_partitions))
        for number in self._receivers.keys() - self.state.brokers.keys():
            del self._receivers[number]
        answers = gatherResults(
            [self._send_to(self.state.brokers[number], update) for number, update in updates.items()]
        )
        return PendingUpdates(
            answers.addCallback(lambda all: {name: error for one in all for name, error in one.items()})
        )

    def full_update_for(self, broker: BrokerImage) -> MetadataUpdate | None:
        """The full state, for a broker that may have missed updates; None if it is gone, or the controller resigned."""
        if self.over or not self._lives(broker):
            return None
        return full_updates(self.state, [broker], self.broker_id, self.epoch)[broker.broker_id]

    def _lives(self, broker: BrokerImage) -> bool:
        known = self.state.brokers.get(broker.broker_id)
        return known is not None and known.epoch == broker.epoch

    def _send_to(self, broker: BrokerImage, update: MetadataUpdate) -> Deferred[PartitionErrors]:
        epoch, receiver = self._receivers.get(broker.broker_id, (None, None))
        if receiver is None or epoch != broker.epoch:
            receiver = self.receiver_for(broker, partial(self.full_update_for, broker))
            self._receivers[broker.broker_id] = (broker.epoch, receiver)

        def answered(errors: PartitionErrors) -> PartitionErrors:
            if errors:
                self.replicas_failed(broker, frozenset(errors))
            return errors

        def failed(failure: Failure) -> PartitionErrors:
            if not self._lives(broker):
                return {}  # Nobody waits for a broker that is gone: it gets a full update when it is back.
            if failure.check(ApiError) is not None:
                self._log.warn("broker {broker} refused: {error}", broker=broker.broker_id, error=failure.value)
            else:
                self._log.failure("broker {broker} did not apply a metadata update", failure, broker=broker.broker_id)
            error = ApiError(ErrorCode.REQUEST_TIMED_OUT, f"broker {broker.broker_id} has not heard of it yet")
            return {state.topic_partition: error for state in update.partitions if broker.broker_id in state.replicas}

        return receiver.apply(update).addCallbacks(answered, failed)

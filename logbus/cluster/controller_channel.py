"""
Calls the controller: directly when this broker is it, else by a request (Kafka: BrokerToControllerChannelManager).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from zope.interface import implementer

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller import broker_changes
from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.controller import Controller
from logbus.cluster.icluster import IControllerChannel
from logbus.cluster.metadata_update_codec import leader_and_isr
from logbus.cluster.peers import CONTROL, Peers
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import IsrChange, LeaderAndIsr, LogEndReport, ReplicaReport, TopicPartition
from logbus.wire.messages.inter_broker import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionsRequest,
    ReportedLogEnd,
    ReportedLogEnds,
    ReportedReplica,
    ReportFailedRequest,
    ReportLogEndsRequest,
    ReportReplicasRequest,
    ShutDownRequest,
)
from logbus.wire.messages.partitions import TopicPartitions

P = ParamSpec("P")
T = TypeVar("T")

States = Mapping[TopicPartition, LeaderAndIsr | ApiError]


@implementer(IControllerChannel)
@define(eq=False, repr=False)
class ControllerChannel:
    """
    :ivar broker_epoch: of this broker now; the controller refuses requests of an earlier registration.
    :ivar controller: called when this broker is the controller; set before the broker starts.
    """

    broker_id: int
    metadata: ClusterMetadata
    peers: Peers
    broker_epoch: Callable[[], int]
    controller: Controller = field(init=False)

    def alter_partitions(self, changes: Sequence[IsrChange]) -> Deferred[States]:
        """See :meth:`IControllerChannel.alter_partitions`."""

        async def there(epoch: int) -> States:
            request = AlterPartitionsRequest(
                broker_epoch=epoch,
                changes=[
                    AlterPartitionData(
                        topic=one.topic_partition.topic,
                        partition=one.topic_partition.partition,
                        leader_epoch=one.leader_epoch,
                        version=one.version,
                        isr=list(one.isr),
                        broker_epochs=list(one.epochs),
                    )
                    for one in changes
                ],
            )
            return partition_states((await self._ask(request)).partitions)

        return self._either(broker_changes.alter_partitions, there, changes)

    def report_failed(self, topic_partitions: Sequence[TopicPartition]) -> Deferred[None]:
        """See :meth:`IControllerChannel.report_failed`."""

        async def there(epoch: int) -> None:
            await self._ask(ReportFailedRequest(broker_epoch=epoch, failed=topics_of(topic_partitions)))

        return self._either(broker_changes.report_failed, there, topic_partitions)

    def report_replicas(self, reports: Sequence[ReplicaReport]) -> Deferred[States]:
        """See :meth:`IControllerChannel.report_replicas`."""

        async def there(epoch: int) -> States:
            request = ReportReplicasRequest(
                broker_epoch=epoch,
                replicas=[
                    ReportedReplica(
                        topic=one.topic_partition.topic,
                        partition=one.topic_partition.partition,
                        replica=one.replica,
                        leader_epoch=one.leader_epoch,
                        complete=one.complete,
                        reason=one.reason,
                    )
                    for one in reports
                ],
            )
            return partition_states((await self._ask(request)).partitions)

        return self._either(broker_changes.report_replicas, there, reports)

    def report_log_ends(self, ends: Mapping[TopicPartition, LogEndReport]) -> Deferred[None]:
        """See :meth:`IControllerChannel.report_log_ends`."""

        async def there(epoch: int) -> None:
            topics: dict[str, list[ReportedLogEnd]] = defaultdict(list)
            for (topic, number), (leader_epoch, end) in ends.items():
                topics[topic].append(
                    ReportedLogEnd(
                        partition=number, leader_epoch=leader_epoch, last_epoch=end.epoch, end_offset=end.offset
                    )
                )
            listed = [ReportedLogEnds(topic=topic, partitions=found) for topic, found in topics.items()]
            await self._ask(ReportLogEndsRequest(broker_epoch=epoch, topics=listed))

        return self._either(broker_changes.report_log_ends, there, ends)

    def shut_down(self) -> Deferred[Sequence[TopicPartition]]:
        """See :meth:`IControllerChannel.shut_down`."""

        async def there(epoch: int) -> Sequence[TopicPartition]:
            return partitions_of((await self._ask(ShutDownRequest(broker_epoch=epoch))).remaining)

        return self._either(broker_changes.shut_down, there)

    def _either(
        self,
        here: Callable[Concatenate[ActiveController, int, int, P], Awaitable[T]],
        there: Callable[[int], Coroutine[Deferred[Any], Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Deferred[T]:
        epoch = self.broker_epoch()
        if self.metadata.controller_id == self.broker_id:
            return self.controller.submit(lambda active: here(active, self.broker_id, epoch, *args, **kwargs))
        return Deferred.fromCoroutine(there(epoch))

    async def _ask(self, message: Any) -> Any:
        controller = self.metadata.brokers.get(self.metadata.controller_id)
        if controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "no controller is known")
        try:
            response = await self._while_it_rules(
                controller.broker_id, self.peers.request(controller, message, CONTROL)
            )
        except ApiError as e:
            if e.code is ErrorCode.BROKER_NOT_AVAILABLE:  # The request was not sent.
                raise ApiError(ErrorCode.NOT_CONTROLLER, e.message) from None
            raise
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        return response

    async def _while_it_rules(self, controller_id: int, asked: Deferred[Any]) -> Any:
        """
        The answer of a controller.

        :raise ApiError: NETWORK_EXCEPTION: another controller was elected; the former one may be cut off and never
            answer.
        """
        replaced = self.metadata.wait_for(lambda metadata: metadata.controller_id != controller_id)
        replaced.addCallbacks(lambda _: asked.cancel(), lambda failure: failure.trap(CancelledError))
        try:
            return await asked
        except CancelledError:
            if self.metadata.controller_id == controller_id:
                raise
            raise ApiError(
                ErrorCode.NETWORK_EXCEPTION, f"broker {controller_id} is not the controller any more"
            ) from None
        finally:
            replaced.cancel()


def topics_of(names: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Group partitions by topic, for a request."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for name in names:
        numbers[name.topic].append(name.partition)
    return [TopicPartitions(topic=topic, partitions=found) for topic, found in numbers.items()]


def partitions_of(topics: Iterable[TopicPartitions]) -> list[TopicPartition]:
    """The partitions that a request names."""
    return [TopicPartition(one.topic, number) for one in topics for number in one.partitions]


def partition_states(partitions: Iterable[AlteredPartition]) -> dict[TopicPartition, LeaderAndIsr | ApiError]:
    """The partition states, or errors, in a response."""
    return {TopicPartition(one.topic, one.partition): _partition_state(one) for one in partitions}


def _partition_state(one: AlteredPartition) -> LeaderAndIsr | ApiError:
    if one.error_code:
        return error_of(one.error_code, one.error_message)
    return leader_and_isr(one)

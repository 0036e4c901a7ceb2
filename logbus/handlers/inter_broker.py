"""
Inter-broker APIs: Introduce, MetadataUpdate, AlterPartitions, ShutDown, ReportFailed, ReportReplicas, ReportLogEnds.

They are not listed in ApiVersions, and all but Introduce are refused on a connection whose peer has not proved to be a
broker. The proof is the incarnation in the broker's registration, which is known only to that broker and to readers of
the metadata store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hmac import compare_digest
from typing import Any, Self, TypeVar
from uuid import UUID

from attrs import define

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller import broker_changes
from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller_channel import partitions_of, topics_of
from logbus.cluster.icluster import IMetadataUpdateReceiver
from logbus.cluster.metadata_update_codec import decode_update
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.inter_broker_identity import InterBrokerIdentity
from logbus.handlers.request_router import serves, task
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import MetastoreError, NoNode
from logbus.metastore.znodes import FEATURE_LEVEL, BrokerIdZnode
from logbus.model import IsrChange, LeaderAndIsr, LogEnd, LogEndReport, ReplicaReport, TopicPartition
from logbus.net.cancellation import shield_from_cancellation
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.inter_broker import (
    AlteredPartition,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    FailedPartition,
    IntroduceRequest,
    IntroduceResponse,
    MetadataUpdateRequest,
    MetadataUpdateResponse,
    ReportFailedRequest,
    ReportFailedResponse,
    ReportLogEndsRequest,
    ReportLogEndsResponse,
    ReportReplicasRequest,
    ReportReplicasResponse,
    ShutDownRequest,
    ShutDownResponse,
)

T = TypeVar("T")


@define(eq=False)
class InterBrokerHandlers:
    """
    Serves the inter-broker APIs.

    :param receiver: applies metadata updates to this broker.
    """

    _broker_id: int
    _metadata: ClusterMetadata
    _store: IMetadataStore
    _receiver: IMetadataUpdateReceiver
    _controller: Controller
    _identity: InterBrokerIdentity

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(
            broker.broker_id,
            broker.metadata,
            broker.store,
            broker.metadata_updates,
            broker.controller,
            InterBrokerIdentity(broker.warning_limiter),
        )

    @serves(1000, 0, 0)
    @task
    async def introduce(self, context: RequestContext, request: Request) -> IntroduceResponse:
        message: IntroduceRequest = request.message
        try:
            await self._check(message)
        except ApiError as e:
            self._identity.warn(
                context, f"introduced itself as broker {message.broker_id}, and was refused: {e.message}"
            )
            return IntroduceResponse(error_code=e.code, error_message=e.message)
        context.broker = message.broker_id
        return IntroduceResponse(feature_level=FEATURE_LEVEL)

    async def _check(self, message: IntroduceRequest) -> None:
        """Check that the sender means this broker, and is the broker that it claims to be."""
        if message.cluster_id != self._metadata.cluster_id:
            raise ApiError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"this is cluster {self._metadata.cluster_id}, not {message.cluster_id}",
            )
        if message.receiver_id != self._broker_id:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"this is broker {self._broker_id}, not {message.receiver_id}"
            )
        if message.broker_id == self._broker_id:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"this is broker {self._broker_id} itself")
        known = self._metadata.brokers.get(message.broker_id)
        if known is not None and _same(known.incarnation, message.incarnation):
            return
        # It may have started since this broker's metadata was updated.
        if not _same(await self._registered(message.broker_id), message.incarnation):
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"broker {message.broker_id} is not registered with that incarnation",
            )

    async def _registered(self, broker_id: int) -> UUID | None:
        try:
            data, _ = await self._store.get(BrokerIdZnode.path(broker_id))
            return BrokerIdZnode.decode(broker_id, data).incarnation
        except NoNode:
            return None
        except MetastoreError as e:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} cannot be looked up in the metadata store: {e}"
            ) from None

    @serves(1001, 0, 0)
    @task
    async def metadata_update(self, context: RequestContext, request: Request) -> MetadataUpdateResponse:
        message: MetadataUpdateRequest = request.message
        try:
            self._identity.require(context, message.controller_id, "sent a metadata update")
            failed = await shield_from_cancellation(self._receiver.apply(decode_update(message)))
        except ApiError as e:
            return MetadataUpdateResponse(error_code=e.code, error_message=e.message)
        return MetadataUpdateResponse(
            failed=[
                FailedPartition(
                    topic=name.topic, partition=name.partition, error_code=error.code, error_message=error.message
                )
                for name, error in failed.items()
            ]
        )

    @serves(1002, 0, 0)
    @task
    async def alter_partitions(self, context: RequestContext, request: Request) -> AlterPartitionsResponse:
        message: AlterPartitionsRequest = request.message
        changes = [
            IsrChange(
                TopicPartition(one.topic, one.partition),
                one.leader_epoch,
                one.version,
                tuple(one.isr),
                tuple(one.broker_epochs),
            )
            for one in message.changes
        ]

        async def run(active: ActiveController, broker_id: int) -> Mapping[TopicPartition, LeaderAndIsr | ApiError]:
            return await broker_changes.alter_partitions(active, broker_id, message.broker_epoch, changes)

        try:
            outcomes = await self._as_controller(context, "asked for in-sync replicas", run)
        except ApiError as e:
            return AlterPartitionsResponse(error_code=e.code, error_message=e.message)
        return AlterPartitionsResponse(partitions=[_outcome(name, one) for name, one in outcomes.items()])

    @serves(1003, 0, 0)
    @task
    async def shut_down(self, context: RequestContext, request: Request) -> ShutDownResponse:
        message: ShutDownRequest = request.message

        async def run(active: ActiveController, broker_id: int) -> list[TopicPartition]:
            return list(await broker_changes.shut_down(active, broker_id, message.broker_epoch))

        try:
            remaining = await self._as_controller(context, "asked to be relieved", run)
        except ApiError as e:
            return ShutDownResponse(error_code=e.code, error_message=e.message)
        return ShutDownResponse(remaining=topics_of(remaining))

    @serves(1004, 0, 0)
    @task
    async def report_failed(self, context: RequestContext, request: Request) -> ReportFailedResponse:
        message: ReportFailedRequest = request.message

        async def run(active: ActiveController, broker_id: int) -> None:
            await broker_changes.report_failed(active, broker_id, message.broker_epoch, partitions_of(message.failed))

        try:
            await self._as_controller(context, "reported failed replicas", run)
        except ApiError as e:
            return ReportFailedResponse(error_code=e.code, error_message=e.message)
        return ReportFailedResponse()

    @serves(1007, 0, 0)
    @task
    async def report_replicas(self, context: RequestContext, request: Request) -> ReportReplicasResponse:
        message: ReportReplicasRequest = request.message
        reports = [
            ReplicaReport(
                TopicPartition(one.topic, one.partition), one.replica, one.leader_epoch, one.reason, one.complete
            )
            for one in message.replicas
        ]

        async def run(active: ActiveController, broker_id: int) -> Mapping[TopicPartition, LeaderAndIsr | ApiError]:
            return await broker_changes.report_replicas(active, broker_id, message.broker_epoch, reports)

        try:
            outcomes = await self._as_controller(context, "reported incomplete replicas", run)
        except ApiError as e:
            return ReportReplicasResponse(error_code=e.code, error_message=e.message)
        return ReportReplicasResponse(partitions=[_outcome(name, one) for name, one in outcomes.items()])

    @serves(1008, 0, 0)
    @task
    async def report_log_ends(self, context: RequestContext, request: Request) -> ReportLogEndsResponse:
        message: ReportLogEndsRequest = request.message
        ends = {
            TopicPartition(topic.topic, one.partition): LogEndReport(
                one.leader_epoch, LogEnd(one.last_epoch, one.end_offset)
            )
            for topic in message.topics
            for one in topic.partitions
        }

        async def run(active: ActiveController, broker_id: int) -> None:
            await broker_changes.report_log_ends(active, broker_id, message.broker_epoch, ends)

        try:
            await self._as_controller(context, "reported the ends of its logs", run)
        except ApiError as e:
            return ReportLogEndsResponse(error_code=e.code, error_message=e.message)
        return ReportLogEndsResponse()

    # Authorization.

    async def _as_controller(
        self, context: RequestContext, what: str, run: Callable[[ActiveController, int], Awaitable[T]]
    ) -> T:
        broker_id = self._identity.require(context, context.broker, what)
        return await self._controller.submit(lambda active: run(active, broker_id))


def _same(known: UUID | None, given: bytes) -> bool:
    return known is not None and compare_digest(known.bytes, given)


def _outcome(name: TopicPartition, outcome: LeaderAndIsr | ApiError) -> AlteredPartition:
    given: dict[str, Any] = {"topic": name.topic, "partition": name.partition}
    if isinstance(outcome, ApiError):
        return AlteredPartition(**given, error_code=outcome.code, error_message=outcome.message)
    return AlteredPartition(
        **given,
        leader=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        controller_epoch=outcome.controller_epoch,
        version=outcome.version,
        isr=list(outcome.isr),
        eligible=list(outcome.eligible),
        unclean_epoch=outcome.unclean_epoch,
    )

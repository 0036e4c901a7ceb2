"""
Inter-broker APIs: Introduce, ProveIdentity, MetadataUpdate, AlterPartitions, ShutDown, ReportFailed, ReportReplicas,
ReportLogEnds.

They are not listed in ApiVersions, and all but the first two are refused on a connection whose peer has not proved to
be a broker. The proof shows that the peer knows the secret of the cluster's brokers
(:mod:`logbus.security.broker_challenge`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar

from attrs import define

from logbus.cluster.broker_secret import BrokerSecret
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller import broker_changes
from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller_channel import partitions_of, topics_of
from logbus.cluster.metadata_update_receiver import MetadataUpdateReceiver
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
from logbus.security.broker_challenge import NONCE_BYTES, BrokerChallenge, is_same
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
    ProveIdentityRequest,
    ProveIdentityResponse,
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
    :param listener: the name of the listener that brokers connect to.
    """

    _broker_id: int
    _metadata: ClusterMetadata
    _store: IMetadataStore
    _receiver: MetadataUpdateReceiver
    _controller: Controller
    _secret: BrokerSecret
    _listener: Callable[[], str | None]
    _identity: InterBrokerIdentity

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(
            broker.broker_id,
            broker.metadata,
            broker.store,
            broker.metadata_updates,
            broker.controller,
            broker.broker_secret,
            broker.inter_broker_listener,
            InterBrokerIdentity(broker.warning_limiter),
        )

    @serves(1000, 1, 1)
    @task
    async def introduce(self, context: RequestContext, request: Request) -> IntroduceResponse:
        message: IntroduceRequest = request.message
        context.challenge = None
        try:
            await self._check(context, message)
        except ApiError as e:
            self._refused(context, message.broker_id, e)
            return IntroduceResponse(error_code=e.code, error_message=e.message)
        context.challenge = challenge = BrokerChallenge(
            message.cluster_id,
            message.broker_id,
            message.broker_epoch,
            message.feature_level,
            bytes(message.nonce),
            self._broker_id,
            FEATURE_LEVEL,
            self._secret.nonce(),
            context.channel,
        )
        return IntroduceResponse(
            feature_level=FEATURE_LEVEL,
            nonce=challenge.receiver_nonce,
            proof=challenge.proof_of_receiver(self._secret.value),
        )

    async def _check(self, context: RequestContext, message: IntroduceRequest) -> None:
        """Check that the sender means this broker, and that the broker that it claims to be is registered."""
        listener = self._listener()
        if context.listener != listener:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"brokers connect to listener {listener}")
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
        if len(message.nonce) != NONCE_BYTES:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"its nonce is not of {NONCE_BYTES} bytes")
        known = self._metadata.brokers.get(message.broker_id)
        epoch = None if known is None else known.epoch
        if epoch != message.broker_epoch:
            # It may have started since this broker's metadata was updated.
            epoch = await self._registered_epoch(message.broker_id)
        if epoch != message.broker_epoch:
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"broker {message.broker_id} is not registered with that epoch"
            )

    async def _registered_epoch(self, broker_id: int) -> int | None:
        try:
            _, stat = await self._store.get(BrokerIdZnode.path(broker_id))
        except NoNode:
            return None
        except MetastoreError as e:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} cannot be looked up in the metadata store: {e}"
            ) from None
        return stat.czxid

    @serves(1009, 0, 0)
    @task
    async def prove_identity(self, context: RequestContext, request: Request) -> ProveIdentityResponse:
        message: ProveIdentityRequest = request.message
        challenge, context.challenge = context.challenge, None
        error = None
        if challenge is None:
            error = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "an introduction comes first")
        elif not await self._secret.fits(lambda secret: is_same(message.proof, challenge.proof_of_sender(secret))):
            error = ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"it does not prove that it is broker {challenge.sender_id}"
            )
        if error is not None:
            self._refused(context, None if challenge is None else challenge.sender_id, error)
            return ProveIdentityResponse(error_code=error.code, error_message=error.message)
        assert challenge is not None
        context.broker = challenge.sender_id
        return ProveIdentityResponse()

    def _refused(self, context: RequestContext, broker_id: int | None, why: ApiError) -> None:
        who = "a broker" if broker_id is None else f"broker {broker_id}"
        self._identity.warn(context, f"introduced itself as {who}, and was refused: {why.message}")

    @serves(1001, 0, 0)
    @task
    async def metadata_update(self, context: RequestContext, request: Request) -> MetadataUpdateResponse:
        message: MetadataUpdateRequest = request.message
        try:
            self._identity.require(context, message.controller_id, "sent a metadata update")
            failed = await shield_from_cancellation(self._receiver.apply_encoded(message))
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

"""
Views of transactions that hang: open in a partition, although no coordinator will end them (KIP-664).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin import strict_json
from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.json_schema import integer, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.pagination import UNANSWERED, page, page_of, paged
from logbus.admin.problem_details import HttpProblem
from logbus.admin.relay import leader_of
from logbus.admin.routing import JSON, ViewRequest, ViewResponse, route
from logbus.admin.topics import MAX_INT, TOPIC_NAME
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.coordination.transactions.hanging_transactions import HangingTransaction, HangingTransactions, late_before
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.errors import ApiError, ErrorCode, StorageError, error_of
from logbus.model import TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.messages.partitions import TopicPartitionIndexes
from logbus.wire.messages.transactions import WritableTxnMarker, WriteTxnMarkersRequest, WriteTxnMarkersResponse

ID = string("Topic and partition, as orders-3.")
PRODUCER_ID = integer("The producer's id.", minimum=0, maximum=2**63 - 1)
START_OFFSET = integer("The transaction's first offset in the partition.", minimum=0, maximum=2**63 - 1)
HANGING = object_schema(
    "The oldest transaction of a partition, which hangs.",
    id=ID,
    topic=TOPIC_NAME,
    partition=integer("Number of the partition."),
    producer_id=PRODUCER_ID,
    producer_epoch=integer("The producer's epoch."),
    start_offset=START_OFFSET,
    last_timestamp=integer("When its producer wrote there for the last time, in ms since 1970."),
)
PAGE = page("transactions that hang", HANGING, ID, unanswered=UNANSWERED)
REASONS = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "it does not hang: its coordinator ends it",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "it is of an internal topic, where clients abort nothing",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "whether it hangs is not known at present, as not all coordinators answer",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "whether it hangs is not known at present, as a coordinator is loading",
}
"""Why the leader of a partition does not abort a transaction."""


@frozen
class HangingTransactionViews:
    """Lists transactions that hang, and aborts them; each broker knows those of the partitions that it leads."""

    metadata: ClusterMetadata
    replicas: ReplicaManager
    coordinator: TransactionCoordinator
    transactions: HangingTransactions
    requests: KafkaRequests

    @route(
        "GET",
        "/api/v1/hanging-transactions",
        "Transactions that no coordinator will end, the oldest of each partition",
        answer=PAGE,
        parameters=paged(
            ID,
            idle_ms={
                **integer(
                    "For so many ms the producer must have written nothing; by default, for some minutes more than "
                    "transaction.max.timeout.ms.",
                    minimum=0,
                    maximum=2**53,
                ),
                "default": None,
            },
        ),
        right=Right(AclOperation.DESCRIBE),
        rights="Needs Describe on the Cluster; partitions of topics without Describe are left out.",
        merged_by="id",
        errors=(HTTPStatus.SERVICE_UNAVAILABLE,),
    )
    def list(self, call: ViewRequest) -> Deferred[ViewResponse]:
        return Deferred.fromCoroutine(self._list(call))

    async def _list(self, call: ViewRequest) -> ViewResponse:
        now_ms, idle_ms = self.coordinator.wall_ms(), call.query["idle_ms"]
        before_ms = late_before(self.coordinator.config, now_ms) if idle_ms is None else now_ms - idle_ms
        is_visible = call.access.filter(AclOperation.DESCRIBE, ResourceType.TOPIC)
        found = {
            str(each.partition): _hanging(each)
            for each in await self.transactions.find(before_ms)
            if is_visible is None or is_visible(each.partition.topic)
        }
        shown, after = page_of(found, call, None)
        told = {"items": [found[name] for name in shown], "next": after, "unanswered": []}
        return ViewResponse(HTTPStatus.OK, JSON, strict_json.dumps(told))

    def _leader(self, path: Any) -> int | None:
        return leader_of(self.metadata, TopicPartition(path["topic"], path["partition"]))

    @route(
        "POST",
        "/api/v1/topics/{topic}/partitions/{partition}/abort-transaction",
        "Abort a transaction that hangs, in one partition",
        body=object_schema("The transaction.", producer_id=PRODUCER_ID, start_offset=START_OFFSET),
        parameters={"topic": TOPIC_NAME, "partition": integer("Its number.", minimum=0, maximum=MAX_INT)},
        right=Right(AclOperation.ALTER),
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        served_by=lambda self, call: self._leader(call.path),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def abort(self, call: ViewRequest) -> Deferred[None]:
        partition = TopicPartition(call.path["topic"], call.path["partition"])
        return Deferred.fromCoroutine(self._abort(call.access, partition, **call.body))

    async def _abort(self, access: HttpAccess, partition: TopicPartition, producer_id: int, start_offset: int) -> None:
        try:
            producer = self.replicas.leader(*partition).log.producers.get(producer_id)
        except StorageError as e:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(e)) from e
        if producer is None or producer.open_since != start_offset:
            raise HttpProblem(
                HTTPStatus.CONFLICT,
                f"No open transaction of producer {producer_id} begins at offset {start_offset} of {partition}; it may "
                "have ended meanwhile.",
            )
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            topics=[TopicPartitionIndexes(name=partition.topic, partition_indexes=[partition.partition])],
            # Without any marker yet it is −1; 0 is not above any coordinator's epoch.
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        response: WriteTxnMarkersResponse = await self.requests.send(
            access, WriteTxnMarkersRequest(markers=[marker]), 1
        )
        code = response.markers[0].topics[0].partitions[0].error_code
        if code:
            error = error_of(code)
            why = REASONS.get(error.code, error.message)
            raise ApiError(error.code, f"The transaction of producer {producer_id} in {partition}: {why}.")


def _hanging(each: HangingTransaction) -> dict[str, Any]:
    return {
        "id": str(each.partition),
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": each.producer.producer_id,
        "producer_epoch": each.producer.epoch,
        "start_offset": each.start_offset,
        "last_timestamp": each.producer.last_timestamp,
    }

"""
Views of the transactional ids that this broker coordinates, and of their transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.json_chunks import json_stream
from logbus.admin.json_schema import array, boolean, integer, nullable, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.pagination import UNANSWERED, page, page_of, paged
from logbus.admin.problem_details import HttpProblem
from logbus.admin.relay import leader_of
from logbus.admin.routing import ViewRequest, ViewResponse, route
from logbus.admin.topics import TOPIC_NAME
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.config import keys
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.coordination.transactions.transaction_summary import transaction_duration_ms
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TRANSACTIONS_TOPIC, TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

ABORT_ATTEMPTS = 20
ABORT_PAUSE_SECONDS = 0.5
"""Between two attempts to end a transaction whose markers are being written."""

TRANSACTIONAL_ID = string("A transactional id; any text, percent-encoded in a path.", minLength=1, maxLength=32_767)
_SUMMARY: dict[str, Any] = {
    "id": TRANSACTIONAL_ID,
    "state": string(
        "The state of its last transaction.",
        enum=[state.value for state in TransactionState if state is not TransactionState.DEAD],
    ),
    "producer_id": integer("The producer's id."),
    "producer_epoch": integer("The producer's epoch; producers with an older one are fenced."),
    "timeout_ms": integer("The transaction timeout."),
    "started_at": nullable(integer("When its transaction began, in ms since 1970; null: there is none.")),
    "duration_ms": nullable(integer("Duration of its transaction; null: there is none.")),
    "partitions": integer("Number of partitions in the transaction."),
}
TRANSACTION = object_schema("A transactional id.", **_SUMMARY)
DETAIL = object_schema(
    "A transactional id with its transaction.",
    **{
        **_SUMMARY,
        "partitions": array(
            "Partitions in the transaction.",
            object_schema("A partition.", topic=TOPIC_NAME, partition=integer("Number of the partition.")),
        ),
    },
)
PAGE = page(
    "transactional ids",
    TRANSACTION,
    TRANSACTIONAL_ID,
    loading=boolean("Whether ids are missing because they are still being loaded."),
    unanswered=UNANSWERED,
)


@frozen
class TransactionViews:
    """Lists and describes transactional ids; each broker knows those that it coordinates."""

    metadata: ClusterMetadata
    coordinator: TransactionCoordinator
    requests: KafkaRequests

    def coordinator_of(self, transactional_id: str) -> int | None:
        """
        Return the broker that coordinates a transactional id; None: none was ever there.

        :raise ApiError: LEADER_NOT_AVAILABLE.
        """
        number = self.coordinator.partition_of(transactional_id)
        return leader_of(self.metadata, TopicPartition(TRANSACTIONS_TOPIC, number))

    @route(
        "GET",
        "/api/v1/transactions",
        "Transactional ids, in order",
        answer=PAGE,
        parameters=paged(TRANSACTIONAL_ID),
        merged_by="id",
        rights="Ids on which there is no right to Describe are left out.",
    )
    def list(self, call: ViewRequest) -> ViewResponse:
        found = {each.transactional_id: each for each in self.coordinator.transactions()}
        shown, after = page_of(found, call, call.access.filter(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID))
        now_ms = self.coordinator.wall_ms()
        return json_stream(
            {
                "items": lambda: (_summary(found[name], now_ms) for name in shown),
                "next": after,
                "loading": self.coordinator.loading,
                "unanswered": [],
            }
        )

    @route(
        "GET",
        "/api/v1/transactions/{transaction}",
        "One transactional id, with its transaction",
        answer=DETAIL,
        parameters={"transaction": TRANSACTIONAL_ID},
        right=Right(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "transaction"),
        rights="Needs Describe on the TransactionalId; partitions of topics without Describe are left out.",
        served_by=lambda self, call: self.coordinator_of(call.path["transaction"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def one(self, call: ViewRequest) -> ViewResponse:
        found = self._existing(call.path["transaction"])
        is_visible = call.access.filter(AclOperation.DESCRIBE, ResourceType.TOPIC)
        return json_stream(
            {**_summary(found, self.coordinator.wall_ms()), "partitions": lambda: _partitions(found, is_visible)},
        )

    def _existing(self, transactional_id: str) -> TransactionMetadata:
        try:
            return self.coordinator.describe(transactional_id)
        except ApiError as e:
            never_there = e.code is ErrorCode.NOT_COORDINATOR and self.coordinator_of(transactional_id) is None
            if e.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND and not never_there:
                raise
            raise ApiError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"There is no transactional id {transactional_id[:200]!r}."
            ) from None

    @route(
        "POST",
        "/api/v1/transactions/{transaction}/abort",
        "Abort the transaction of a transactional id, and fence its producer",
        body=object_schema("What is to happen.", confirm=string("The transactional id again.")),
        parameters={"transaction": TRANSACTIONAL_ID},
        right=Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transaction"),
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        served_by=lambda self, call: self.coordinator_of(call.path["transaction"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def abort(self, call: ViewRequest) -> Deferred[None]:
        transactional_id = call.path["transaction"]
        if call.body["confirm"] != transactional_id:
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST,
                f"This aborts the transaction of {transactional_id[:200]!r}, and its producer cannot go on; to "
                "confirm, give the id in body.confirm.",
            )
        return Deferred.fromCoroutine(self._abort(call.access, transactional_id))

    async def _abort(self, access: HttpAccess, transactional_id: str) -> None:
        """End a transaction as a new producer with its id would (Kafka: Admin.forceTerminateTransaction)."""
        # As it is, unless it is more than a producer may have by now.
        most = self.coordinator.config.get(keys.TRANSACTION_MAX_TIMEOUT_MS)
        timeout_ms = min(self._existing(transactional_id).timeout_ms, most)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        for _ in range(ABORT_ATTEMPTS):
            response: InitProducerIdResponse = await self.requests.send(access, request, 4)
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await self.requests.pause(ABORT_PAUSE_SECONDS)  # its markers are being written
        if response.error_code:
            error = error_of(response.error_code)
            raise ApiError(error.code, f"The transaction of {transactional_id[:200]!r}: {error.message}")


def _summary(transaction: TransactionMetadata, now_ms: int) -> dict[str, Any]:
    duration_ms = transaction_duration_ms(transaction, now_ms)
    return {
        "id": transaction.transactional_id,
        "state": transaction.state.value,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "started_at": None if duration_ms is None else transaction.started_ms,
        "duration_ms": duration_ms,
        "partitions": len(transaction.partitions),
    }


def _partitions(
    transaction: TransactionMetadata, is_visible: Callable[[str], bool] | None
) -> Iterator[dict[str, Any] | None]:
    for topic, partition in sorted(transaction.partitions):
        if is_visible is None or is_visible(topic):
            yield {"topic": topic, "partition": partition}
        else:
            yield None

"""
Fills Produce responses with the errors of batches that were not written.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from logbus.errors import ApiError, ErrorCode, RecordsRefused, StorageError
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.wire.messages.records import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from logbus.wire.schema import ZERO_UUID

#: The first version with the current leader (KIP-951).
LEADER_VERSION = 10


@frozen
class ProduceErrors:
    """
    Makes error responses.

    :ivar hints: looks up current leaders.
    """

    hints: CurrentLeaders

    def refuse(self, answer: PartitionProduceResponse, topic: str, error: ApiError, version: int) -> None:
        """Set the error of a partition whose batch was not written."""
        answer.error_code = error.code
        answer.error_message = error.message
        if isinstance(error, RecordsRefused):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=why)
                for number, why in error.records
            ]
        if version >= LEADER_VERSION:
            answer.current_leader = self.hints.hint(topic, answer.index, error)

    def one(
        self, listener: str, topic: str, index: int, error: ApiError, version: int, topic_id: bytes = ZERO_UUID
    ) -> ProduceResponse:
        """The response to a request with one batch, which was not written."""
        answer = PartitionProduceResponse(index=index)
        self.refuse(answer, topic, error, version)
        response = ProduceResponse(
            responses=[TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=[answer])]
        )
        self.add_leader_endpoints(response, listener)
        return response

    def add_leader_endpoints(self, response: ProduceResponse, listener: str) -> None:
        """Add the addresses of the leaders in a response."""
        hints = [answer.current_leader for topic in response.responses for answer in topic.partition_responses]
        if any(hints):
            response.node_endpoints = self.hints.endpoints(listener, hints)


def api_error(error: ApiError | StorageError) -> ApiError:
    """The API error for an error."""
    return error if isinstance(error, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def no_transactional_id() -> ApiError:
    """The error for a transactional batch in a request without a transactional id."""
    return ApiError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "a batch belongs to a transaction, but the request names no transactional id",
    )


def not_durable_in_time(seconds: float) -> ApiError:
    """The error for records that are not durable in time."""
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the records were not durable after {seconds:g} s")


def timed_out(result: object, timeout: float) -> Any:
    """
    Raise the error for records that are not durable in time.

    :raise ApiError: REQUEST_TIMED_OUT.
    """
    raise not_durable_in_time(timeout)

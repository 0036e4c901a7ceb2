"""
What a producer is told of batches that were not written.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from logbus.errors import ApiError, ErrorCode, RecordsRefused, StorageError
from logbus.handlers.leaders import LeaderHints
from logbus.wire.messages.records import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from logbus.wire.schema import ZERO_UUID

#: The first version that says who leads (KIP-951).
LEADER_VERSION = 10


@frozen
class Refusals:
    """
    Spells refusals.

    :ivar hints: says who leads instead of this broker; None: nobody knows.
    """

    hints: LeaderHints | None = None

    def refuse(self, answer: PartitionProduceResponse, topic: str, error: ApiError, version: int) -> None:
        """Make it the answer for a partition whose batch was not written."""
        answer.error_code = error.code
        answer.error_message = error.message
        if isinstance(error, RecordsRefused):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=why)
                for number, why in error.records
            ]
        if self.hints is not None and version >= LEADER_VERSION:
            answer.current_leader = self.hints.hint(topic, answer.index, error)

    def one(
        self, listener: str, topic: str, index: int, error: ApiError, version: int, topic_id: bytes = ZERO_UUID
    ) -> ProduceResponse:
        """The whole answer to a request of one batch that was not written."""
        answer = PartitionProduceResponse(index=index)
        self.refuse(answer, topic, error, version)
        response = ProduceResponse(
            responses=[TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=[answer])]
        )
        self.say_where_leaders_are(response, listener)
        return response

    def say_where_leaders_are(self, response: ProduceResponse, listener: str) -> None:
        """Put down the addresses of the leaders that a response names."""
        hints = [answer.current_leader for topic in response.responses for answer in topic.partition_responses]
        if self.hints is not None and any(hints):
            response.node_endpoints = self.hints.endpoints(listener, hints)


def api_error(error: ApiError | StorageError) -> ApiError:
    """What a client is told of an error."""
    return error if isinstance(error, ApiError) else ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def no_transactional_id() -> ApiError:
    """The error for a batch of a transaction in a request that names none."""
    return ApiError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "a batch belongs to a transaction, but the request names no transactional id",
    )


def timed_out(result: object, timeout: float) -> Any:
    """
    What happens when records are not durable in time, in seconds.

    :raise ApiError: REQUEST_TIMED_OUT.
    """
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the records were not durable after {timeout:g} s")

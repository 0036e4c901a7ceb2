"""
Produces the records of clients of HTTP: chooses partitions, and has each partition's leader append them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from itertools import count
from typing import Any
from urllib.parse import quote

from attrs import define, field
from twisted.internet.defer import Deferred, gatherResults

from logbus.admin import strict_json
from logbus.admin.authorization import HttpAccess
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.problem_details import HttpProblem
from logbus.admin.record_json import given_record
from logbus.admin.relay import Relay, leader_of
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TopicPartition
from logbus.records.batch import encode_batch
from logbus.records.murmur import partition_for_key
from logbus.records.record import Record
from logbus.wire.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE_VERSION = 12
TIMEOUT_MS = 20_000
"""For how long a write waits for the in-sync replicas."""


@define(eq=False)
class RecordWriter:
    """
    Writes records.

    :param wall_clock: seconds since 1970, for records without a timestamp.
    """

    requests: KafkaRequests
    metadata: ClusterMetadata
    relay: Relay
    _wall_clock: Callable[[], float]
    _turn: count[int] = field(factory=count, init=False)

    def records(self, given: Sequence[Mapping[str, Any]]) -> list[Record]:
        """
        Read records.

        :raise HttpProblem: one of them cannot be read.
        """
        now_ms = int(self._wall_clock() * 1000)
        try:
            return [given_record(one, f"The body.records[{number}]", now_ms) for number, one in enumerate(given)]
        except ValueError as e:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"{e}.") from None

    def partitions(self, topic: str, given: Sequence[Mapping[str, Any]], records: Sequence[Record]) -> list[int]:
        """
        Choose a partition for each record: by its key, as Kafka's producers do; for those without one, in turn, a
        partition for each request.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION: one that is asked for does not exist.
        """
        known = self.metadata.topics[topic].partitions
        turn = next(self._turn)
        with_leader = [number for number in range(len(known)) if known[number].leader >= 0] or range(len(known))
        keyless = with_leader[turn % len(with_leader)]
        chosen = []
        for number, (one, record) in enumerate(zip(given, records, strict=True)):
            partition = one.get("partition")
            if partition is None:
                partition = keyless if record.key is None else partition_for_key(record.key, len(known))
            elif partition >= len(known):
                raise ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"The body.records[{number}].partition is {partition}; {topic} has {len(known)}, numbered from 0.",
                )
            chosen.append(partition)
        return chosen

    async def write(
        self, access: HttpAccess, topic: str, given: Sequence[Mapping[str, Any]], acks: int
    ) -> list[dict[str, Any]]:
        """
        Write records wherever their partitions are led, and return for each where it is, or why not.

        :raise ApiError: none was written: why the first one was not.
        """
        records = self.records(given)
        chosen = self.partitions(topic, given, records)
        by_partition: dict[int, list[int]] = defaultdict(list)
        for number, partition in enumerate(chosen):
            by_partition[partition].append(number)
        results = await gatherResults(
            [
                Deferred.fromCoroutine(
                    self._anywhere(
                        access, topic, partition, [given[n] for n in numbers], [records[n] for n in numbers], acks
                    )
                )
                for partition, numbers in by_partition.items()
            ],
            consumeErrors=True,
        )
        written: list[dict[str, Any]] = [{}] * len(records)
        for (partition, numbers), result in zip(by_partition.items(), results, strict=True):
            for place, number in enumerate(numbers):
                written[number] = {"partition": partition, "offset": None, "error": None}
                if isinstance(result, ApiError):
                    written[number]["error"] = {
                        "error": result.code.name,
                        "detail": result.message,
                        "retriable": result.code.retriable,
                    }
                else:
                    written[number]["offset"] = result + place
        errors = [result for result in results if isinstance(result, ApiError)]
        if len(errors) == len(results):
            raise errors[0]
        return written

    async def _anywhere(
        self,
        access: HttpAccess,
        topic: str,
        partition: int,
        given: Sequence[Mapping[str, Any]],
        records: Sequence[Record],
        acks: int,
    ) -> int | ApiError:
        """Write records to one partition, and return the offset of the first, or the error."""
        try:
            leader = leader_of(self.metadata, TopicPartition(topic, partition))
            if leader in (None, self.relay.broker_id):
                return await self.append(access, topic, partition, records, acks)
            body = strict_json.dumps({"records": [dict(one) for one in given], "acks": acks})
            target = f"/api/v1/topics/{quote(topic)}/partitions/{partition}/records"
            assert leader is not None
            response = await self.relay.send(leader, "POST", target, {}, body, access)
        except ApiError as e:
            return e
        assert isinstance(response.body, bytes)
        told = json.loads(response.body)
        if response.status is HTTPStatus.CREATED:
            offset: int = told["items"][0]["offset"]
            return offset
        code = ErrorCode.__members__.get(told.get("error", ""), ErrorCode.UNKNOWN_SERVER_ERROR)
        return ApiError(code, told["detail"])

    async def append(self, access: HttpAccess, topic: str, partition: int, records: Sequence[Record], acks: int) -> int:
        """
        Append records to a partition that this broker leads, and return the offset of the first.

        :raise ApiError: they were refused, or may not have been replicated.
        """
        try:
            batch = encode_batch(records)
        except (ValueError, OverflowError) as e:
            raise ApiError(ErrorCode.INVALID_RECORD, f"The records cannot be encoded: {e}") from None
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[data])
        response: ProduceResponse = await self.requests.send(access, request, PRODUCE_VERSION)
        ((answer,),) = (one.partition_responses for one in response.responses)
        if answer.error_code:
            raise _error(topic, partition, answer)
        return answer.base_offset


def _error(topic: str, partition: int, answer: PartitionProduceResponse) -> ApiError:
    error = error_of(answer.error_code, answer.error_message)
    reasons = "".join(
        f"; record {one.batch_index}: {one.batch_index_error_message or 'refused'}" for one in answer.record_errors[:10]
    )
    return ApiError(error.code, f"Partition {partition} of {topic} did not take the records: {error.message}{reasons}")

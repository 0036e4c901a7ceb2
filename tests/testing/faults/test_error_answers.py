"""Answers with errors, of all APIs in all versions."""

from __future__ import annotations

from math import prod
from typing import Any
from unittest import TestCase

from logbus.errors import ErrorCode
from logbus.records.file_slice import joined
from logbus.testing.faults.error_answers import error_answer
from logbus.testing.faults.error_places import error_places
from logbus.testing.faults.merging import merge, without
from logbus.testing.requests.apis import apis_by_name
from logbus.wire.declaration import message_spec
from logbus.wire.error_codes import error_finder
from logbus.wire.layout import Array, FieldLayout, StructLayout, message_layout
from logbus.wire.messages import api
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.offsets import OffsetFetchRequest
from logbus.wire.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from logbus.wire.schema import decode, encode
from logbus.wire.wire_types import BOOL, BYTES, RECORDS, STRING, UUID, WireType

ERROR = ErrorCode.INVALID_REQUEST
LOG_DIRS = 35


def sample(layout: StructLayout, number: int = 1) -> Any:
    """A struct with two elements in each array, whose values differ."""
    values = {field.name: _value(layout, field, number) for field in (*layout.fields, *layout.tagged)}
    return layout.cls(**values, **{field.name: None for field in layout.absent if field.spec.required})


def _value(layout: StructLayout, field: FieldLayout, number: int) -> Any:
    shape = field.shape
    if isinstance(shape, Array):
        element = shape.element
        if isinstance(element, WireType):
            return [_primitive(element, each) for each in (1, 2)]
        return [sample(layout.nested(element), each) for each in (1, 2)]
    return _primitive(shape, number) if isinstance(shape, WireType) else sample(layout.nested(shape), number)


def _primitive(shape: WireType, number: int) -> Any:
    special = ((STRING, f"s{number}"), (BYTES, b"b"), (RECORDS, b"r"), (UUID, bytes([number]) * 16), (BOOL, True))
    return next((value for type_, value in special if type_ == shape), number)


def errors_of(key: int, version: int, answer: Any) -> list[int]:
    """The codes that a broker would count in an answer."""
    found: list[int] = []
    find = error_finder(key, version)
    if find is not None:
        find(answer, lambda api_key, code: found.append(code))
    return found


class AnyApiTests(TestCase):
    def test_answer_is_one_of_its_version(self) -> None:
        """It can be encoded, is read as it was, and has the error at least once."""
        for name, key in apis_by_name().items():
            versions = api(key).versions
            for version in range(versions.min, versions.max + 1):
                request = sample(message_layout(message_spec(api(key).request), version))
                for error in (ERROR, ErrorCode.NOT_COORDINATOR):
                    with self.subTest(api=name, version=version, error=error):
                        made = error_answer(key, version, request, error)
                        if made is None:
                            self.assertEqual((key, version <= 2), (LOG_DIRS, True))
                            continue
                        read, _ = decode(type(made.message), version, joined(encode(made.message, version)))
                        codes = errors_of(key, version, read)
                        self.assertEqual(set(codes), {error})
                        ways = [level.sources for level in made.place.levels]
                        self.assertEqual(len(codes), prod(sum(2 ** len(way) for way in each) for each in ways))

    def test_places(self) -> None:
        """An error goes to the innermost elements of the request, one about the whole to the outermost place."""
        expected = {
            ("Produce", 9): ["responses[].partition_responses[].error_code"],
            ("Fetch", 4): ["responses[].partitions[].error_code"],
            ("Fetch", 12): ["error_code", "responses[].partitions[].error_code"],
            ("Metadata", 12): ["topics[].error_code"],
            ("OffsetFetch", 8): ["groups[].error_code", "groups[].topics[].partitions[].error_code"],
            ("FindCoordinator", 3): ["error_code"],
            ("FindCoordinator", 4): ["coordinators[].error_code"],
            ("AlterReplicaLogDirs", 2): ["results[].partitions[].error_code"],
            ("DescribeLogDirs", 4): ["error_code"],
            ("Heartbeat", 4): ["error_code"],
            ("CreateTopics", 7): ["topics[].error_code"],
            ("DescribeConfigs", 4): ["results[].error_code"],
            ("AlterUserScramCredentials", 0): ["results[].error_code"],
        }
        for (name, version), places in expected.items():
            with self.subTest(api=name, version=version):
                found = [str(place) for place in error_places(apis_by_name()[name], version)]
                self.assertEqual(found, places)

    def test_request_for_everything(self) -> None:
        """Without elements the error goes further out; without a place there is no answer."""
        every = OffsetFetchRequest(group_id="g", topics=None)
        made = error_answer(9, 5, every, ERROR)
        assert made is not None
        self.assertEqual((str(made.place), made.message.error_code), ("error_code", ERROR))
        self.assertIsNone(error_answer(3, 9, MetadataRequest(topics=None), ERROR))

    def test_names(self) -> None:
        """Topics are named as in the request, by name or id."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")])
        made = error_answer(3, 9, request, ERROR, wanted=lambda named: named.topic == "b")
        assert made is not None
        self.assertEqual([topic.name for topic in made.message.topics], ["b"])


def produce(*topics: tuple[str, int]) -> ProduceRequest:
    """A request for partitions of topics, one each."""
    data = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=index, records=b"r")])
        for name, index in topics
    ]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)


class PartTests(TestCase):
    """A part of a request fails."""

    def test_rest_of_a_request(self) -> None:
        """What fails is taken out of the request."""
        request = produce(("a", 0), ("a", 1), ("b", 0))
        rest = without(0, 9, request, lambda named: named.topic == "a" and named.partition == 1)
        self.assertEqual(rest, produce(("a", 0), ("b", 0)))
        self.assertEqual(len(request.topic_data), 3)
        self.assertIsNone(without(0, 9, request, lambda named: True))

    def test_errors_and_results(self) -> None:
        """The errors are put beside the results of the rest, and in the place of results that there are."""

        def fails(named: Any) -> bool:
            return (named.topic, named.partition) == ("a", 1)

        request = produce(("a", 0), ("a", 1), ("b", 0))
        errors = error_answer(0, 9, request, ERROR, wanted=fails)
        assert errors is not None
        for done in ((0,), (0, 1)):
            results = [PartitionProduceResponse(index=index, base_offset=7) for index in done]
            answer = ProduceResponse(responses=[TopicProduceResponse(name="a", partition_responses=results)])
            merged = merge(answer, errors)
            [topic] = merged.responses
            self.assertEqual([(p.index, p.error_code) for p in topic.partition_responses], [(0, 0), (1, ERROR)])

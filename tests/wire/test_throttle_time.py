"""Tests of logbus.wire.throttle_time."""

from __future__ import annotations

import pytest

from logbus.records.file_slice import joined
from logbus.wire.connection import ClientConnection, ServerConnection
from logbus.wire.messages.records import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from logbus.wire.schema import encode
from logbus.wire.throttle_time import with_throttle_time, with_throttle_times


def produced(index: int, **given: object) -> ProduceResponse:
    answer = PartitionProduceResponse(index=index, error_code=0, base_offset=index)
    topic = TopicProduceResponse(name="t", partition_responses=[answer])
    return ProduceResponse(responses=[topic], **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_responses_as_messages_and_as_bytes(version: int) -> None:
    message = produced(1)
    throttled = with_throttle_time(message, 0, version, 70)
    assert (message.throttle_time_ms, throttled.throttle_time_ms) == (0, 70)
    encoded = with_throttle_time(joined(encode(message, version)), 0, version, 70)
    assert encoded == joined(encode(throttled, version))
    assert with_throttle_time(None, 0, version, 70) is None


def test_a_response_that_cannot_say_it() -> None:
    """It is left as it is; the connection is muted all the same."""
    answer = object()
    assert with_throttle_time(answer, 17, 1, 70) is answer


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_several_responses(version: int) -> None:
    """Each of those to requests that were served together gets it."""
    client, server = ClientConnection("c"), ServerConnection({0: (3, 13)})
    stream = b""
    for index in range(3):
        request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[])
        frame = joined(client.request(request, version)[1])[4:]
        stream += joined(server.respond(server.receive(frame), produced(index)))
    patched = with_throttle_times(stream, 0, version, 1234)
    assert len(patched) == len(stream)
    for index in range(3):
        size = int.from_bytes(patched[:4], "big")
        response = client.receive(patched[4 : 4 + size])[1]
        assert response.throttle_time_ms == 1234
        assert response.responses[0].partition_responses[0].index == index
        patched = patched[4 + size :]
    assert not patched

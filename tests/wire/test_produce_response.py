"""The directly encoded response to a small Produce."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.records.file_slice import joined
from logbus.wire.messages.records import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from logbus.wire.produce_response import FIRST_VERSION, encode_produce_response
from logbus.wire.schema import encode

INT64 = st.integers(-(2**63), 2**63 - 1)


class EncodeProduceResponseTests(SynchronousTestCase):
    @given(st.text("abz09._-", min_size=1, max_size=249), st.integers(0, 2**31 - 1), INT64, INT64, INT64, st.data())
    def test_as_the_message(self, topic: str, index: int, base: int, at: int, start: int, draw: st.DataObject) -> None:
        """
        It is byte for byte what the message would be, at each version it is for.
        """
        answer = PartitionProduceResponse(index=index, base_offset=base, log_append_time_ms=at, log_start_offset=start)
        topic_id = draw.draw(st.binary(min_size=16, max_size=16))
        message = ProduceResponse(
            responses=[TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=[answer])]
        )
        version = draw.draw(st.integers(FIRST_VERSION, 13))
        named = topic.encode() if version < 13 else topic_id
        self.assertEqual(
            encode_produce_response(named, index, base, at, start, version), joined(encode(message, version))
        )

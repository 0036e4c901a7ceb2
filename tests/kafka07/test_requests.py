"""Tests of :mod:`logbus.kafka07.requests` and :mod:`logbus.kafka07.responses`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, DecodeError, ErrorCode
from logbus.kafka07 import requests
from logbus.kafka07.requests import Fetch, FetchPart, MultiFetch, Offsets, Produce, decode_request
from logbus.kafka07.responses import Code, code_of, encode_messages, encode_multi, encode_offsets
from tests.kafka07 import client

TOPIC = st.text("abcXYZ019._-", min_size=1, max_size=20).filter(lambda name: name not in (".", ".."))
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


class Requests(SynchronousTestCase):
    @given(TOPIC, INT32, INT64, INT32, st.binary(max_size=30))
    def test_what_a_client_sends(self, topic: str, partition: int, at: int, size: int, data: bytes) -> None:
        """
        Each of the five requests is read as it was meant.
        """
        self.assertEqual(
            decode_request(client.produce(topic, partition, data)[4:]), Produce([(topic, partition, data)])
        )
        self.assertEqual(
            decode_request(client.multi_produce((topic, partition, data), ("t", 0, b""))[4:]),
            Produce([(topic, partition, data), ("t", 0, b"")]),
        )
        part = FetchPart(topic, partition, at, size)
        self.assertEqual(decode_request(client.fetch(*part)[4:]), Fetch(part))
        self.assertEqual(decode_request(client.multi_fetch(part, part)[4:]), MultiFetch([part, part]))
        self.assertEqual(decode_request(client.multi_fetch()[4:]), MultiFetch([]))
        self.assertEqual(
            decode_request(client.offsets(topic, partition, at, size)[4:]), Offsets(topic, partition, at, size)
        )

    @given(st.integers(-1, 6), st.binary(max_size=40))
    def test_garbage(self, kind: int, rest: bytes) -> None:
        """
        Any bytes are a request, or an error that says what is wrong.
        """
        try:
            decode_request(kind.to_bytes(2, "big", signed=True) + rest)
        except DecodeError as error:
            self.assertTrue(str(error))

    @given(st.integers(0, 3), st.data())
    def test_cut(self, which: int, data: st.DataObject) -> None:
        """
        A request that ends early, or late, is none.
        """
        whole = (
            client.produce("topic", 1, client.message(b"abc")),
            client.fetch("topic", 1, 5),
            client.multi_fetch(("topic", 1, 5, 6), ("t", 0, 0, 9)),
            client.offsets("topic", 1, -1),
        )[which][4:]
        self.assertRaises(DecodeError, decode_request, whole[: data.draw(st.integers(0, len(whole) - 1))])
        self.assertRaises(DecodeError, decode_request, whole + b"x")

    def test_refused(self) -> None:
        """
        What cannot be is named.
        """
        for frame, words in (
            (b"", "ends within a type"),
            (b"\x00\x09", "type 9"),
            (b"\x00\x02\xff\xff", "announces -1 parts"),
            (client.fetch("é", 0, 0)[4:], "not ASCII"),
            (client.fetch("a/b", 0, 0)[4:], "cannot exist"),
            (client.fetch("", 0, 0)[4:], "cannot exist"),
            (b"\x00\x01\xff\xff", "a topic of -1 bytes"),
        ):
            with self.subTest(words), self.assertRaisesRegex(DecodeError, words):
                decode_request(frame)

    def test_types(self) -> None:
        """
        The numbers of 0.7's requests.
        """
        numbers = [requests.PRODUCE, requests.FETCH, requests.MULTIFETCH, requests.MULTIPRODUCE, requests.OFFSETS]
        self.assertEqual(numbers, [0, 1, 2, 3, 4])


class Responses(SynchronousTestCase):
    @given(st.lists(INT64, max_size=5), st.lists(st.binary(max_size=9), max_size=3))
    def test_what_a_client_reads(self, positions: list[int], sets: list[bytes]) -> None:
        """
        A client reads offsets, and the sets of a multi-fetch, each with a code of its own.
        """
        self.assertEqual(client.read_offsets(encode_offsets(Code.NO_ERROR, positions)[4:]), positions)
        parts = client.read_multi(encode_multi([encode_messages(Code.NO_ERROR, each) for each in sets])[4:])
        self.assertEqual([client.checked(each) for each in parts], sets)

    def test_codes(self) -> None:
        """
        Errors have 0.7's codes, or −1.
        """
        for error, code in (
            (ErrorCode.OFFSET_OUT_OF_RANGE, 1),
            (ErrorCode.CORRUPT_MESSAGE, 2),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, 3),
            (ErrorCode.INVALID_FETCH_SIZE, 4),
            (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1),
            (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        ):
            self.assertEqual(code_of(ApiError(error, "")), code)
            for encode in (encode_messages, encode_offsets):
                with self.assertRaises(client.Failed) as failed:
                    client.checked(encode(code_of(ApiError(error, "")))[4:])
                self.assertEqual(failed.exception.code, code)

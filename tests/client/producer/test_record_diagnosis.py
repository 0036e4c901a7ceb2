"""What is wrong with a record: one line that says what would be right."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.client import InvalidOption, Producer
from logbus.client.producer.record_diagnosis import diagnosed
from logbus.testing.memory import MemoryCluster

GOOD: dict[str, Any] = {"value": b"v", "key": b"k", "partition": 0, "timestamp": 1, "headers": [("name", b"v")]}

WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"value": "tea"},
        "the value is 'tea'; it is bytes or None, or give the producer a value_serializer, such as String",
    ),
    (
        {"value": {"a": 1}},
        "the value is {'a': 1}; it is bytes or None, or give the producer a value_serializer, such as J",
    ),
    ({"key": 3}, "the key is 3; it is bytes or None, or give the producer a key_serializer"),
    ({"partition": "1"}, "the partition is '1'; it is a number, or None"),
    ({"timestamp": "now"}, "the timestamp is 'now'; it is a whole number of milliseconds since 1970, or None"),
    ({"timestamp": 1795974443.85}, "the timestamp is 1795974443.85; it is a whole number of milliseconds since 1970"),
    ({"timestamp": True}, "the timestamp is True; it is"),
    ({"timestamp": 2**63}, "the timestamp is 9223372036854775808; it is"),
    ({"headers": {"a": b"b"}}, "the headers are {'a': b'b'}; they are a list of pairs of a text and bytes"),
    ({"headers": [b"a"]}, "the headers have b'a'; they are a list of pairs"),
    ({"headers": [(b"a", b"b")]}, "the headers have (b'a', b'b'); they are a list of pairs"),
    ({"headers": [("a", "b")]}, "the header 'a' is 'b'; it is bytes or None"),
]


class DiagnosisTests(SynchronousTestCase):
    def test_wrong(self) -> None:
        """Each wrong part is named; the error of before is the cause."""
        for wrong, words in WRONG:
            error = TypeError("?")
            found = diagnosed(error, **{**GOOD, **wrong})
            self.assertIsInstance(found, InvalidOption)
            self.assertTrue(str(found).startswith(words), found)
            self.assertIs(found.__cause__, error)

    def test_nothing_wrong(self) -> None:
        """If nothing is wrong with the record, the error is the one that it was."""
        error = TypeError("?")
        self.assertIs(diagnosed(error, **GOOD), error)
        self.assertIs(diagnosed(error, None, None, None, -1, ()), error)

    def test_sent_first(self) -> None:
        """Whoever sends such a record as the first one of a topic is told."""
        brokers = MemoryCluster.started()
        self.addCleanup(brokers.close)
        brokers[0].create("t", 1)
        for wrong, words in WRONG:
            producer = Producer(brokers.client())
            error = self.assertRaises(InvalidOption, brokers.result, producer.send("t", **{"value": b"v", **wrong}))
            self.assertTrue(str(error).startswith(words), error)
            brokers.result(producer.send("t", b"right"))
            self.assertEqual(producer.buffered, 0)
            brokers.result(producer.close())

    def test_sent_while_the_buffer_is_full(self) -> None:
        """Whoever sends such a record when there is no room is told; records that wait for room are sent."""
        brokers = MemoryCluster.started()
        self.addCleanup(brokers.close)
        brokers[0].create("t", 1)
        for wrong, words in WRONG:
            producer = Producer(brokers.client(), buffer_bytes=2000)
            sent = [producer.send("t", b"x" * 1000) for _ in range(2)]
            error = self.assertRaises(InvalidOption, brokers.result, producer.send("t", **{"value": b"v", **wrong}))
            self.assertTrue(str(error).startswith(words), error)
            sent.append(producer.send("t", b"right"))
            for each in sent:
                brokers.result(each)
            self.assertEqual(producer.buffered, 0)
            brokers.result(producer.close())

    def test_sent(self) -> None:
        """Whoever sends such a record is told, for the first record of a topic and for others."""
        brokers = MemoryCluster.started()
        self.addCleanup(brokers.close)
        brokers[0].create("t", 1)
        for is_known in (False, True):
            producer = Producer(brokers.client())
            if is_known:
                brokers.result(producer.send("t", b"x"))
            for wrong, words in WRONG:
                error = self.assertRaises(InvalidOption, brokers.result, producer.send("t", **{"value": b"v", **wrong}))
                self.assertTrue(str(error).startswith(words), error)
            error = self.assertRaises(InvalidOption, brokers.result, producer.send(3, b"x"))  # type: ignore[arg-type]
            self.assertEqual(str(error), "the topic is 3; it is a text that is not empty")
            brokers.result(producer.close())

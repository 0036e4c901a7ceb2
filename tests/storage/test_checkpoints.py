"""Formats of the small files of a log directory."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ConfigError
from logbus.model import TopicPartition
from logbus.storage import checkpoints
from logbus.storage.checkpoints import MetaProperties


class CheckpointTests(SynchronousTestCase):
    """Formats."""

    def test_offsets(self) -> None:
        """Kafka's checkpoint format, there and back."""
        offsets = {TopicPartition("a", 0): 5, TopicPartition("b.c-d", 11): 2**62}
        data = checkpoints.encode_offsets(offsets)
        self.assertEqual(data, b"0\n2\na 0 5\nb.c-d 11 4611686018427387904\n")
        self.assertEqual(checkpoints.decode_offsets(data), offsets)
        for damaged in (b"", b"0\n", b"0\n1\n", b"0\n1\na 0\n", b"7\n0\n", data[:-8], b"\xff\xfe"):
            self.assertRaises(ValueError, checkpoints.decode_offsets, damaged)

    def test_partition_metadata(self) -> None:
        """The topic's id as Kafka writes it."""
        topic_id = uuid.UUID(int=0xFEDCBA98765432100123456789ABCDEF)
        data = checkpoints.encode_partition_metadata(topic_id)
        self.assertEqual(data, b"version: 0\ntopic_id: _ty6mHZUMhABI0VniavN7w")
        self.assertEqual(checkpoints.decode_partition_metadata(data), topic_id)
        for damaged in (b"", b"version: 1\ntopic_id: _ty6mHZUMhABI0VniavN7w", b"version: 0", b"x", data[:-9]):
            self.assertRaises(ValueError, checkpoints.decode_partition_metadata, damaged)

    def test_meta(self) -> None:
        """The directory's owner; another program's, a newer one's and a damaged one are distinguished."""
        meta = MetaProperties(3, "abc")
        self.assertEqual(MetaProperties.decode(meta.encode(), "/x"), meta)
        kafka = b"#Sat\nversion=0\nbroker.id=0\ncluster.id=abc\n"
        self.assertIn("Apache Kafka", str(self.assertRaises(ConfigError, MetaProperties.decode, kafka, "/x")))
        newer = meta.encode().replace(b"format=1", b"format=2")
        self.assertIn("newer", str(self.assertRaises(ConfigError, MetaProperties.decode, newer, "/x")))
        damaged = meta.encode().replace(b"broker.id=3", b"broker.id=three")
        self.assertIn("damaged", str(self.assertRaises(ConfigError, MetaProperties.decode, damaged, "/x")))

    @given(st.integers(0), st.integers(0, 7))
    def test_marker(self, at: int, bit: int) -> None:
        """A damaged marker is not believed."""
        data = bytearray(checkpoints.encode_marker([checkpoints.encode_marker_entry("a-0", {"end": 5})]))
        self.assertEqual(checkpoints.decode_marker(bytes(data)), {"a-0": {"end": 5}})
        data[at % len(data)] ^= 1 << bit
        try:
            logs = checkpoints.decode_marker(bytes(data))
        except (ValueError, KeyError, TypeError):
            return
        # Hexadecimal digits have two spellings, and int() takes some more.
        self.assertEqual(logs, {"a-0": {"end": 5}})

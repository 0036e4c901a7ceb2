"""Tests of :mod:`logbus.cli.dump.group_record_dump`."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.commands.dump_log import dump_log
from logbus.cli.dump.file_dump import dump
from logbus.cli.dump.group_record_dump import decoded
from logbus.coordination.group_records import encode_change
from logbus.records.batch import encode_batch
from logbus.records.record import Record
from logbus.wire.messages import group_log
from logbus.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from logbus.wire.messages.partitions import TopicPartitions
from logbus.wire.schema import encode_versioned, message_spec
from tests.wire.instances import messages

ORDERS = uuid.UUID("7f0a4a52-9a3e-4a2e-8f11-0c8c6a2f9b01")
PRICES = uuid.UUID("7f0a4a52-9a3e-4a2e-8f11-0c8c6a2f9b02")
OFFSET = group_log.OffsetCommitKey(group="billing", topic="orders", partition=3)
COMMITTED = group_log.OffsetCommitValue(offset=42, leader_epoch=5, metadata="note", commit_timestamp=1_700_000_000_000)


def said(key: Any, value: Any) -> dict[str, Any]:
    return decoded(Record(0, 0, *encode_change((key, value))))


class DecodingTests(SynchronousTestCase):
    def test_offsets(self) -> None:
        """
        Whose offset it is, and what was committed.
        """
        self.assertEqual(
            said(OFFSET, COMMITTED),
            {
                "kind": "offset_commit",
                "group": "billing",
                "topic": "orders",
                "partition": 3,
                "committed_offset": 42,
                "leader_epoch": 5,
                "metadata": "note",
                "commit_timestamp": 1_700_000_000_000,
                "expire_timestamp": -1,
            },
        )

    def test_tombstones(self) -> None:
        """A tombstone is shown with the key that it deletes."""
        self.assertEqual(
            said(OFFSET, None),
            {"kind": "offset_commit", "group": "billing", "topic": "orders", "partition": 3, "tombstone": True},
        )

    def classic(self, protocol_type: str) -> dict[str, Any]:
        member = group_log.GroupMemberMetadata(
            member_id="m",
            client_id="c",
            client_host="/h",
            session_timeout=10_000,
            subscription=encode_versioned(ConsumerProtocolSubscription(topics=["orders"]), 1),
            assignment=encode_versioned(
                ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic="orders", partitions=[0, 1])]),
                1,
            ),
        )
        value = group_log.GroupMetadataValue(
            protocol_type=protocol_type, generation=7, protocol="range", leader="m", members=[member]
        )
        return said(group_log.GroupMetadataKey(group="billing"), value)

    def test_classic_groups(self) -> None:
        """
        Members with what they are subscribed to and assigned, where they are consumers; with bytes, where they are not.
        """
        told = self.classic("consumer")
        self.assertEqual((told["kind"], told["group"], told["generation"]), ("group_metadata", "billing", 7))
        (member,) = told["members"]
        self.assertEqual((member["subscription"], member["assignment"]), (["orders"], {"orders": [0, 1]}))
        (member,) = self.classic("connect")["members"]
        self.assertEqual(member["subscription_base64"], "AAEAAAABAAZvcmRlcnP/////AAAAAA==")

    def test_consumer_groups(self) -> None:
        """
        Partitions by the ids of their topics, and the state of a member in words.
        """
        owned = [
            group_log.OwnedTopicPartitions(topic_id=ORDERS.bytes, partitions=[0, 2], assignment_epochs=[1, 3]),
            # Of an older release, without epochs.
            group_log.OwnedTopicPartitions(topic_id=PRICES.bytes, partitions=[1]),
        ]
        value = group_log.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=4,
            previous_member_epoch=3,
            state=1,
            assigned_partitions=owned,
            partitions_pending_revocation=[],
        )
        told = said(group_log.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), value)
        self.assertEqual(
            told,
            {
                "kind": "consumer_group_current_member_assignment",
                "group": "g",
                "member_id": "m",
                "member_epoch": 4,
                "previous_member_epoch": 3,
                "state": "unrevoked_partitions",
                "assigned_partitions": {str(ORDERS): [0, 2], str(PRICES): [1]},
                "partitions_pending_revocation": [],
                "assignment_epochs": {str(ORDERS): {"0": 1, "2": 3}},
            },
        )

    def test_unknown_records(self) -> None:
        """They are shown as bytes, with the reason."""
        for key, value, why in (
            (b"\0\x63abc", b"v", "version 99"),
            (None, b"v", "no key"),
            (b"\0", None, "no version"),
            (encode_change((OFFSET, None))[0], b"\0\x63", "version 99"),
            (encode_change((OFFSET, None))[0], b"", "0 bytes"),
        ):
            told = decoded(Record(0, 0, key, value))
            self.assertIn(why, told["undecodable"])
            self.assertNotIn("kind", told)

    @given(st.data())
    def test_every_kind(self, data: st.DataObject) -> None:
        """
        Whatever a record of any kind holds is JSON, with its kind and whom it is about.
        """
        kind = data.draw(st.sampled_from(sorted(group_log.VALUES, key=lambda each: each.__name__)))
        key, value = data.draw(_message(kind)), data.draw(st.none() | _message(group_log.VALUES[kind]))
        told = said(key, value)
        self.assertNotIn("undecodable", told)
        self.assertIn("group", told)
        self.assertEqual("tombstone" in told, value is None)
        json.dumps(told)

    @given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60), st.sampled_from(range(17)))
    def test_any_bytes(self, rest: bytes | None, value: bytes | None, version: int) -> None:
        """
        Bytes from anywhere never break it.
        """
        json.dumps(decoded(Record(0, 0, None if rest is None else bytes([0, version]) + rest, value)))


def _message(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Messages in the version that is written."""
    newest = message_spec(kind).versions.max
    return messages(message_spec(kind), 3 if kind.__name__.endswith("Value") and newest else newest)


class DumpTests(SynchronousTestCase):
    def setUp(self) -> None:
        scratch = TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)

    def log(self, directory: str) -> Path:
        path = self.root / directory / "00000000000000000000.log"
        path.parent.mkdir()
        records = [Record(0, 1, *encode_change((OFFSET, COMMITTED))), Record(0, 1, b"\0\x63", b"\xff")]
        path.write_bytes(encode_batch(records))
        return path

    def test_topic_is_taken_from_the_directory(self) -> None:
        """Records are decoded if the directory is that of an internal topic."""
        (batch,) = dump(self.log("__consumer_offsets-7"), records=True)
        self.assertEqual([each.get("kind") for each in batch["records"]], ["offset_commit", None])
        self.assertNotIn("damage", batch)
        (batch,) = dump(self.log("orders-7"), records=True)
        self.assertIn("key", batch["records"][0])
        for name in ("__consumer_offsets", "__consumer_offsets-x", "x__consumer_offsets-1"):
            (batch,) = dump(self.log(name), records=True)
            self.assertNotIn("kind", batch["records"][0], name)

    def test_for_people(self) -> None:
        """
        A line for each record, times as dates.
        """
        path = self.log("__consumer_offsets-7")
        with mock.patch("sys.stdout", io.StringIO()) as out:
            dump_log.main([str(path), "--records"], standalone_mode=False)
        self.assertIn("kind=offset_commit group=billing topic=orders partition=3 committed_offset=42", out.getvalue())
        self.assertIn("commit_timestamp=2023-11-14T22:13:20.000Z", out.getvalue())
        self.assertIn('undecodable="a key of version 99 is not known here"', out.getvalue())

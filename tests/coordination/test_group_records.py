"""Tests of :mod:`logbus.coordination.group_records`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.group_records import UnknownKey, decode_change, encode_change
from logbus.errors import DecodeError
from logbus.wire.messages.group_log import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

KEY = OffsetCommitKey(group="g", topic="t", partition=3)
numbers = st.integers(0, 2**63 - 1)


class RecordTests(SynchronousTestCase):
    """The bytes are those of Kafka's formats."""

    def test_a_committed_offset(self) -> None:
        """Key version 1 and value version 3."""
        value = OffsetCommitValue(offset=42, leader_epoch=7, metadata="m", commit_timestamp=1000)
        self.assertEqual(
            encode_change((KEY, value)),
            (
                b"\0\x01\0\x01g\0\x01t\0\0\0\x03",
                b"\0\x03" + (42).to_bytes(8, "big") + b"\0\0\0\x07\0\x01m" + (1000).to_bytes(8, "big"),
            ),
        )

    def test_expiration_time_of_version_1(self) -> None:
        """Only value version 1 has room for the time it expires at."""
        value = OffsetCommitValue(offset=42, leader_epoch=7, metadata="", commit_timestamp=1000, expire_timestamp=2000)
        _, encoded = encode_change((KEY, value))
        assert encoded is not None
        self.assertEqual(encoded[:2], b"\0\x01")
        self.assertEqual(encoded[-8:], (2000).to_bytes(8, "big"))

    def test_groups(self) -> None:
        """A classic group has key version 2 and value version 3, one of consumers 3 and 0."""
        value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="m", members=[])
        key, encoded = encode_change((GroupMetadataKey(group="g"), value))
        assert encoded is not None
        self.assertEqual((key, encoded[:2]), (b"\0\x02\0\x01g", b"\0\x03"))
        key, encoded = encode_change((ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=5)))
        self.assertEqual((key, encoded), (b"\0\x03\0\x01g", b"\0\0\0\0\0\x05\0"))

    @given(st.text(max_size=300), st.text(max_size=300), numbers, numbers, st.text(max_size=300), numbers)
    def test_round_trip(self, group: str, topic: str, offset: int, time: int, metadata: str, expires: int) -> None:
        """Commits and their tombstones come back as they went."""
        for expire, epoch in ((-1, 5), (expires, -1)):
            change = (
                OffsetCommitKey(group=group, topic=topic, partition=1),
                OffsetCommitValue(
                    offset=offset,
                    leader_epoch=epoch,
                    metadata=metadata,
                    commit_timestamp=time,
                    expire_timestamp=expire,
                ),
            )
            self.assertEqual(decode_change(*encode_change(change)), change)
            self.assertEqual(decode_change(*encode_change((change[0], None))), (change[0], None))

    def test_a_group_id_of_ten_kilobytes(self) -> None:
        """The longest texts of any request fit into records."""
        for length in (10_000, 32_767):
            key = GroupMetadataKey(group="g" * length)
            self.assertEqual(decode_change(*encode_change((key, None))), (key, None))

    def test_older_formats(self) -> None:
        """Keys of version 0 and values of version 0 are read."""
        value = (42).to_bytes(8, "big") + b"\0\x01m" + (1000).to_bytes(8, "big")
        expected = OffsetCommitValue(offset=42, metadata="m", commit_timestamp=1000)
        self.assertEqual(decode_change(b"\0\0\0\x01g\0\x01t\0\0\0\x03", b"\0\0" + value), (KEY, expected))

    def test_unknown_key_version(self) -> None:
        """An unknown key version is distinguished from damage."""
        self.assertEqual(decode_change(b"\0\x63whatever", b"\0\0"), UnknownKey(99))

    def test_damage(self) -> None:
        """No key, a cut key, a cut value and a value of an unknown version are DecodeErrors."""
        key = b"\0\x01\0\x01g\0\x01t\0\0\0\x03"
        for given_key, given_value in ((None, b""), (b"\0", None), (key[:-1], None), (key, b"\0\x03\0"), (key, b"\0c")):
            self.assertRaises(DecodeError, decode_change, given_key, given_value)

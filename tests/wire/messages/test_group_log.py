"""Records of ``__consumer_offsets`` as Kafka 4.3.1 wrote them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.wire.messages.group_log import ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue
from logbus.wire.schema import decode_versioned, encode_versioned
from tests.wire.golden import octets

CONSUMER = octets(
    "00 00  00  00  09 63 6f 6e 73 75 6d 65 72  0b 2f 31 32 37 2e 30 2e 30 2e 31  02 07 6f 72 64 65 72 73  01"
    "00 04 93 e0  00  01  00 01 00"  # one tag: 0, one byte long, null
)


def member(classic: ClassicMemberMetadata | None) -> ConsumerGroupMemberMetadataValue:
    """What the record says."""
    return ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="consumer",
        client_host="/127.0.0.1",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=300_000,
        server_assignor=None,
        classic_member_metadata=classic,
    )


class MemberTests(SynchronousTestCase):
    """
    Whether a member speaks the classic protocol is told by a struct in a tag, whose absence stands for an empty one:
    that there is none has to be written.
    """

    def test_a_member_of_the_newer_protocol(self) -> None:
        """It says null, in a byte of zero."""
        self.assertEqual(encode_versioned(member(None), 0), CONSUMER)
        self.assertEqual(decode_versioned(ConsumerGroupMemberMetadataValue, CONSUMER)[0], member(None))

    def test_a_member_of_the_classic_protocol(self) -> None:
        """It says what it supports, behind a byte of one."""
        classic = ClassicMemberMetadata(
            session_timeout_ms=45_000, supported_protocols=[ClassicProtocol(name="range", metadata=b"\1\2")]
        )
        tag = octets("01  00 11 01  00 00 af c8  02  06 72 61 6e 67 65  03 01 02  00  00")
        data = CONSUMER[:-4] + tag
        self.assertEqual(encode_versioned(member(classic), 0), data)
        self.assertEqual(decode_versioned(ConsumerGroupMemberMetadataValue, data)[0], member(classic))

    def test_no_tag(self) -> None:
        """Nothing is the empty struct."""
        data = CONSUMER[:-4] + b"\0"
        self.assertEqual(encode_versioned(member(ClassicMemberMetadata()), 0), data)
        self.assertEqual(decode_versioned(ConsumerGroupMemberMetadataValue, data)[0], member(ClassicMemberMetadata()))

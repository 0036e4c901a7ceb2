"""Records of ``__transaction_state``, byte by byte."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import DecodeError
from logbus.wire.messages.transaction_log import TransactionLogKey, TransactionLogPartitions, TransactionLogValue
from logbus.wire.schema import EncodeError, decode_versioned, encode_versioned
from tests.wire.golden import octets


def value(**more: int) -> TransactionLogValue:
    """A transaction that runs, with one partition."""
    return TransactionLogValue(
        producer_id=4000,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[TransactionLogPartitions(topic="orders", partition_ids=[0, 7])],
        transaction_last_update_timestamp_ms=1_700_000_000_500,
        transaction_start_timestamp_ms=1_700_000_000_000,
        **more,
    )


OLD = octets(
    """
    00 00                                         # version 0
    00 00 00 00 00 00 0f a0  00 03  00 00 ea 60   # producer id and epoch, timeout
    01                                            # Ongoing
    00 00 00 01  00 06 6f 72 64 65 72 73  00 00 00 02  00 00 00 00  00 00 00 07
    00 00 01 8b cf e5 69 f4  00 00 01 8b cf e5 68 00
    """
)

FLEXIBLE = octets(
    """
    00 01                                         # version 1
    00 00 00 00 00 00 0f a0  00 03  00 00 ea 60
    01
    02  07 6f 72 64 65 72 73  03  00 00 00 00  00 00 00 07  00
    00 00 01 8b cf e5 69 f4  00 00 01 8b cf e5 68 00
    """
)

TAGS = octets(
    """
    03
    00 08  00 00 00 00 00 00 0f 9f                # the id it had
    01 08  00 00 00 00 00 00 0f a1                # the id it gets
    02 02  00 02                                  # by the second version of transactions
    """
)


class KeyTests(SynchronousTestCase):
    """The key of a record."""

    def test_key(self) -> None:
        """It is the transactional id, in the old spelling."""
        data = octets("00 00  00 05 62 69 6c 6c 73")
        self.assertEqual(encode_versioned(TransactionLogKey(transactional_id="bills"), 0), data)
        self.assertEqual(decode_versioned(TransactionLogKey, data), (TransactionLogKey(transactional_id="bills"), 0))

    def test_key_to_come(self) -> None:
        """A key of a version that we do not know is refused, for its record says something else."""
        self.assertRaises(DecodeError, decode_versioned, TransactionLogKey, octets("00 01  00 00"))


class ValueTests(SynchronousTestCase):
    """The value of a record."""

    def test_version_0(self) -> None:
        """What brokers write where transactions have version 0; it cannot say more."""
        self.assertEqual(encode_versioned(value(), 0), OLD)
        self.assertEqual(decode_versioned(TransactionLogValue, OLD), (value(), 0))
        self.assertRaises(EncodeError, encode_versioned, value(client_transaction_version=2), 0)

    def test_version_1(self) -> None:
        """Nothing is said by tags of a producer that keeps its id and works by the first versions."""
        self.assertEqual(encode_versioned(value(), 1), FLEXIBLE + b"\0")
        self.assertEqual(decode_versioned(TransactionLogValue, FLEXIBLE + b"\0"), (value(), 1))

    def test_tags(self) -> None:
        """The ids before and after, and the version of the client's transactions, are tags 0 to 2."""
        full = value(previous_producer_id=3999, next_producer_id=4001, client_transaction_version=2)
        self.assertEqual(encode_versioned(full, 1), FLEXIBLE + TAGS)
        self.assertEqual(decode_versioned(TransactionLogValue, FLEXIBLE + TAGS), (full, 1))

    def test_no_partitions(self) -> None:
        """An id without a transaction has no partitions: null, and an empty list is read as well."""
        empty = value()
        empty.transaction_partitions = None
        data = FLEXIBLE[:17] + b"\0" + FLEXIBLE[-16:] + b"\0"
        self.assertEqual(encode_versioned(empty, 1), data)
        self.assertEqual(decode_versioned(TransactionLogValue, data), (empty, 1))
        read, _ = decode_versioned(TransactionLogValue, FLEXIBLE[:17] + b"\1" + FLEXIBLE[-16:] + b"\0")
        self.assertEqual(read.transaction_partitions, [])

"""Tests of :mod:`logbus.coordination.transactions.transaction_records`."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.transactions.transaction_metadata import V1, V2, TransactionMetadata
from logbus.coordination.transactions.transaction_records import (
    STATUS,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.errors import DecodeError
from logbus.model import TopicPartition
from logbus.wire.messages.transaction_log import TransactionLogValue
from logbus.wire.schema import encode_versioned

ids = st.text(min_size=1, max_size=20)
numbers = st.integers(-1, 2**63 - 1)
epochs = st.integers(-1, 32767)
partitions = st.frozensets(st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 5)))


@st.composite
def transactions(draw: st.DrawFn) -> TransactionMetadata:
    """Any, but with the last epoch, which is not written."""
    state = draw(st.sampled_from(sorted(STATUS, key=lambda state: state.value)))
    return TransactionMetadata(
        draw(ids),
        draw(numbers),
        draw(epochs),
        draw(st.integers(0, 2**31 - 1)),
        state,
        frozenset() if state is TransactionState.EMPTY else draw(partitions),
        previous_producer_id=draw(numbers),
        next_producer_id=draw(numbers),
        started_ms=draw(numbers),
        updated_ms=draw(numbers),
        client_version=draw(st.sampled_from([V1, V2])),
    )


class RecordTests(SynchronousTestCase):
    """Encoding and decoding."""

    @given(transactions())
    def test_round_trip(self, transaction: TransactionMetadata) -> None:
        """Encoding and decoding are inverse."""
        self.assertEqual(decode_key(encode_key(transaction.transactional_id)), transaction.transactional_id)
        self.assertEqual(decode_value(transaction.transactional_id, encode_value(transaction)), transaction)

    @given(transactions())
    def test_of_older_brokers(self, transaction: TransactionMetadata) -> None:
        """Their values say nothing of other producer ids, nor of the version."""
        value = TransactionLogValue(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_status=STATUS[transaction.state],
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=transaction.updated_ms,
            transaction_start_timestamp_ms=transaction.started_ms,
        )
        self.assertEqual(
            decode_value(transaction.transactional_id, encode_versioned(value, 0)),
            evolve(
                transaction, previous_producer_id=-1, next_producer_id=-1, partitions=frozenset(), client_version=V1
            ),
        )

    @given(st.binary(max_size=40))
    def test_garbage(self, data: bytes) -> None:
        """A damaged record raises DecodeError."""
        for decode in (decode_key, lambda data: decode_value("x", data)):
            try:
                decode(data)
            except DecodeError:
                pass
        self.assertRaises(DecodeError, decode_key, None)

    def test_unknown_states(self) -> None:
        """A state that is never written is damage."""
        for status in (6, 7, 8, -1):
            value = TransactionLogValue(
                producer_id=1,
                producer_epoch=0,
                transaction_timeout_ms=1,
                transaction_status=status,
                transaction_partitions=None,
                transaction_last_update_timestamp_ms=-1,
                transaction_start_timestamp_ms=-1,
            )
            self.assertRaises(DecodeError, decode_value, "x", encode_versioned(value, 1))

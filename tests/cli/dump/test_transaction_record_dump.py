"""Tests of :mod:`logbus.cli.dump.transaction_record_dump`."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.commands.dump_log import dump_log
from logbus.cli.dump.transaction_record_dump import decoded
from logbus.records.batch import encode_batch
from logbus.records.record import Record
from logbus.wire.messages.transaction_log import TransactionLogKey, TransactionLogPartitions, TransactionLogValue
from logbus.wire.schema import encode_versioned

KEY = encode_versioned(TransactionLogKey(transactional_id="billing-1"), 0)


def value(version: int = 1, **given: Any) -> bytes:
    return encode_versioned(
        TransactionLogValue(
            **{
                "producer_id": 7,
                "producer_epoch": 3,
                "transaction_timeout_ms": 60_000,
                "transaction_status": 1,
                "transaction_partitions": [TransactionLogPartitions(topic="orders", partition_ids=[0, 2])],
                "transaction_last_update_timestamp_ms": 1_700_000_000_000,
                "transaction_start_timestamp_ms": 1_700_000_000_000,
                **given,
            }
        ),
        version,
    )


def said(key: bytes | None, data: bytes | None) -> dict[str, Any]:
    return decoded(Record(0, 0, key, data))


class DecodingTests(SynchronousTestCase):
    def test_a_transaction(self) -> None:
        """
        Whose it is, what it is in the midst of, and which partitions take part.
        """
        for version in (0, 1):
            self.assertEqual(
                said(KEY, value(version)),
                {
                    "kind": "transaction",
                    "transactional_id": "billing-1",
                    "state": "Ongoing",
                    "producer_id": 7,
                    "producer_epoch": 3,
                    "timeout_ms": 60_000,
                    "start_timestamp": 1_700_000_000_000,
                    "last_update_timestamp": 1_700_000_000_000,
                    "partitions": {"orders": [0, 2]},
                    "client_transaction_version": 0,
                },
            )

    def test_another_producer_id(self) -> None:
        """
        The one before and the one after are told, where there are any.
        """
        told = said(KEY, value(next_producer_id=9, client_transaction_version=2, transaction_status=5))
        self.assertEqual((told["next_producer_id"], told["state"]), (9, "CompleteAbort"))
        self.assertNotIn("previous_producer_id", told)
        self.assertEqual(told["client_transaction_version"], 2)

    def test_no_partitions(self) -> None:
        """
        Kafka writes nothing instead of none.
        """
        self.assertEqual(said(KEY, value(transaction_partitions=None, transaction_status=0))["partitions"], {})

    def test_tombstones(self) -> None:
        """A tombstone is shown with the transactional id that it deletes."""
        self.assertEqual(said(KEY, None), {"kind": "transaction", "transactional_id": "billing-1", "tombstone": True})

    def test_unknown_records(self) -> None:
        """They are shown as bytes, with the reason; an unknown state is shown as a number."""
        for key, data, why in (
            (b"\0\x63abc", b"v", "99"),
            (None, b"v", "no key"),
            (b"\0", None, "1 bytes"),
            (KEY, b"\0\x63", "99"),
            (KEY, b"", "0 bytes"),
        ):
            told = said(key, data)
            self.assertIn(why, told["undecodable"])
            self.assertNotIn("kind", told)
        self.assertEqual(said(KEY, value(transaction_status=77))["state"], 77)


class FileTests(SynchronousTestCase):
    def test_for_people(self) -> None:
        """
        Records of that topic, known by its directory, are lines with times as dates.
        """
        scratch = TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        path = Path(scratch.name) / "__transaction_state-3" / "00000000000000000000.log"
        path.parent.mkdir()
        path.write_bytes(encode_batch([Record(0, 1, KEY, value())]))
        with mock.patch("sys.stdout", io.StringIO()) as out:
            dump_log.main([str(path), "--records"], standalone_mode=False)
        self.assertIn("kind=transaction transactional_id=billing-1 state=Ongoing producer_id=7", out.getvalue())
        self.assertIn("start_timestamp=2023-11-14T22:13:20.000Z", out.getvalue())

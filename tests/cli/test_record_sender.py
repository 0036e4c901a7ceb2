"""Tests of :mod:`logbus.cli.record_sender`, with a broker in memory."""

from __future__ import annotations

import io
from unittest import mock

from twisted.internet.defer import Deferred

from logbus.cli.input_records import InputRecord
from logbus.cli.record_sender import RecordSender, SendOptions
from logbus.cli.runner import CommandFailed
from logbus.records.compression import Codec
from tests.client.membership_kit import CLIENTS, MembershipCase


class OutageTests(MembershipCase):
    """A sender whose only broker stands still."""

    def test_a_silent_broker(self) -> None:
        """After five seconds a line says so, long before the record is given up."""
        client = self.a_client(timeout=30.0, connect_timeout=5.0)
        topic = self.cluster.now(client.topic("t"))
        options = SendOptions(topic="t", codec=Codec.NONE, batch_bytes=1000, linger=0.0, timeout=30.0)
        with mock.patch("sys.stderr", io.StringIO()) as err:
            sender = RecordSender(client, topic, options)
            sender.put(InputRecord(None, b"first", ()), 0)
            flushed = Deferred.fromCoroutine(sender.flush())
            self.cluster.settle(5)
            self.successResultOf(flushed)
            self.cluster.cut(0, CLIENTS)
            sender.put(InputRecord(None, b"second", ()), 0)
            flushed = Deferred.fromCoroutine(sender.flush())
            self.cluster.settle(10)
            self.assertEqual(err.getvalue(), "logbus: 10.1.0.0:9092 has not answered for 5 s; still waiting\n")
            self.cluster.settle(60)
            self.successResultOf(flushed)
            sender.stop()
            said = str(self.assertRaises(CommandFailed, sender.summary))
            self.assertTrue(said.endswith("no answer from 10.1.0.0:9092 in 30 s; records written: 1 of 2"), said)

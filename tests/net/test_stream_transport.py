"""Sending through transports without a socket."""

from __future__ import annotations

import os

from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.metrics import NetMetrics
from logbus.net.stream_transport import StreamTransport
from logbus.records.file_slice import MEMORY, FileSlice, Part, joined
from tests.net.fakes import TemporaryFile

CONTENT = os.urandom(1 << 20)


class CallCounter:
    """A protocol that counts the calls of ``sent``."""

    count = 0

    def sent(self) -> None:
        self.count += 1


class StreamTransportTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.transport = StringTransport()
        self.told = CallCounter()
        self.metrics = NetMetrics()
        self.carrier = StreamTransport(self.transport, self.told, self.metrics)
        self.file = TemporaryFile(CONTENT)

    def test_full_transport(self) -> None:
        """
        Nothing is written while the transport is full; it goes on where it stopped.
        """
        write = self.transport.write

        def write_and_pause(data: bytes) -> None:
            write(data)
            self.carrier.pauseProducing()

        self.transport.write = write_and_pause  # type: ignore[method-assign]
        parts: list[Part] = [b"head", b"", b"more", self.file.slice(3), memoryview(b"tail")]
        parts.append(FileSlice(MEMORY, 0, 300_000, CONTENT[:300_000]))
        expected = joined(parts)
        self.carrier.send(parts)
        turns = 0
        while self.carrier.unsent:
            self.assertEqual(len(self.transport.value()) + self.carrier.unsent, len(expected))
            self.carrier.resumeProducing()
            turns += 1
        self.assertEqual(self.transport.value(), expected)
        self.assertGreater(turns, 5)
        self.assertEqual(self.told.count, turns)
        self.assertEqual(self.metrics.bytes_out, len(expected))

    def test_closing_waits_for_the_rest(self) -> None:
        """
        The connection closes when everything is written, and not before.
        """
        self.carrier.pauseProducing()
        self.carrier.send([b"rest"])
        self.carrier.loseConnection()
        self.assertFalse(self.transport.disconnecting)
        self.carrier.resumeProducing()
        self.assertEqual(self.transport.value(), b"rest")
        self.assertTrue(self.transport.disconnecting)

    def test_a_truncated_file(self) -> None:
        """
        A promise that cannot be kept aborts the connection.
        """
        self.file.truncate(1000)
        self.carrier.send([b"head", self.file.slice()])
        self.assertTrue(self.transport.disconnected)
        self.assertEqual(self.carrier.unsent, 0)

    def test_a_lost_connection(self) -> None:
        """
        What was to be sent is dropped, with the files it is in.
        """
        self.carrier.pauseProducing()
        self.carrier.send([self.file.slice()])
        self.carrier.stopProducing()
        self.assertEqual(self.carrier.unsent, 0)

    def test_after_the_end(self) -> None:
        """
        A connection that was aborted while it was not read from is left alone: answers still come for it.
        """
        self.carrier.pause_reading()
        self.carrier.abortConnection()
        self.carrier.send([b"late"])
        self.carrier.pause_reading()
        self.carrier.resume_reading()
        self.carrier.loseConnection()
        self.assertEqual(self.transport.value(), b"")
        self.assertEqual(self.carrier.unsent, 0)

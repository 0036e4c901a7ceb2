"""Batches that threads give the topic's codec before they are appended."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError
from logbus.records.batch import iter_batches
from logbus.records.compression import Codec
from logbus.storage.appends import append_as_leader as leader
from logbus.storage.appends import recompression
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.appends.large_appends import LargeAppends
from logbus.storage.appends.recompression import LEAST_FOR_THREAD
from logbus.storage.istorage import IOPool
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import NOW_MS, a_log, batch, read_all

TEXT = b"the same words again and again " * 2000


class RecompressionAheadTests(SynchronousTestCase):
    """A log of a topic with gzip, whose threads work when they are told to."""

    def setUp(self) -> None:
        self.disk = MemoryDisk()
        self.log = a_log(self.disk, config=TopicConfig(compression_type="gzip"))
        append_as_leader(self.log, batch(b"first"), 0, NOW_MS)
        self.appends = LargeAppends()
        self.disk.held.add(IOPool.BACKGROUND)
        self.on_reactor: list[int] = []
        before = leader.recompressed

        def counted(data: Any, *args: Any) -> Any:
            self.on_reactor.append(len(data))
            return before(data, *args)

        self.patch(leader, "recompressed", counted)

    def append(self, data: bytes, _: object = None) -> None:
        """As the handler does, when its turn has come."""
        append_as_leader(self.log, data, 0, NOW_MS)

    def turn(self, data: bytes) -> Deferred[None]:
        """Begin a turn, at whose end the batch is appended."""
        waiting = self.appends.turn(self.log, data)
        assert waiting is not None
        return waiting.addCallback(lambda _: self.append(data))

    def finish(self) -> None:
        """The threads have done what there is."""
        while self.disk.release(IOPool.BACKGROUND):
            pass

    def codecs(self) -> list[int]:
        """Those of the log's batches."""
        found = self.log.read(0, 1 << 30).data
        assert found is not None
        return [header.codec for _, header in iter_batches(found.read())]

    def test_in_a_thread(self) -> None:
        """The reactor only appends it; what comes meanwhile waits for its turn."""
        first, second = batch(TEXT), batch(Random(1).randbytes(40_000), codec=Codec.LZ4)
        done = [self.turn(first), self.turn(batch(TEXT + b"!")), self.turn(second)]
        small = self.appends.after_turn(self.log)
        assert small is not None
        small.addCallback(lambda _: self.append(batch(b"small")))
        self.assertEqual(self.log.log_end_offset, 1)
        self.finish()
        for each in [*done, small]:
            self.successResultOf(each)
        self.assertEqual([value for _, value in read_all(self.log)][:3], [b"first", TEXT, b"small"])
        self.assertEqual(set(self.codecs()), {Codec.GZIP})
        self.assertFalse(self.appends)
        self.assertLess(max(self.on_reactor), LEAST_FOR_THREAD)

    def test_settings_that_change_meanwhile(self) -> None:
        """The batch gets the codec that the topic has when it is appended."""
        done = self.turn(batch(TEXT))
        self.log.configure(TopicConfig(compression_type="zstd"))
        self.finish()
        self.successResultOf(done)
        self.assertEqual(self.codecs(), [Codec.GZIP, Codec.ZSTD])

    def test_refused(self) -> None:
        """A damaged batch is refused by its append; a client that leaves takes its batch along. The next ones go on."""
        damaged = bytearray(batch(TEXT))
        damaged[-1] ^= 1
        refused, gone, last = self.turn(bytes(damaged)), self.turn(batch(TEXT)), self.turn(batch(TEXT))
        gone.addErrback(lambda _: None).cancel()
        self.finish()
        self.failureResultOf(refused, ApiError)
        self.successResultOf(last)
        self.assertEqual(self.codecs(), [Codec.GZIP, Codec.GZIP])
        self.assertIsNone(self.log.recompressed)

    def test_what_is_not_rewritten(self) -> None:
        """A batch that is small, or has the codec, waits for no thread."""
        self.assertIsNone(self.appends.turn(self.log, batch(b"small")))
        has_it = batch(bytes(range(256)) * 500, codec=Codec.GZIP)
        self.patch(recompression, "LEAST_FOR_THREAD", 10)
        self.assertIsNone(self.appends.turn(self.log, has_it))

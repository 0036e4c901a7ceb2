"""Tests the batches that a stream plans, without Spark, with simulated brokers."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError
from logbus.pipeline.blocking import brokers_for
from logbus.pipeline.errors import DataLossFound, OptionError
from logbus.pipeline.source import offset_reader, options, stream_reader
from logbus.pipeline.source.batch_reader import LogbusBatchReader
from logbus.pipeline.source.read_limits import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows
from logbus.pipeline.source.stream_reader import LogbusStreamReader, UnlimitedStreamReader
from tests.pipeline.socket_cluster import SocketCluster

QUICK = {
    "kafka.retry.backoff.ms": "1",
    "kafka.retry.backoff.max.ms": "5",
    "kafka.default.api.timeout.ms": "100",
    "fetchOffset.retryIntervalMs": "1",
}


class StreamTests(SynchronousTestCase):
    """A reader that plans."""

    def setUp(self) -> None:
        """A topic with ten records in each of two partitions."""
        self.cluster = SocketCluster()
        self.logs = self.cluster.add("t", 1, 1)
        for log in self.logs.values():
            log.put(*[b"x"] * 10)
        self.enterContext(self.cluster)

    def options(self, streaming: bool = True, **given: str) -> options.SourceOptions:
        """Of a stream of all topics, from the beginning."""
        known = {"kafka.bootstrap.servers": self.cluster.bootstrap, "subscribe": "t", **QUICK, **given}
        made = options.read_source_options(known, streaming=streaming)
        self.addCleanup(brokers_for(made.settings).close)
        return made

    def reader(self, **given: str) -> LogbusStreamReader:
        """As one that begins anew, or after a restart."""
        return LogbusStreamReader(self.options(**{"startingOffsets": "earliest", **given}))

    def next(self, reader: LogbusStreamReader, start: dict[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:
        """As Spark asks."""
        return reader.latestOffset(start, limit or reader.getDefaultReadLimit())

    def ranges(self, reader: LogbusStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Topic, partition, start and end of each."""
        return [(*each.value.partition, each.value.start, each.value.end) for each in reader.partitions(start, end)]

    def test_limits(self) -> None:
        """What Spark is told of them, and what they do."""
        self.assertEqual(self.reader().getDefaultReadLimit(), ReadAllAvailable())
        self.assertEqual(self.reader(minOffsetsPerTrigger="3").getDefaultReadLimit(), ReadMinRows(3))
        reader = self.reader(maxOffsetsPerTrigger="8", minOffsetsPerTrigger="3")
        self.assertEqual(reader.getDefaultReadLimit(), ReadMaxRows(8))
        start = reader.initialOffset()
        end = self.next(reader, start)
        self.assertEqual(end["t"], {"0": 4, "1": 4})
        self.assertEqual(self.ranges(reader, start, end), [("t", 0, 0, 4), ("t", 1, 0, 4)])
        self.assertEqual(self.next(reader, end, ReadAllAvailable())["t"], {"0": 10, "1": 10})
        self.assertEqual(reader.reportLatestOffset(), {"t": {"0": 10, "1": 10}})

    def test_spark_without_limits(self) -> None:
        """Spark 4.1 does not say where the last batch ended: a new query, one that goes on, and one after a restart."""
        given = self.options(startingOffsets="earliest")
        reader = UnlimitedStreamReader(given)
        start = reader.initialOffset()
        first = reader.latestOffset()
        self.assertEqual((first["t"], first[":from"]), ({"0": 10, "1": 10}, {"t": {"0": 0, "1": 0}}))
        self.assertEqual(len(self.ranges(reader, start, first)), 2)
        self.assertEqual(reader.latestOffset(), first)
        self.logs[1].put(b"x")
        second = reader.latestOffset()
        self.assertEqual(second["t"], {"0": 10, "1": 11})
        self.assertEqual(self.ranges(reader, first, second), [("t", 1, 10, 11)])
        again = UnlimitedStreamReader(given)
        self.assertEqual(again.latestOffset(), second)
        self.logs[0].put(b"x")
        self.assertEqual(self.ranges(again, second, again.latestOffset()), [("t", 0, 10, 11)])
        with self.assertRaisesRegex(OptionError, "'maxOffsetsPerTrigger' needs Spark 4.2, and this is an older one"):
            UnlimitedStreamReader(self.options(maxOffsetsPerTrigger="8"))

    def test_small_batches_wait(self) -> None:
        """Until there is enough, or it took too long; the first does not."""
        now = 1000.0
        with patch.object(stream_reader.time, "monotonic", lambda: now):
            reader = self.reader(minOffsetsPerTrigger="5", maxTriggerDelay="1m")
            first = self.next(reader, reader.initialOffset())
            self.assertEqual(first["t"], {"0": 10, "1": 10})
            self.logs[0].put(b"x", b"x", b"x")
            self.assertEqual(self.next(reader, first), first)
            now += 61
            second = self.next(reader, first)
            self.assertEqual(second["t"], {"0": 13, "1": 10})
            self.logs[1].put(*[b"x"] * 4)
            self.assertEqual(self.next(reader, second), second)
            self.logs[1].put(b"x")
            self.assertEqual(self.next(reader, second)["t"], {"0": 13, "1": 15})

    def test_available_now(self) -> None:
        """What comes later is not read, and what there is does not wait to be more."""
        reader = self.reader(maxOffsetsPerTrigger="16", minOffsetsPerTrigger="10")
        reader.prepareForTriggerAvailableNow()
        self.logs[0].put(b"late")
        start = reader.initialOffset()
        first = self.next(reader, start)
        second = self.next(reader, first)
        self.assertEqual(second["t"], {"0": 10, "1": 10})
        self.assertEqual(self.next(reader, second), second)

    def test_the_beginning_stays(self) -> None:
        """However often it is asked for; and the first batch has it with it."""
        reader = self.reader(startingOffsets="latest")
        start = reader.initialOffset()
        self.logs[0].put(b"new")
        self.assertEqual(reader.initialOffset(), start)
        first = self.next(reader, start)
        self.assertEqual(first[":from"], {"t": {"0": 10, "1": 10}})
        self.assertEqual(self.next(reader, first), first)
        self.logs[0].put(b"newer")
        self.assertNotIn(":from", self.next(reader, first))
        again = self.reader(startingOffsets="latest")
        self.assertEqual(self.ranges(again, again.initialOffset(), first), [("t", 0, 10, 11)])

    def test_new_partitions_and_topics(self) -> None:
        """They are read from their beginning; one that does not begin at 0 has lost something."""
        known = {"kafka.bootstrap.servers": self.cluster.bootstrap, "subscribePattern": "^t", **QUICK}
        reader = LogbusStreamReader(options.read_source_options({**known, "startingOffsets": "latest"}, streaming=True))
        self.addCleanup(reader.stop)
        start = self.next(reader, reader.initialOffset())
        self.cluster.add("t2", 1)[0].put(b"a", b"b")
        self.cluster.add("other", 1)[0].put(b"c")
        end = self.next(reader, start)
        self.assertEqual(self.ranges(reader, start, end), [("t2", 0, 0, 2)])
        late = self.cluster.add("t3", 1)[0]
        late.put(b"a", b"b")
        late.start = 1
        with self.assertRaises(DataLossFound) as caught:
            self.next(reader, end)
        self.assertIn("t3-0 is new and begins at 1", str(caught.exception))

    def test_deleted_topic(self) -> None:
        """It is an error, or what is left is read; so it is after a restart."""
        reader = self.reader(subscribe="t,u", failOnDataLoss="false")
        self.cluster.add("u", 1)[0].put(b"a", b"b")
        start = self.next(reader, reader.initialOffset())
        self.logs[0].put(b"x")
        del self.cluster.topics["u"]
        end = self.next(reader, start)
        self.assertEqual(self.ranges(reader, start, end), [("t", 0, 10, 11)])
        self.assertEqual(self.next(reader, end), end)
        strict = self.reader(subscribe="t,u")
        with self.assertRaises(DataLossFound) as caught:
            self.next(strict, start)
        self.assertIn("u-0 is gone; it was read up to 2", str(caught.exception))
        now = self.reader(subscribe="t,u", failOnDataLoss="false")
        now.prepareForTriggerAvailableNow()
        self.assertEqual(self.next(now, start)["t"], {"0": 11, "1": 10})

    def test_brokers_that_do_not_know_a_topic_yet(self) -> None:
        """They have just started: the topic is not taken for deleted, and is read from where it was."""
        self.cluster.add("u", 1)[0].put(b"a", b"b")
        known = self.cluster.topics["u"]
        asked: list[Any] = []

        def metadata(node: int, message: Any) -> Any:
            asked.append(message)
            if len(asked) % 3:
                self.cluster.topics.pop("u", None)
            else:
                self.cluster.topics["u"] = known

        for selection in ({"subscribe": "t,u"}, {"subscribePattern": "^[tu]$"}, {"assign": '{"t": [0], "u": [0]}'}):
            for fails in ("true", "false"):
                given = {"kafka.bootstrap.servers": self.cluster.bootstrap, "startingOffsets": "earliest", **QUICK}
                reader = LogbusStreamReader(
                    options.read_source_options({**given, **selection, "failOnDataLoss": fails}, streaming=True)
                )
                self.addCleanup(reader.stop)
                start = self.next(reader, reader.initialOffset())
                self.logs[0].put(b"x")
                self.cluster.answers[3] = metadata
                end = self.next(reader, start)
                self.assertEqual(end["u"], {"0": 2})
                self.assertEqual(len(self.ranges(reader, start, end)), 1)
                self.assertEqual(len(asked), 6)
                # Nothing of it is read again.
                del self.cluster.answers[3]
                self.assertEqual(self.next(reader, end), end)
                asked.clear()

    def test_topic_deleted_between_requests(self) -> None:
        """Between two requests: it is told as if it had gone before, and soon."""
        reader = self.reader(subscribe="t,u", **{"kafka.default.api.timeout.ms": "60000"})
        for when in (-1, -2):
            self.cluster.answers.clear()
            log = self.cluster.add("u", 1)[0]
            log.put(b"a", b"b")
            start = self.next(reader, reader.initialOffset())
            log.put(b"c")

            def offsets(node: int, message: Any, when: int = when) -> Any:
                if message.topics[0].partitions[0].timestamp == when:
                    self.cluster.topics.pop("u", None)

            self.cluster.answers[2] = offsets
            with patch.object(offset_reader, "_RETRY_SECONDS", 0.05), self.assertRaises(DataLossFound) as caught:
                self.next(reader, start)
            self.assertIn("u-0 is gone", str(caught.exception))
        self.cluster.answers.clear()
        self.cluster.add("u", 1)[0].put(b"a", b"b")
        self.cluster.answers[2] = offsets
        batch = LogbusBatchReader(self.options(streaming=False, subscribe="t,u"))
        with self.assertRaisesRegex(ApiError, "there is no partition u-0 any more: its topic was deleted"):
            batch.partitions()

    def test_end_offset_of_a_former_leader(self) -> None:
        """An end before what was read may be a mistake; if it is not, the log was truncated."""
        reader = self.reader()
        start = self.next(reader, reader.initialOffset())
        ends = [self.logs[0].end, 4, self.logs[0].end]
        asked = []

        def offsets(node: int, message: Any) -> Any:
            if message.topics[0].partitions[0].timestamp == -1:
                asked.append(message)
                self.logs[0].end = ends[min(len(asked), 2)]

        self.cluster.answers[2] = offsets
        self.assertEqual(self.next(reader, start), start)
        self.assertEqual(len(asked), 2)
        ends[2] = 4
        with self.assertRaises(DataLossFound) as caught:
            self.next(reader, start)
        self.assertIn("t-0 ends at 4, and was read up to 10: its log was truncated", str(caught.exception))

    def test_batches(self) -> None:
        """What is beyond the log's ends is an error before any task, or left out."""

        def planned(**given: str) -> list[tuple[int, int, int]]:
            reader = LogbusBatchReader(self.options(streaming=False, **given))
            return [(each.value.partition[1], each.value.start, each.value.end) for each in reader.partitions()]

        self.logs[0].start = 3
        self.assertEqual(planned(), [(0, 3, 10), (1, 0, 10)])
        far = {"startingOffsets": '{"t": {"0": 1, "1": 2}}', "endingOffsets": '{"t": {"0": 5, "1": 12}}'}
        with self.assertRaises(DataLossFound) as caught:
            planned(**far)
        self.assertIn("t-0 begins at 3, and 1 was to be read; t-1 ends at 10", str(caught.exception))
        self.assertEqual(planned(**far, failOnDataLoss="false"), [(0, 3, 5), (1, 2, 10)])
        self.assertEqual(
            planned(minPartitions="4", startingTimestamp="1005"), [(0, 5, 7), (0, 7, 10), (1, 5, 7), (1, 7, 10)]
        )

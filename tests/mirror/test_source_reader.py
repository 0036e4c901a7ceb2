"""Where a session goes on in a source that does not have the offset that comes next."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logbus.client.consumer.fetcher import LogTruncated
from logbus.errors import ApiError, ErrorCode
from logbus.mirror.copied_range import TopicIds
from logbus.mirror.mirror_options import MirrorOptions, nobody
from logbus.mirror.mirror_status import MirrorStatus
from logbus.mirror.source_reader import SourceReader
from logbus.mirror.topic_sync import MirroredTopic, TopicSync
from logbus.model import TopicPartition
from tests.mirror.kit import MirrorCase

P = TopicPartition("orders", 0)


class FindPlaceTests(MirrorCase):
    """Offsets before 100 are copied; those up to 150 are in a transaction."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster("a")
        client, options = self.clients["a"], MirrorOptions(source="a", target="b")
        self.status = MirrorStatus("a->b", wall_clock=self.clock.seconds)
        topic_sync = TopicSync(client, client, options, self.status)
        self.reader = SourceReader(client, options, self.status, topic_sync, nobody)
        self.addCleanup(self.reader.close)
        self.reader.topics = {"orders": MirroredTopic("orders", "a.orders", 1, TopicIds())}
        self.reader.note_copied({P: 100})
        self.reader._fetcher.add({P: 150})

    def source_has(self, first: int, end: int) -> None:
        """The offsets that the source answers with."""

        async def offsets(partitions: Any, when: int) -> dict[TopicPartition, int]:
            return {P: end if when == -1 else first}

        self.patch(SourceReader, "_offsets", lambda reader, partitions, when: offsets(partitions, when))

    def place(self) -> int | None:
        """Where the next transaction goes on."""
        self.result(Deferred.fromCoroutine(self.reader.find_places()))
        return self.reader._fetcher.assigned.position(P)

    def test_truncated_and_aborted(self) -> None:
        """What a transaction had is read again when it was aborted, though the source was cut off behind it."""
        self.source_has(0, 120)
        self.reader._handle_error(P, LogTruncated("it was cut off", 120))
        self.reader.go_back({P: 150})
        self.assertEqual(self.place(), 100)

    def test_truncated_and_committed(self) -> None:
        """What was copied and is gone is not read again; what came in its place is."""
        self.source_has(0, 160)
        self.reader._handle_error(P, LogTruncated("it was cut off", 120))
        self.reader.note_copied({P: 150})
        self.assertEqual(self.place(), 120)

    def test_records_that_came_again(self) -> None:
        """Of a source that has more records by now than it had, none are left out behind those that were copied."""
        self.source_has(0, 200)
        self.reader.note_copied({P: 150})
        self.reader._handle_error(P, ApiError(ErrorCode.OFFSET_OUT_OF_RANGE))
        self.assertEqual(self.place(), 150)

    def test_set_back(self) -> None:
        """A source that ends before what was copied goes on at its end; one that begins behind it, at its beginning."""
        self.source_has(0, 130)
        self.reader.note_copied({P: 150})
        self.reader._handle_error(P, ApiError(ErrorCode.OFFSET_OUT_OF_RANGE))
        self.assertEqual(self.place(), 130)
        self.source_has(140, 180)
        self.reader._handle_error(P, ApiError(ErrorCode.OFFSET_OUT_OF_RANGE))
        self.assertEqual(self.place(), 140)

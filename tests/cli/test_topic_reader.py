"""Tests of :mod:`logbus.cli.topic_reader`, with a broker in memory."""

from __future__ import annotations

import io
from collections.abc import Sequence
from unittest import mock

from twisted.internet.defer import Deferred

from logbus.cli.topic_reader import ReadOptions, consume_topic
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.model import TopicPartition
from tests.client.membership_kit import CLIENTS, MembershipCase
from tests.handlers.kit import a_batch


class RecordingOutput:
    """
    :ivar values: what was shown.
    """

    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def show(self, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> None:
        self.values += [each.value for each in records]

    def clear_progress(self) -> None:
        """There is none."""

    def close(self) -> None:
        """Nothing is open."""


def options(group: str | None) -> ReadOptions:
    return ReadOptions(
        topic="t",
        partitions=(),
        from_beginning=True,
        offset=None,
        at_ms=None,
        until_ms=None,
        wanted=None,
        group=group,
        limit=None,
        exit_at_end=False,
        isolation="read_uncommitted",
    )


class OutageTests(MembershipCase):
    """A reader whose only broker stands still, and goes on."""

    def test_a_frozen_broker(self) -> None:
        """One line says that the broker does not answer, one that it does again; then records are read on."""
        self.assert_told(None)

    def test_a_group_of_a_frozen_broker(self) -> None:
        """A member of a group says the same."""
        self.assert_told("g")

    def test_a_silent_broker(self) -> None:
        """After five seconds a line says so, though the timeout is longer."""
        self.assert_told_early(None)

    def test_a_silent_broker_of_a_group(self) -> None:
        """A member of a group says the same, and nothing while it only waits to join."""
        self.assert_told_early("g")

    def assert_told_early(self, group: str | None) -> None:
        output, client = RecordingOutput(), self.a_client(timeout=30.0, connect_timeout=5.0)
        with mock.patch("sys.stderr", io.StringIO()) as err:
            reading = Deferred.fromCoroutine(consume_topic(client, options(group), output))
            self.cluster.settle(10)
            self.assertEqual(err.getvalue(), "")
            self.cluster.cut(0, CLIENTS)
            self.cluster.settle(7)
            self.assertEqual(err.getvalue(), "logbus: 10.1.0.0:9092 has not answered for 5 s; still waiting\n")
            self.cluster.settle(30)
            self.assertIn("s; still trying\n", err.getvalue())
            self.cluster.mend()
            self.cluster.settle(60)
            self.assertRegex(err.getvalue().splitlines()[-1], "^logbus: connected to 10.1.0.0:9092 again, after ")
            self.assertEqual(err.getvalue().count("still waiting"), 1, err.getvalue())
            reading.cancel()
            self.cluster.settle(10)
            self.assertIs(self.successResultOf(reading), False)

    def assert_told(self, group: str | None) -> None:
        output, client = RecordingOutput(), self.a_client(timeout=5.0, connect_timeout=5.0)
        wire = self.cluster[0].connect()
        wire.produce(a_batch(b"before"), "t", 0)
        with mock.patch("sys.stderr", io.StringIO()) as err:
            reading = Deferred.fromCoroutine(consume_topic(client, options(group), output))
            self.cluster.settle(10)
            self.assertEqual((output.values, err.getvalue()), ([b"before"], ""))
            self.cluster.cut(0, CLIENTS)
            self.cluster.settle(30)
            (line,) = err.getvalue().splitlines()
            self.assertRegex(line, r"^logbus: \w+: no answer from 10\.1\.0\.0:9092 in [\d.]+ s; still trying$")
            self.cluster.mend()
            wire.produce(a_batch(b"after"), "t", 0)
            self.cluster.settle(60)
            self.assertEqual(output.values, [b"before", b"after"])
            self.assertRegex(err.getvalue().splitlines()[1], r"^logbus: connected to 10\.1\.0\.0:9092 again, after ")
            reading.cancel()
            self.cluster.settle(10)
            self.assertIs(self.successResultOf(reading), False)

"""Tests of :mod:`logbus.cli.group_reader`, and of ``logbus consume --group``."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from typing import Any, ClassVar
from unittest import mock

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.app import run_app
from logbus.cli.group_reader import consume_for_group
from logbus.client.admin.admin_client import AdminClient
from logbus.client.group_metadata import CommittedOffset
from logbus.model import TopicPartition
from logbus.testing import Broker
from tests.cli.command_line import run, start
from tests.client.membership_kit import MembershipCase
from tests.handlers.kit import a_batch

ENDS = {TopicPartition("t", number): 2 for number in range(6)}


class GroupReaderTests(MembershipCase):
    """A topic of six partitions with two records each, batch by batch."""

    def setUp(self) -> None:
        super().setUp()
        self.wire = self.cluster[0].connect()
        self.shown: list[tuple[int, int]] = []
        for number in range(6):
            self.put(number, b"a", b"b")

    def put(self, partition: int, *values: bytes) -> None:
        for value in values:
            self.wire.produce(a_batch(value), "t", partition)

    def show(self, partition: TopicPartition, records: Any) -> None:
        self.shown += [(partition.partition, each.offset) for each in records]

    def consume(self, *, chosen: Any = (), ends: Any = None, limit: Any = None, show: Any = None) -> Deferred[bool]:
        coroutine = consume_for_group(
            self.a_client(), "g", "t", chosen, "earliest", "read_uncommitted", ends, limit, show or self.show
        )
        return Deferred.fromCoroutine(coroutine)

    def settle_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(400):
            if condition():
                return
            self.cluster.settle(0.05)
        self.fail(f"{self.shown}")

    def ended(self, consuming: Deferred[bool], by_itself: bool = True) -> None:
        results: list[object] = []
        consuming.addBoth(results.append)
        self.settle_until(lambda: bool(results))
        self.assertEqual(results, [by_itself])

    def committed(self) -> dict[int, int]:
        found: Any = self.cluster.now(AdminClient(self.a_client()).list_group_offsets(["g"]))["g"]
        return {each.partition: at.offset for each, at in found.items() if isinstance(at, CommittedOffset)}

    def test_reads_to_the_end_and_continues(self) -> None:
        """It stops at the former end and commits that; the next reader starts there, even without new records."""
        self.put(0, b"later")
        self.ended(self.consume(ends=ENDS))
        self.assertEqual(sorted(self.shown), [(number, offset) for number in range(6) for offset in range(2)])
        self.assertEqual(self.committed(), dict.fromkeys(range(6), 2))
        self.ended(self.consume(ends=ENDS))
        self.assertEqual(len(self.shown), 12)
        self.ended(self.consume(ends={**ENDS, TopicPartition("t", 0): 3}))
        self.assertEqual(self.shown[12:], [(0, 2)])

    def test_no_more_than_is_wanted(self) -> None:
        """
        Exactly the shown records are committed.
        """
        self.ended(self.consume(limit=5))
        self.assertEqual(len(self.shown), 5)
        self.assertEqual(sum(self.committed().values()), 5)
        self.ended(self.consume(limit=7))
        self.assertEqual(sorted(self.shown), [(number, offset) for number in range(6) for offset in range(2)])

    def test_two_share(self) -> None:
        """
        Each shows its part; one that ends leaves its part to the other, who has nothing twice.
        """
        first, second = self.consume(), self.consume()
        self.settle_until(lambda: len(self.shown) >= 12)
        self.cluster.settle(10)
        for number in range(6):
            self.put(number, b"c")
        self.settle_until(lambda: len(self.shown) == 18)
        first.cancel()
        self.ended(first, by_itself=False)
        for number in range(6):
            self.put(number, b"d")
        self.settle_until(lambda: len(self.shown) == 24)
        second.cancel()
        self.ended(second, by_itself=False)
        self.assertEqual(sorted(self.shown), [(number, offset) for number in range(6) for offset in range(4)])
        self.assertEqual(self.committed(), dict.fromkeys(range(6), 4))

    def test_chosen_partitions(self) -> None:
        """
        No member is needed for them; the group's offsets are used and moved all the same.
        """
        self.ended(self.consume(chosen=[TopicPartition("t", 3)], ends=ENDS))
        self.assertEqual((self.shown, self.committed()), ([(3, 0), (3, 1)], {3: 2}))

    def test_failed_output_is_not_committed(self) -> None:
        """The next reader gets the record."""

        def fail(partition: TopicPartition, records: Any) -> None:
            raise OSError("no space left")

        failures: list[Any] = []
        self.consume(show=fail).addErrback(failures.append)
        self.settle_until(lambda: bool(failures))
        self.assertTrue(failures[0].check(OSError))
        self.assertEqual(sum(self.committed().values()), 0)


class CommandTests(SynchronousTestCase):
    broker: ClassVar[Broker]

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = cls.enterClassContext(Broker())

    def test_a_group(self) -> None:
        """
        It goes on where it left off, after an end and after Ctrl-C.
        """
        env = {**os.environ, "LOGBUS_BOOTSTRAP": self.broker.bootstrap}
        self.assertEqual(run("topics", "create", "t", "-p", "1", env=env).status, 0)
        self.assertEqual(run("produce", "t", stdin=b"a\nb\n", env=env).status, 0)
        done = run("consume", "t", "--group", "g", "--from-beginning", "-n", "1", env=env)
        self.assertEqual((done.status, done.out, done.err), (0, "a\n", ""))
        reading = start("consume", "t", "--group", "g", "--json", "--bootstrap", self.broker.bootstrap)
        assert reading.stdout is not None
        self.assertIn(b'"b"', reading.stdout.readline())
        reading.send_signal(signal.SIGINT)
        out, err = reading.communicate(timeout=120)
        self.assertEqual((reading.returncode, out, err), (0, b"", b""))
        done = run("consume", "t", "--group", "g", "--exit-at-end", env=env)
        self.assertEqual((done.status, done.out, done.err), (0, "", ""))
        self.assertEqual(
            run("consume", "nowhere", "--group", "g", env=env).err, "logbus: there is no topic 'nowhere'\n"
        )

    def test_wrong_usage(self) -> None:
        """
        Options that conflict with --group exit with 2 and a hint.
        """
        for arguments, part in [
            (["--group", "g", "--offset", "3"], "logbus groups reset-offsets"),
            (["--group", "g", "--timestamp", "0"], "logbus groups reset-offsets"),
            (["--group", ""], "it is empty; give ID, or leave it out"),
        ]:
            with mock.patch("sys.stdout", io.StringIO()) as out, mock.patch("sys.stderr", io.StringIO()) as err:
                status = run_app(["consume", "t", *arguments])
            self.assertEqual((status, out.getvalue()), (2, ""), arguments)
            self.assertIn(part, " ".join(err.getvalue().split()))

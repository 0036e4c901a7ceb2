"""Tests of :mod:`logbus.kafka07.virtual_log`: what a position means, whatever happens to the log."""

from __future__ import annotations

from unittest.mock import patch
from uuid import UUID

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from logbus.kafka07 import virtual_log
from logbus.kafka07.position_index import JUMP, base_of
from logbus.kafka07.virtual_log import VirtualLog
from logbus.kafka07.virtual_logs import VirtualLogs
from tests.kafka07.client import Message, read_set
from tests.kafka07.fake_broker import FakeBroker, FakeFile

VALUES = st.lists(st.none() | st.binary(max_size=30), min_size=1, max_size=8)


@define(eq=False)
class Partition:
    """A partition of a broker in memory, with an entry in the index for every few records."""

    broker: FakeBroker = field(factory=FakeBroker)
    file: FakeFile = field(factory=FakeFile)
    log: VirtualLog = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.broker.log()
        self.open()

    def open(self) -> None:
        """Start, or start again."""
        self.log = VirtualLog("t", 0, UUID(int=1), self.broker, self.broker.reactor, self.file)
        self.broker.run(self.log.open())

    def read(self, position: int, size: int = 1000) -> list[Message]:
        """The messages from a position on."""
        return read_set(self.broker.run(self.log.read(position, size)), position)[0]

    def read_code(self, position: int) -> ErrorCode:
        """The code of a read; NONE for one that worked."""
        try:
            self.broker.run(self.log.read(position, 1000))
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    def earliest(self) -> int:
        """The first position."""
        found: int = self.broker.run(self.log.earliest())
        return found

    def before(self, time: int | None, most: int = 100) -> list[int]:
        """Positions before a time."""
        found: list[int] = self.broker.run(self.log.positions_before(time, most))
        return found


class Histories(RuleBasedStateMachine):
    """
    Appends, retention, crashes, stops and reads in any order. Each record's value is its number, padded.

    :ivar given: the number of the record before each position that was given out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spans = patch.object(virtual_log, "SPAN", 60)
        self.spans.start()
        self.part = Partition()
        self.given: dict[int, int] = {}
        self.count = 0
        self.files = [self.part.file, FakeFile()]
        self.moved = False

    def teardown(self) -> None:
        self.spans.stop()

    @rule(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8), hidden=st.integers(0, 2))
    def append(self, sizes: list[int], hidden: int) -> None:
        log = self.part.broker.log()
        for size in sizes:
            log.append(b"%d" % self.count + b" " * size)
            self.count += 1
        # Markers and aborted records have offsets, and are seen by nobody.
        log.end += hidden

    @rule(part=st.floats(0, 1))
    def retention(self, part: float) -> None:
        log = self.part.broker.log()
        log.delete_before(log.start + round(part * (log.end - log.start)))

    @rule(clean=st.booleans(), cut=st.integers(0, 100))
    def restart(self, clean: bool, cut: int) -> None:
        if clean:
            self.part.log.close()
        else:
            self.part.file.crash(cut)
        self.part.open()

    @rule(leader=st.sampled_from([0, 1]))
    def lead(self, leader: int) -> None:
        """Another broker leads, which has the same log, and an index of its own."""
        self.moved = True
        self.part.broker.epoch += 1
        self.part.file = self.files[leader]
        self.part.open()

    @rule(size=st.integers(10, 300))
    def read_from_the_beginning(self, size: int) -> None:
        self.read(self.part.earliest(), min(self.numbers(), default=self.count) - 1, size)

    @rule()
    def look_for_the_end(self) -> None:
        """The latest position."""
        self.note(self.part.before(None)[0], self.count - 1)

    @precondition(lambda self: self.given)
    @rule(data=st.data(), size=st.integers(10, 300))
    def read_on(self, data: st.DataObject, size: int) -> None:
        position = data.draw(st.sampled_from(sorted(self.given)))
        before = self.given[position]
        if self.part.read_code(position) is ErrorCode.NONE:
            # None of those behind it may be missing.
            assert before + 1 == self.count or before + 1 in self.numbers(), (position, before)
            self.read(position, before, size)
        else:
            assert self.moved or position < self.part.earliest()

    def numbers(self) -> list[int]:
        """Those of the records that there are."""
        return [int(record.value or b"") for record in self.part.broker.log().records.values()]

    def read(self, position: int, before: int, size: int) -> None:
        """Read, and check that it is what is behind a record."""
        self.note(position, before)
        messages = self.part.read(position, size)
        following = [number for number in self.numbers() if number > before]
        assert [int(each.payload) for each in messages] == following[: len(messages)]
        for message in messages:
            self.note(message.next_offset, int(message.payload))

    def note(self, position: int, before: int) -> None:
        """A position is given out: never for another record, and in order among those that are valid."""
        assert self.given.setdefault(position, before) == before, (position, before)
        if self.moved:
            return
        earliest = self.part.earliest()
        ordered = [self.given[each] for each in sorted(self.given) if each >= earliest]
        assert ordered == sorted(ordered)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


class Positions(SynchronousTestCase):
    def setUp(self) -> None:
        self.part = Partition()

    @given(VALUES)
    def test_all_of_a_log(self, values: list[bytes | None]) -> None:
        """
        Every record is a message, one without a value an empty one; each begins where the one before it ends.
        """
        part = Partition()
        part.broker.log().append(*values)
        found = part.read(0)
        self.assertEqual([each.payload for each in found], [value or b"" for value in values])
        for n, each in enumerate(found):
            self.assertEqual(part.read(each.next_offset), found[n + 1 :])

    def test_sizes(self) -> None:
        """
        A message that is larger than what is asked for is cut off; later ones are left out.
        """
        self.part.broker.log().append(b"a" * 90, b"b" * 90)
        run, log = self.part.broker.run, self.part.log
        whole = run(log.read(0, 200))
        self.assertEqual(
            [len(run(log.read(0, size))) for size in (0, 50, 100, 150, 199, 200)], [0, 50, 100, 100, 100, 200]
        )
        self.assertEqual(run(log.read(0, 50)), whole[:50])
        self.assertEqual(run(log.read(0, 50, cut=False)), b"")

    def test_between(self) -> None:
        """
        Where no message begins nothing is read, nor behind the end.
        """
        self.part.broker.log().append(b"a", b"b")
        codes = [self.part.read_code(position) for position in (-1, 0, 1, 10, 11, 12, 22, 23)]
        self.assertEqual(
            [code == ErrorCode.NONE for code in codes], [False, True, False, False, True, False, True, False]
        )

    def test_times(self) -> None:
        """
        Positions before a time are those before which nothing is later; the earliest is always one.
        """
        with patch.object(virtual_log, "SPAN", 1):
            for n in range(5):
                self.part.broker.log().append(b"x", timestamp=n * 100)
            self.assertEqual(self.part.before(None), [55, 44, 33, 22, 11, 0])
            self.assertEqual(self.part.before(None, 2), [55, 44])
            self.assertEqual(self.part.before(None, 0), [])
            self.assertEqual(self.part.before(250), [33, 22, 11, 0])
            self.assertEqual(self.part.before(50, 1), [11])
            self.assertEqual(self.part.before(-5), [0])
            self.part.broker.log().delete_before(2)
            self.assertEqual(self.part.before(None), [55, 44, 33, 22])
            self.assertEqual(self.part.before(50), [22])

    def test_a_log_that_began_long_ago(self) -> None:
        """
        Where records were removed before anybody counted them, positions begin where no others are.
        """
        part = Partition.__new__(Partition)
        part.broker, part.file = FakeBroker(), FakeFile()
        log = part.broker.log()
        log.append(*[b"x"] * 100)
        log.delete_before(60)
        part.open()
        self.assertEqual((part.earliest(), part.before(None)[0]), (base_of(0), base_of(0) + 40 * 11))

    def test_removed_before_they_were_counted(self) -> None:
        """
        Positions go on far behind those that may have been given out.
        """
        self.part.broker.log().append(*[b"x"] * 9)
        self.part.broker.log().delete_before(5)
        self.assertEqual(self.part.earliest(), base_of(0))
        self.assertEqual(self.part.read_code(0), ErrorCode.OFFSET_OUT_OF_RANGE)
        self.part.open()
        self.assertEqual(self.part.earliest(), base_of(0))
        self.part.broker.log().append(b"x")
        self.part.broker.log().delete_before(10)
        self.part.open()
        self.assertEqual(self.part.earliest(), base_of(0) + JUMP)

    def test_asked_for_at_once(self) -> None:
        """Two clients that ask for the beginning after retention get the same, though both count up to it."""
        self.patch(virtual_log, "SPAN", 60)
        part = Partition()
        log = part.broker.log()
        for number in range(40):
            log.append(b"%d" % number + b" " * 20)
        part.before(None)
        log.delete_before(37)
        asked = [Deferred.fromCoroutine(part.log.earliest()) for _ in range(2)]
        for _ in range(20):
            part.broker.reactor.advance(0)
        first, second = map(self.successResultOf, asked)
        self.assertEqual((first, part.earliest()), (second, first))
        self.assertTrue(part.read(first)[0].payload.startswith(b"37"))

    def test_compaction(self) -> None:
        """
        When records within the log are missing that were counted, all get new positions, and old ones are refused.
        """
        log = self.part.broker.log()
        log.append(*[b"%d" % n for n in range(10)])
        positions = [each.next_offset for each in self.part.read(0)]
        for offset in (2, 3, 7):
            del log.records[offset]
        self.part.log._known.clear()
        self.assertEqual(self.part.read_code(positions[8]), ErrorCode.OFFSET_OUT_OF_RANGE)
        self.assertEqual(self.part.earliest(), base_of(0))
        self.assertEqual([each.payload for each in self.part.read(self.part.earliest())][:3], [b"0", b"1", b"4"])

    def test_a_position_that_was_just_reached_costs_no_search(self) -> None:
        """
        A consumer that goes on where it ended reads each record once.
        """
        self.part.broker.log().append(*[b"x"] * 30)
        position = self.part.read(0, 33)[-1].next_offset
        for _ in range(3):
            before = self.part.broker.fetches
            position = self.part.read(position, 33)[-1].next_offset
            self.assertEqual(self.part.broker.fetches - before, 1)


class Open(SynchronousTestCase):
    def test_a_topic_that_was_created_again(self) -> None:
        """
        It begins at 0; a partition that another broker leads has no positions here.
        """
        broker = FakeBroker()
        logs = VirtualLogs(broker, broker.reactor, most_open=1)
        broker.log().append(b"x" * 10)
        first = broker.run(logs.get("t", 0))
        self.assertEqual(broker.run(first.positions_before(None, 1)), [20])
        broker.logs["t", 0] = log = broker.log("u")
        log.topic_id = UUID(int=2)
        second = broker.run(logs.get("t", 0))
        self.assertIsNot(second, first)
        self.assertEqual(broker.run(second.positions_before(None, 1)), [0])
        self.assertIs(broker.run(logs.get("t", 0)), second)
        broker.run(logs.get("u", 0))
        self.assertIsNot(broker.run(logs.get("t", 0)), second)
        broker.leader = 1
        with self.assertRaises(ApiError) as failed:
            broker.run(logs.get("t", 0))
        self.assertIs(failed.exception.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)

"""
Members that join, leave, die and lose connections in any order: no two read the same partition, and all records are
read.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logbus.model import TopicPartition
from tests.client.membership_kit import CLIENTS, MembershipCase, Places, RecordingListener

steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.just(0)),
        st.tuples(st.sampled_from(["close", "lose", "drop", "rejoin", "hold"]), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.05, 0.3, 3.1, 20.0])),
    ),
    min_size=2,
    max_size=12,
)


class ScheduleCase(MembershipCase):
    """
    :ivar dead: numbers of the members that nothing gets through from.
    """

    def setUp(self) -> None:
        super().setUp()
        self.owners: dict[TopicPartition, set[int]] = {}
        self.dead: set[int] = set()

    def hear(self, number: int, word: str, partitions: Places) -> None:
        """Nobody is given what another has that is in touch with the group."""
        for each in partitions:
            owners = self.owners.setdefault(each, set())
            if word != "assigned":
                owners.discard(number)
                continue
            others = owners - self.dead
            assert not others, f"{each} is {others}'s and was given to {number}"
            owners.add(number)

    def play(self, schedule: Any, cooperative: bool) -> None:
        assignors = ("cooperative-sticky",) if cooperative else ("range",)
        for what, how in schedule:
            live = [number for number in range(len(self.members)) if number not in self.dead]
            if what == "join" and len(self.members) < 6:
                hears = RecordingListener()
                number = len(self.members)
                self.member("t", listener=hears, assignors=assignors, session_timeout=10.0)
                self.listen(hears, number)
            elif what == "wait":
                self.cluster.settle(how)
            elif live:
                number = live[how % len(live)]
                if what == "close":
                    self.dead.add(number)
                    self.members[number].close()
                elif what == "lose":
                    self.dead.add(number)
                    self.lose(number)
                elif what == "drop":
                    for end in [each for each in self.cluster.network.ends if each.mine == CLIENTS + number]:
                        end.lost()
                        end.other.lost()
                elif what == "hold":
                    self.hears[number].waits ^= {"revoked"}
                    self.hears[number].release()
                elif what == "rejoin":
                    self.members[number].rejoin("for the test")
        for each in self.hears:
            each.waits.clear()
            each.release()
        live = [number for number in range(len(self.members)) if number not in self.dead]
        members = [self.members[number] for number in live]
        if members:
            self.until(lambda: self.balanced(*members), 120)
            for number in live:
                mine = {each for each, owners in self.owners.items() if number in owners}
                assert mine == self.members[number].assignment
        self.cluster.mend()

    def listen(self, hears: RecordingListener, number: int) -> None:
        """Check a member's partitions after a call of its listener."""
        tell = hears._hear

        def hear(word: str, partitions: Places) -> Any:
            if word == "assigned":
                self.hear(number, word, partitions)
                return tell(word, partitions)
            waiting = tell(word, partitions)
            if waiting is None:
                self.hear(number, word, partitions)
                return None
            return waiting.addCallback(lambda _: self.hear(number, word, partitions))

        hears._hear = hear  # type: ignore[method-assign]


class ClassicScheduleTests(ScheduleCase):
    """The classic protocol."""

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps, st.booleans())
    def check(self, schedule: Any, cooperative: bool) -> None:
        case = type(self)("runTest")
        case.runTest = lambda: case.play(schedule, cooperative)  # type: ignore[attr-defined]
        result = case.defaultTestResult()
        case.run(result)
        for _, error in [*result.errors, *result.failures]:
            raise AssertionError(error)

    def test_any_order(self) -> None:
        """By turns eager and cooperative."""
        self.check()

    def runTest(self) -> None:
        """Made by :meth:`check`."""


class ConsumerScheduleTests(ClassicScheduleTests):
    """The consumer protocol."""

    protocol = "consumer"
    config = {
        **MembershipCase.config,
        "group.consumer.session.timeout.ms": "10000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }

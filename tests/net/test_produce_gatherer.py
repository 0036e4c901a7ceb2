"""Runs of several connections, by partition; tests/handlers/test_coalesced_produce.py has them in a whole broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.net.produce_gatherer import LARGEST_RUN, GatheredRuns, ProduceGatherer, may_be_gathered
from logbus.net.read_turn import ReadTurn
from logbus.net.request_context import RequestContext
from logbus.net.response_batch import ResponseBatch
from logbus.wire.request_template import CoalescedProduce

CONTEXT: Any = RequestContext(1, "PLAINTEXT", "10.0.0.1", 4000)


@define(eq=False)
class Template:
    partition: object = "t-0"
    transactional_id: str | None = None


@define(eq=False)
class Owner:
    answers: list[Any] = field(factory=list)
    error: Exception | None = None
    seen: Callable[[], bool] | None = None

    def finish_run(self, run: CoalescedProduce, answer: bytes | Deferred[bytes] | None) -> None:
        if self.error is not None:
            raise self.error
        self.answers.append(answer if self.seen is None else self.seen())

    def request_failed(self, failure: Failure) -> None:
        self.answers.append(failure.value)


class Responses(ResponseBatch):
    """Counts how often it is opened; nothing need be compiled."""

    times = 0

    def open(self) -> bool:
        self.times += 1
        self.is_open = True
        return True


def a_run(partition: str = "t-0", size: int = 100, transactional_id: str | None = None) -> CoalescedProduce:
    template: Any = Template(partition, transactional_id)
    return CoalescedProduce(template, [1], [memoryview(b"batch")], size)


def test_what_may_be_gathered() -> None:
    """Small runs, outside of transactions."""
    assert may_be_gathered(a_run())
    assert not may_be_gathered(a_run(size=LARGEST_RUN + 1))
    assert not may_be_gathered(a_run(transactional_id="id"))


def test_by_partition() -> None:
    """Runs for one partition are served together, one that is alone by its owner."""
    turn = ReadTurn()
    gatherer, owners = ProduceGatherer(turn), [Owner() for _ in range(3)]
    asked: list[int] = []

    def router(runs: GatheredRuns) -> list[bytes | Deferred[bytes]]:
        asked.append(len(runs))
        return [b"a", b"b"]

    for owner, partition in zip(owners, ("t-0", "t-1", "t-0"), strict=True):
        gatherer.add(router, CONTEXT, a_run(partition), owner)
    assert not any(owner.answers for owner in owners)
    turn.end()
    assert [owner.answers for owner in owners] == [[b"a"], [None], [b"b"]]
    assert asked == [2]


def test_two_brokers_in_one_reactor() -> None:
    """What one of them has left is served, though the other one leaves something, too."""
    turn = ReadTurn()
    owners = [Owner() for _ in range(3)]
    one, other = ProduceGatherer(turn), ProduceGatherer(turn)

    def router(runs: GatheredRuns) -> None:
        return None

    for gatherer, owner in zip((one, other, one), owners, strict=True):
        gatherer.add(router, CONTEXT, a_run(), owner)
    turn.end()
    assert [owner.answers for owner in owners] == [[None], [None], [None]]


def test_responses_wait_for_each_other() -> None:
    """What owners answer is sent together, also after a bug."""
    turn = ReadTurn()
    responses = turn.responses = Responses()
    gatherer, well = ProduceGatherer(turn), Owner()
    well.seen = lambda: responses.is_open
    for partition, owner in (("t-0", well), ("t-1", Owner(error=ZeroDivisionError()))):
        gatherer.add(lambda runs: None, CONTEXT, a_run(partition), owner)
    turn.end()
    assert (well.answers, responses.is_open, responses.times) == ([True], False, 1)


def test_not_together() -> None:
    """If they cannot be served together, each is served by its owner."""
    turn = ReadTurn()
    gatherer, owners = ProduceGatherer(turn), [Owner(), Owner()]
    for owner in owners:
        gatherer.add(lambda runs: None, CONTEXT, a_run(), owner)
    turn.end()
    assert [owner.answers for owner in owners] == [[None], [None]]


def test_bugs() -> None:
    """A bug ends the connections whose runs it concerns, and no others."""
    turn, bug = ReadTurn(), RuntimeError("a bug")
    gatherer, owners = ProduceGatherer(turn), [Owner() for _ in range(4)]
    owners[2].error = bug

    def router(runs: GatheredRuns) -> None:
        if runs[0][1].template.partition == "t-0":
            raise bug

    for owner, partition in zip(owners, ("t-0", "t-0", "t-1", "t-1"), strict=True):
        gatherer.add(router, CONTEXT, a_run(partition), owner)
    turn.end()
    assert [owner.answers for owner in owners] == [[bug], [bug], [bug], [None]]

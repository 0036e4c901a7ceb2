"""Tests of :mod:`logbus.coordination.share_state.share_state_calls`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.share_state.share_state import SharePartitionKey, ShareState
from logbus.coordination.share_state.share_state_calls import (
    Call,
    Delete,
    Initialize,
    Read,
    Result,
    Summarize,
    Write,
    calls_of,
    request_of,
    response_of,
    results_of,
)
from logbus.errors import ApiError, ErrorCode
from tests.coordination.share_state.strategies import state_batches, state_changes

keys = st.builds(SharePartitionKey, st.just("g"), st.integers(0, 2).map(lambda n: UUID(int=n)), st.integers(0, 3))
epochs = st.integers(-1, 5)
log_epochs = st.lists(st.tuples(epochs, epochs), max_size=2).map(tuple)

makes: dict[type[Any], Any] = {
    Initialize: lambda key: st.builds(Initialize, st.just(key), epochs, epochs),
    Read: lambda key: st.builds(Read, st.just(key), epochs, epochs, log_epochs),
    Write: lambda key: st.builds(Write, st.just(key), state_changes()),
    Summarize: lambda key: st.just(Summarize(key)),
    Delete: lambda key: st.just(Delete(key)),
}


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[Call], list[Result]]:
    """Calls of one kind, and their results."""
    kind = draw(st.sampled_from(list(makes)))
    calls = [draw(makes[kind](key)) for key in draw(st.lists(keys, min_size=1, max_size=6, unique=True))]
    results: list[Result] = []
    for call in calls:
        batches = tuple(draw(st.lists(state_batches(), max_size=3)))
        if draw(st.booleans()):
            results.append(ApiError(ErrorCode.FENCED_STATE_EPOCH, "too old"))
        elif kind is Read:
            results.append(ShareState(draw(epochs), call.leader_epoch, draw(epochs), batches))
        elif kind is Summarize:
            results.append(ShareState(draw(epochs), draw(epochs), draw(epochs), (), draw(epochs)))
        else:
            results.append(None)
    return calls, results


def shown(result: Result) -> object:
    """A result that can be compared."""
    return (result.code, result.message) if isinstance(result, ApiError) else result


class CallTests(SynchronousTestCase):
    """Requests and responses."""

    @given(asked())
    def test_there_and_back(self, case: tuple[list[Call], list[Result]]) -> None:
        """All calls and results arrive, by topic."""
        calls, results = case
        request = request_of(calls)
        arrived = list(calls_of(request))
        self.assertEqual(sorted(arrived, key=repr), sorted(calls, key=repr))
        of = dict(zip([call.key for call in calls], results, strict=True))
        response = response_of(request, [(call.key, of[call.key]) for call in arrived])
        found = results_of(calls, response)
        self.assertEqual({key: shown(result) for key, result in found.items()}, {k: shown(of[k]) for k in of})

    def test_missing_result(self) -> None:
        """It counts as an error."""
        calls = [Delete(SharePartitionKey("g", UUID(int=1), number)) for number in (0, 1)]
        response = response_of(request_of(calls), [(calls[0].key, None)])
        found = results_of(calls, response)
        self.assertIsNone(found[calls[0].key])
        missing = found[calls[1].key]
        assert isinstance(missing, ApiError)
        self.assertIs(missing.code, ErrorCode.UNKNOWN_SERVER_ERROR)

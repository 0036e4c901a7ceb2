"""
Sends calls of one kind and one group to the share coordinator on another broker, several in a request.

One request is under way at a time. The calls that come meanwhile are in the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.peers import Peers
from logbus.coordination.share_state.share_state import SharePartitionKey
from logbus.coordination.share_state.share_state_calls import Call, request_of, results_of
from logbus.errors import ApiError, ErrorCode

SHARE_STATE = "share-state"
"""The purpose of the connection."""

MOST_CALLS = 500
"""Calls in a request."""

REQUEST_SECONDS = 10.0
"""How long a coordinator may take to answer: twice as long as a write by default."""

Asked = tuple[Call, Deferred[Any]]


@define(eq=False)
class PersisterQueue:
    """
    The calls for one broker.

    :ivar idle: called when nothing is left to send.
    """

    broker_id: int
    _peers: Peers
    _idle: Callable[[], object]
    _waiting: list[Asked] = field(factory=list, init=False)
    _under_way: bool = field(default=False, init=False)
    _log = Logger()

    def send(self, call: Call) -> Deferred[Any]:
        """
        Send a call.

        :return: fires with the state that was asked for, or None.
        :raise ApiError: what the coordinator answers, and as :meth:`.Peers.request`.
        """
        answer: Deferred[Any] = Deferred()
        self._waiting.append((call, answer))
        if not self._under_way:
            self._send()
        return answer

    def _send(self) -> None:
        batch: dict[SharePartitionKey, Asked] = {}
        later: list[Asked] = []
        for call, answer in self._waiting:
            # A response has one result for a share partition. Calls that were cancelled are left out.
            if len(batch) >= MOST_CALLS or call.key in batch:
                later.append((call, answer))
            elif not answer.called:
                batch[call.key] = (call, answer)
        self._waiting = later
        if not batch:
            self._idle()
            return
        self._under_way = True
        maybeDeferred(self._request, batch).addBoth(self._answered, batch).addErrback(
            lambda failure: self._log.failure("states of share partitions cannot be sent", failure)
        )

    def _request(self, batch: dict[SharePartitionKey, Asked]) -> Deferred[Any]:
        calls = [call for call, _ in batch.values()]
        asked = self._peers.request(self._peers.broker(self.broker_id), request_of(calls), SHARE_STATE, REQUEST_SECONDS)
        return asked.addCallback(lambda response: results_of(calls, response))

    def _answered(self, results: Any, batch: dict[SharePartitionKey, Asked]) -> None:
        self._under_way = False
        problem = self._problem(results) if isinstance(results, Failure) else None
        # The next request is on its way before callers go on with the answers.
        self._send()
        for key, (_, answer) in batch.items():
            result = problem or results[key]
            if answer.called:
                continue
            if isinstance(result, ApiError):
                answer.errback(result)
            else:
                answer.callback(result)

    def _problem(self, failure: Failure) -> ApiError:
        if isinstance(failure.value, ApiError):
            return failure.value
        self._log.failure("broker {broker} cannot be asked for states", failure, broker=self.broker_id)
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, failure.getErrorMessage())

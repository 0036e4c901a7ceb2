"""
Finds the coordinators of groups and transactional ids, and sends them requests (Kafka: CoordinatorStrategy). Retries
while a coordinator moves or is loading.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import evolve, frozen
from twisted.internet.defer import Deferred

from logbus.client.cluster.cluster import Cluster, Node
from logbus.client.retry import Unreachable, api_error
from logbus.errors import ApiError, Disconnected, ErrorCode, RequestTimedOut
from logbus.net.channel import Channel
from logbus.wire.messages import api_name
from logbus.wire.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")
Work = Coroutine[Deferred[Any], Any, T]

COORDINATOR_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of a broker that is not the coordinator, or not yet: look it up again before the next attempt."""

_FIND_COORDINATOR = 10
_BATCHED = 4
"""The first version of FindCoordinator that takes several keys (KIP-699)."""
_LOST_CONNECTIONS = 2
"""The number of connections that may turn out to be closed, as idle ones are."""


def group_error(code: int, group_id: str, message: str | None = None) -> ApiError | None:
    """The error for a response code about a group; None for code 0."""
    if not code:
        return None
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
    if code == ErrorCode.NON_EMPTY_GROUP:
        return ApiError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members; stop its consumers first")
    return api_error(code, f"group {group_id!r}", message)


def transaction_error(code: int, transactional_id: str, message: str | None = None) -> ApiError | None:
    """The error for a response code about a transactional id; None for code 0."""
    if not code:
        return None
    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}")
    return api_error(code, f"transactional id {transactional_id!r}", message)


@frozen
class CoordinatorType:
    """
    A type of coordinator (Kafka: CoordinatorType).

    :ivar key_type: its number in FindCoordinator.
    :ivar noun: the word for a key.
    :ivar error: makes an error about a key from a response code; None for code 0.
    """

    key_type: int
    noun: str
    error: Callable[[int, str, str | None], ApiError | None]


GROUPS = CoordinatorType(0, "group", group_error)
TRANSACTIONS = CoordinatorType(1, "transactional id", transaction_error)


@frozen
class Coordinators:
    """
    Sends requests to the coordinators of several keys.

    :ivar patience: seconds for which a key without a coordinator is retried.
    :ivar kind: the type of the keys.
    """

    cluster: Cluster
    patience: float
    kind: CoordinatorType = GROUPS

    async def find(self, keys: Iterable[str]) -> dict[str, Node | ApiError]:
        """
        The coordinator of each key, in one attempt; :meth:`.Cluster.channel` connects to it.

        :raise Unreachable: no broker answers.
        """
        wanted = list(dict.fromkeys(keys))
        channel = await self.cluster.any_channel()
        key_type = self.kind.key_type
        if channel.version(_FIND_COORDINATOR) >= _BATCHED:
            response: FindCoordinatorResponse = await channel.request(
                FindCoordinatorRequest(key_type=key_type, coordinator_keys=wanted)
            )
            return {each.key: self._node(each.key, each) for each in response.coordinators}
        found: dict[str, Node | ApiError] = {}
        for key in wanted:
            response = await channel.request(FindCoordinatorRequest(key=key, key_type=key_type))
            found[key] = self._node(key, response)
        return found

    async def ask(
        self, keys: Iterable[str], send: Callable[[Channel, Node, Sequence[str]], Work[Mapping[str, T | ApiError]]]
    ) -> dict[str, T | ApiError]:
        """
        Send a request to the coordinator of each key, retrying those that cannot answer yet.

        :param send: sends the request to one coordinator for its keys, and returns a result for each.
        :return: a result or an error for each key, in the given order.
        :raise Unreachable: no broker answers. A coordinator that cannot be reached is an error of its keys only, since
            another one may be chosen soon.
        """
        wanted = list(dict.fromkeys(keys))
        answers: dict[str, T | ApiError] = {}
        attempts = self.cluster.attempts(self.patience)
        again, lost = wanted, 0
        while again:
            try:
                answers.update(await self._round(again, send))
            except RequestTimedOut:
                raise
            except Disconnected:
                lost += 1
                if lost > _LOST_CONNECTIONS:
                    raise
                answers.update((each, self._unavailable(each, "its coordinator hung up")) for each in again)
            again = [each for each in wanted if is_coordinator_retriable(answers[each])]
            if again and not await attempts.again():
                break
        return {each: answers[each] for each in wanted}

    async def _round(
        self, keys: Sequence[str], send: Callable[[Channel, Node, Sequence[str]], Work[Mapping[str, T | ApiError]]]
    ) -> dict[str, T | ApiError]:
        answers: dict[str, T | ApiError] = {}
        by_node: dict[Node, list[str]] = {}
        for key, place in (await self.find(keys)).items():
            if isinstance(place, ApiError):
                answers[key] = place
            else:
                by_node.setdefault(place, []).append(key)
        for node, theirs in by_node.items():
            try:
                channel = await self.cluster.channel(node.node_id)
            except Unreachable as e:
                answers.update((each, self._unavailable(each, str(e))) for each in theirs)
                continue
            answers.update(await send(channel, node, theirs))
        for key in keys:
            if key not in answers:
                left_out = f"{self.kind.noun} {key!r}: the broker's answer leaves it out"
                answers[key] = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, left_out)
        return answers

    def _node(self, key: str, answer: FindCoordinatorResponse | Coordinator) -> Node | ApiError:
        error = self.kind.error(answer.error_code, key, answer.error_message)
        # It may have come back at another address, of which nothing else makes this client ask for metadata.
        return error or self.cluster.update_address(answer.node_id, answer.host, answer.port)

    def _unavailable(self, key: str, why: str) -> ApiError:
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.kind.noun} {key!r}: {why}")


async def ask_all_brokers(
    cluster: Cluster, patience: float, what: str, ask: Callable[[Channel], Work[T]]
) -> dict[int, T]:
    """
    Send a request to every broker, for what it coordinates; returns the responses by broker id, in order.

    :param patience: seconds for which a broker that is loading is retried.
    :raise ApiError: the error of a response.
    """
    await cluster.refresh()
    deadline = cluster.attempts(patience).deadline
    answers = {}
    for node_id in sorted(cluster.nodes):
        attempts = evolve(cluster.attempts(), deadline=deadline)
        while True:
            answer: Any = await ask(await cluster.channel(node_id))
            if not answer.error_code:
                break
            error = api_error(answer.error_code, f"{what} of broker {node_id}")
            if not is_coordinator_retriable(error) or not await attempts.again():
                raise error
        answers[node_id] = answer
    return answers


def require_version(channel: Channel, api_key: int, since: int, lack: str) -> None:
    """
    Check that a broker knows a field of a request.

    :param lack: what a broker before version ``since`` lacks.
    :raise ApiError: UNSUPPORTED_VERSION.
    """
    version = channel.version(api_key)
    if version < since:
        reason = f"the broker at {channel.peer} {lack}: it speaks {api_name(api_key)} {version}"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{reason}, and {since} is needed")


def is_coordinator_retriable(answer: object) -> bool:
    """Whether a result is an error that may be gone when the coordinator is looked up again."""
    return isinstance(answer, ApiError) and answer.code in COORDINATOR_RETRIABLE

"""
The brokers that coordinate groups and transactions: found, and asked again, elsewhere when what they coordinate moved,
or later when they are loading.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from logbus.client.cluster import Cluster, Node
from logbus.client.retry import Unreachable, api_error
from logbus.errors import ApiError, ErrorCode
from logbus.net.channel import Channel, Disconnected, RequestTimedOut
from logbus.wire.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")
Work = Coroutine[Deferred[Any], Any, T]

NOT_NOW = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a broker says that does not coordinate a key, or not yet: the next attempt looks for the coordinator anew."""

_FIND_COORDINATOR = 10
_BATCHED = 4
"""The version of FindCoordinator from which one request asks for several keys (KIP-699)."""
_LOST_CONNECTIONS = 2
"""A connection that lay idle for long is found to be gone only when it is used."""


def group_error(code: int, group_id: str, message: str | None = None) -> ApiError | None:
    """The error that a response's code stands for, in the group's words; None if it stands for none."""
    if not code:
        return None
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
    if code == ErrorCode.NON_EMPTY_GROUP:
        return ApiError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members; stop its consumers first")
    return api_error(code, f"group {group_id!r}", message)


def transaction_error(code: int, transactional_id: str, message: str | None = None) -> ApiError | None:
    """The error that a response's code stands for, in words about a transactional id; None if it stands for none."""
    if not code:
        return None
    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}")
    return api_error(code, f"transactional id {transactional_id!r}", message)


@frozen
class Coordinated:
    """
    A kind of thing that brokers coordinate.

    :ivar key_type: its number in FindCoordinator.
    :ivar noun: what one is called.
    :ivar error: the error that a response's code stands for, in words about a key; None if it stands for none.
    """

    key_type: int
    noun: str
    error: Callable[[int, str, str | None], ApiError | None]


GROUPS = Coordinated(0, "group", group_error)
TRANSACTIONS = Coordinated(1, "transactional id", transaction_error)


@frozen
class Coordinators:
    """
    :ivar patience: seconds for which a key is asked for again that nobody coordinates yet.
    :ivar kind: what the keys are.
    """

    cluster: Cluster
    patience: float
    kind: Coordinated = GROUPS

    async def find(self, keys: Iterable[str]) -> dict[str, Node | ApiError]:
        """
        The coordinator of each key, asked for once.

        :raise Unreachable: no broker answers.
        """
        wanted = list(dict.fromkeys(keys))
        channel = await self.cluster.any_channel()
        key_type = self.kind.key_type
        if channel.version(_FIND_COORDINATOR) >= _BATCHED:
            response: FindCoordinatorResponse = await channel.request(
                FindCoordinatorRequest(key_type=key_type, coordinator_keys=wanted)
            )
            return {
                each.key: self._node(each.error_code, each.error_message, each.key, each.node_id, each.host, each.port)
                for each in response.coordinators
            }
        found: dict[str, Node | ApiError] = {}
        for key in wanted:
            response = await channel.request(FindCoordinatorRequest(key=key, key_type=key_type))
            found[key] = self._node(
                response.error_code, response.error_message, key, response.node_id, response.host, response.port
            )
        return found

    async def ask(
        self, keys: Iterable[str], send: Callable[[Channel, Node, Sequence[str]], Work[Mapping[str, T | ApiError]]]
    ) -> dict[str, T | ApiError]:
        """
        Ask the coordinators of keys for something, and again those that cannot answer yet.

        :param send: asks one coordinator, for the keys it coordinates, and gives an answer for each.
        :return: an answer or an error for each key, in the order given.
        :raise Unreachable: no broker answers. A coordinator that cannot be reached is an error of its keys: the other
            brokers may take a while to choose another.
        """
        wanted = list(dict.fromkeys(keys))
        answers: dict[str, T | ApiError] = {}
        deadline = self.cluster.reactor.seconds() + self.patience
        again, attempt, lost = wanted, 0, 0
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
            again = [each for each in wanted if is_not_now(answers[each])]
            attempt += 1
            wait = self.cluster.backoff.before(attempt)
            if self.cluster.reactor.seconds() + wait > deadline:
                break
            if again:
                await deferLater(self.cluster.reactor, wait)
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

    def _node(self, code: int, message: str | None, key: str, node_id: int, host: str, port: int) -> Node | ApiError:
        return self.kind.error(code, key, message) or Node(node_id, host, port)

    def _unavailable(self, key: str, why: str) -> ApiError:
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.kind.noun} {key!r}: {why}")


def is_not_now(answer: object) -> bool:
    """Whether an answer is an error that may be gone when the coordinator is looked for anew."""
    return isinstance(answer, ApiError) and answer.code in NOT_NOW

"""The listener of a group's assignments whose methods may be coroutines of asyncio."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logbus.client.aio.awaiting import deferred_of
from logbus.client.membership import GroupListener
from logbus.client.membership.interface import ListenerResult
from logbus.errors import LogbusError
from logbus.model import TopicPartition


class AwaitingListener(GroupListener):
    """
    Calls a listener whose methods may be asyncio's coroutines.

    :param listener: the application's.
    """

    def __init__(self, listener: GroupListener) -> None:
        self._listener = listener

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> ListenerResult:
        return _result(self._listener.on_assigned(partitions))

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> ListenerResult:
        return _result(self._listener.on_revoked(partitions))

    def on_lost(self, partitions: frozenset[TopicPartition]) -> ListenerResult:
        return _result(self._listener.on_lost(partitions))

    def on_failed(self, error: LogbusError) -> ListenerResult:
        return _result(self._listener.on_failed(error))


def _result(answer: ListenerResult) -> Deferred[Any] | None:
    return None if answer is None else deferred_of(answer)

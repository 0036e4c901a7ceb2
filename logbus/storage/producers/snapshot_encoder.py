"""
Encodes the producers of one moment for a snapshot, some at a time, while the log is written to.

A hundred thousand of them take some 30 ms. Whoever changes meanwhile is encoded first (copy on write).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from logbus.storage.producers.producer_snapshot import encode_entry, snapshot_of
from logbus.storage.producers.producer_state_manager import ProducerStateEntry, ProducerStateManager

ENCODED_AT_ONCE = 2000
"""Producers, which take about half a millisecond."""


class SnapshotEncoder:
    """
    Encodes the producers as they are now; few of them at once. Call :meth:`finish`, or :meth:`close`.

    :param at_once: encoded in one turn of the reactor.
    """

    def __init__(self, producers: ProducerStateManager, at_once: int = ENCODED_AT_ONCE) -> None:
        self._at_once = at_once
        self._encoded: list[bytes] = []
        self._left: dict[int, ProducerStateEntry] = {}
        self.close: Callable[[], None] = lambda: None
        """Give it up."""
        if len(producers) <= at_once:
            self._encoded += map(encode_entry, producers)
        else:
            self._left, self.close = producers.when_changed(self._changes)

    def _changes(self, entry: ProducerStateEntry) -> None:
        if self._left.pop(entry.producer_id, None) is not None:
            self._encoded.append(encode_entry(entry))

    async def finish(self, next_turn: Callable[[], Deferred[Any]]) -> bytes:
        """
        Encode the rest; returns the content of the snapshot.

        :param next_turn: fires in a later turn of the reactor.
        """
        try:
            while self._left:
                await next_turn()
                left = self._left
                for _ in range(min(self._at_once, len(left))):
                    self._encoded.append(encode_entry(left.popitem()[1]))
        finally:
            self.close()
        return snapshot_of(self._encoded)

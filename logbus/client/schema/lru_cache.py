"""What was asked for last, and no more than that."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from attrs import define, field

K = TypeVar("K")
V = TypeVar("V")


@define(eq=False)
class LruCache(Generic[K, V]):
    """What was asked for last, bounded."""

    limit: int
    _found: OrderedDict[K, V] = field(factory=OrderedDict, init=False)

    def get(self, key: K) -> V | None:
        """None if it is not among them."""
        if key in self._found:
            self._found.move_to_end(key)
        return self._found.get(key)

    def put(self, key: K, value: V) -> V:
        """Note it; the one that was not asked for longest goes."""
        self._found[key] = value
        self._found.move_to_end(key)
        if len(self._found) > self.limit:
            self._found.popitem(last=False)
        return value

"""A bounded cache that drops the least recently used entry. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from attrs import define, field

K = TypeVar("K")
V = TypeVar("V")


@define(eq=False)
class LruCache(Generic[K, V]):
    """Maps keys to values, up to a limit."""

    limit: int
    _found: OrderedDict[K, V] = field(factory=OrderedDict, init=False)

    def get(self, key: K) -> V | None:
        """The value, or None."""
        if key in self._found:
            self._found.move_to_end(key)
        return self._found.get(key)

    def put(self, key: K, value: V) -> V:
        """Store a value, dropping the least recently used one if the cache is full."""
        self._found[key] = value
        self._found.move_to_end(key)
        if len(self._found) > self.limit:
            self._found.popitem(last=False)
        return value

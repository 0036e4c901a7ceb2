"""
Reads many nodes at once: some requests are under way while the answers are taken in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import NoNode, Stat

OUTSTANDING = 200
"""Requests under way at once: enough to hide the distance, few enough not to choke the store."""

Found = tuple[bytes, Stat] | None
T = TypeVar("T")


async def get_all(store: IMetadataStore, paths: Iterable[str]) -> list[Found]:
    """The node at each path, or None."""
    return await in_turn(store.get(path) for path in paths)


async def in_turn(requests: Iterable[Deferred[T]]) -> list[T | None]:
    """The answers; None where there is no node. Requests are made as they are drawn, some at a time."""
    found: list[T | None] = []
    window: deque[Deferred[T | None]] = deque()
    try:
        for request in requests:
            window.append(request.addErrback(_absent))
            if len(window) == OUTSTANDING:
                found.append(await window.popleft())
        while window:
            found.append(await window.popleft())
    finally:
        for left in window:
            left.addErrback(lambda _: None)  # They fail for the same reason as the first.
    return found


def _absent(failure: Failure) -> None:
    failure.trap(NoNode)

"""The common interface of all libraries' consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from attrs import frozen

SECONDS = 120

#: Messages of one poll: few, so that there are many commits, and much can come in between.
MOST = 50

#: A partition: topic, index.
Place = tuple[str, int]
#: Where to go on, and what was noted with it.
Committed = tuple[int, str]
#: Told "assigned" or "revoked", and which partitions.
Listener = Callable[[str, frozenset[Place]], None]


@frozen
class Record:
    """A record that a member received."""

    place: Place
    offset: int
    value: bytes


@frozen
class Settings:
    """
    What a member is told; times in milliseconds.

    :ivar topics: names, or one regular expression that begins with ``^``.
    :ivar session_timeout_ms: of no effect on the consumer protocol, where the broker says it.
    :ivar auto_commit: by the library, as often as it does; False: when the test says so.
    :ivar poll_seconds: how long it polls before it looks whether it was told something.
    """

    bootstrap: str
    group_id: str
    topics: tuple[str, ...] = ()
    session_timeout_ms: int = 30_000
    heartbeat_interval_ms: int = 100
    instance_id: str | None = None
    auto_commit: bool = False
    poll_seconds: float = 0.05
    client_id: str = "interop"


class Consumer(Protocol):
    """A member of a group, or with :meth:`assign` a simple consumer that uses one for its offsets."""

    def poll(self, seconds: float) -> list[Record]: ...
    def assign(self, places: Iterable[Place]) -> None: ...
    def seek(self, place: Place, offset: int) -> None: ...
    def position(self, place: Place) -> int: ...
    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None: ...
    def committed(self, place: Place) -> Committed | None: ...
    def close(self) -> None: ...

"""
The follower's side of an incremental fetch session (KIP-227; Kafka: FetchSessionHandler).  Pure.

The first fetch names every partition, and each one after it only the changes: partitions that are new, whose offset or
epoch moved, or that are left out for now.  The cost of a fetch depends on how many partitions are busy, not on how many
are followed.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from attrs import define, field

from logbus.model import NO_EPOCH
from logbus.wire.messages.records import FetchPartition, FetchTopic, ForgottenTopic

Key: TypeAlias = tuple[bytes, int]
"""A partition: its topic's id, and its number."""

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1

_TOPIC = itemgetter(0)


class FetchPosition(NamedTuple):
    """
    The position from which to fetch one partition.

    :ivar leader_epoch: the epoch that the leader must have.
    :ivar last_epoch: of the last record before ``offset``, −1 without one: the leader compares it with its own.
    :ivar log_start_offset: where the follower's log begins.
    """

    offset: int
    leader_epoch: int
    last_epoch: int = NO_EPOCH
    log_start_offset: int = -1


@define(eq=False)
class FetchSessionHandler:
    """
    The fetch session of this follower with one leader.

    :ivar asked: the partitions in the leader's session; it answers for these and no others.
    :ivar wanted: the partitions of the next fetch, named or in the session already. Read only.
    """

    session_id: int = field(default=NO_SESSION, init=False)
    epoch: int = field(default=INITIAL_EPOCH, init=False)
    asked: dict[Key, FetchPosition] = field(factory=dict, init=False)
    wanted: dict[Key, FetchPosition] = field(factory=dict, init=False)
    _changed: dict[Key, None] = field(factory=dict, init=False)

    def __len__(self) -> int:
        """The number of wanted partitions."""
        return len(self.wanted)

    @property
    def named(self) -> int:
        """The number of partitions that the next fetch names."""
        return len(self.wanted) if self.epoch == INITIAL_EPOCH else len(self._changed)

    def want(self, key: Key, ask: FetchPosition) -> None:
        """Fetch a partition from this position from the next fetch on. It goes behind those changed before it."""
        self.wanted.pop(key, None)
        self.wanted[key] = ask
        self._changed.pop(key, None)
        if self.asked.get(key) != ask:
            self._changed[key] = None

    def drop(self, key: Key) -> None:
        """Leave a partition out from the next fetch on; an answer under way does not count for it."""
        if self.wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            if key in self.asked:
                self._changed[key] = None

    def reset(self) -> None:
        """The session is lost: the next fetch begins a new one."""
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self.asked = {}

    def next_fetch(self, max_bytes: int) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """
        The topics and forgotten topics of the next fetch, with :attr:`session_id` and :attr:`epoch` as they are now.

        :param max_bytes: of one partition.
        """
        if self.epoch == INITIAL_EPOCH:
            self.asked = dict(self.wanted)
            self._changed = {}
            return _topics(list(self.asked.items()), max_bytes), []
        named: list[tuple[Key, FetchPosition]] = []
        gone: list[Key] = []
        for key in self._changed:
            ask = self.wanted.get(key)
            if ask is None:
                del self.asked[key]
                gone.append(key)
            else:
                self.asked[key] = ask
                named.append((key, ask))
        self._changed = {}
        gone.sort()
        forgotten = [
            ForgottenTopic(topic_id=topic, partitions=[partition for _, partition in keys])
            for topic, keys in groupby(gone, _TOPIC)
        ]
        return _topics(named, max_bytes), forgotten

    def answered(self, session_id: int) -> None:
        """The fetch was answered, without an error that concerns it as a whole."""
        if session_id == NO_SESSION:
            # The leader has no room for a session: each fetch names everything.
            self.reset()
        elif session_id == self.session_id:
            self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1
        else:
            self.session_id, self.epoch = session_id, 1


def _topics(named: list[tuple[Key, FetchPosition]], max_bytes: int) -> list[FetchTopic]:
    """Group by topic, in the order given: the leader fills its answer in that order, so busy partitions come last."""
    return [
        FetchTopic(
            topic_id=topic,
            partitions=[
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=ask.leader_epoch,
                    fetch_offset=ask.offset,
                    last_fetched_epoch=ask.last_epoch,
                    log_start_offset=ask.log_start_offset,
                    partition_max_bytes=max_bytes,
                )
                for key, ask in asks
            ],
        )
        for topic, asks in groupby(named, lambda item: item[0][0])
    ]

"""
The client side of an incremental fetch session (KIP-227; Kafka: FetchSessionHandler). Pure.

The first fetch names all partitions. Later ones name only changes: partitions that are new, whose offset moved, or that
are not wanted for now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attrs import define, field

from logbus.model import NO_EPOCH, TopicPartition
from logbus.wire.messages.records import FetchPartition, FetchTopic, ForgottenTopic
from logbus.wire.schema import ZERO_UUID

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
"""The epoch of a fetch without a session, or that closes one."""
_MAX_EPOCH = 2**31 - 1


class FetchPartitionData(NamedTuple):
    """
    The parameters of a fetch from one partition.

    :ivar leader_epoch: the epoch in which the client knows the leader, −1: any.
    :ivar last_epoch: the epoch of the record before ``offset``, −1: not known. The leader answers with the point where
        its own log diverges.
    """

    offset: int
    max_bytes: int
    leader_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH


_NOTHING = FetchPartitionData(-1, 0)


@define(eq=False)
class FetchSessionHandler:
    """
    The session with one broker.

    :ivar session_id: of the next fetch.
    :ivar epoch: of the next fetch.
    """

    session_id: int = field(default=NO_SESSION, init=False)
    epoch: int = field(default=INITIAL_EPOCH, init=False)
    _asked: dict[TopicPartition, FetchPartitionData] = field(factory=dict, init=False)
    _ids: dict[str, bytes] = field(factory=dict, init=False)

    def reset(self) -> None:
        """Start a new session with the next fetch."""
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH

    def next_fetch(
        self, wanted: Mapping[TopicPartition, FetchPartitionData], ids: Mapping[str, bytes]
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """
        The partitions to put into the next fetch. Read :attr:`session_id` and :attr:`epoch` afterwards.

        :param wanted: in the order in which the broker should fill its response.
        :param ids: topic ids; empty: use names.
        """
        known = self._ids
        if any(name in known and known[name] != topic_id for name, topic_id in ids.items()) or bool(ids) != bool(known):
            # A topic was created anew under its name, or the broker's version changed: a session cannot mix them.
            self.reset()
        if self.epoch == INITIAL_EPOCH:
            self._asked, self._ids = {}, {}
        self._ids.update(ids)
        gone = [each for each in self._asked if each not in wanted]
        named = [(each, ask) for each, ask in wanted.items() if self._asked.get(each) != ask]
        for each in gone:
            del self._asked[each]
        self._asked.update(named)
        topics: dict[str, FetchTopic] = {}
        for (name, index), ask in named:
            if name not in topics:
                topics[name] = FetchTopic(topic=name, topic_id=ids.get(name, ZERO_UUID), partitions=[])
            topics[name].partitions.append(
                FetchPartition(
                    partition=index,
                    fetch_offset=ask.offset,
                    partition_max_bytes=ask.max_bytes,
                    current_leader_epoch=ask.leader_epoch,
                    last_fetched_epoch=ask.last_epoch,
                )
            )
        forgotten: dict[str, ForgottenTopic] = {}
        for name, index in gone:
            if name not in forgotten:
                forgotten[name] = ForgottenTopic(topic=name, topic_id=self._ids.get(name, ZERO_UUID), partitions=[])
            forgotten[name].partitions.append(index)
        return list(topics.values()), list(forgotten.values())

    def note_response(self, partition: TopicPartition) -> None:
        """Note that a response contained this partition, so that the next fetch names it in any case."""
        if partition in self._asked:
            self._asked[partition] = _NOTHING

    def name_of(self, topic_id: bytes) -> str:
        """The name of a topic id in this session, or an empty string."""
        return next((name for name, each in self._ids.items() if each == topic_id), "")

    def note_session(self, session_id: int) -> None:
        """Note the session id of a response without a top-level error."""
        if session_id == NO_SESSION:
            # The broker has no room for a session: each fetch names all partitions.
            self.reset()
        elif session_id == self.session_id:
            self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1
        else:
            self.session_id, self.epoch = session_id, 1

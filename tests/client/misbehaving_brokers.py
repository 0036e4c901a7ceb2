"""Brokers that break the protocol in chosen ways, on a virtual clock."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field

from logbus.errors import ErrorCode
from logbus.records.batch import read_header
from logbus.wire.messages.transactions import InitProducerIdResponse
from tests.client.memory_cluster import SERVED, Log, MemoryCluster

PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID = 0, 1, 2, 3, 22

Misbehavior = Callable[["MisbehavingBrokers", Any, bytes], None]
"""Passes on an answer, or does not."""


def late(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """The response comes after the timeout."""
    liars.clock.callLater(liars.patience * 3, to.heard, frame)


def never(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """Nothing comes, and the connection stays."""


def hangs_up(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """The connection ends instead."""
    to.break_off()


def half(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """The connection ends in the middle."""
    to.heard(frame[: len(frame) // 2])
    to.break_off()


def half_and_no_more(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """The rest does not come, and what comes next is taken for it."""
    to.heard(frame[: len(frame) // 2])


def twice(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """An answer to nothing follows."""
    to.heard(frame)
    to.heard(frame)


def to_another_request(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """With a number that was not asked with."""
    to.heard(frame[:4] + struct.pack(">i", liars.chance.randrange(1 << 20)) + frame[8:])


def noise(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """The right length and number, and then anything."""
    to.heard(frame[:8] + liars.chance.randbytes(len(frame) - 8))


def too_long(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """Two thousand million bytes are said to follow."""
    to.heard(b"\x7f\xff\xff\xff" + frame[4:])


def cut_short(liars: MisbehavingBrokers, to: Any, frame: bytes) -> None:
    """A whole frame whose contents end too early."""
    short = frame[4 : 8 + (len(frame) - 8) // 2]
    to.heard(struct.pack(">i", len(short)) + short)


MISBEHAVIORS: tuple[Misbehavior, ...] = (
    late, never, hangs_up, half, half_and_no_more, twice, to_another_request, noise, too_long, cut_short,
)  # fmt: skip


@define(eq=False)
class MisbehavingBrokers(MemoryCluster):
    """
    Two brokers that support idempotence (KIP-98), and misbehave while ``misbehaviors`` is not empty.

    :ivar misbehaviors: one of them is chosen for an answer.
    :ivar share: the share of responses that are changed.
    :ivar about: API keys whose responses may be changed.
    :ivar patience: seconds that clients wait for an answer.
    :ivar told: the number of changed responses.
    """

    chance: Random = field(factory=lambda: Random(1))
    misbehaviors: tuple[Misbehavior, ...] = ()
    share: float = 0.5
    about: frozenset[int] = frozenset({PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID, 18})
    patience: float = 2.0
    told: int = 0
    _next: dict[tuple[int, int, int, int], int] = field(factory=dict, init=False)
    _places: dict[tuple[int, int, int, int, int], int] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.nodes = {1, 2}
        self.served = {**SERVED, INIT_PRODUCER_ID: (0, 5)}
        self.answers[INIT_PRODUCER_ID] = lambda *_: InitProducerIdResponse(producer_id=7, producer_epoch=0)
        self.deliver = self._deliver

    def _deliver(self, to: Any, key: int, frame: bytes) -> None:
        if self.misbehaviors and key in self.about and self.chance.random() < self.share:
            self.told += 1
            self.chance.choice(self.misbehaviors)(self, to, frame)
        else:
            to.heard(frame)

    def _produce(self, node: int, message: Any) -> Any:
        """As any broker: what is there already is not written again, and nothing before its turn."""
        codes: list[int] = []
        for topic in message.topic_data:
            for each in topic.partition_data:
                log = self.topics[self._name(topic.name, topic.topic_id)][each.index]
                if log.leader == node:
                    codes.append(self._judge(log, each))
        if any(codes):
            self.produce_errors[:] = codes
        answer = MemoryCluster._produce(self, node, message)
        self.produce_errors.clear()
        return answer

    def _judge(self, log: Log, each: Any) -> int:
        header = read_header(bytes(each.records))
        if header.producer_id < 0:
            return 0
        name = (id(log), each.index, header.producer_id, header.producer_epoch)
        if (*name, header.base_sequence) in self._places:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if header.base_sequence != self._next.get(name, 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._places[(*name, header.base_sequence)] = log.end
        self._next[name] = header.base_sequence + header.next_offset - header.base_offset
        return 0

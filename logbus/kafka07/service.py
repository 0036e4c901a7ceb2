"""
Answers the requests of Kafka 0.7 by the broker's services.

A 0.7 client cannot log in and has no name: its rights and quotas are those of its listener's principal.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode
from logbus.ilogbus import IBroker, IPluginClient
from logbus.kafka07.message_sets import payloads
from logbus.kafka07.requests import (
    EARLIEST_TIME,
    LATEST_TIME,
    PARTS_PER_STEP,
    RANDOM_PARTITION,
    Fetch,
    FetchPart,
    MultiFetch,
    Offsets,
    Produce,
    ProducePart,
    Request,
)
from logbus.kafka07.responses import Code, code_of, encode_messages, encode_multi, encode_offsets
from logbus.kafka07.virtual_logs import VirtualLogs

MAX_RESPONSE = 32 * 1024 * 1024
"""Bytes of a response: the parts of a MultiFetch share them, and what is left out comes with the next one."""

BATCH_BYTES = 256 * 1024
"""Bytes of messages that become one record batch; a larger message becomes one of its own."""

_MESSAGES_PER_TURN = 2000

P = TypeVar("P")


@define(eq=False)
class KafkaSevenService:
    """
    Answers requests.

    :param choose: chooses one of several partitions.
    """

    _broker: IBroker
    _clock: IReactorTime
    logs: VirtualLogs
    _choose: Callable[[Sequence[int]], int] = field(factory=lambda: random.SystemRandom().choice)

    async def answer(self, client: IPluginClient, request: Request, room: int = MAX_RESPONSE) -> bytes | None:
        """
        Serve a request.

        :param room: bytes that the response may have, about.
        :return: the response; None: there is none to produce requests.
        :raise DecodeError: a produced set is invalid; none of its messages was written.
        :raise ApiError: messages were not written. Requests that read are answered with a code instead.
        """
        match request:
            case Produce():
                await self._produce_all(client, request.parts)
                return None
            case Fetch():
                return await self._fetch(client, request.part, room, self._broker.topics())
            case MultiFetch():
                return await self._multi_fetch(client, request.parts, room)
            case Offsets():
                return await self._offsets(client, request)

    # -- Produce

    async def _produce_all(self, client: IPluginClient, parts: Sequence[ProducePart]) -> None:
        is_random = any(part.partition == RANDOM_PARTITION for part in parts)
        topics = self._broker.topics() if is_random else {}
        led: dict[str, list[int]] = {}
        async for part in self._in_turns(parts):
            if part.partition == RANDOM_PARTITION and part.topic not in led:
                led[part.topic] = self._led(part.topic, topics.get(part.topic, 0))
            await self._produce(client, part, led.get(part.topic, ()))

    async def _produce(self, client: IPluginClient, part: ProducePart, led: Sequence[int]) -> None:
        """
        Write one message set.

        :param led: the partitions of its topic of which one is chosen, if the client leaves that to the broker.
        """
        topic, partition, messages = part
        client.require_write(topic)
        found: list[tuple[None, bytes]] = []
        for payload in payloads(messages):
            found.append((None, payload))
            if len(found) % _MESSAGES_PER_TURN == 0:
                await sleep(self._clock, 0)
        chosen: int | None = partition
        if partition == RANDOM_PARTITION:
            chosen = self._choose(led) if led else None
        for n, batch in enumerate(_batches(found)):
            if n:
                await sleep(self._clock, 0)
            await self._broker.append(topic, batch, chosen)

    def _led(self, topic: str, count: int) -> list[int]:
        """Those of a topic's partitions that this broker leads."""
        return [n for n in range(count) if self._broker.leadership(topic, n).broker_id == self._broker.broker_id]

    # -- Fetch

    async def _fetch(
        self, client: IPluginClient, part: FetchPart, room: int, topics: Mapping[str, int], *, cut: bool = True
    ) -> bytes:
        """
        Answer Fetch, or a part of MultiFetch.

        :param topics: those that there were when the request came.
        :param cut: whether a message may be cut for lack of room, too.
        """
        try:
            client.require_read(part.topic)
            if part.max_bytes < 0:
                raise ApiError(ErrorCode.INVALID_FETCH_SIZE, f"{part.max_bytes} bytes")
            if part.topic not in topics:
                # In 0.7 a topic begins with its first message, and is empty before.
                return encode_messages(Code.NO_ERROR)
            log = await self.logs.get(part.topic, part.partition)
            messages = await log.read(part.position, min(part.max_bytes, room), cut=cut or part.max_bytes <= room)
            return encode_messages(Code.NO_ERROR, messages)
        except ApiError as error:
            return encode_messages(code_of(error))

    async def _multi_fetch(self, client: IPluginClient, parts: Sequence[FetchPart], room: int) -> bytes:
        answers: list[bytes] = []
        topics = self._broker.topics()
        async for part in self._in_turns(parts):
            answers.append(await self._fetch(client, part, max(room, 0), topics, cut=not answers))
            room -= len(answers[-1])
        return encode_multi(answers)

    async def _in_turns(self, parts: Sequence[P]) -> AsyncIterator[P]:
        """Iterate over the parts of a request, some in each turn of the reactor: not each of them waits for one."""
        for n, part in enumerate(parts):
            if n and n % PARTS_PER_STEP == 0:
                await sleep(self._clock, 0)
            yield part

    # -- Offsets

    async def _offsets(self, client: IPluginClient, request: Offsets) -> bytes:
        try:
            client.require_describe(request.topic)
            if request.topic not in self._broker.topics():
                is_special = request.time in (LATEST_TIME, EARLIEST_TIME)
                return encode_offsets(Code.NO_ERROR, [0][: max(0, request.most)] if is_special else [])
            log = await self.logs.get(request.topic, request.partition)
            if request.time == EARLIEST_TIME:
                found = [await log.earliest()][: max(0, request.most)]
            else:
                found = await log.positions_before(
                    None if request.time == LATEST_TIME else request.time, max(0, request.most)
                )
            return encode_offsets(Code.NO_ERROR, found)
        except ApiError as error:
            return encode_offsets(code_of(error))


def _batches(records: Sequence[tuple[None, bytes]]) -> Iterator[Sequence[tuple[None, bytes]]]:
    """Split records into what becomes a batch each."""
    start = size = 0
    for n, (_, value) in enumerate(records):
        if n > start and (size + len(value) > BATCH_BYTES or n - start == _MESSAGES_PER_TURN):
            yield records[start:n]
            start, size = n, 0
        size += len(value)
    if start < len(records):
        yield records[start:]

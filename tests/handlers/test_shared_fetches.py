"""Consumers that wait for the same records share the response, and get what each would get alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from logbus.handlers import repeated_fetch as module
from logbus.handlers.fetch import FetchHandlers
from logbus.records.file_slice import Parts
from logbus.wire.fetch_template import FetchTemplate
from tests.handlers.kit import HandlerCase, MemoryBroker, a_batch, content, fetch_request

Waiter = tuple[int, int, int, int, bool]
"""Version, offset, most bytes of the partition and of all, and whether it reads committed records."""

VERSIONS, LIMITS = st.integers(4, 18), st.sampled_from((1 << 20, 1 << 20, 150, 1))
WAITERS = st.lists(
    st.tuples(VERSIONS, st.sampled_from((2, 2, 2, 1)), LIMITS, LIMITS, st.booleans()), min_size=2, max_size=8
)


def responses(waiters: Sequence[Waiter], values: Sequence[bytes]) -> tuple[list[list[bytes]], int]:
    """What each of these gets when records arrive at once, and the bytes counted."""
    server = MemoryBroker().start()
    try:
        server.create("t")
        producer = server.connect()
        for value in (b"a", b"b"):
            producer.produce(a_batch(value))
        clients = []
        for version, offset, partition_bytes, max_bytes, committed in waiters:
            client = server.connect()
            client.send(
                fetch_request(
                    [("t", 0, offset)],
                    server if version >= 13 else None,
                    partition_max_bytes=partition_bytes,
                    max_bytes=max_bytes,
                    max_wait_ms=500,
                    isolation_level=int(committed),
                ),
                version,
            )
            clients.append(client)
        for value in values:
            producer.produce(a_batch(value))
        producer.turn(0.6)
        found = [client.frames() for client in clients]
        return found, server.broker.kafka_server.router.find(FetchHandlers).totals.bytes_sent
    finally:
        server.close()


class SharedFetchTests(HandlerCase):
    """Against the same without sharing."""

    @settings(deadline=None, max_examples=settings.default.max_examples // 4)
    @given(WAITERS, st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=4))
    def test_same_bytes(self, waiters: list[Waiter], values: list[bytes]) -> None:
        """Whoever waits, for whatever, in whatever version."""
        with patch.object(module, "MOST_SHARED", -1):
            alone = responses(waiters, values)
        self.assertEqual(responses(waiters, values), alone)

    def test_one_is_encoded(self) -> None:
        """The response is made once for all that read the same."""
        encoded: list[FetchTemplate] = []
        original = FetchTemplate.found

        def found(template: FetchTemplate, *result: Any) -> Parts:
            encoded.append(template)
            return original(template, *result)

        self.patch(FetchTemplate, "found", found)
        clients = [self.server.connect() for _ in range(5)]
        for client in clients:
            client.send(fetch_request([("t", 0, 0)], max_wait_ms=500), 12)
        self.client.produce(a_batch(b"all the same"))
        self.client.turn()
        for client in clients:
            [answer] = client.answers()
            self.assertIn(b"all the same", content(answer.responses[0].partitions[0]))
        self.assertEqual(len(encoded), 1)

"""The element budget."""

from __future__ import annotations

import tracemalloc
from time import process_time

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import BudgetExceeded, DecodeError
from logbus.wire.element_budget import REQUEST_ELEMENTS, RESPONSE_ELEMENTS, UNAUTHENTICATED_ELEMENTS, element_budget
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.records import FetchRequest
from logbus.wire.schema import decode, encode
from tests.wire.golden import octets


class ElementBudgetTests(SynchronousTestCase):
    """How many elements a message of some size may have."""

    def test_grows_with_the_size(self) -> None:
        """Small messages get little, large ones more, none more than the limit."""
        self.assertEqual(element_budget(0), 64)
        self.assertEqual(element_budget(4000), 1064)
        self.assertEqual(element_budget(100 << 20), REQUEST_ELEMENTS)
        self.assertEqual(element_budget(100 << 20, UNAUTHENTICATED_ELEMENTS), UNAUTHENTICATED_ELEMENTS)
        self.assertEqual(element_budget(4000, UNAUTHENTICATED_ELEMENTS), UNAUTHENTICATED_ELEMENTS)
        self.assertEqual(element_budget(1 << 20, RESPONSE_ELEMENTS), 64 + (1 << 18))

    def test_honest_messages_fit(self) -> None:
        """The densest things clients send, lists of partition numbers and of short names, stay within it."""
        names = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{n}") for n in range(20_000)])
        for version in (1, 9, 12):
            (data,) = encode(names, version)
            self.assertEqual(decode(MetadataRequest, version, bytes(data))[0], names)  # type: ignore[arg-type]


class HostileTests(SynchronousTestCase):
    """Counts that lie cost next to nothing."""

    FETCH_HEAD = "00 00 00 00  00 00 00 00  7f ff ff ff  00  00 00 00 00  ff ff ff ff"

    def test_cheap_to_refuse(self) -> None:
        """Refusing a huge count takes little memory, however it is encoded."""
        for version, text in (
            (12, f"ff ff ff ff {self.FETCH_HEAD} ff ff ff ff 0f"),
            (12, f"ff ff ff ff {self.FETCH_HEAD} 02 02 61 ff ff ff ff 0f"),
            (7, f"ff ff ff ff {self.FETCH_HEAD} 7f ff ff ff"),
            (7, f"ff ff ff ff {self.FETCH_HEAD} 00 00 00 00 00 00 00 01 00 00 7f ff ff ff"),
        ):
            data = octets(text)
            self.assertRaises(BudgetExceeded, decode, FetchRequest, version, data)
            tracemalloc.start()
            self.assertRaises(BudgetExceeded, decode, FetchRequest, version, data)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertLess(peak, 10_000)

    def test_nested_products(self) -> None:
        """A thousand topics of a thousand partitions each stop at the budget, not at a million."""
        topic = octets("02 61  e9 07") + (bytes(32) + b"\0") * 1000 + b"\0"
        data = octets(f"ff ff ff ff {self.FETCH_HEAD} e9 07") + topic * 1000
        before = process_time()
        self.assertRaises(BudgetExceeded, decode, FetchRequest, 12, data)
        # A million partitions take several times this, on any machine that runs the first hundred thousand in it.
        self.assertLess(process_time() - before, 2)

    def test_small_frames_are_held_short(self) -> None:
        """One-byte elements cannot buy more than a quarter of the frame's size."""
        self.assertRaises(DecodeError, decode, MetadataRequest, 0, octets("00 00 03 e8") + bytes(2000))

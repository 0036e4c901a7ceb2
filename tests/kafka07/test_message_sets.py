"""Tests of :mod:`logbus.kafka07.message_sets`; the client of the tests has its own encoding."""

from __future__ import annotations

import gzip

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.kafka07.message_sets import (
    OVERHEAD,
    InvalidMessage,
    encode_message,
    payloads,
)
from tests.kafka07 import client

CONTENT = st.lists(st.binary(max_size=50), max_size=8)


class Messages(SynchronousTestCase):
    @given(CONTENT, st.sampled_from([0, 1]))
    def test_what_a_client_writes(self, content: list[bytes], magic: int) -> None:
        """
        The payloads of a set come back, of either magic; so do those of a compressed set, in their place.
        """
        plain = [client.message(each, magic) for each in content]
        self.assertEqual(list(payloads(b"".join(plain))), content)
        for codec in (client.GZIP, client.SNAPPY):
            mixed = [*plain[:1], client.compressed(codec, *plain[1:])]
            self.assertEqual(list(payloads(b"".join(mixed))), content)

    @given(CONTENT)
    def test_what_a_client_reads(self, content: list[bytes]) -> None:
        """
        A message takes ten bytes and its payload; clients read what is written.
        """
        data = b"".join(map(encode_message, content))
        self.assertEqual(len(data), sum(OVERHEAD + len(each) for each in content))
        read, end = client.read_set(data, 7)
        self.assertEqual(([each.payload for each in read], end), (content, 7 + len(data)))

    @given(st.binary(max_size=80))
    def test_garbage(self, data: bytes) -> None:
        """
        Any bytes are a set, or an error of their own.
        """
        try:
            list(payloads(data))
        except InvalidMessage:
            pass

    @given(CONTENT.filter(bool), st.integers(0, 10_000), st.integers(1, 255))
    def test_damage(self, content: list[bytes], at: int, change: int) -> None:
        """
        A set that was cut, or has a changed byte, is refused, unless the change is in what nothing protects: another
        magic or attribute that is as good, or the length of a message whose payload still fits its CRC.
        """
        whole = b"".join(client.message(each) for each in content)
        sizes = {0}
        for each in content:
            sizes.add(max(sizes) + OVERHEAD + len(each))
        cut = at % len(whole)
        if cut not in sizes:
            self.assertRaises(InvalidMessage, lambda: list(payloads(whole[:cut])))
        changed = bytearray(whole)
        changed[cut] ^= change
        try:
            found = list(payloads(bytes(changed)))
        except InvalidMessage:
            return
        self.assertEqual(found, content)

    def test_refused(self) -> None:
        """
        What 0.7 has not, and bombs.
        """
        inner = client.compressed(client.GZIP, client.message(b"x"))
        for data, words in (
            (client.message(b"", 1, 3), "codec 3"),
            (client.message(b"x")[:4] + b"\x02" + client.message(b"x")[5:], "magic 2"),
            (client.compressed(client.GZIP, inner), "compressed message in it"),
            (client.message(b"no gzip", 1, 1), "damaged"),
            (client.message(gzip.compress(bytes(1 << 20)), 1, 1), "more than 100000"),
            (client.compressed(client.GZIP, *[client.message(b"")] * 2000), "with 64 for each"),
        ):
            with self.assertRaisesRegex(InvalidMessage, words):
                list(payloads(data, 100_000))

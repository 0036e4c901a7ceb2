"""
The proofs by which two brokers convince each other that they are brokers of one cluster: HMACs of all that they have
said, keyed by a secret that is never sent. Pure.

Each side draws a nonce for each connection, so that a proof is of no use on another one. The proofs of the two sides
differ, so that none can be sent back to its maker. With TLS they cover the connection itself (RFC 9266), so that nobody
can stand in the middle and pass on proofs; without TLS somebody who can may use the connection that they open.
"""

from __future__ import annotations

import hmac
import struct
from hashlib import sha256

from attrs import field, frozen

NONCE_BYTES = 32
"""Length of a nonce."""


@frozen
class BrokerChallenge:
    """
    The values that both sides of a connection have sent.

    :ivar sender_id: the broker that has connected, ``sender_epoch`` its registration, and ``sender_level`` its feature
        level.
    :ivar receiver_id: the broker that was connected to, and its feature level.
    :ivar channel: identifies the TLS connection; empty without TLS.
    """

    cluster_id: str
    sender_id: int
    sender_epoch: int
    sender_level: int
    sender_nonce: bytes = field(repr=False)
    receiver_id: int
    receiver_level: int
    receiver_nonce: bytes = field(repr=False)
    channel: bytes = field(repr=False)

    def proof_of_receiver(self, secret: bytes) -> bytes:
        """Return what proves that the receiver knows the secret."""
        return self._proof(secret, b"logbus broker: receiver")

    def proof_of_sender(self, secret: bytes) -> bytes:
        """Return what proves that the sender knows the secret."""
        return self._proof(secret, b"logbus broker: sender")

    def _proof(self, secret: bytes, role: bytes) -> bytes:
        numbers = (self.sender_id, self.sender_epoch, self.sender_level, self.receiver_id, self.receiver_level)
        texts = (role, self.cluster_id.encode(), self.sender_nonce, self.receiver_nonce, self.channel)
        # Each text with its length: no two challenges are the same bytes.
        said = b"".join(struct.pack(">I", len(text)) + text for text in texts)
        return hmac.digest(secret, struct.pack(">iqhih", *numbers) + said, sha256)


def is_same(proof: bytes, expected: bytes) -> bool:
    """Compare two proofs, in the same time wherever they differ."""
    return hmac.compare_digest(proof, expected)

"""The proofs of brokers."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any

from attrs import asdict, evolve
from hypothesis import given
from hypothesis import strategies as st

from logbus.security.broker_challenge import BrokerChallenge, is_same

SECRET = b"secret of the brokers"
challenges = st.builds(
    BrokerChallenge,
    st.text(max_size=4),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 2),
    st.binary(max_size=3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.binary(max_size=3),
    st.binary(max_size=3),
)


def test_golden_bytes() -> None:
    """The HMAC of all that was said, each text with its length."""
    challenge = BrokerChallenge("c", 1, 2, 4, b"n", 3, 4, b"mm", b"")
    said = (
        b"\0\0\0\1" b"\0\0\0\0\0\0\0\2" b"\0\4" b"\0\0\0\3" b"\0\4"
        b"\0\0\0\x15logbus broker: sender"
        b"\0\0\0\1c" b"\0\0\0\1n" b"\0\0\0\2mm" b"\0\0\0\0"
    )  # fmt: skip
    assert challenge.proof_of_sender(SECRET) == hmac.new(SECRET, said, sha256).digest()
    assert challenge.proof_of_receiver(SECRET) != challenge.proof_of_sender(SECRET)


@given(challenges, challenges)
def test_different_words(one: BrokerChallenge, other: BrokerChallenge) -> None:
    """Different challenges have different proofs; none is that of the other role, or with another secret."""
    same = asdict(one) == asdict(other)
    assert is_same(one.proof_of_sender(SECRET), other.proof_of_sender(SECRET)) == same
    assert not is_same(one.proof_of_sender(SECRET), other.proof_of_receiver(SECRET))
    assert not is_same(one.proof_of_sender(SECRET), one.proof_of_sender(b"another"))


@given(challenges, st.data())
def test_each_field_counts(challenge: BrokerChallenge, data: Any) -> None:
    """A proof is for these brokers, this connection and these nonces only."""
    name = data.draw(st.sampled_from(sorted(asdict(challenge))))
    value = getattr(challenge, name)
    longer = value + 1 if isinstance(value, int) else value + (b"x" if isinstance(value, bytes) else "x")
    changed = evolve(challenge, **{name: longer})
    assert not is_same(challenge.proof_of_receiver(SECRET), changed.proof_of_receiver(SECRET))

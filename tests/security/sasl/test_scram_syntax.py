"""The messages of SCRAM."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logbus.security.sasl.scram_syntax import ClientFirst, ServerFirst, escaped


@given(st.text(min_size=1).filter(lambda name: "\0" not in name), st.sampled_from(["", "a"]))
def test_names(name: str, authzid: str) -> None:
    """Any name comes through, whatever must be escaped in it."""
    acting_as = f"a={escaped(authzid)}" if authzid else ""
    parsed = ClientFirst.parse(f"n,{acting_as},n={escaped(name)},r=x,tokenauth=true".encode())
    assert (parsed.user, parsed.authzid, parsed.extensions) == (name, authzid, {"tokenauth": "true"})


@given(st.binary(), st.integers(1, 1_000_000))
def test_the_servers_first_message(salt: bytes, iterations: int) -> None:
    """A client reads what the server writes."""
    sent = ServerFirst.of("nonce", salt, iterations)
    assert ServerFirst.parse(sent.text.encode()) == sent

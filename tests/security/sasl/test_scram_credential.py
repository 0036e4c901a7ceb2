"""What the server knows of passwords."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.security.sasl.scram_credential import SCRAM_DIGESTS, ScramCredential, salt_text


@given(st.sampled_from(sorted(SCRAM_DIGESTS)), st.binary(max_size=40), st.integers(1, 1_000_000))
def test_kafkas_text(mechanism: str, salt: bytes, iterations: int) -> None:
    """A credential is read back as it was written."""
    credential = ScramCredential.from_salted(mechanism, b"salted", salt, iterations)
    assert ScramCredential.decode(credential.encode()) == credential


def test_the_text_that_kafka_writes() -> None:
    """The fields have Kafka's names and order; here for the password of RFC 7677."""
    credential = ScramCredential.make(
        "SCRAM-SHA-256", "pencil", 4096, b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81"
    )
    assert credential.encode() == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "without salt"),
        ("salt=YQ==,stored_key=YQ==,server_key=YQ==", "without iterations"),
        ("salt=secret!,stored_key=YQ==,server_key=YQ==,iterations=4096", "base64"),
        ("salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=many", "no number"),
        ("salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=1000001", "1000001 iterations"),
    ],
)
def test_no_credential(text: str, why: str) -> None:
    """An error says what is missing, and quotes no keys."""
    with pytest.raises(ValueError, match=why) as caught:
        ScramCredential.decode(text)
    assert "secret" not in str(caught.value)


def test_nothing_secret_is_shown() -> None:
    """The keys are not in the representation, which may get into logs."""
    assert "key" not in repr(ScramCredential.make("SCRAM-SHA-512", "pencil"))


def test_salts_are_printable() -> None:
    """Salts are digits of base 36, as Kafka's."""
    assert salt_text(0) == b"0"
    assert salt_text(36**2 + 35) == b"10z"

"""The lines of sasl.jaas.config."""

from __future__ import annotations

import pytest

from logbus.security.sasl.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_users_and_own_credentials() -> None:
    """A line has the broker's own name and password, and those of users; quoted or not."""
    entry = parse_jaas(
        f'{PLAIN} required username="broker" password=\'it"s\'\n  user_alice="a\\"b;" user_bob=plain user_a.b-c="x" ;'
    )
    assert entry.module == PLAIN
    assert entry.options["username"] == "broker"
    assert entry.options["password"] == 'it"s'
    assert entry.users == {"alice": 'a"b;', "bob": "plain", "a.b-c": "x"}
    assert "plain" not in repr(entry).replace(PLAIN, "")


def test_no_options() -> None:
    """A module may stand alone, as that of SCRAM."""
    assert parse_jaas("ScramLoginModule required;").users == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        PLAIN,
        f'{PLAIN} user_alice="secret";',
        f'{PLAIN} required user_alice="secret"',
        f'{PLAIN} required user_alice="secret',
        f'{PLAIN} required user_alice="secret"; more',
        f'{PLAIN} required user_alice="secret" user_alice="secret2";',
    ],
)
def test_wrong_lines(text: str) -> None:
    """What is wrong is said without the password."""
    with pytest.raises(ValueError, match=r"shape|twice") as caught:
        parse_jaas(text)
    assert "secret" not in str(caught.value)

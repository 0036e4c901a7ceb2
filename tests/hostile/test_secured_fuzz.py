"""A share of the inputs of :mod:`tests.hostile.secured_fuzz`, and that it would see what it looks for."""

from __future__ import annotations

import pytest

from logbus.net import sasl_login
from logbus.security.sasl.sasl_session import SaslSession
from tests.hostile.secured_fuzz import KINDS, ROUND, Round, Wrong, run


def test_nothing_gets_past_the_login_and_the_guards() -> None:
    """One round of each kind."""
    sent = run(ROUND * len(KINDS), seed=1)
    assert sent.total() == ROUND * len(KINDS)
    assert sent["scram"] and sent["oauthbearer"] and sent["plain"] and sent["powerless"] and sent["administrators"]


def test_a_right_too_many_is_seen() -> None:
    """Who should have no rights, but has all."""
    with pytest.raises(Wrong, match="the powerless see"):
        Round(1, config={"super.users": "User:ANONYMOUS;User:root;User:mallory"}).run("powerless", ROUND)


def test_a_way_around_the_login_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of clients that have not logged in."""
    monkeypatch.setattr(SaslSession, "check", lambda self, key: None)
    monkeypatch.setattr(sasl_login, "_early", lambda wire: wire)
    with pytest.raises(Wrong, match="strangers"):
        Round(1).run("strangers", ROUND)

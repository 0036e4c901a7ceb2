"""logbus.cli.commands.tokens: delegation tokens by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from logbus.cli import runner
from logbus.cli.commands.tokens import tokens
from logbus.client.admin.token_admin import DelegationToken

TOKEN = DelegationToken("id", "aG1hYw==", "User:ann", "User:ann", ("User:bob",), 1000, 2000, 3000)
Asked = list[tuple[Any, ...]]


class FakeAdmin:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: Asked = []

    def create_delegation_token(self, *, owner: str | None, renewers: tuple[str, ...], max_lifetime_ms: int) -> Any:
        self.asked.append((owner, renewers, max_lifetime_ms))
        return TOKEN

    def describe_delegation_tokens(self, owners: tuple[str, ...] | None) -> Any:
        self.asked.append((owners,))
        return [TOKEN]

    def renew_delegation_token(self, password: str, period_ms: int) -> int:
        self.asked.append((password, period_ms))
        return 5000

    expire_delegation_token = renew_delegation_token


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """Stands for the admin client of a cluster."""
    fake = FakeAdmin()

    def with_admin(bootstrap: str, timeout: float, work: Callable[[Any], Any], *more: Any, **options: Any) -> Any:
        return work(fake)

    monkeypatch.setattr(runner, "with_admin", with_admin)
    return fake


def logbus(*arguments: str, stdin: str = "") -> str:
    done = CliRunner().invoke(tokens, arguments, input=stdin, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_create(admin: FakeAdmin) -> None:
    """The password is printed once, when the token is made."""
    assert TOKEN.password in logbus("create")
    made = json.loads(logbus("create", "--owner", "User:ann", "--renewer", "User:bob", "--max-hours", "0.5", "--json"))
    assert (made["id"], made["password"], made["ends_at_last"]) == ("id", TOKEN.password, 3000)
    assert admin.asked == [(None, (), -1), ("User:ann", ("User:bob",), 1_800_000)]


def test_list(admin: FakeAdmin) -> None:
    """Tokens are listed without their passwords."""
    for arguments in (("list",), ("list", "--owner", "User:ann", "--json")):
        shown = logbus(*arguments)
        assert "User:bob" in shown
        assert TOKEN.password not in shown
    assert admin.asked == [(None,), (("User:ann",),)]


@pytest.mark.parametrize("command", ["renew", "expire"])
def test_renew_and_expire(admin: FakeAdmin, command: str, tmp_path: Path) -> None:
    """The password comes from a file, standard input or the terminal, never from the command line."""
    (tmp_path / "token").write_text(f"{TOKEN.password}\n")
    assert "the token ends at" in logbus(command, "--password-file", str(tmp_path / "token"), "--hours", "2")
    logbus(command, "--password-file", "-", stdin=f"{TOKEN.password}\n")
    assert TOKEN.password not in logbus(command, stdin=f"{TOKEN.password}\n")
    assert admin.asked == [(TOKEN.password, 7_200_000), (TOKEN.password, -1), (TOKEN.password, -1)]

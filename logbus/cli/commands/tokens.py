"""The ``logbus tokens`` commands: delegation tokens (Kafka: kafka-delegation-tokens)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logbus.cli.number_types import FloatRange
from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.client.admin.token_admin import DelegationToken

F = TypeVar("F", bound=Callable[..., Any])

_HOUR_MS = 3_600_000


def _password_option(command: F) -> F:
    return click.option(
        "--password-file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
        help="Its first line is the token's password; - is standard input. Asked for by default.",
    )(command)


def _hours_option(option: str, text: str) -> Callable[[F], F]:
    return click.option(option, "hours", type=FloatRange(min=0, max=87_600), help=text)


@click.group()
def tokens() -> None:
    """Create, show, renew and end delegation tokens.

    A token stands for a user for a limited time: who has its id and its password logs in by SCRAM, and says that it is
    a token (tokenauth=true). Brokers give tokens to clients that have logged in, but not by a token.

    \b
    Example:
      logbus tokens create --renewer User:spark --max-hours 24
      logbus tokens list
    """


@tokens.command(short_help="Create a token, and print it with its password.")
@click.option("--owner", metavar="PRINCIPAL", help="Whom it stands for, such as User:alice; yourself by default.")
@click.option("--renewer", "renewers", metavar="PRINCIPAL", multiple=True, help="Who may renew it. May be repeated.")
@_hours_option("--max-hours", "Hours after which it cannot be renewed any more; by default as the broker says.")
@json_option
@bootstrap_options
def create(
    owner: str | None, renewers: tuple[str, ...], hours: float | None, as_json: bool, bootstrap: str, timeout: float
) -> None:
    """Create a token, and print it with its password.

    \b
    Example:
      logbus tokens create --renewer User:spark --max-hours 24
    """
    from logbus.cli.runner import with_admin

    made = with_admin(
        bootstrap,
        timeout,
        lambda admin: admin.create_delegation_token(owner=owner, renewers=renewers, max_lifetime_ms=_ms(hours)),
    )
    if as_json:
        print_json({**_fields(made), "password": made.password})
    else:
        print_table(["id", "password", "ends", "ends at last"], [_row(made, made.password)])


@tokens.command("list", short_help="Print tokens, without their passwords.")
@click.option(
    "--owner", "owners", metavar="PRINCIPAL", multiple=True, help="Only those of a principal. May be repeated."
)
@json_option
@bootstrap_options
def list_tokens(owners: tuple[str, ...], as_json: bool, bootstrap: str, timeout: float) -> None:
    """Print the tokens that you may see, without their passwords.

    \b
    Example:
      logbus tokens list --owner User:alice
    """
    from logbus.cli.runner import with_admin

    found = with_admin(bootstrap, timeout, lambda admin: admin.describe_delegation_tokens(owners or None))
    _show(sorted(found, key=lambda each: (each.owner, each.token_id)), as_json)


@tokens.command(short_help="Renew a token.")
@_password_option
@_hours_option("--hours", "For so long from now; by default as the broker says.")
@bootstrap_options
def renew(password_file: Path | None, hours: float | None, bootstrap: str, timeout: float) -> None:
    """Let a token live longer.

    \b
    Example:
      logbus tokens renew --password-file token.txt
    """
    from logbus.cli.password import read_password
    from logbus.cli.runner import with_admin

    password = read_password(password_file, "the token", confirm=False)
    ends = with_admin(bootstrap, timeout, lambda admin: admin.renew_delegation_token(password, _ms(hours)))
    click.echo(f"the token ends at {_time(ends)}")


@tokens.command(short_help="End a token.")
@_password_option
@_hours_option("--hours", "So long from now; at once by default.")
@bootstrap_options
def expire(password_file: Path | None, hours: float | None, bootstrap: str, timeout: float) -> None:
    """End a token, so that nobody logs in by it any more. Clients that have logged in stay until their session ends.

    \b
    Example:
      logbus tokens expire --password-file token.txt
    """
    from logbus.cli.password import read_password
    from logbus.cli.runner import with_admin

    password = read_password(password_file, "the token", confirm=False)
    ends = with_admin(bootstrap, timeout, lambda admin: admin.expire_delegation_token(password, _ms(hours)))
    click.echo(f"the token ends at {_time(ends)}")


def _ms(hours: float | None) -> int:
    return -1 if hours is None else int(hours * _HOUR_MS)


def _time(at_ms: int) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(timespec="seconds")


def _row(token: DelegationToken, second: str) -> list[str]:
    return [token.token_id, second, _time(token.expiry_ms), _time(token.max_ms)]


def _fields(token: DelegationToken) -> dict[str, object]:
    return {
        "id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": token.issue_ms,
        "ends": token.expiry_ms,
        "ends_at_last": token.max_ms,
    }


def _show(found: Iterable[DelegationToken], as_json: bool) -> None:
    if as_json:
        print_json([_fields(each) for each in found])
    elif rows := [[*_row(each, each.owner), ", ".join(each.renewers)] for each in found]:
        print_table(["id", "owner", "ends", "ends at last", "renewers"], rows)

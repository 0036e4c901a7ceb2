"""
``kafka-delegation-tokens``: creates, renews, ends and prints delegation tokens (Kafka: DelegationTokenCommand, KIP-48).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from twisted.internet.defer import Deferred

from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import java_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import T, with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.token_admin import DelegationToken
from logbus.client.cluster.cluster import Cluster
from logbus.client.validators import InvalidOption
from logbus.errors import ApiError

_ACTIONS = ("create", "renew", "expire", "describe")
_ONE_ACTION = "Command must include exactly one action: --create, --renew, --expire or --describe"
_PERIODS = {"create": "max-life-time-period", "renew": "renew-time-period", "expire": "expiry-time-period"}
_SUBJECT = "delegation token"
_BITS = 64

PARSER = OptionParser(
    "Creates, renews, ends and prints delegation tokens.",
    [
        Option("create", help="Create a token for the user who has logged in, and print it."),
        Option("renew", help="Let a token live longer."),
        Option("expire", help="End a token."),
        Option("describe", help="Print the tokens that one may see."),
        Option("owner-principal", "owner principal", "An owner, as User:alice; may be repeated."),
        Option("renewer-principal", "renewer principal", "Who may renew the token, as User:bob; may be repeated."),
        Option("max-life-time-period", "max life", "Milliseconds; -1: as the broker says.", bits=_BITS),
        Option("renew-time-period", "renew time", "Milliseconds from now; -1: as the broker says.", bits=_BITS),
        Option("expiry-time-period", "expiry time", "Milliseconds from now; -1: at once.", bits=_BITS),
        Option("hmac", "hmac", "The token's code, as it was printed."),
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    options.require("bootstrap-server", "command-config")
    action = options.only_one(_ACTIONS, _ONE_ACTION)
    period = _PERIODS.get(action)
    if period is not None:
        options.require(period)
    if action in ("renew", "expire"):
        options.require("hmac")
    for others in (each for name, each in _PERIODS.items() if name != action):
        options.forbid(action, [others])
    owners, renewers = options.values("owner-principal"), options.values("renewer-principal")
    for each in (*owners, *renewers):
        kind, _, name = each.partition(":")
        if not kind or not name:
            raise UsageError(f"expected a string in format principalType:principalName but got {each}")
    if len(owners) > 1 and action == "create":
        raise UsageError("a token has one owner; give --owner-principal once")
    try:
        _carry_out(options, action, owners, renewers)
    except ApiError as e:
        complain(java_text(e, _SUBJECT))
        return 1
    except InvalidOption as e:
        raise UsageError(f"--hmac: {e}") from None
    return 0


def _carry_out(options: ParsedOptions, action: str, owners: list[str], renewers: list[str]) -> None:
    if action == "describe":
        said = f"owners: [{', '.join(owners)}]" if owners else "current user."
        say(f"Calling describe token operation for {said}")
        found = _asked(options, lambda admin: admin.describe_delegation_tokens(owners or None))
        say(f"Total number of tokens : {len(found)}", end="")
        _print(found)
        return
    period_ms = options.integer(_PERIODS[action])
    assert period_ms is not None
    if action == "create":
        shown = f"renewers :[{', '.join(renewers)}] , max-life-time-period :{period_ms}"
        say(f"Calling create token operation with {shown}")
        owner = owners[0] if owners else None
        made = _asked(
            options,
            lambda admin: admin.create_delegation_token(owner=owner, renewers=renewers, max_lifetime_ms=period_ms),
        )
        say(f"Created delegation token with tokenId : {made.token_id}")
        _print([made])
        return
    code = options.text("hmac")
    name = "expire" if action == "expire" else "renew"
    say(f"Calling {name} token operation with hmac :{code} , {name}-time-period :{period_ms}")
    if action == "renew":
        ends = _asked(options, lambda admin: admin.renew_delegation_token(code, period_ms))
    else:
        ends = _asked(options, lambda admin: admin.expire_delegation_token(code, period_ms))
    say(f"Completed {name} operation. New expiry date : {_time(ends)}")


def _asked(options: ParsedOptions, ask: Callable[[AdminClient], Deferred[T]]) -> T:
    async def work(cluster: Cluster, admin: AdminClient) -> T:
        return await ask(admin)

    return with_cluster(options, work)


def _print(tokens: Iterable[DelegationToken]) -> None:
    for line in token_lines(tokens):
        say(f"\n{line}", end="")
        say()


def token_lines(tokens: Iterable[DelegationToken]) -> list[str]:
    """The head of the table, and a line for each token."""
    rows = [("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")]
    for each in tokens:
        times = (_time(each.issue_ms), _time(each.expiry_ms), _time(each.max_ms))
        renewers = f"[{', '.join(each.renewers)}]"
        rows.append((each.token_id, each.password, each.owner, each.requester, renewers, *times))
    widths = (15, 30, 15, 15, 25, 15, 15, 15)
    return [" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%dT%H:%M")

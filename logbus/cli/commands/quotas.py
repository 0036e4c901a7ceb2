"""The ``logbus quotas`` commands: quotas of users, client ids and addresses (Kafka: kafka-configs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logbus.cli.options import bootstrap_options, json_option, parse_pairs
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.admin.quota_admin import QuotaEntity
    from logbus.errors import ApiError

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULT = "default"


def _entity_options(command: F) -> F:
    for option, parameter, metavar, what in (
        ("--ip", "ip", "ADDRESS", "address"),
        ("--client-id", "client_id", "ID", "client id"),
        ("--user", "user", "NAME", "user"),
    ):
        command = click.option(
            f"{option}-default", f"{parameter}_default", is_flag=True, help=f"Of each {what} without its own."
        )(command)
        article = "an" if what == "address" else "a"
        more = "; with --user, of that user's" if what == "client id" else ""
        command = click.option(option, parameter, metavar=metavar, help=f"Of {article} {what}{more}.")(command)
    return command


@click.group()
def quotas() -> None:
    """Show and change quotas of users, client ids and addresses.

    Users and client ids have producer_byte_rate, consumer_byte_rate (bytes a second), request_percentage (of a
    processor's time) and controller_mutation_rate (partitions a second); addresses have connection_creation_rate
    (connections a second).

    \b
    Example:
      logbus quotas set --user alice producer_byte_rate=1048576
      logbus quotas set --user-default --client-id app request_percentage=50
      logbus quotas list
    """


@quotas.command("list", short_help="Print all quotas.")
@json_option
@bootstrap_options
def list_quotas(as_json: bool, bootstrap: str, timeout: float) -> None:
    """Print all quotas.

    \b
    Example:
      logbus quotas list --json
    """
    _show(None, as_json, bootstrap, timeout)


@quotas.command(short_help="Show the quotas of an entity.")
@_entity_options
@json_option
@bootstrap_options
def describe(as_json: bool, bootstrap: str, timeout: float, **parts: Any) -> None:
    """Show the quotas of a user, a client id, or an address.

    \b
    Example:
      logbus quotas describe --user alice --client-id app
    """
    _show(_entity(**parts), as_json, bootstrap, timeout)


@quotas.command("set", short_help="Set quotas of an entity.")
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...")
@_entity_options
@click.option("--validate-only", is_flag=True, help="Only check whether the change is valid.")
@bootstrap_options
def set_quotas(values: tuple[str, ...], validate_only: bool, bootstrap: str, timeout: float, **parts: Any) -> None:
    """Set quotas; others keep their values.

    \b
    Example:
      logbus quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152
      logbus quotas set --ip-default connection_creation_rate=10
    """
    changes: dict[str, float | None] = {}
    for key, text in parse_pairs(values, "KEY=VALUE", "producer_byte_rate=1048576").items():
        try:
            changes[key] = float(text)
        except ValueError:
            raise click.BadParameter(f"{key} is {text!r}; a quota is a number", param_hint="KEY=VALUE") from None
    _alter(_entity(**parts), changes, validate_only, bootstrap, timeout)


@quotas.command("delete", short_help="Remove quotas of an entity.")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@_entity_options
@bootstrap_options
def delete_quotas(keys: tuple[str, ...], bootstrap: str, timeout: float, **parts: Any) -> None:
    """Remove quotas of an entity: those named, or all.

    \b
    Example:
      logbus quotas delete --user alice producer_byte_rate
      logbus quotas delete --user alice
    """
    from logbus.cli.runner import CommandFailed, raise_errors, with_admin

    entity = _entity(**parts)

    async def work(admin: AdminClient) -> dict[QuotaEntity, ApiError | None]:
        there = (await admin.describe_client_quotas(entity)).get(entity, {})
        missing = [key for key in keys if key not in there]
        if missing or not there:
            raise CommandFailed(f"{entity} has no quota {', '.join(missing)}".rstrip())
        return await admin.alter_client_quotas({entity: dict.fromkeys(keys or there)})

    raise_errors(with_admin(bootstrap, timeout, work))


def _show(entity: QuotaEntity | None, as_json: bool, bootstrap: str, timeout: float) -> None:
    from logbus.cli.runner import with_admin

    found = with_admin(bootstrap, timeout, lambda admin: admin.describe_client_quotas(entity))
    ordered = sorted(found.items(), key=lambda item: str(item[0]))
    if as_json:
        print_json([{"entity": dict(each.parts), "quotas": values} for each, values in ordered])
    elif ordered:
        rows = [[str(each), key, f"{value:.15g}"] for each, values in ordered for key, value in sorted(values.items())]
        print_table(["entity", "quota", "value"], rows)


def _alter(
    entity: QuotaEntity, changes: dict[str, float | None], validate_only: bool, bootstrap: str, timeout: float
) -> None:
    from logbus.cli.runner import raise_errors, with_admin

    asked = {entity: changes}
    raise_errors(
        with_admin(bootstrap, timeout, lambda admin: admin.alter_client_quotas(asked, validate_only=validate_only))
    )


def _entity(**parts: Any) -> QuotaEntity:
    from logbus.client.admin.quota_admin import QuotaEntity

    found: dict[str, str | None] = {}
    for parameter in ("user", "client_id", "ip"):
        kind = parameter.replace("_", "-")
        name, is_default = parts[parameter], parts[f"{parameter}_{_DEFAULT}"]
        if name is not None and is_default:
            raise click.UsageError(f"give either --{kind} or --{kind}-default")
        if name is not None or is_default:
            found[kind] = name
    if not found or ("ip" in found and len(found) > 1):
        raise click.UsageError(
            "give --user, --client-id, both of them, or --ip; or their defaults, such as --user-default"
        )
    return QuotaEntity.of(found)

"""The ``logbus configs`` commands: show and change settings of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING

import click

from logbus.cli.options import bootstrap_options, json_option, parse_pairs
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.admin.config_admin import Resource
    from logbus.errors import ApiError

_KINDS = click.Choice(["topic", "broker", "group", "logger"])


@click.group()
def configs() -> None:
    """Show and change settings.

    KIND is topic, broker, group, or logger for what a broker logs, until it is started again. NAME is the name of the
    topic or group, or the broker's id; "all" means the defaults of all brokers.

    \b
    Example:
      logbus configs describe topic orders
      logbus configs set topic orders retention.ms=60000
      logbus configs delete topic orders retention.ms
      logbus configs set logger 0 logbus.cluster=DEBUG
    """


@configs.command()
@click.argument("kind", type=_KINDS)
@click.argument("name")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--all", "everything", is_flag=True, help="Also settings at their defaults.")
@click.option("--doc", is_flag=True, help="Describe each setting.")
@json_option
@bootstrap_options
def describe(
    kind: str,
    name: str,
    keys: tuple[str, ...],
    everything: bool,
    doc: bool,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Show settings of a topic, broker or group: those that are set, those named, or all with --all.

    \b
    Example:
      logbus configs describe topic orders --all
      logbus configs describe broker 0 num.partitions --json
    """
    from logbus.cli.runner import results, with_admin
    from logbus.client.admin.config_admin import ConfigSource

    resource = _resource(kind, name)
    (answer,) = results(with_admin(bootstrap, timeout, lambda admin: admin.describe_configs([resource])))
    entries = {each.name: each for each in answer}
    _check_known(kind, name, keys, entries)
    shown = [
        each
        for each in sorted(entries.values(), key=lambda each: each.name)
        if each.name in keys or (not keys and (everything or each.source is not ConfigSource.DEFAULT))
    ]
    if as_json:
        print_json(
            [
                {
                    "name": each.name,
                    "value": each.value,
                    "source": each.source.name.lower(),
                    "read_only": each.read_only,
                    "sensitive": each.sensitive,
                    **({"documentation": each.documentation} if doc else {}),
                }
                for each in shown
            ]
        )
        return
    rows = []
    for each in shown:
        value = "(secret)" if each.sensitive and each.value is None else each.value
        row = [each.name, value, each.source.name.lower().replace("_", " ") + (", read only" if each.read_only else "")]
        rows.append([*row, each.documentation] if doc else row)
    if rows:
        print_table(["setting", "value", "from", *(["for"] if doc else [])], rows)


@configs.command("set")
@click.argument("kind", type=_KINDS)
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.option("--validate-only", is_flag=True, help="Only check whether the change is valid.")
@bootstrap_options
def set_configs(
    kind: str, name: str, settings: tuple[str, ...], validate_only: bool, bootstrap: str, timeout: float
) -> None:
    """Change settings; others keep their values.

    \b
    Example:
      logbus configs set topic orders retention.ms=60000 cleanup.policy=compact,delete
    """
    _alter(kind, name, parse_pairs(settings, "KEY=VALUE"), validate_only, bootstrap, timeout)


@configs.command("delete")
@click.argument("kind", type=_KINDS)
@click.argument("name")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@bootstrap_options
def delete_configs(kind: str, name: str, keys: tuple[str, ...], bootstrap: str, timeout: float) -> None:
    """Reset settings to their defaults.

    \b
    Example:
      logbus configs delete topic orders retention.ms
    """
    from logbus.cli.runner import raise_errors, results, with_admin

    resource = _resource(kind, name)

    async def work(admin: AdminClient) -> dict[Resource, ApiError | None]:
        # A broker takes any key, as Kafka does. Of loggers and of "all" it lists only those that are set.
        if kind != "logger" and name != "all":
            (entries,) = results(await admin.describe_configs([resource]))
            _check_known(kind, name, keys, {each.name for each in entries})
        return await admin.alter_configs({resource: dict.fromkeys(keys)})

    raise_errors(with_admin(bootstrap, timeout, work))


def _alter(
    kind: str, name: str, changes: Mapping[str, str], validate_only: bool, bootstrap: str, timeout: float
) -> None:
    from logbus.cli.runner import raise_errors, with_admin

    asked = {_resource(kind, name): changes}
    raise_errors(with_admin(bootstrap, timeout, lambda admin: admin.alter_configs(asked, validate_only=validate_only)))


def _check_known(kind: str, name: str, keys: Iterable[str], known: Container[str]) -> None:
    from logbus.cli.runner import CommandFailed

    unknown = [key for key in keys if key not in known]
    if unknown:
        raise CommandFailed(f"{kind} {name} has no setting {', '.join(map(repr, unknown))}")


def _resource(kind: str, name: str) -> Resource:
    from logbus.client.admin.config_admin import Resource, ResourceType

    if kind in ("topic", "group"):
        return Resource(ResourceType[kind.upper()], name)
    if kind == "logger" and name.isascii() and name.isdigit():
        return Resource(ResourceType.LOGGER, name)
    if kind == "logger":
        raise click.BadParameter(f"{name!r} is not a broker's id, such as 0", param_hint="NAME")
    if name != "all" and not (name.isascii() and name.isdigit()):
        raise click.BadParameter(f"{name!r} is not a broker's id, such as 0, nor 'all'", param_hint="NAME")
    return Resource(ResourceType.BROKER, "" if name == "all" else name)

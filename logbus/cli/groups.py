"""``logbus groups``: list, describe, delete; what moves offsets is in :mod:`logbus.cli.group_offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logbus.cli.group_offsets import delete_offsets, export_offsets, import_offsets, reset_offsets
from logbus.cli.options import bootstrap_options, group_id, json_option
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.cli.lags import Report
    from logbus.client.cluster import Cluster
    from logbus.client.groups import ListedGroup

_STATES = ("Empty", "Assigning", "Reconciling", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")


@click.group()
def groups() -> None:
    """Show consumer groups, how far they have read, and set where they go on.

    \b
    Example:
      logbus groups describe billing
      logbus groups reset-offsets billing --topic orders --to-earliest --execute
    """


@groups.command("list", short_help="Print all groups, or those of some states and types.")
@click.option(
    "--state", "-s", "states", multiple=True, type=click.Choice(_STATES, case_sensitive=False), help="Only in this one."
)
@click.option(
    "--type",
    "-t",
    "types",
    multiple=True,
    type=click.Choice(("classic", "consumer"), case_sensitive=False),
    help="Only of this one: which protocol its members speak.",
)
@json_option
@bootstrap_options
def list_groups(states: tuple[str, ...], types: tuple[str, ...], as_json: bool, bootstrap: str, timeout: float) -> None:
    """Print all groups; with --state and --type (each may be repeated) only some.

    \b
    Example:
      logbus groups list
      logbus groups list --state stable --json
    """
    from logbus.cli.running import with_cluster
    from logbus.client.admin import AdminClient

    async def work(cluster: Cluster) -> list[ListedGroup]:
        return await AdminClient(cluster, timeout=timeout).list_groups(states=states, types=types)

    found = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(
            [
                {
                    "group": each.group_id,
                    "type": each.type,
                    "state": each.state,
                    "protocol_type": each.protocol_type,
                    "coordinator": each.coordinator,
                }
                for each in found
            ]
        )
    elif found:
        print_table(
            ["group", "type", "state", "protocol", "coordinator"],
            [[each.group_id, each.type, each.state, each.protocol_type or None, each.coordinator] for each in found],
        )


@groups.command(short_help="Show offsets, lag and members of groups.")
@click.argument("names", nargs=-1, type=group_id, metavar="[GROUP]...")
@click.option("--offsets", "view", flag_value="offsets", help="What each partition's offset is. The default.")
@click.option("--members", "view", flag_value="members", help="Its members instead, and what they read.")
@click.option("--state", "view", flag_value="state", help="Only its state, in a line.")
@json_option
@bootstrap_options
def describe(names: tuple[str, ...], view: str | None, as_json: bool, bootstrap: str, timeout: float) -> None:
    """Show groups (all, if none is named): for each partition the offset that is committed, the end of the log, how
    many records are between (the lag), and which member reads it.

    \b
    Example:
      logbus groups describe billing
      logbus groups describe billing --members
      logbus groups describe --state
      logbus groups describe billing --json | jq .[0].lag
    """
    from logbus.cli import lags
    from logbus.cli.running import with_cluster
    from logbus.client.admin import AdminClient

    async def work(cluster: Cluster) -> list[Report]:
        admin = AdminClient(cluster, timeout=timeout)
        wanted = names or [each.group_id for each in await admin.list_groups()]
        return await lags.reports(admin, await lags.described(admin, wanted, gone_is_fine=not names))

    found = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json([lags.as_json(each) for each in found])
    elif view == "state":
        if found:
            print_table(lags.STATE_HEAD, [lags.state_row(each) for each in found])
    else:
        head, rows = (
            (lags.OFFSETS_HEAD, lags.offset_rows) if view != "members" else (lags.MEMBERS_HEAD, lags.member_rows)
        )
        for number, each in enumerate(found):
            if number:
                click.echo()
            click.echo(lags.headline(each))
            shown = list(rows(each))
            if shown:
                print_table(head, shown)


@groups.command(short_help="Delete groups without members.")
@click.argument("names", nargs=-1, required=True, type=group_id, metavar="GROUP...")
@bootstrap_options
def delete(names: tuple[str, ...], bootstrap: str, timeout: float) -> None:
    """Delete groups without members, with all that they committed.

    \b
    Example:
      logbus groups delete billing
    """
    from logbus.cli.running import with_cluster
    from logbus.cli.topics import finish
    from logbus.client.admin import AdminClient

    async def work(cluster: Cluster) -> None:
        finish(await AdminClient(cluster, timeout=timeout).delete_groups(names))

    with_cluster(bootstrap, timeout, work)


for _command in (reset_offsets, delete_offsets, export_offsets, import_offsets):
    groups.add_command(_command)

"""
The ``logbus groups`` commands (Kafka: ConsumerGroupCommand); :mod:`logbus.cli.commands.groups_offsets` has those for
offsets.
"""

from __future__ import annotations

import click

from logbus.cli.commands.groups_offsets import delete_offsets, export_offsets, import_offsets, reset_offsets
from logbus.cli.options import bootstrap_options, group_id, json_option
from logbus.cli.output import print_json, print_table

_STATES = (
    "Empty",
    "NotReady",
    "Assigning",
    "Reconciling",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
)


@click.group()
def groups() -> None:
    """Show consumer groups and their lag, reset their offsets.

    \b
    Example:
      logbus groups describe billing
      logbus groups reset-offsets billing --topic orders --to-earliest --execute
    """


@groups.command("list", short_help="Print all groups, or those with certain states and types.")
@click.option(
    "--state",
    "-s",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(_STATES, case_sensitive=False),
    help=f"Only groups in this state: {', '.join(_STATES)}.",
)
@click.option(
    "--type",
    "-t",
    "types",
    multiple=True,
    type=click.Choice(("classic", "consumer", "share", "streams"), case_sensitive=False),
    help="Only groups of this protocol.",
)
@json_option
@bootstrap_options
def list_groups(states: tuple[str, ...], types: tuple[str, ...], as_json: bool, bootstrap: str, timeout: float) -> None:
    """Print all groups, or those with a given --state and --type (each may be repeated).

    \b
    Example:
      logbus groups list
      logbus groups list --state stable --json
    """
    from logbus.cli.runner import with_admin

    found = with_admin(bootstrap, timeout, lambda admin: admin.list_groups(states=states, types=types))
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
@click.option("--offsets", "view", flag_value="offsets", help="Show the offset and lag of each partition. The default.")
@click.option("--members", "view", flag_value="members", help="Show the members and their assignments.")
@click.option("--state", "view", flag_value="state", help="Show one line with the state.")
@json_option
@bootstrap_options
def describe(names: tuple[str, ...], view: str | None, as_json: bool, bootstrap: str, timeout: float) -> None:
    """Show groups (all, if none is named): for each partition the committed offset, the end of the log, the number of
    records between them (the lag), and the member it is assigned to.

    \b
    Example:
      logbus groups describe billing
      logbus groups describe billing --members
      logbus groups describe --state
      logbus groups describe billing --json | jq .[0].lag
    """
    from logbus.cli.groups import group_lag
    from logbus.cli.runner import with_admin

    found = with_admin(bootstrap, timeout, lambda admin: group_lag.reports_of(admin, names))
    if as_json:
        print_json([group_lag.as_json(each) for each in found])
    elif view == "state":
        if found:
            print_table(group_lag.STATE_HEAD, [group_lag.state_row(each) for each in found])
    else:
        head, rows = (
            (group_lag.OFFSETS_HEAD, group_lag.offset_rows)
            if view != "members"
            else (group_lag.MEMBERS_HEAD, group_lag.member_rows)
        )
        for number, each in enumerate(found):
            if number:
                click.echo()
            click.echo(group_lag.headline(each))
            shown = list(rows(each))
            if shown:
                print_table(head, shown)


@groups.command(short_help="Delete groups without members.")
@click.argument("names", nargs=-1, required=True, type=group_id, metavar="GROUP...")
@bootstrap_options
def delete(names: tuple[str, ...], bootstrap: str, timeout: float) -> None:
    """Delete groups without members, and their committed offsets.

    \b
    Example:
      logbus groups delete billing
    """
    from logbus.cli.runner import raise_errors, with_admin

    raise_errors(with_admin(bootstrap, timeout, lambda admin: admin.delete_groups(names)))


for _command in (reset_offsets, delete_offsets, export_offsets, import_offsets):
    groups.add_command(_command)

"""``kafka-groups``: lists groups of all kinds (Kafka: GroupsCommand)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.consumer_group_report import Table
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.group_results import ListedGroup
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, LogbusError

_TYPES = ("classic", "consumer", "share", "streams")
_KINDS = ("consumer", "share", "streams")

PARSER = OptionParser(
    "Lists groups of all kinds.",
    [
        Option("list", help="Print the groups."),
        Option("group-type", "type", f"Only groups of a type: {', '.join(_TYPES)}."),
        Option("protocol", "protocol", "Only groups of a protocol, such as consumer."),
        Option("consumer", help="Only consumer groups, classic and simple ones among them."),
        Option("share", help="Only share groups."),
        Option("streams", help="Only streams groups."),
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    if not options.has("list"):
        raise UsageError("Command must include exactly one action: --list.")
    options.require("bootstrap-server")
    wanted = wanted_groups(options)

    async def work(cluster: Cluster, admin: AdminClient) -> Sequence[ListedGroup]:
        return await admin.list_groups()

    try:
        found = with_cluster(options, work)
    except LogbusError as e:
        complain(f"Error: {broker_text(e) if isinstance(e, ApiError) else e}")
        return 1
    rows = [(each.group_id, _type(each).capitalize(), each.protocol_type) for each in found if wanted(each)]
    for number, line in enumerate(Table(["GROUP", "TYPE", "PROTOCOL"], [20, 20, 20], rows).lines()):
        # Kafka's rows, but not their heads, have a blank behind them.
        say(f"{line} " if number else line)
    return 0


def wanted_groups(options: ParsedOptions) -> Callable[[ListedGroup], bool]:
    """
    Which groups the options choose.

    :raise UsageError: they are wrong, or do not go together.
    """
    for kind in _KINDS:
        options.forbid(kind, [each for each in (*_KINDS, "group-type", "protocol") if each != kind])
    group_type, protocol = options.value("group-type"), options.value("protocol")
    if group_type is not None and group_type.lower() not in _TYPES:
        raise UsageError(f"--group-type must be a valid group type: {', '.join(_TYPES)}, and not {group_type}")
    if options.has("consumer"):
        return lambda group: (
            _type(group) == "consumer" or (_type(group) == "classic" and group.protocol_type in ("consumer", ""))
        )
    kinds = [each for each in ("share", "streams") if options.has(each)]
    wanted = kinds[0] if kinds else None if group_type is None else group_type.lower()
    return lambda group: wanted in (None, _type(group)) and protocol in (None, group.protocol_type)


def _type(group: ListedGroup) -> str:
    """Brokers before 3.7 do not tell it; they have classic groups only."""
    return group.type.lower() or "classic"

"""The ``logbus mirror`` command: copies topics of one cluster to another."""

from __future__ import annotations

from pathlib import Path

import click

from logbus.cli.options import checked_addresses, naming_option, timeout_option


@click.command()
@click.option(
    "--from",
    "source",
    metavar="HOST:PORT",
    required=True,
    callback=checked_addresses,
    help="A broker of the cluster to read, or several, separated by commas.",
)
@click.option(
    "--to",
    "target",
    metavar="HOST:PORT",
    required=True,
    callback=checked_addresses,
    help="The same of the cluster to write to.",
)
@click.option(
    "--from-name",
    metavar="ALIAS",
    default="source",
    show_default=True,
    help="What the cluster to read is called: its topic orders becomes ALIAS.orders.",
)
@click.option(
    "--to-name",
    metavar="ALIAS",
    default="target",
    show_default=True,
    help="What the cluster to write to is called: topics that come from there are not sent back.",
)
@click.option(
    "--topics",
    "-t",
    multiple=True,
    metavar="REGEX",
    help="Topics to copy, by their whole names; several are separated by commas, or the option is repeated.  [default: "
    "all]",
)
@click.option("--exclude", "-x", multiple=True, metavar="REGEX", help="Topics not to copy; likewise.")
@naming_option
@click.option(
    "--groups",
    "-g",
    multiple=True,
    metavar="REGEX",
    help="Groups whose offsets are translated.  [default: all but those of console consumers and Kafka Connect]",
)
@click.option(
    "--sync-groups",
    is_flag=True,
    help="Commit translated offsets for groups that have no members in the cluster to write to.",
)
@click.option(
    "--start",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
    help="Where to begin in a partition of which nothing was copied yet.",
)
@click.option("--until-end", "-e", is_flag=True, help="End when all that is there now is copied.")
@click.option("--rate", type=click.IntRange(min=1), metavar="BYTES", help="Copy at most so many bytes per second.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    help="Seconds that a transaction may collect records: how late they may be.",
)
@click.option(
    "--refresh-interval",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    help="Seconds after which new topics, partitions and settings are looked for.",
)
@click.option(
    "--checkpoint-interval",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds between translations of groups' offsets; 0: none.",
)
@click.option(
    "--heartbeat-interval",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Seconds between heartbeats; 0: none.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of topics that are created.  [default: as many as they have now, if there are so many brokers]",
)
@click.option("--no-sync-settings", is_flag=True, help="Do not copy changes of topics' settings.")
@click.option(
    "--sync-acls",
    is_flag=True,
    help="Give the rights on topics also on their copies; that to write only with --naming identity.",
)
@click.option(
    "--on-recreated",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    show_default=True,
    help="Whether a topic that was deleted and created anew is left alone, or copied behind its old records.",
)
@click.option(
    "--on-too-large",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="Whether a record that is larger than the target takes stops its partition, or is left out.",
)
@click.option(
    "--from-config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="How to connect to the cluster to read: security.protocol, ssl.* and sasl.* of Kafka's clients.",
)
@click.option(
    "--to-config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The same for the cluster to write to.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve metrics for Prometheus on this port of 127.0.0.1, as /metrics.",
)
@timeout_option
def mirror(
    source: str,
    target: str,
    from_name: str,
    to_name: str,
    topics: tuple[str, ...],
    exclude: tuple[str, ...],
    naming: str,
    groups: tuple[str, ...],
    sync_groups: bool,
    start: str,
    until_end: bool,
    rate: int | None,
    interval: float,
    refresh_interval: float,
    checkpoint_interval: float,
    heartbeat_interval: float,
    replication_factor: int | None,
    no_sync_settings: bool,
    sync_acls: bool,
    on_recreated: str,
    on_too_large: str,
    from_config: Path | None,
    to_config: Path | None,
    metrics_port: int | None,
    timeout: float,
) -> None:
    """Copy topics of one cluster to another, with their settings and the offsets of groups, until Ctrl-C. Either may be
    one of Apache Kafka.

    Each record is copied exactly once: if the mirror is killed, start it again with the same names of the clusters. A
    second one with these names takes over from the first.

    \b
    Example:
      logbus mirror --from paris:9092 --from-name paris --to rome:9092 --to-name rome
      logbus mirror --from old:9092 --to new:9092 --naming identity --topics 'orders,bills-.*' --sync-groups
      logbus mirror --from old:9092 --to new:9092 --naming identity --until-end
    """
    from logbus.cli.mirror_run import MirrorSides, run_mirror
    from logbus.cli.runner import CommandFailed
    from logbus.errors import ConfigError
    from logbus.mirror.mirror_options import MirrorOptions
    from logbus.mirror.name_filter import GROUPS_EXCLUDED, TOPICS_EXCLUDED, NameFilter, all_expressions

    try:
        options = MirrorOptions(
            source=from_name,
            target=to_name,
            naming=naming,
            topics=NameFilter(all_expressions(topics) or [".*"], [*TOPICS_EXCLUDED, *all_expressions(exclude)]),
            groups=NameFilter(all_expressions(groups) or [".*"], () if groups else GROUPS_EXCLUDED),
            sync_groups=sync_groups,
            sync_settings=not no_sync_settings,
            sync_acls=sync_acls,
            start=start,  # type: ignore[arg-type]
            on_recreated=on_recreated,  # type: ignore[arg-type]
            on_too_large=on_too_large,  # type: ignore[arg-type]
            replication_factor=replication_factor,
            rate=rate,
            interval=interval,
            refresh_interval=refresh_interval,
            checkpoint_interval=checkpoint_interval,
            heartbeat_interval=heartbeat_interval,
            until_end=until_end,
        )
    except ConfigError as e:
        raise click.UsageError(str(e)) from None
    sides = MirrorSides.of(source, from_config, target, to_config, timeout)
    status = run_mirror(sides, options, metrics_port)
    if status.problems:
        raise CommandFailed("not everything was copied: " + "; ".join(status.problems.values()))

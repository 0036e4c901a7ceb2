"""The ``logbus mirror`` command: copies topics of one cluster to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from logbus.cli.mirror_options import GivenSettings, mirror_key_options, mirror_options_of
from logbus.cli.number_types import IntRange
from logbus.cli.options import checked_addresses
from logbus.config import keys


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
@mirror_key_options
@click.option("--until-end", "-e", is_flag=True, help="End when all that is there now is copied.")
@click.option(
    "--flow",
    metavar="NAME",
    help="What this mirror is called, if several run from one cluster to the other: each with topics of its own.",
)
@click.option(
    "--from-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="How to connect to the cluster to read: security.protocol, ssl.* and sasl.* of Kafka's clients.",
)
@click.option(
    "--to-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The same for the cluster to write to.",
)
@click.option(
    "--metrics-port",
    type=IntRange(0, 65535),
    help="Serve metrics for Prometheus on this port of 127.0.0.1, as /metrics.",
)
def mirror(
    source: str,
    target: str,
    until_end: bool,
    flow: str | None,
    from_config: Path | None,
    to_config: Path | None,
    metrics_port: int | None,
    **given: Any,
) -> None:
    """Copy topics of one cluster to another, with their settings and the offsets of groups, until Ctrl-C. Either may be
    one of Apache Kafka.

    Each record is copied exactly once: if the mirror is killed, start it again with the same names of the clusters. A
    second one with these names takes over from the first, unless it has another --flow.

    A cluster can run mirrors itself: these options are also configuration keys of brokers, such as mirror.on.too.large.

    \b
    Example:
      logbus mirror --from paris:9092 --from-name paris --to rome:9092 --to-name rome
      logbus mirror --from old:9092 --to new:9092 --naming identity --topics 'orders,bills-.*' --sync-groups
      logbus mirror --from old:9092 --to new:9092 --naming identity --until-end
    """
    from logbus.cli.mirror_run import MirrorSides, run_mirror
    from logbus.cli.runner import CommandFailed

    options = mirror_options_of(given, flow, until_end)
    timeout = GivenSettings(given).get(keys.MIRROR_TIMEOUT_SECONDS)
    sides = MirrorSides.of(source, from_config, target, to_config, timeout)
    status = run_mirror(sides, options, metrics_port)
    if status.problems:
        raise CommandFailed("not everything was copied: " + "; ".join(status.problems.values()))

"""The ``logbus cluster start`` command: runs a cluster on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from logbus.cli.number_types import FloatRange, IntRange
from logbus.cli.options import parse_pairs

RESERVED_KEYS = {
    "broker.id": "they are numbered from 0",
    "listeners": "--port says where they listen",
    "advertised.listeners": "--port says where they listen",
    "log.dir": "--data-dir says where their logs are",
    "log.dirs": "--data-dir says where their logs are",
    "zookeeper.connect": "--zookeeper names another",
}
"""Keys that ``--set`` must not contain, since each broker has its own value, and what to do instead."""


@click.command()
@click.option("--brokers", "-n", type=IntRange(1, 99), default=3, show_default=True, help="Number of brokers.")
@click.option(
    "--data-dir",
    "-d",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("logbus-cluster"),
    show_default=True,
    help="The directory for all data; a restart with the same directory continues the cluster.",
)
@click.option(
    "--zookeeper",
    "-z",
    metavar="CONNECT",
    help="HOST:PORT/CHROOT of a running ZooKeeper. Default: start Debian's, with its data in --data-dir.",
)
@click.option(
    "--port",
    type=IntRange(0, 65000),
    default=9092,
    show_default=True,
    help="Port of the first broker; the others use the next ones. 0: any free ports.",
)
@click.option(
    "--admin-port",
    type=IntRange(0, 65000),
    default=8080,
    show_default=True,
    help="HTTP port of the first broker (metrics, health, REST).",
)
@click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting for all brokers.")
@click.option(
    "--restart-after",
    type=FloatRange(min=-1),
    default=5.0,
    show_default=True,
    help="Seconds until a crashed broker is restarted; -1: never.",
)
def start(
    brokers: int,
    data_dir: Path,
    zookeeper: str | None,
    port: int,
    admin_port: int,
    settings: tuple[str, ...],
    restart_after: float,
) -> None:
    """Run a cluster on this machine until Ctrl-C, to try it out.

    By default, topics have three replicas and min.insync.replicas=2, as far as there are enough brokers. On one machine
    that protects against the loss of a broker, not of the machine; --set changes it.

    \b
    Example:
      logbus cluster start --brokers 3 --data-dir /tmp/cluster
      logbus topics describe -b 127.0.0.1:9092
    """
    from logbus.cli.supervisor import Supervisor
    from logbus.metastore.connect_string import ConnectString

    if zookeeper is not None:
        ConnectString.parse(zookeeper)
    given = parse_pairs(settings, "--set")
    for name in sorted(RESERVED_KEYS.keys() & given):
        raise click.BadParameter(f"{name} is not the same for all brokers; {RESERVED_KEYS[name]}", param_hint="--set")
    config = {**settings_for(brokers), **given}

    def say(line: str) -> None:
        click.echo(line)

    Supervisor(data_dir.absolute(), brokers, zookeeper, config, port, admin_port, restart_after, say).run()


def settings_for(brokers: int) -> dict[str, str]:
    """Return the settings of a cluster of this size that differ from a single broker's."""
    factor = str(min(3, brokers))
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": "2" if brokers >= 3 else "1",
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": "2" if brokers >= 3 else "1",
        "min.insync.replicas": "2" if brokers >= 3 else "1",
        "zookeeper.session.timeout.ms": "6000",
    }

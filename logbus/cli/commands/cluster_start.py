"""``logbus cluster start``."""

from __future__ import annotations

from pathlib import Path

import click

from logbus.cli.options import parse_pairs

RESERVED_KEYS = {
    "broker.id": "they are numbered from 0",
    "listeners": "--port says where they listen",
    "advertised.listeners": "--port says where they listen",
    "log.dir": "--data-dir says where their logs are",
    "log.dirs": "--data-dir says where their logs are",
    "zookeeper.connect": "--zookeeper names another",
}
"""What ``--set`` must not say, as each broker is given its own, and what to do instead."""


@click.command()
@click.option("--brokers", "-n", type=click.IntRange(1, 99), default=3, show_default=True, help="How many.")
@click.option(
    "--data-dir",
    "-d",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("logbus-cluster"),
    show_default=True,
    help="Where everything is kept; started again with the same, the cluster goes on.",
)
@click.option(
    "--zookeeper",
    "-z",
    metavar="CONNECT",
    help="HOST:PORT/CHROOT of a ZooKeeper that runs. Default: Debian's is started, and keeps its data there, too.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65000),
    default=9092,
    show_default=True,
    help="Of the first broker; the others have the next ones. 0: free ones.",
)
@click.option(
    "--admin-port",
    type=click.IntRange(0, 65000),
    default=8080,
    show_default=True,
    help="The same for HTTP (metrics, health, REST).",
)
@click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of all brokers.")
@click.option(
    "--restart-after",
    type=click.FloatRange(min=-1),
    default=5.0,
    show_default=True,
    help="Seconds until a broker that crashed is started again; -1: never.",
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
    """Run a cluster on this machine, until Ctrl-C: for trying it out.

    Topics have three replicas by default, and two must be in sync, where there are that many brokers. On one machine
    that survives a broker, not the machine; --set changes it.

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
    """What a cluster of that size has different from a single broker."""
    factor = str(min(3, brokers))
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": "2" if brokers >= 3 else "1",
        "min.insync.replicas": "2" if brokers >= 3 else "1",
        "zookeeper.session.timeout.ms": "6000",
    }

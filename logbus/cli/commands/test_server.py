"""The ``logbus test-server`` command: runs brokers for the tests of programs in any language."""

from __future__ import annotations

from pathlib import Path

import click

from logbus.cli.options import parse_pairs


@click.command()
@click.option(
    "--port-file",
    "-f",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A file that does not exist yet. The addresses are written there, as JSON, once clients are served. "
    "Default: standard output.",
)
@click.option(
    "--brokers",
    "-n",
    type=click.IntRange(1, 25),
    default=1,
    show_default=True,
    help="Number of brokers.",
)
@click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting for all brokers.")
@click.option(
    "--own-process",
    is_flag=True,
    help="Run each broker as a process of its own, which can be killed and frozen; several need ZooKeeper.",
)
@click.option("--detached", is_flag=True, help="Do not end with the parent process.")
@click.option("--log-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Log to this file.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Seconds to wait for a start or a stop.",
)
def test_server(
    port_file: Path | None,
    brokers: int,
    settings: tuple[str, ...],
    own_process: bool,
    detached: bool,
    log_file: Path | None,
    timeout: float,
) -> None:
    """Run a broker, or a cluster, for tests in any language.

    It uses free ports and a temporary directory, which is removed at the end. It ends with its parent process, at
    SIGTERM and Ctrl-C. Tests control it over HTTP, with the token of the port file: topics, resets, restarts, crashes.

    \b
    Example:
      logbus test-server --port-file /tmp/server.json
      logbus test-server --brokers 3 --set num.partitions=6
    """
    from logbus.testing.server.options import ServerOptions
    from logbus.testing.server.run import run_server

    run_server(
        ServerOptions(
            port_file=None if port_file is None else port_file.absolute(),
            brokers=brokers,
            config=parse_pairs(settings, "--set"),
            own_process=own_process,
            detached=detached,
            log_file=log_file,
            timeout=timeout,
        )
    )

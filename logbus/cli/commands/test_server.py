"""The ``logbus test-server`` command: runs brokers for the tests of programs in any language."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from pathlib import Path

import click

from logbus.cli.number_types import FloatRange, IntRange
from logbus.cli.options import parse_pairs


def _known_release(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    from logbus.wire.kafka_releases import RELEASES  # Help does without.

    if value is not None and value not in RELEASES:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(RELEASES)}.")
    return value


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
    type=IntRange(1, 25),
    default=1,
    show_default=True,
    help="Number of brokers.",
)
@click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting for all brokers.")
@click.option(
    "--as-version",
    metavar="RELEASE",
    callback=_known_release,
    help="Advertise only what this Kafka release has, such as 2.8.  [default: the newest]",
)
@click.option(
    "--own-process",
    is_flag=True,
    help="Run each broker as a process of its own, which can be killed and frozen; several need ZooKeeper.",
)
@click.option("--detached", is_flag=True, help="Do not end with the parent process.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Listen on this IPv4 address, as 0.0.0.0."
)
@click.option("--port", type=IntRange(0, 65535), default=0, help="For Kafka clients.  [default: a free one]")
@click.option("--admin-port", type=IntRange(0, 65535), default=0, help="For HTTP.  [default: a free one]")
@click.option(
    "--control-port", type=IntRange(0, 65535), default=0, help="For the tests' control.  [default: a free one]"
)
@click.option("--advertise", metavar="HOST:PORT", help="The address that Kafka clients are told.")
@click.option(
    "--token",
    envvar="LOGBUS_TEST_SERVER_TOKEN",
    show_envvar=True,
    help="What the control interface demands.  [default: a random one]",
)
@click.option("--log-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Log to this file.")
@click.option(
    "--timeout",
    type=FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Seconds to wait for a start or a stop.",
)
def test_server(
    port_file: Path | None,
    brokers: int,
    settings: tuple[str, ...],
    as_version: str | None,
    own_process: bool,
    detached: bool,
    host: str,
    port: int,
    admin_port: int,
    control_port: int,
    advertise: str | None,
    token: str | None,
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
    from logbus.testing.placement import Placement
    from logbus.testing.server.options import ServerOptions
    from logbus.testing.server.run import run_server

    _check_host(host)
    _check_token(token)
    advertised = None if advertise is None else _address(advertise)
    placed = advertised is not None or port or admin_port or host != "127.0.0.1"
    run_server(
        ServerOptions(
            port_file=None if port_file is None else port_file.absolute(),
            brokers=brokers,
            config=parse_pairs(settings, "--set"),
            as_version=as_version,
            own_process=own_process,
            detached=detached,
            placement=Placement(host, {"kafka": port, "admin": admin_port}, advertised) if placed else Placement(),
            control_port=control_port,
            token=token,
            log_file=log_file,
            timeout=timeout,
        )
    )


def _check_host(host: str) -> None:
    try:
        IPv4Address(host)
    except ValueError:
        raise click.BadParameter(f"{host!r} is no IPv4 address, such as 0.0.0.0", param_hint="--host") from None


def _check_token(token: str | None) -> None:
    if token is not None and not re.fullmatch(r"[A-Za-z0-9._~+/-]+=*", token):
        raise click.BadParameter("it has other characters than letters, digits and ._~+/-", param_hint="--token")


def _address(text: str) -> tuple[str, int]:
    """A host and a port."""
    found = re.fullmatch(r"([A-Za-z0-9._-]+):([0-9]{1,5})", text)
    if found is None or not 0 < int(found[2]) < 65536:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, such as localhost:9092", param_hint="--advertise")
    return found[1], int(found[2])

"""The ``logbus cluster shutdown-broker`` command: a controlled shutdown over HTTP."""

from __future__ import annotations

import http.client
import time
from pathlib import Path

import click

from logbus.cli.admin_api import FAILURES, AdminApi, admin_options
from logbus.cli.number_types import FloatRange, IntRange

PAUSE_SECONDS = 0.1


@click.command("shutdown-broker")
@click.argument("broker", type=IntRange(min=0))
@admin_options
@click.option("--force", is_flag=True, help="Even if partitions lose their leader, or refuse acks=all.")
@click.option("--timeout", type=FloatRange(min=0.001), default=60.0, show_default=True, help="Seconds to wait.")
def shutdown_broker(
    broker: int,
    admin: str,
    user: str,
    password_file: Path | None,
    ca: Path | None,
    force: bool,
    timeout: float,
) -> None:
    """Stop a broker in order: its leaderships move to other brokers first. Returns when the broker has stopped.

    Refused if partitions would have no leader, or fewer in-sync replicas than min.insync.replicas.

    \b
    Example:
      logbus cluster shutdown-broker 1 --admin http://127.0.0.1:8081
      logbus cluster shutdown-broker 1 --admin https://broker-1:8443 --ca ca.pem --user admin --password-file admin.txt
    """
    from logbus.cli.runner import CommandFailed

    api = AdminApi.of(admin, user, password_file, ca, timeout)
    deadline = time.monotonic() + timeout
    try:
        answering = api.ask("GET", "/api/v1/cluster")[1].get("broker", broker)
        status, answer = api.ask(
            "POST", f"/api/v1/brokers/{broker}/shutdown", {"force": force}, _seconds_until(deadline)
        )
    except FAILURES as e:
        raise CommandFailed(api.no_answer(e)) from None
    if status != http.client.ACCEPTED:
        why = api.refusal(status, answer)
        if status == http.client.CONFLICT and "force" in why:
            # The rest of the message is about the REST interface.
            why = f"{why.partition(';')[0]}; --force stops it all the same"
        raise CommandFailed(f"broker {broker} was not stopped: {why}")
    while _listens(api.host, api.port) if answering == broker else _is_alive(api, broker, deadline):
        if time.monotonic() > deadline:
            raise CommandFailed(f"broker {broker} is stopping, and had not stopped after {timeout:g} s")
        time.sleep(PAUSE_SECONDS)
    click.echo(f"broker {broker} has stopped")


def _seconds_until(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)


def _is_alive(api: AdminApi, broker: int, deadline: float) -> bool:
    """Ask another broker; while it does not say, the broker counts as alive."""
    try:
        path = f"/api/v1/brokers/{broker}"
        return api.ask("GET", path, timeout=_seconds_until(deadline))[0] != http.client.NOT_FOUND
    except FAILURES:
        return True


def _listens(host: str, port: int) -> bool:
    import socket

    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True

"""The ``logbus cluster shutdown-broker`` command: a controlled shutdown over HTTP."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any
from urllib.parse import urlsplit

import click

PAUSE_SECONDS = 0.1


@click.command("shutdown-broker")
@click.argument("broker", type=click.IntRange(min=0))
@click.option(
    "--admin",
    metavar="URL",
    default="http://127.0.0.1:8080",
    show_default=True,
    help="HTTP address of this broker's admin listener.",
)
@click.option("--force", is_flag=True, help="Even if partitions lose their leader, or refuse acks=all.")
@click.option("--timeout", type=click.FloatRange(min=0.001), default=60.0, show_default=True, help="Seconds to wait.")
def shutdown_broker(broker: int, admin: str, force: bool, timeout: float) -> None:
    """Stop a broker in order: its leaderships move to other brokers first. Returns when the broker has stopped.

    Refused if partitions would have no leader, or fewer in-sync replicas than min.insync.replicas.

    \b
    Example:
      logbus cluster shutdown-broker 1 --admin http://127.0.0.1:8081
    """
    from logbus.cli.runner import CommandFailed

    url = urlsplit(admin if "//" in admin else f"//{admin}")
    try:
        host, port = url.hostname, url.port or 80
    except ValueError:
        host, port = None, 0
    if host is None or url.scheme not in ("", "http"):
        raise click.BadParameter(f"{admin!r} is not an address such as http://127.0.0.1:8080", param_hint="--admin")
    try:
        status, answer = _post(host, port, f"/api/v1/brokers/{broker}/shutdown", {"force": force}, timeout)
    except (OSError, http.client.HTTPException, ValueError) as e:
        raise CommandFailed(f"{host}:{port}: {e}; is this the admin listener of a broker?") from None
    if status != http.client.ACCEPTED:
        why = str(answer.get("detail", status))
        if status == http.client.CONFLICT and "force" in why:
            # The rest of the message is about the REST interface.
            why = f"{why.partition(';')[0]}; --force stops it all the same"
        raise CommandFailed(f"broker {broker} was not stopped: {why}")
    deadline = time.monotonic() + timeout
    while _listens(host, port):
        if time.monotonic() > deadline:
            raise CommandFailed(f"broker {broker} is stopping, and had not stopped after {timeout:g} s")
        time.sleep(PAUSE_SECONDS)
    click.echo(f"broker {broker} has stopped")


def _post(host: str, port: int, path: str, body: Any, timeout: float) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        return response.status, answer if isinstance(answer, dict) else {}
    finally:
        connection.close()


def _listens(host: str, port: int) -> bool:
    import socket

    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True

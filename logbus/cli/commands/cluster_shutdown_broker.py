"""The ``logbus cluster shutdown-broker`` command: a controlled shutdown over HTTP."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path
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
    help="HTTP address of the admin listener of this broker, or of another one.",
)
@click.option("--user", metavar="NAME", default="", help="Log in as this user; the password is asked for.")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    default=None,
    help="Read the password from here; -: from standard input.",
)
@click.option(
    "--ca",
    type=click.Path(path_type=Path),
    default=None,
    help="Certificates of authorities to trust, for https; else the system's.",
)
@click.option("--force", is_flag=True, help="Even if partitions lose their leader, or refuse acks=all.")
@click.option("--timeout", type=click.FloatRange(min=0.001), default=60.0, show_default=True, help="Seconds to wait.")
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
    from logbus.cli.password import read_password
    from logbus.cli.runner import CommandFailed

    url = urlsplit(admin if "//" in admin else f"//{admin}")
    has_tls = url.scheme == "https"
    try:
        host, port = url.hostname, url.port or (443 if has_tls else 80)
    except ValueError:
        host, port = None, 0
    if host is None or url.scheme not in ("", "http", "https"):
        raise click.BadParameter(f"{admin!r} is not an address such as http://127.0.0.1:8080", param_hint="--admin")
    if ca is not None and not has_tls:
        raise click.BadParameter("only https has certificates", param_hint="--ca")
    headers = {"Content-Type": "application/json"}
    if user:
        password = read_password(password_file, f"user {user}", confirm=False)
        headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def ask(method: str, path: str, body: str | None = None) -> tuple[int, dict[str, Any]]:
        return _ask(_connect(host, port, timeout, has_tls, ca), method, path, body, headers)

    try:
        answering = ask("GET", "/api/v1/cluster")[1].get("broker", broker)
        status, answer = ask("POST", f"/api/v1/brokers/{broker}/shutdown", json.dumps({"force": force}))
    except (OSError, http.client.HTTPException, ValueError) as e:
        raise CommandFailed(f"{host}:{port}: {e}; is this the admin listener of a broker?") from None
    if status != http.client.ACCEPTED:
        why = str(answer.get("detail", status))
        if status == http.client.CONFLICT and "force" in why:
            # The rest of the message is about the REST interface.
            why = f"{why.partition(';')[0]}; --force stops it all the same"
        if status == http.client.UNAUTHORIZED and not user:
            why += " Log in with --user."
        raise CommandFailed(f"broker {broker} was not stopped: {why}")
    deadline = time.monotonic() + timeout
    while _listens(host, port) if answering == broker else _is_alive(ask, broker):
        if time.monotonic() > deadline:
            raise CommandFailed(f"broker {broker} is stopping, and had not stopped after {timeout:g} s")
        time.sleep(PAUSE_SECONDS)
    click.echo(f"broker {broker} has stopped")


def _connect(host: str, port: int, timeout: float, has_tls: bool, ca: Path | None) -> http.client.HTTPConnection:
    if not has_tls:
        return http.client.HTTPConnection(host, port, timeout=timeout)
    import ssl

    return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context(cafile=ca))


def _ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: str | None, headers: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        return response.status, answer if isinstance(answer, dict) else {}
    finally:
        connection.close()


def _is_alive(ask: Callable[[str, str], tuple[int, dict[str, Any]]], broker: int) -> bool:
    """Ask another broker; while it does not say, the broker counts as alive."""
    try:
        return ask("GET", f"/api/v1/brokers/{broker}")[0] != http.client.NOT_FOUND
    except (OSError, http.client.HTTPException, ValueError):
        return True


def _listens(host: str, port: int) -> bool:
    import socket

    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True

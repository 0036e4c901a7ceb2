"""The ``logbus users`` commands: users that log in by SCRAM (Kafka: kafka-configs, kafka-storage --add-scram)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logbus.cli.commands.metadata import location_options
from logbus.cli.number_types import IntRange
from logbus.cli.options import bootstrap_options, json_option, user_name
from logbus.cli.output import print_json, print_table
from logbus.errors import ApiError

if TYPE_CHECKING:
    from logbus.metastore.imetastore import IMetadataStore

F = TypeVar("F", bound=Callable[..., Any])

_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def _mechanism_option(command: F) -> F:
    return click.option(
        "--mechanism",
        "-m",
        "mechanisms",
        multiple=True,
        type=click.Choice(_MECHANISMS, case_sensitive=False),
        help="Only this one; both by default.",
    )(command)


def _password_options(command: F) -> F:
    command = click.option(
        "--iterations",
        type=IntRange(4096, 16384),
        default=4096,
        show_default=True,
        help="Of the password's hash.",
    )(command)
    command = click.option(
        "--password-file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
        help="Its first line is the password; - is standard input. Asked for by default.",
    )(command)
    return _mechanism_option(command)


@click.group()
def users() -> None:
    """Show and change users that log in by SCRAM.

    Passwords are hashed here; brokers store what checks them. The first user is added before the brokers start, to the
    data directory or to ZooKeeper.

    \b
    Example:
      logbus users add admin --data-dir logbus-data
      logbus users add alice
      logbus users list
    """


@users.command("list", short_help="Print all users.")
@json_option
@bootstrap_options
def list_users(as_json: bool, bootstrap: str, timeout: float) -> None:
    """Print all users, and the mechanisms by which they can log in.

    \b
    Example:
      logbus users list --json
    """
    _show((), as_json, bootstrap, timeout)


@users.command(short_help="Show users.")
@click.argument("names", nargs=-1, required=True, type=user_name, metavar="USER...")
@json_option
@bootstrap_options
def describe(names: tuple[str, ...], as_json: bool, bootstrap: str, timeout: float) -> None:
    """Show the mechanisms by which users can log in.

    \b
    Example:
      logbus users describe alice
    """
    _show(names, as_json, bootstrap, timeout)


@users.command(short_help="Add a user.")
@click.argument("name", type=user_name, metavar="USER")
@_password_options
@location_options
@click.option("--new-cluster", is_flag=True, help="With --zookeeper: begin a cluster if there is none.")
@bootstrap_options
def add(
    name: str,
    mechanisms: tuple[str, ...],
    password_file: Path | None,
    iterations: int,
    data_dir: Path | None,
    zookeeper: str | None,
    new_cluster: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Add a user.

    With --data-dir or --zookeeper it is added to a cluster of which no broker runs: for the first user. A data
    directory is made if it is missing, a cluster in ZooKeeper with --new-cluster only.

    \b
    Example:
      logbus users add alice
      logbus users add alice --password-file alice.txt --mechanism SCRAM-SHA-512
      logbus users add admin --data-dir logbus-data
      logbus users add admin --zookeeper localhost:2181/logbus --new-cluster
    """
    from logbus.cli.password import read_password
    from logbus.cli.runner import CommandFailed, raise_errors, with_admin
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.admin.user_admin import ScramPassword

    if new_cluster and zookeeper is None:
        raise click.UsageError("--new-cluster goes with --zookeeper")
    chosen = mechanisms or _MECHANISMS
    # Before the reactor runs: it would take Ctrl-C, and wait for the password nevertheless.
    password = read_password(password_file, name)
    if data_dir is not None or zookeeper is not None:
        is_new = data_dir is not None and not data_dir.exists()
        _add_offline(name, chosen, password, iterations, data_dir, zookeeper, begins=new_cluster or zookeeper is None)
        click.echo(f"user {name} was added" + (f", in the new directory {data_dir}" if is_new else ""))
        return

    async def work(admin: AdminClient) -> dict[str, ApiError | None]:
        found = await admin.describe_scram_users([name])
        if not isinstance(found[name], ApiError):
            raise CommandFailed(f"there is a user {name!r} already; 'logbus users alter' changes the password")
        return await admin.alter_scram_users([ScramPassword(name, each, password, iterations) for each in chosen])

    raise_errors(with_admin(bootstrap, timeout, work))
    click.echo(f"user {name} was added")


@users.command(short_help="Change the password of a user.")
@click.argument("name", type=user_name, metavar="USER")
@_password_options
@bootstrap_options
def alter(
    name: str,
    mechanisms: tuple[str, ...],
    password_file: Path | None,
    iterations: int,
    bootstrap: str,
    timeout: float,
) -> None:
    """Change the password of a user, for the mechanisms that the user has, or those given.

    \b
    Example:
      logbus users alter alice
    """
    from logbus.cli.password import read_password
    from logbus.cli.runner import raise_errors, with_admin
    from logbus.client.admin.admin_client import AdminClient
    from logbus.client.admin.user_admin import ScramPassword

    # Before the reactor runs: it would take Ctrl-C, and wait for the password nevertheless.
    password = read_password(password_file, name)

    async def work(admin: AdminClient) -> dict[str, ApiError | None]:
        found = (await admin.describe_scram_users([name]))[name]
        if isinstance(found, ApiError):
            raise found
        wanted = [ScramPassword(name, each, password, iterations) for each in mechanisms or found]
        return await admin.alter_scram_users(wanted)

    raise_errors(with_admin(bootstrap, timeout, work))
    click.echo(f"the password of {name} was changed")


@users.command(short_help="Delete users, or some of their mechanisms.")
@click.argument("names", nargs=-1, required=True, type=user_name, metavar="USER...")
@_mechanism_option
@bootstrap_options
def delete(names: tuple[str, ...], mechanisms: tuple[str, ...], bootstrap: str, timeout: float) -> None:
    """Delete users, so that they cannot log in any more. Their quotas and ACLs stay.

    \b
    Example:
      logbus users delete alice
      logbus users delete alice --mechanism SCRAM-SHA-256
    """
    from logbus.cli.runner import raise_errors, with_admin
    from logbus.client.admin.admin_client import AdminClient

    async def work(admin: AdminClient) -> dict[str, ApiError | None]:
        answers: dict[str, ApiError | None] = {}
        gone = []
        for name, found in (await admin.describe_scram_users(dict.fromkeys(names))).items():
            if isinstance(found, ApiError):
                answers[name] = found
            else:
                gone += [(name, each) for each in mechanisms or found]
        return answers | (await admin.alter_scram_users(deletions=gone) if gone else {})

    raise_errors(with_admin(bootstrap, timeout, work))


def _show(names: tuple[str, ...], as_json: bool, bootstrap: str, timeout: float) -> None:
    from logbus.cli.runner import raise_errors, with_admin

    found = with_admin(bootstrap, timeout, lambda admin: admin.describe_scram_users(dict.fromkeys(names)))
    known = {name: each for name, each in found.items() if not isinstance(each, ApiError)}
    if as_json:
        print_json([{"user": name, "iterations": iterations} for name, iterations in known.items()])
    elif known:
        rows = [[name, each, count] for name, iterations in known.items() for each, count in iterations.items()]
        print_table(["user", "mechanism", "iterations"], rows)
    raise_errors({name: each for name, each in found.items() if isinstance(each, ApiError)})


def _add_offline(
    name: str,
    mechanisms: tuple[str, ...],
    password: str,
    iterations: int,
    data_dir: Path | None,
    zookeeper: str | None,
    *,
    begins: bool,
) -> None:
    from logbus.cli.commands.metadata import opened_store
    from logbus.cli.new_file import check_parent
    from logbus.cli.offline_users import add_user
    from logbus.security.sasl.scram_credential import ScramCredential

    credentials = {each: ScramCredential.make(each, password, iterations) for each in mechanisms}
    if data_dir is not None:
        check_parent(data_dir)
        data_dir.mkdir(exist_ok=True)

    async def work(store: IMetadataStore) -> None:
        await add_user(store, name, credentials, begins=begins)

    with opened_store(data_dir, zookeeper, must_exist=not begins) as run:
        run(work)

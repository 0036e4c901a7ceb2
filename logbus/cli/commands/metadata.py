"""The ``logbus metadata`` commands: export and import the metadata of a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logbus.portability import sync_directory
from logbus.wording import counted

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from logbus.metastore.imetastore import IMetadataStore
    from logbus.metastore.zookeeper_security import ZooKeeperSecurity
    from logbus.metastore.zookeeper_store import ZooKeeperStore

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

CONNECT_SECONDS = 30.0
RETIRED = "metadata.db.retired"

_CONFIG_FILE = f"{__name__}.zookeeper_config"


def location_options(command: F) -> F:
    """Add the options ``--data-dir`` and ``--zookeeper``."""
    command = zookeeper_config_option(command)
    command = click.option(
        "--zookeeper", "-z", metavar="CONNECT", help="HOST:PORT,HOST:PORT/CHROOT, as in zookeeper.connect."
    )(command)
    return click.option(
        "--data-dir",
        "-d",
        type=click.Path(path_type=Path, file_okay=False),
        help="The (first) data directory of a broker without ZooKeeper.",
    )(command)


def zookeeper_config_option(command: F) -> F:
    """Add the option ``--zookeeper-config``, which :func:`zookeeper_at` reads."""

    def keep(context: click.Context, parameter: click.Parameter, value: Path | None) -> None:
        context.meta[_CONFIG_FILE] = value

    return click.option(
        "--zookeeper-config",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        metavar="FILE",
        expose_value=False,
        callback=keep,
        help="Properties file, such as a broker's, with the keys zookeeper.* for credentials and TLS.",
    )(command)


@click.group()
def metadata() -> None:
    """Move a cluster's metadata between a data directory and ZooKeeper; protect them there.

    The metadata are topics with their ids, settings and assignments, the cluster's id, epochs and producer ids. Records
    and committed offsets stay in the data directory. Stop all brokers before you export or import.

    \b
    Example:
      logbus metadata export --data-dir logbus-data --retire metadata.json
      logbus metadata import metadata.json --zookeeper localhost:2181/logbus
      twistd -n logbus --zookeeper localhost:2181/logbus
    """


@metadata.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@location_options
@click.option("--retire", is_flag=True, help=f"With --data-dir: rename its metadata to {RETIRED}.")
def export_metadata(file: Path, data_dir: Path | None, zookeeper: str | None, retire: bool) -> None:
    """Write the metadata into a new FILE; - is standard output.

    With --retire, the data directory's own metadata are renamed, so that a broker started on it by mistake without
    --zookeeper does not use outdated metadata.

    \b
    Example:
      logbus metadata export --data-dir logbus-data metadata.json
      logbus metadata export --zookeeper localhost:2181/logbus - | jq .cluster_id
    """
    from logbus.cli.runner import CommandFailed
    from logbus.metastore.metadata_copy import read_all
    from logbus.metastore.metadata_file import Metadata, check, dump

    if retire and (data_dir is None or str(file) == "-"):
        raise click.UsageError("--retire goes with --data-dir, and with a file")
    if str(file) != "-" and file.exists():
        raise CommandFailed(f"{file} exists already; choose another name, or remove it")

    async def work(store: IMetadataStore) -> Metadata:
        return Metadata(await read_all(store))

    with opened_store(data_dir, zookeeper, must_exist=True) as run:
        found = run(work)
        check(found)
        if str(file) == "-":
            sys.stdout.write(dump(found))
            return
        write_durably(file, dump(found))
        if retire:
            assert data_dir is not None
            retire_database(data_dir)
    click.echo(
        f"cluster {found.cluster_id}: {counted(found.topics, 'topic')}, {counted(len(found.nodes), 'node')} in {file}"
    )


@metadata.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@location_options
def import_metadata(file: Path, data_dir: Path | None, zookeeper: str | None) -> None:
    """Import the metadata of a FILE (- is standard input) to a place without a cluster.

    \b
    Example:
      logbus metadata import metadata.json --zookeeper localhost:2181/logbus
    """
    from logbus.cli.runner import CommandFailed
    from logbus.metastore.metadata_copy import NotCopied, superseding, write_all
    from logbus.metastore.metadata_file import BadMetadataFile, load

    try:
        given = superseding(load(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")))
    except (BadMetadataFile, UnicodeDecodeError) as e:
        raise CommandFailed(f"{file}: {e}") from None

    async def work(store: IMetadataStore) -> int:
        return await write_all(store, given)

    with opened_store(data_dir, zookeeper, must_exist=False) as run:
        try:
            made = run(work)
        except NotCopied as e:
            raise CommandFailed(f"{data_dir or zookeeper}: {e}; nothing was changed") from None
    click.echo(
        f"cluster {given.cluster_id}: {counted(given.topics, 'topic')}, {counted(made, 'node')} made in "
        f"{data_dir or zookeeper}"
    )


def _migration_options(command: F) -> F:
    command = click.option("--dry-run", is_flag=True, help="Only say how many nodes would change.")(command)
    command = zookeeper_config_option(command)
    return click.option(
        "--zookeeper",
        "-z",
        required=True,
        metavar="CONNECT",
        help="HOST:PORT,HOST:PORT/CHROOT, as in zookeeper.connect.",
    )(command)


@metadata.command()
@_migration_options
def secure(zookeeper: str, dry_run: bool) -> None:
    """Protect the nodes of a running cluster in ZooKeeper.

    Only who has the brokers' credentials may change them afterwards, or read those with secrets. First restart all
    brokers, one by one, with credentials, and then once more with zookeeper.set.acl=true. If it is interrupted, run it
    again.

    \b
    Example:
      logbus metadata secure --zookeeper localhost:2181/logbus --zookeeper-config server.properties
    """
    _migrate(zookeeper, secure=True, dry_run=dry_run)


@metadata.command()
@_migration_options
def unsecure(zookeeper: str, dry_run: bool) -> None:
    """Open the nodes of a protected cluster in ZooKeeper to everybody.

    First restart all brokers, one by one, with zookeeper.set.acl=false, and take their credentials away only
    afterwards. If it is interrupted, run it again.

    \b
    Example:
      logbus metadata unsecure --zookeeper localhost:2181/logbus --zookeeper-config server.properties
    """
    _migrate(zookeeper, secure=False, dry_run=dry_run)


def _migrate(zookeeper: str, *, secure: bool, dry_run: bool) -> None:
    from logbus.cli.runner import CommandFailed
    from logbus.metastore.acl_migration import NotMigrated, migrate

    make = zookeeper_at(zookeeper)
    if secure:
        make.security.require_credentials("logbus metadata secure (with --zookeeper-config)")

    async def work(store: Any) -> dict[str, int]:
        return await migrate(store, secure=secure, dry_run=dry_run)

    try:
        found = with_store(make, work)
    except NotMigrated as e:
        raise CommandFailed(f"{zookeeper}: {e}") from None
    for what, count in sorted(found.items()):
        click.echo(f"{what}: {counted(count, 'node')}")
    if not found:
        click.echo("nothing to change")


Work = Callable[["IMetadataStore"], Coroutine["Deferred[Any]", Any, T]]


@contextmanager
def opened_store(data_dir: Path | None, zookeeper: str | None, *, must_exist: bool) -> Iterator[Callable[[Work[T]], T]]:
    """
    Yield a function that runs a coroutine with the open store; locks a data directory meanwhile.

    :raise CommandFailed: a broker runs there, or there is no metadata.
    """
    from logbus.cli.runner import CommandFailed
    from logbus.metastore.embedded_store import FILE_NAME, EmbeddedStore

    if (data_dir is None) == (zookeeper is None):
        raise click.UsageError("give either --data-dir or --zookeeper")
    if zookeeper is not None:
        make = zookeeper_at(zookeeper, must_exist=must_exist)
        yield lambda work: with_store(make, work)
        return
    assert data_dir is not None
    path = data_dir / FILE_NAME
    if must_exist and not path.exists():
        raise CommandFailed(f"there is no {path}: it is not the data directory of a broker without ZooKeeper")
    if not data_dir.is_dir():
        raise CommandFailed(f"there is no directory {data_dir}")
    import time

    with locked_directory(data_dir):
        yield lambda work: with_store(lambda reactor: EmbeddedStore(path, reactor, time.time), work)


class _StoreMaker:
    """Makes stores of one ZooKeeper."""

    def __init__(self, connect: str, security: ZooKeeperSecurity, makes_chroot: bool) -> None:
        from logbus.metastore.connect_string import ConnectString

        self.connect = ConnectString.parse(connect)
        self.security = security
        self.makes_chroot = makes_chroot

    def __call__(self, reactor: Any) -> ZooKeeperStore:
        from logbus.metastore.zookeeper_store import ZooKeeperStore

        return ZooKeeperStore(self.connect, reactor, security=self.security, makes_chroot=self.makes_chroot)


def zookeeper_at(connect: str, *, must_exist: bool = True) -> _StoreMaker:
    """
    Return what makes a store from a reactor, with the credentials and TLS of ``--zookeeper-config``.

    :param must_exist: whether a chroot that does not exist is an error; otherwise it is made.
    :raise ConfigError: the file or a key in it is wrong.
    """
    from logbus.config import ConfigView, keys
    from logbus.config.properties import parse_properties
    from logbus.errors import ConfigError, short_reason
    from logbus.metastore.zookeeper_security import ANONYMOUS, ZooKeeperSecurity

    path: Path | None = click.get_current_context().meta.get(_CONFIG_FILE)
    if path is None:
        return _StoreMaker(connect, ANONYMOUS, not must_exist)
    try:
        given = parse_properties(path.read_text(encoding="utf-8"))
        # A broker's file may have keys of packages that are not installed here.
        view = ConfigView.load(
            {name: value for name, value in given.items() if name.startswith("zookeeper.")},
            {keys.ZOOKEEPER_CONNECT.name: connect},
        )
        return _StoreMaker(connect, ZooKeeperSecurity.of(view), not must_exist)
    except (OSError, UnicodeDecodeError, ConfigError) as e:
        raise ConfigError(f"--zookeeper-config {path}: {short_reason(e)}") from None


def with_store(make: Callable[[Any], Any], work: Work[T]) -> T:
    """Run a coroutine with an open store."""
    from logbus.cli.runner import run

    async def session(reactor: Any) -> T:
        store = make(reactor)
        try:
            await opened(store, reactor)
            return await work(store)
        finally:
            await store.close()

    return run(session)


async def opened(store: Any, reactor: Any) -> None:
    """
    Open a store, and say when it is late.

    :raise CommandFailed: it does not answer, or has no such chroot.
    """
    from twisted.internet.defer import TimeoutError as TookTooLong

    from logbus.cli.app import print_error
    from logbus.cli.outage_lines import PATIENCE
    from logbus.cli.runner import CommandFailed
    from logbus.metastore.operations import NoNode

    def why() -> str:
        complaint = getattr(store, "complaint", "")
        return complaint and f" ({complaint})"

    late = reactor.callLater(
        PATIENCE, lambda: print_error(f"{store.path} has not answered for {PATIENCE:g} s{why()}; still waiting")
    )
    try:
        await store.open().addTimeout(CONNECT_SECONDS, reactor)
    except TookTooLong:
        raise CommandFailed(f"{store.path} does not answer{why()}") from None
    except NoNode as e:
        raise CommandFailed(
            f"{store.path}: there is no chroot {e.path}, so no cluster either; is it misspelt?"
        ) from None
    finally:
        if late.active():
            late.cancel()


@contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """
    Lock a data directory, as a broker does.

    :raise CommandFailed: a broker holds the lock.
    """
    import fcntl

    from logbus.cli.runner import CommandFailed
    from logbus.storage.filesystem.directory_lock import LOCK_FILE

    with (directory / LOCK_FILE).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandFailed(f"{directory} is in use by a broker (it holds {LOCK_FILE}); stop it first") from None
        yield


def write_durably(path: Path, text: str) -> None:
    """Write a new file atomically, and sync it."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        # Only for the user: it has users' credentials.
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def retire_database(directory: Path) -> None:
    """Rename a data directory's metadata."""
    from logbus.cli.runner import CommandFailed
    from logbus.metastore.database import held_room
    from logbus.metastore.embedded_store import FILE_NAME

    target = directory / RETIRED
    if target.exists():
        raise CommandFailed(f"{target} exists already; move it away")
    (directory / FILE_NAME).rename(target)
    held_room(directory / FILE_NAME).unlink(missing_ok=True)
    sync_directory(directory)

"""The ``logbus backup`` command: copies the data of a broker while it runs."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import click

from logbus.cli.admin_api import AdminApi, admin_options

TIMEOUT_SECONDS = 300.0


@click.command("backup")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--earlier",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="BACKUP",
    help="An earlier backup on the same file system: files that have not changed are linked to it, not copied.",
)
@admin_options
def backup(
    directory: Path, earlier: Path | None, admin: str, user: str, password_file: Path | None, ca: Path | None
) -> None:
    """Copy all data of a broker into a new DIRECTORY while clients go on: the records of every partition as they are at
    one moment, committed offsets, transactions, and the cluster's metadata with users' credentials. With workers, the
    data of all of them. Run it on the broker's machine, as the broker's user; who logs in needs Alter on the cluster.

    "logbus restore" makes a data directory of it. To delete a backup, remove its directory: later ones stay whole.

    \b
    Example:
      logbus backup /backup/monday
      logbus backup /backup/tuesday --earlier /backup/monday
    """
    from logbus.cli.backup.backup_source import BackupSource
    from logbus.cli.backup.snapshot_copy import SnapshotCopy, earlier_backup
    from logbus.cli.new_file import check_parent
    from logbus.cli.output import PROGRESS_INTERVAL, Progress, quantity
    from logbus.cli.runner import CommandFailed
    from logbus.cli.termination import raised_sigterm
    from logbus.storage.log_snapshots import BACKUP

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        unfinished = any(directory.glob("broker-*")) and not (directory / BACKUP).exists()
        why = "has a backup that was not finished; remove it, or" if unfinished else "is there already;"
        raise CommandFailed(f"{directory} {why} give the name of a new directory")
    check_parent(directory)
    progress, done = Progress(PROGRESS_INTERVAL), False

    def show(copied: int, total: int) -> None:
        source.keep()
        progress.show(f"{quantity(copied)}B of {quantity(total)}B")

    source = BackupSource(AdminApi.of(admin, user, password_file, ca, TIMEOUT_SECONDS))
    copy = SnapshotCopy(directory, earlier_backup(earlier), show)
    brokers = source.brokers()
    with raised_sigterm():
        directory.mkdir(mode=0o700, exist_ok=True)
        try:
            with source.snapshots_of(brokers) as snapshots:
                copy.make(snapshots, datetime.now(UTC).isoformat(timespec="seconds"))
            done = True
        finally:
            progress.clear()
            if not done:
                shutil.rmtree(directory, ignore_errors=True)
    linked = f", {quantity(copy.files.linked)}B of it linked to {earlier}" if earlier is not None else ""
    size = quantity(copy.files.copied + copy.files.linked)
    click.echo(f"{copy.logs} logs of broker {', '.join(map(str, brokers))}, {size}B{linked}: {directory}")

"""The ``logbus restore`` command: makes a data directory of a backup."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from logbus.metastore.imetastore import IMetadataStore


@click.command("restore")
@click.argument("backup", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIRECTORY...")
@click.option("--check", is_flag=True, help="Only check the backup, and that the directories can be made.")
def restore(backup: Path, directories: tuple[Path, ...], check: bool) -> None:
    """Make the data directory of a broker of a BACKUP that "logbus backup" has made. A broker with several log
    directories needs as many. It checks first that no file of the backup is missing or cut; what is in them, "logbus
    verify" checks afterwards. A directory that is not empty is refused.

    A broker is then started on it as before, and finds everything that was there when the backup was made.

    \b
    Example:
      logbus restore /backup/monday logbus-data
      logbus start --data-dir logbus-data
    """
    from logbus.cli.backup.restore import Restore
    from logbus.cli.commands.metadata import opened_store
    from logbus.cli.output import Progress, quantity
    from logbus.cli.termination import raised_sigterm
    from logbus.metastore.metadata_copy import write_all

    async def write(store: IMetadataStore) -> int:
        return await write_all(store, metadata)

    progress = Progress()
    try:
        with raised_sigterm():
            work = Restore(
                backup, directories, lambda done, total: progress.show(f"{quantity(done)}B of {quantity(total)}B")
            )
            work.check()
            metadata = work.metadata()
            if not check:
                try:
                    work.copy()
                    progress.clear()
                    if work.backup.embedded:
                        with opened_store(directories[0], None, must_exist=False) as run:
                            run(write)
                    work.finish()
                except BaseException:
                    work.undo()
                    raise
    finally:
        progress.clear()
    brokers = ", ".join(str(each.broker) for each in work.backup.brokers)
    said = f"{work.logs} logs of broker {brokers}, {quantity(work.total)}B, of {work.backup.made}"
    if check:
        click.echo(f"{said}: nothing is missing")
        return
    click.echo(f"{said}: {', '.join(map(str, directories))}")
    if not work.backup.embedded:
        click.echo(
            f"The cluster's metadata are in ZooKeeper. If these are lost, too: logbus metadata import {backup}/"
            "metadata.json --zookeeper CONNECT"
        )

"""The ``logbus verify`` command: checks the files of a log directory while no broker runs on it."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

import click

from logbus.cli.options import json_option
from logbus.cli.output import PROGRESS_INTERVAL, Progress, quantity
from logbus.cli.standard_streams import OUTPUT
from logbus.cli.terminal_escapes import json_line
from logbus.wording import counted


@click.command("verify")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--read-only-while-in-use", "in_use", is_flag=True, help="Check it even if a broker runs on it.")
@json_option
@click.pass_context
def verify(context: click.Context, directory: Path, in_use: bool, as_json: bool) -> None:
    """Check a log directory, or the directory of one log: every record of every segment, indexes against their
    segments, producer snapshots, leader epochs and transaction indexes against the batches, and checkpoints against the
    ends of the logs. For each finding it says what a broker does with it, and what to do; what an unclean stop left
    unfinished is listed after that. Nothing is changed. The exit status is 0 if nothing is wrong, 1 with findings, 2 if
    the directory cannot be checked.

    \b
    Example:
      logbus verify logbus-data
      logbus verify logbus-data/orders-0
      logbus verify logbus-data --json | jq -r .file
    """
    from attrs import asdict

    from logbus.cli.dump.directory_check import DirectoryInUse, check, files_of, leftovers_of, locked

    progress, started = Progress(PROGRESS_INTERVAL), time.monotonic()
    try:
        with nullcontext() if in_use else locked(directory):
            files = files_of(directory)
            if not files:
                raise click.UsageError(f"{directory} has no files of a log; give a directory of log.dirs, or one in it")
            total = sum(size for _, size in files)

            def show(path: Path, read: int) -> None:
                rate = read / max(time.monotonic() - started, 0.001)
                progress.show(f"{quantity(read)}B of {quantity(total)}B, {quantity(rate)}B/s: {path.name}")

            count = 0
            for each in check(files, show):
                count += 1
                progress.clear()
                if as_json:
                    click.echo(json_line(asdict(each)))
                else:
                    click.echo(f"{json_line(each.file)[1:-1]}: at {each.position}: {json_line(each.what)[1:-1]}")
                    click.echo(f"  at the next start: {each.effect}\n  what to do: {each.remedy}")
            progress.clear()
            for path, effect in leftovers_of(directory):
                if as_json:
                    click.echo(json_line({"file": str(path), "leftover": effect}))
                else:
                    click.echo(f"left over: {json_line(str(path))[1:-1]}: {effect}")
    except (DirectoryInUse, OSError) as error:
        if isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and error.filename == OUTPUT):
            raise  # What was found cannot be told.
        raise click.UsageError(str(error)) from error
    if not as_json:
        findings = counted(count, "finding") if count else "no findings"
        click.echo(f"{counted(len(files), 'file')}, {quantity(total)}B: {findings}")
    context.exit(1 if count else 0)

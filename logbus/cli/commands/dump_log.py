"""The ``logbus dump-log`` command: prints the files of a log (Kafka: DumpLogSegments)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import click

from logbus.cli.options import json_option
from logbus.cli.output import Progress
from logbus.cli.terminal_escapes import json_line

_TIMES = (
    "timestamp",
    "max_timestamp",
    "delete_horizon",
    "commit_timestamp",
    "expire_timestamp",
    "current_state_timestamp",
    "start_timestamp",
    "last_update_timestamp",
    "create_timestamp",
    "write_timestamp",
)


@click.command("dump-log")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="FILE...")
@click.option("--records", "-r", is_flag=True, help="Also print the records of each batch.")
@click.option("--verify", is_flag=True, help="Print only damage.")
@click.option("--deep", is_flag=True, help="Also decode every record, and compare indexes with their segment.")
@json_option
def dump_log(files: tuple[Path, ...], records: bool, verify: bool, deep: bool, as_json: bool) -> None:
    """Print the contents of segments (.log), indexes (.index, .timeindex, .txnindex), producer snapshots (.snapshot)
    and checkpoints; for a directory, of all such files below it. Records of __consumer_offsets, __transaction_state and
    __share_group_state are decoded: groups, members, offsets, transactional ids, states of share partitions. The exit
    status is 1 if anything is damaged.

    \b
    Example:
      logbus dump-log logbus-data/orders-0/00000000000000000000.log --records
      logbus dump-log logbus-data --verify --deep
      logbus dump-log logbus-data/orders-0 --json | jq .base_offset
      logbus dump-log logbus-data/__consumer_offsets-7 --records
      logbus dump-log logbus-data/__transaction_state-3 --records
      logbus dump-log logbus-data/__share_group_state-5 --records
    """
    from logbus.cli.dump.file_dump import dump
    from logbus.cli.runner import CommandFailed

    damaged: list[str] = []
    progress = Progress() if verify else None
    write = sys.stdout.write
    for path in _files(files):
        if progress is not None:
            progress.show(str(path))
        if not verify and not as_json:
            write(f"{path}\n")
        for item in dump(path, deep=deep, records=records):
            damage = item.get("damage")
            if damage is not None:
                damaged.append(f"{path}: at {item.get('position', 0)}: {damage}")
            if verify and damage is None:
                continue
            if as_json:
                write(json_line({"file": str(path), **item}) + "\n")
            elif verify:
                if progress is not None:
                    progress.clear()
                write(damaged[-1] + "\n")
            else:
                for line in _lines(item):
                    write(line + "\n")
    if progress is not None:
        progress.clear()
    sys.stdout.flush()
    if damaged:
        more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        raise CommandFailed(f"damaged: {damaged[0]}{more}")


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    from logbus.cli.dump.file_dump import is_dumpable
    from logbus.cli.runner import CommandFailed

    for path in paths:
        if path.is_dir():
            files = sorted(each for each in path.rglob("*") if each.is_file() and is_dumpable(each))
            if not files:
                raise CommandFailed(f"{path}: there are no files of logs in it")
            yield from files
        else:
            yield path


def _lines(item: dict[str, Any]) -> Iterator[str]:
    words = [
        f"{name}={_formatted(name, value)}" for name, value in item.items() if name not in ("records", "damage", "crc")
    ]
    if "damage" in item:
        words.append(f"DAMAGED: {item['damage']}")
    yield "  " + " ".join(words)
    for record in item.get("records", ()):
        yield "    " + " ".join(f"{name}={_formatted(name, value)}" for name, value in record.items())


def _formatted(name: str, value: object) -> str:
    if name in _TIMES and isinstance(value, int) and value >= 0:
        from datetime import datetime

        try:
            return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        except (ValueError, OverflowError, OSError):
            return str(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and (not value or not value.isprintable() or " " in value):
        return json_line(value)
    if isinstance(value, (dict, list)):
        return json_line(value)
    return "-" if value is None else str(value)

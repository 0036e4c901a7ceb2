"""
Finds partitions of workers that will not run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from logbus.errors import ConfigError, short_reason
from logbus.storage.file_names import partition_of
from logbus.workers.worker_plan import WORKERS_DIRECTORY


def refuse_left_over(directories: Iterable[str], count: int) -> None:
    """
    Check that no partition belongs to a worker that will not run.

    :param directories: the log directories of the machine.
    :param count: how many workers will run.
    :raise ConfigError: names the worker and what to do, or the directory of one that cannot be read.
    """
    for directory in directories:
        # The last one first: with so many workers all partitions are served.
        for number, found in sorted(_others(Path(directory)), reverse=True):
            if number < count:
                continue  # That worker will say what is wrong with it.
            try:
                partitions = sum(1 for each in found.iterdir() if partition_of(each.name) is not None)
            except OSError as error:
                raise ConfigError(
                    f"workers={count}: {found}, of worker {number}, cannot be read: {short_reason(error)}"
                ) from error
            if partitions:
                raise ConfigError(
                    f"workers={count}: {found} has {partitions} partitions of worker {number}; start with "
                    f"workers={number + 1}, and empty it first: logbus cluster rebalance --workers {count}"
                )


def _others(directory: Path) -> Iterable[tuple[int, Path]]:
    try:
        for found in (directory / WORKERS_DIRECTORY).iterdir():
            if found.name.isdigit() and found.is_dir():
                yield int(found.name), found
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # Whether the directory can be used is checked elsewhere.
        return

"""
The ``logbus`` command, one module per verb family.

A command's module is imported when the command runs: ``logbus --help`` imports click and nothing else.

::

    app.py        the commands there are
    running.py    from the command line to the reactor and back: errors, signals, exit statuses
    options.py    options that commands share
    output.py     tables, JSON, progress
    topics.py  produce.py  consume.py  configs.py  clusters.py  dump.py  bench.py  groups.py  transactions.py
    audit.py      what was published and what was consumed
    group_offsets.py  those commands of ``groups`` that move offsets
    ending.py     those commands of ``transactions`` that end one;  hanging.py  which of them hang
    lags.py       how far groups have read;  goals.py, resetting.py  where their offsets are to go
    offset_files.py   offsets in files
    partition_health.py  what is wrong with partitions
    starting.py   ``cluster start``;  supervisor.py  the brokers that it runs
    stopping.py   ``cluster shutdown-broker``
    log_dirs.py   the log directories of a broker
    metadata.py   metadata in files, out of one store and into another
    dumping.py    what is in the files of a data directory, and what is wrong with it;  index_dumping.py  of indexes
    group_dumping.py, transaction_dumping.py  the records of ``__consumer_offsets`` and ``__transaction_state`` in words
    benching.py   the loads of ``bench``;  procstat.py  CPU of the broker
"""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; the entry point of ``logbus``."""
    from logbus.cli.app import run_app

    raise SystemExit(run_app())

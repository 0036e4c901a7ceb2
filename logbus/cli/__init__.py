"""
The ``logbus`` command.

:mod:`~logbus.cli.app` has the table of commands. A command's module in :mod:`logbus.cli.commands` is imported when the
command runs, so that ``logbus --help`` imports click and nothing else; the library modules below are imported when a
command needs them.

From the shell to the cluster and back:

* ``commands``: the commands, a module each
* ``app``: the table of commands, the exit status and its line of error
* ``termination``: SIGTERM as an exception, for commands that have something to undo
* ``missing_rights``: names the right that a command lacks
* ``runner``: runs a command's coroutine on the reactor, with a client's connections
* ``admin_api``: the HTTP API of a broker
* ``client_security``: the options of TLS and SASL
* ``empty_values``: refuses empty values of options and arguments, for all commands
* ``options``: options and argument types that commands share
* ``number_types``: types of options that are numbers
* ``output``: tables, JSON, progress
* ``colours``: colours on terminals
* ``standard_streams``: puts something in the place of standard streams that are closed
* ``new_file``: files that commands write, which have their names once they are complete
* ``terminal_escapes``: escapes control characters of untrusted text

Topics and brokers:

* ``created_topic``: creates the topic that a command sends to
* ``topic_report``: the report of ``topics describe``
* ``cluster_report``: the report of ``cluster describe``
* ``partition_health``: partitions that lack replicas or a leader
* ``reassignment_plan``: reassignment plans, parsed, generated and compared
* ``reassignment``: moves replicas by plans, with a throttle
* ``rebalance_plan``: which partitions move among the workers of a machine
* ``rebalance``: moves them, and follows the progress
* ``rolling_restart_plan``: decides when a rolling restart goes on
* ``rolling_restart``: restarts brokers one after the other, by a command of the operator's
* ``leader_election``: elects leaders by names of topics and partitions
* ``foreground``: the broker of ``start``
* ``supervisor``: the brokers of ``cluster start``

Records:

* ``line_producer``: sends lines for ``produce``
* ``record_sender``: sends records of an input, and counts those that are written
* ``input_records``: records from lines of standard input: values, keys and values, or JSON
* ``line_reader``: reads lines from standard input
* ``topic_reader``: reads for ``consume``
* ``outage_lines``: says while records are read or sent that a broker cannot be reached
* ``group_reader``: reads for ``consume --group``
* ``topic_files``: writes topics to files and files to topics, for ``topics export`` and ``topics import``
* ``record_files``: files of records: JSON lines, Avro and Parquet
* ``record_filter``: conditions that records must meet to be printed
* ``record_selection``: selects and decodes the records to print
* ``registry_address``: a schema registry, and requests to it
* ``registry_encoder``: encodes keys and values by the schemas of a registry
* ``registry_values``: decodes keys and values by the schemas of a registry
* ``record_printer``: prints records

* ``mirror_options``: the options of mirrors that brokers have as keys
* ``mirror_run``: runs ``mirror``, with its progress, metrics and summary, and ``audit mirror``

Groups, transactions, files:

* ``password``: passwords from a file or the terminal
* ``offline_users``: users of a cluster that does not run
* ``backup``: backups, and restoring from them
* ``groups``: groups, their offsets and lag
* ``kafka_scripts``: commands that take the options of Kafka's scripts
* ``dump``: files of a data directory
* ``doctor``: finds what to mend on a machine, in a configuration and in a cluster
* ``hanging_transactions``: finds and aborts transactions that no coordinator will end
* ``transaction_report``: transactions and producers as JSON and as tables

Benchmarks, audits, Spark:

* ``benchmark``: runs a benchmark of ``bench``, and prints its figures
* ``load_generator``: the loads of ``bench``
* ``process_usage``: CPU time and memory of a local broker
* ``audit_query``: the query and the table of an audit
* ``pipeline_job``: runs a job on Spark; options of all jobs
* ``pipeline_options``: options for values, sources and outputs of jobs
* ``spark_submit``: the script for ``spark-submit``
"""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; the entry point of ``logbus``."""
    # Ctrl-C while modules are imported would be a traceback.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from logbus.cli.app import run_app

    signal.signal(signal.SIGINT, before)
    raise SystemExit(run_app())

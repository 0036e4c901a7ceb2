"""
Connects Spark's Java process to its Python processes by Unix domain sockets, which take less processor time than TCP.

Spark 4.1 and newer can, and do not by default. Java and Python must agree, so the choice is made before Java starts, by
an environment variable that both take for Spark's default: settings of the user take precedence.

Spark lets whoever can connect to such a socket run code. They are in a directory of this user's, which is deleted when
this process ends.
"""

from __future__ import annotations

import atexit
import shutil
import socket
import tempfile
from collections.abc import Callable, Collection, MutableMapping

ENABLED, DIRECTORY = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
DAEMON = "spark.python.daemon.module"
_DEFAULT = "PYSPARK_UDS_MODE"
_PIPELINED = "spark.python.udf.pipelined.enabled"
"""Spark 4.3 cannot have both."""
_LONGEST = 60
"""Characters of a directory: a socket's whole path has at most 107, of which Spark uses 42."""


def private_directory() -> str:
    """A new directory that nobody else can look into, until this process ends."""
    path = tempfile.mkdtemp(prefix="logbus-spark-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def choose_sockets(
    environ: MutableMapping[str, str], names: Collection[str], make_directory: Callable[[], str] = private_directory
) -> dict[str, str]:
    """
    Have a Java process that is started later use Unix domain sockets, if it can and the user has not chosen.

    It must run all tasks, with the driver's Python environment.

    :param names: of the settings that the user made.
    :returns: the settings that this takes.
    """
    if _DEFAULT in environ or not hasattr(socket, "AF_UNIX") or {ENABLED, DIRECTORY, DAEMON, _PIPELINED} & {*names}:
        return {}
    directory = make_directory()
    if len(directory) > _LONGEST:
        return {}
    environ[_DEFAULT] = "true"
    return {DIRECTORY: directory, DAEMON: "logbus.pipeline.worker_daemon"}

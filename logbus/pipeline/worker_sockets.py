"""
Connects Spark's Java process to its Python processes by Unix domain sockets, which take less processor time than TCP.

Spark 4.1 and newer can, and do not by default; older ones ignore the settings.

Spark lets whoever can connect to such a socket run code. They are in a directory of this user's, which is deleted when
this process ends.
"""

from __future__ import annotations

import atexit
import shutil
import socket
import tempfile
from collections.abc import Callable, Collection, Mapping

ENABLED, DIRECTORY = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
DAEMON = "spark.python.daemon.module"
_DEFAULT = "PYSPARK_UDS_MODE"
"""The environment variable with the default of the first."""
_PIPELINED = "spark.python.udf.pipelined.enabled"
"""Spark 4.3 cannot have both."""
_LONGEST = 60
"""Characters of a directory: a socket's whole path has at most 107, of which Spark uses 42."""


def private_directory() -> str:
    """A new directory that nobody else can look into, until this process ends."""
    path = tempfile.mkdtemp(prefix="logbus-spark-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def socket_settings(
    environ: Mapping[str, str], names: Collection[str], make_directory: Callable[[], str] = private_directory
) -> dict[str, str]:
    """
    The settings of a Spark that uses Unix domain sockets; none if it cannot, or the user has chosen.

    Its tasks must run in the driver's Java process, with the driver's Python environment.

    :param names: of the settings that the user made.
    """
    if _DEFAULT in environ or not hasattr(socket, "AF_UNIX") or {ENABLED, DIRECTORY, DAEMON, _PIPELINED} & {*names}:
        return {}
    directory = make_directory()
    if len(directory) > _LONGEST:
        return {}
    return {ENABLED: "true", DIRECTORY: directory, DAEMON: "logbus.pipeline.worker_daemon"}

"""
Connects Spark's Java process to its Python processes by Unix domain sockets, which take less processor time than TCP.

Spark 4.1 and newer can, and do not by default.

Spark lets whoever can connect to such a socket run code. They are in a directory of this user's, which is deleted when
this process ends.
"""

from __future__ import annotations

import atexit
import logging
import os
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
_OLDEST = (4, 1)
"""The first pyspark that can."""
_LONGEST = 60
"""Bytes of a directory: a socket's whole path has at most 107, of which Spark uses 42."""

_log = logging.getLogger(__name__)


def private_directory() -> str:
    """A new directory that nobody else can look into, until this process ends."""
    path = tempfile.mkdtemp(prefix="logbus-spark-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def socket_settings(
    environ: Mapping[str, str],
    names: Collection[str],
    *,
    is_here: bool,
    pyspark_version: str,
    make_directory: Callable[[], str] = private_directory,
) -> dict[str, str]:
    """
    The settings of a Spark that uses Unix domain sockets; none if it cannot, or the user has chosen.

    Why there are none is a debug message of the logger ``logbus.pipeline.worker_sockets``; with ``LOGBUS_DEBUG`` in the
    environment it is a warning.

    :param names: of the settings that the user made.
    :param is_here: its tasks run in the driver's Java process, with the driver's Python environment.
    """
    why = _obstacle(environ, names, is_here, pyspark_version)
    if not why:
        directory = make_directory()
        if len(os.fsencode(directory)) <= _LONGEST:
            return {ENABLED: "true", DIRECTORY: directory, DAEMON: "logbus.pipeline.worker_daemon"}
        why = f"{directory} is too long for a directory of sockets ({_LONGEST} bytes); TMPDIR can be another"
    level = logging.WARNING if environ.get("LOGBUS_DEBUG") else logging.DEBUG
    _log.log(level, "Java and Python are connected by TCP, not by Unix domain sockets: %s", why)
    return {}


def _obstacle(environ: Mapping[str, str], names: Collection[str], is_here: bool, pyspark_version: str) -> str:
    """Why TCP is used; "": nothing is in the way."""
    if not is_here:
        return "tasks run in other processes than Spark's driver, or with a Python or a Spark that was chosen for them"
    if not hasattr(socket, "AF_UNIX"):
        return "this system has none"
    if tuple(int(each) for each in pyspark_version.split(".")[:2]) < _OLDEST:
        return f"pyspark is {pyspark_version}, and has them as of {'.'.join(map(str, _OLDEST))}"
    if _DEFAULT in environ:
        return f"{_DEFAULT} is set in the environment"
    given = [name for name in (ENABLED, DIRECTORY, DAEMON, _PIPELINED) if name in names]
    return f"{given[0]} is set" if given else ""

"""Tests what is said of errors of Hadoop's file systems, and of silent ones, without Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import TestCase, mock
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JJavaError

from logbus.pipeline.blocking import patience
from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake import hadoop_file_system
from logbus.pipeline.lake.hadoop_file_system import HadoopFileSystem, java_errors
from logbus.pipeline.lake.store_patience import waiting

QUOTA = """The DiskSpace quota of /lake is exceeded: quota = 1048576 B
\tat org.apache.hadoop.hdfs.server.namenode.DirectoryWithQuota.verifyQuota(DirectoryWithQuotaFeature.java:212)
\tat org.apache.hadoop.ipc.Server$RpcCall.run(Server.java:1175)
"""


class JavaErrorTests(TestCase):
    """Exceptions of a namenode."""

    def refuse(self, kind: str, message: str | None) -> None:
        """Be refused."""
        exception = Mock(_target_id="o1")
        exception.getClass.return_value.getSimpleName.return_value = kind
        exception.getMessage.return_value = message
        with java_errors("hdfs://host/lake"):
            raise Py4JJavaError("An error occurred.", exception)

    def test_without_stack(self) -> None:
        """The lines of the namenode's stack, which are in the message, are left out."""
        said = "hdfs://host/lake: DSQuotaExceededException: The DiskSpace quota of /lake is exceeded: quota = 1048576 B"
        with self.assertRaisesRegex(LakeError, f"^{said}$"):
            self.refuse("DSQuotaExceededException", QUOTA)

    def test_no_message(self) -> None:
        """An exception without a message is told by its kind."""
        with self.assertRaisesRegex(LakeError, "^hdfs://host/lake: EOFException: no message$"):
            self.refuse("EOFException", None)

    def test_files(self) -> None:
        """A file that is there, or is not, is Python's error."""
        with self.assertRaises(FileExistsError):
            self.refuse("FileAlreadyExistsException", "/lake/a")
        with self.assertRaises(FileNotFoundError):
            self.refuse("FileNotFoundException", "/lake/a")


@pytest.mark.parametrize(
    ("method", "call", "what"),
    [
        ("listStatus", lambda files: files.names("a"), "to list this directory"),
        ("open", lambda files: files.read("a"), "to read this file"),
        ("create", lambda files: files.create("a", b""), "to create this file"),
        ("mkdirs", lambda files: files.move("a", "b"), "to move this file"),
        ("delete", lambda files: files.delete("a"), "to delete this"),
    ],
)
def test_silent_namenode(method: str, call: Callable[[HadoopFileSystem], Any], what: str) -> None:
    """It is said that a namenode keeps a job waiting, whatever it is asked for: Hadoop says nothing for minutes."""
    told, said = threading.Event(), list[str]()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            told.set()

    def frozen(*_: object) -> Any:
        assert told.wait(60)
        raise OSError

    files = HadoopFileSystem(mock.MagicMock(), "hdfs://host:8020/lake")
    getattr(files._fs, method).side_effect = frozen
    log = logging.getLogger(patience.__name__)
    log.addHandler(handler := Handler())
    try:
        with mock.patch.object(hadoop_file_system, "waiting", partial(waiting, patience=0.01)), pytest.raises(OSError):
            call(files)
    finally:
        log.removeHandler(handler)
    assert said == [f"hdfs://host:8020/lake/a: {what} takes longer than 0 s; still waiting for its store"]

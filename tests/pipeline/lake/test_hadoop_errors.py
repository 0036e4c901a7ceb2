"""Tests what is said of errors of Hadoop's file systems, without Spark."""

from __future__ import annotations

from unittest import TestCase
from unittest.mock import Mock

from py4j.protocol import Py4JJavaError

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.hadoop_file_system import java_errors

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

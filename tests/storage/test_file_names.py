"""Names of files and directories."""

from __future__ import annotations

import uuid

from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.storage import file_names


class FileNameTests(SynchronousTestCase):
    """What files and directories are called."""

    def test_segment_files(self) -> None:
        """Twenty digits and a suffix."""
        self.assertEqual(file_names.segment_file(42, file_names.LOG), "00000000000000000042.log")
        self.assertEqual(file_names.base_offset_of("00000000000000000042.log", file_names.LOG), 42)
        for other in ("42.log", "00000000000000000042.index", "0000000000000000004x.log", "00000000000000000042"):
            self.assertIsNone(file_names.base_offset_of(other, file_names.LOG))

    def test_partitions(self) -> None:
        """A directory's name is a legal topic's, a dash, and a number; everything else is not a log."""
        self.assertEqual(file_names.partition_of("a-b-3"), TopicPartition("a-b", 3))
        for other in ("a", "a-", "a-03", "-1", "..-1", "a-1.deadbeef-delete", "metadata.db", "a b-1", "a-99999999999"):
            self.assertIsNone(file_names.partition_of(other), other)
        for bad in (TopicPartition("..", 0), TopicPartition("a/b", 0), TopicPartition("", 1), TopicPartition("a", -1)):
            self.assertRaises(ValueError, file_names.partition_directory, bad)

    def test_files_to_be_removed(self) -> None:
        """Several of one name have names of their own, and each tells the name it had."""
        name = "00000000000000000042.log"
        for others in (0, 1, 17):
            self.assertEqual(file_names.before_deletion(file_names.deleted(name, others)), name)
        self.assertEqual(file_names.before_deletion(name), name)

    def test_deleted(self) -> None:
        """The longest topic's directory still has a name when it is deleted."""
        unique = uuid.UUID(int=1)
        name = file_names.deleted_directory(TopicPartition("t" * 249, 10**9), unique)
        self.assertEqual(len(name), 255)
        self.assertTrue(name.endswith(f"-1000000000.{unique.hex}-delete"))

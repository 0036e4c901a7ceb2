"""Tests where the archive of Spark's classes is, and when there is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest import TestCase
from unittest.mock import patch

from logbus.pipeline.class_archive import ClassArchive, archive_for
from logbus.pipeline.session import _class_archive

NOBODY = 2**22 + 1
"""More than the number of any process."""


class ClassArchiveTests(TestCase):
    """An archive is of one runtime and its jars, and nobody but the user can write it."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.jars = self.root / "jars"
        self.jars.mkdir()
        (self.jars / "spark-core.jar").write_bytes(b"classes")

    def archive(self, java: str = "java 17") -> ClassArchive:
        """The archive in a cache of this test."""
        found = archive_for({"XDG_CACHE_HOME": str(self.root / "cache")}, java, self.jars, os.getpid())
        assert found is not None
        return found

    def test_first_and_second_session(self) -> None:
        """The first one has Java write a draft, which is what the second one starts from."""
        first = self.archive()
        self.assertIn(f"-XX:ArchiveClassesAtExit={first.draft} ", first.java_options)
        first.draft.write_bytes(b"archive")
        self.assertFalse(self.archive().exists, "a draft may be incomplete")
        first.keep(0)
        second = self.archive()
        self.assertIn(f"-XX:SharedArchiveFile={first.path} ", second.java_options)
        self.assertEqual(second.path.read_bytes(), b"archive")

    def test_nothing_or_not_all_was_written(self) -> None:
        """Java may have been killed, or found no room: it would crash where the archive ends."""
        archive = self.archive()
        archive.keep(0)
        archive.draft.write_bytes(b"arch")
        archive.keep(-9)
        self.assertFalse(archive.exists or archive.draft.exists())
        archive.keep(1)
        self.assertFalse(self.archive().exists)

    def test_others(self) -> None:
        """Another runtime, another jar and a jar that was changed have archives of their own."""
        paths = {self.archive().path, self.archive("java 21").path}
        (self.jars / "other.jar").write_bytes(b"")
        paths.add(self.archive().path)
        (self.jars / "other.jar").write_bytes(b"longer")
        paths.add(self.archive().path)
        os.utime(self.jars / "other.jar", ns=(1, 1))
        paths.add(self.archive().path)
        self.assertEqual(len(paths), 5)
        self.assertEqual(self.archive().path, self.archive().path)

    def test_drafts_of_the_dead(self) -> None:
        """They are deleted, and those of running processes are not."""
        draft = self.archive().draft
        dead = draft.with_suffix(f".{NOBODY}")
        draft.write_bytes(b"")
        dead.write_bytes(b"")
        self.archive()
        self.assertEqual((draft.exists(), dead.exists()), (True, False))

    def test_where_others_may_write(self) -> None:
        """What is there may be code of theirs."""
        self.archive().path.parent.chmod(0o777)
        environ = {"XDG_CACHE_HOME": str(self.root / "cache")}
        self.assertIsNone(archive_for(environ, "java 17", self.jars, 1))

    def test_no_cache(self) -> None:
        """Without a home, with one that cannot be written or that Java's options cannot name, there is no archive."""
        (self.root / "file").write_bytes(b"")
        for environ in (
            {},
            {"HOME": ""},
            {"XDG_CACHE_HOME": "cache"},
            {"HOME": str(self.root / "file")},
            {"HOME": f"{self.root}/a b"},
        ):
            self.assertIsNone(archive_for(environ, "java 17", self.jars, 1), environ)

    def test_settings_of_the_user(self) -> None:
        """Other classes, and archives of the user's own, take precedence."""
        for name, value in (
            ("spark.driver.extraClassPath", "/x"),
            ("spark.driver.extraJavaOptions", "-Xshare:off"),
            ("spark.driver.extraJavaOptions", "-XX:SharedArchiveFile=/x"),
        ):
            self.assertIsNone(_class_archive({name: value}, "java 17", None))
        with patch.dict(os.environ, {"HADOOP_CONF_DIR": "/x"}):
            self.assertIsNone(_class_archive({}, "java 17", None))

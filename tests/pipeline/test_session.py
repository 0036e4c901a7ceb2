"""What the pipeline says when something that it needs is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import TestCase

from logbus.pipeline.session import MIN_JAVA, Missing, check_java


class JavaTests(TestCase):
    """Spark needs a Java that is new enough."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.home = Path(directory.name)

    def java(self, says: str, status: int = 0) -> None:
        """Put a 'java' there."""
        (self.home / "bin").mkdir()
        program = self.home / "bin" / "java"
        program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
        program.chmod(0o755)

    def test_the_real_one(self) -> None:
        """The tests need one themselves."""
        self.assertGreaterEqual(check_java(), MIN_JAVA)

    def test_none(self) -> None:
        """None is told, with how to install it."""
        with self.assertRaisesRegex(Missing, "no 'java' was found; on Debian or Ubuntu: apt-get install"):
            check_java({"PATH": str(self.home)})
        with self.assertRaisesRegex(Missing, f"JAVA_HOME is {self.home}, in which there is no bin/java"):
            check_java({"JAVA_HOME": str(self.home)})

    def test_versions(self) -> None:
        """An old one is told from a new one, however they spell their version."""
        scratch = self.home
        for says, version in (('openjdk version "17.0.1"', 17), ('java version "25"', 25)):
            with self.subTest(says), tempfile.TemporaryDirectory() as home:
                self.home = Path(home)
                self.java(says)
                self.assertEqual(check_java({"JAVA_HOME": home}), version)
        self.home = Path(tempfile.mkdtemp(dir=scratch))
        self.java('java version "1.8.0_291"')
        with self.assertRaisesRegex(Missing, "is Java 8; on Debian"):
            check_java({"PATH": str(self.home / "bin") + os.pathsep + os.defpath})

    def test_no_java_at_all(self) -> None:
        """What cannot run, or says nothing, is named."""
        self.java("hello")
        with self.assertRaisesRegex(Missing, "bin/java does not say which version it is"):
            check_java({"JAVA_HOME": str(self.home)})
        (self.home / "bin" / "java").write_bytes(b"\x00\x01")
        with self.assertRaisesRegex(Missing, "bin/java does not run"):
            check_java({"JAVA_HOME": str(self.home)})


class ExtraTests(TestCase):
    """Without the extra."""

    def test_no_pyspark(self) -> None:
        """A command says what to install, in one line."""
        for missing in ("pyspark", "pyarrow"):
            with self.subTest(missing):
                code = (
                    f"import sys; sys.modules['{missing}'] = None\n"
                    "from logbus.cli.pipeline import Job\n"
                    "from logbus.errors import LogbusError\n"
                    "try:\n"
                    "    Job('x').run(lambda s, w: None)\n"
                    "except LogbusError as e:\n"
                    "    print(e)\n"
                )
                done = subprocess.run(
                    [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
                )
                self.assertRegex(
                    done.stdout, rf"needs {missing}[\w.]*, which is not installed: pip install 'logbus\[spark\]'"
                )

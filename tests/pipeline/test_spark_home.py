"""Tests the home directory of Spark in which Python processes find the installed pyspark."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import TestCase

import pyspark

from logbus.pipeline.spark_home import lean_home, spark_home

PACKAGE = Path(pyspark.__file__).parent


class SparkHomeTests(TestCase):
    """It has Spark's programs and classes, and no Python; a job that needs other Pythons has the real one."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        self.environ = {**kept, "XDG_CACHE_HOME": str(self.root)}

    def test_made_once(self) -> None:
        """Links to the real one, which the next job finds."""
        home = lean_home(self.environ, "local[2]", {})
        assert home is not None
        self.assertEqual((home / "bin" / "spark-submit").resolve(), PACKAGE / "bin" / "spark-submit")
        self.assertTrue((home / "jars").samefile(PACKAGE / "jars"))
        names = {each.name for each in (home / "python").rglob("*") if each.is_file()}
        self.assertEqual(names, {"pyspark_logbus.py", "sitecustomize.py"})
        self.assertEqual(lean_home(self.environ, "local", {}), home)

    def test_mended(self) -> None:
        """A job may have died before all links were there."""
        home = lean_home(self.environ, "local", {})
        assert home is not None
        (home / "bin").unlink()
        (module,) = (home / "python").rglob("pyspark_*.py")
        module.write_text("try:")
        self.assertEqual(lean_home(self.environ, "local", {}), home)
        self.assertTrue((home / "bin" / "spark-submit").is_file())

    def test_module(self) -> None:
        """What Spark's process imports that looks for data sources: it names none, and does without this package."""
        home = lean_home(self.environ, "local", {})
        assert home is not None
        (module,) = (home / "python").rglob("pyspark_*.py")
        for options in ((), ("-I", "-S")):
            code = f"import runpy; print('DefaultSource' in runpy.run_path({str(module)!r}))"
            done = subprocess.run(
                [sys.executable, *options, "-c", code], capture_output=True, text=True, timeout=60, check=True
            )
            self.assertEqual(done.stdout, "False\n")

    def test_other_jobs(self) -> None:
        """Those that run elsewhere, or that were given a home or a Python."""
        for master in ("", "yarn", "spark://host:7077", "local-cluster[2,1,1024]", "k8s://https://host"):
            self.assertIsNone(lean_home(self.environ, master, {}), master)
        for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            self.assertIsNone(lean_home({**self.environ, name: "/opt/other"}, "local", {}), name)
        for name in ("spark.pyspark.python", "spark.python.daemon.module", "spark.executorEnv.PYTHONPATH"):
            self.assertIsNone(lean_home(self.environ, "local", {name: "x"}), name)
        own = {**self.environ, "PYSPARK_PYTHON": sys.executable}
        for name in ("spark.driver.memory", "spark.python.unix.domain.socket.enabled"):
            self.assertIsNotNone(lean_home(own, "local", {name: "x"}), name)

    def test_another_pyspark(self) -> None:
        """A new Python process would import another than this one did, or there is no cache."""
        elsewhere = self.root / "elsewhere"
        for name in ("pyspark", "py4j"):
            (elsewhere / name).mkdir(parents=True)
            (elsewhere / name / "__init__.py").touch()
        self.assertIsNone(lean_home({**self.environ, "PYTHONPATH": str(elsewhere)}, "local", {}))
        self.assertIsNone(lean_home({**self.environ, "XDG_CACHE_HOME": "relative"}, "local", {}))

    def test_only_while_java_starts(self) -> None:
        """Programs that this process starts later are not meant."""
        show = [sys.executable, "-c", "import os; print(os.environ.get('SPARK_HOME'))"]
        with spark_home(self.root):
            self.assertEqual(subprocess.check_output(show, text=True).strip(), str(self.root))
        self.assertNotIn(str(self.root), subprocess.check_output(show, text=True))

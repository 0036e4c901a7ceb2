"""Tests what is seen of the settings that a user has made outside of the program."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logbus.pipeline.users_settings import users_settings, usual_home


class UsersSettingsTests(SynchronousTestCase):
    """Names in spark-defaults.conf, and those of --conf."""

    def setUp(self) -> None:
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.home = Path(directory.name)

    def test_files(self) -> None:
        """Properties in each of their spellings; the user may say where they are."""
        self.assertEqual(users_settings({}, self.home), set())
        (self.home / "conf").mkdir()
        (self.home / "conf" / "spark-defaults.conf").write_text(
            "# spark.not 1\n! spark.neither 1\n\nspark.a 1\n  spark.b=2\nspark.c : 3\nspark.d\t4\nspark.e"
        )
        self.assertEqual(users_settings({}, self.home), {f"spark.{each}" for each in "abcde"})
        elsewhere = self.home / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "spark-defaults.conf").write_bytes(b"\xff\xfe no text")
        self.assertEqual(users_settings({"SPARK_CONF_DIR": str(elsewhere)}, self.home), set())

    def test_arguments(self) -> None:
        """Options of spark-submit, as the environment passes them on."""
        given = "--master local --conf spark.a=1 -c 'spark.b=two words' --conf=spark.c=3 --name --conf pyspark-shell"
        found = users_settings({"PYSPARK_SUBMIT_ARGS": given}, self.home)
        self.assertLessEqual({"spark.a", "spark.b", "spark.c"}, found)
        self.assertNotIn("spark.master", found)
        self.assertEqual(users_settings({"PYSPARK_SUBMIT_ARGS": "--conf 'spark.a=1"}, self.home), set())
        given = "--driver-class-path=/x --driver-java-options '-Da=b -Dc' --jars a.jar pyspark-shell"
        found = users_settings({"PYSPARK_SUBMIT_ARGS": given}, self.home)
        self.assertEqual(found, {"spark.driver.extraClassPath", "spark.driver.extraJavaOptions", "spark.jars"})

    def test_properties_file(self) -> None:
        """It replaces spark-defaults.conf, unless that is wanted, too; the last one counts."""
        (self.home / "conf").mkdir()
        (self.home / "conf" / "spark-defaults.conf").write_text("spark.a 1")
        for name in "bc":
            (self.home / name).write_text(f"spark.{name} 1")
        for given, expected in (
            (f"--properties-file {self.home / 'b'}", {"spark.b"}),
            (f"--properties-file={self.home / 'b'} --properties-file={self.home / 'c'}", {"spark.c"}),
            (f"--properties-file={self.home / 'b'} --load-spark-defaults", {"spark.a", "spark.b"}),
            (f"--properties-file {self.home / 'missing'}", set()),
        ):
            found = users_settings({"PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell"}, self.home)
            self.assertEqual(found, expected, given)

    def test_home(self) -> None:
        """The user's, or the package's."""
        self.assertEqual(usual_home({"SPARK_HOME": "/opt/spark"}), Path("/opt/spark"))
        if find_spec("pyspark") is None:
            raise SkipTest("pyspark is not installed")
        self.assertTrue((usual_home({}) / "bin" / "spark-submit").is_file())

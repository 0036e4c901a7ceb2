"""Tests the errors about missing packages and Java, and the end of sessions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import TestCase, mock

import pytest

from logbus.pipeline import Missing
from logbus.pipeline import session as sessions
from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError
from logbus.pipeline.session import MIN_JAVA, check_master, check_python, describe_java_exit, java_runtime
from logbus.pipeline.worker_sockets import DAEMON, DIRECTORY, ENABLED


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
        self.assertGreaterEqual(java_runtime()[0], MIN_JAVA)

    def test_none(self) -> None:
        """None is told, with how to install it."""
        with self.assertRaisesRegex(Missing, "no 'java' was found; on Debian or Ubuntu: apt-get install"):
            java_runtime({"PATH": str(self.home)})
        with self.assertRaisesRegex(Missing, f"JAVA_HOME is {self.home}, in which there is no bin/java"):
            java_runtime({"JAVA_HOME": str(self.home)})

    def test_python(self) -> None:
        """That of workers is started here, too."""
        check_python({"PYSPARK_PYTHON": sys.executable})
        with self.assertRaisesRegex(Missing, r"PYSPARK_PYTHON is \./env/bin/python, and there is no such program here"):
            check_python({"PYSPARK_PYTHON": "./env/bin/python", "PATH": str(self.home)})

    def test_versions(self) -> None:
        """An old one is told from a new one, however they spell their version."""
        scratch = self.home
        for says, version in (('openjdk version "17.0.1"', 17), ('java version "25"', 25)):
            with self.subTest(says), tempfile.TemporaryDirectory() as home:
                self.home = Path(home)
                self.java(says)
                self.assertEqual(java_runtime({"JAVA_HOME": home})[0], version)
        self.home = Path(tempfile.mkdtemp(dir=scratch))
        self.java('java version "1.8.0_291"')
        with self.assertRaisesRegex(Missing, "is Java 8; on Debian"):
            java_runtime({"PATH": str(self.home / "bin") + os.pathsep + os.defpath})

    def test_no_java_at_all(self) -> None:
        """What cannot run, or says nothing, is named."""
        self.java("hello")
        with self.assertRaisesRegex(Missing, "bin/java does not say which version it is"):
            java_runtime({"JAVA_HOME": str(self.home)})
        (self.home / "bin" / "java").write_bytes(b"\x00\x01")
        with self.assertRaisesRegex(Missing, "bin/java does not run"):
            java_runtime({"JAVA_HOME": str(self.home)})


@pytest.mark.spark
class StartTests(TestCase):
    """What Spark itself would tell with its stack, or not at all."""

    def run_code(self, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run Python in a process of its own, in which no Spark has been started."""
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=180,
            check=True,
            env={**os.environ, **environ},
        )

    def test_masters(self) -> None:
        """One that Spark has not is named, with those that it has."""
        for good in (
            "local",
            "local[2]",
            "local[*]",
            "local[*,4]",
            "spark://h:7077,i:7077",
            "k8s://https://h:1",
            "yarn",
        ):
            check_master(good)
        for wrong in ("lokal", "local[x]", "h:7077", "spark://", "local[2]x", ""):
            with (
                self.subTest(wrong),
                self.assertRaisesRegex(OptionError, f"^master is {re.escape(repr(wrong))}; it ta"),
            ):
                check_master(wrong)

    def test_settings(self) -> None:
        """A setting that Spark does not take is named; the next session in the process is none of its business."""
        done = self.run_code(
            "from logbus.errors import LogbusError\n"
            "from logbus.pipeline.session import session\n"
            "quiet = {'spark.ui.enabled': 'false', 'spark.ui.showConsoleProgress': 'false'}\n"
            "how = {'quiet': True}\n"
            "for wrong in ('spark.sql.shuffle.partitions', 'spark.task.cpus'):\n"
            "    try:\n"
            "        session('x', master='local[1]', settings={**quiet, wrong: 'many'}, **how)\n"
            "    except LogbusError as e:\n"
            "        print(e)\n"
            "spark = session('x', master='local[1]', settings=quiet, **how)\n"
            "print(spark.range(3).count())\n"
            # Spark hangs up on the worker, which has more than the connection holds.
            "print(spark.range(1 << 20, numPartitions=1).mapInArrow(lambda rows: rows, 'n long').limit(2).count())\n"
            "spark.stop()\n"
            "spark = session('x', master='local[1]', settings=quiet, quiet=True)\n"
            "print(spark.conf.get('spark.python.unix.domain.socket.enabled'), spark.range(3).count())\n"
            "spark.stop()\n"
        )
        lines = done.stdout.splitlines()
        for line, name in zip(lines, ("spark.sql.shuffle.partitions", "spark.task.cpus"), strict=False):
            self.assertRegex(line, rf"^Spark does not start: .* The value 'many' in the config \"{name}\" is invalid")
        self.assertEqual(lines[2:], ["3", "2", "true 3"])
        said = [line for line in done.stderr.splitlines() if "ERROR" not in line and "incubator" not in line]
        self.assertEqual(said, [], "it was to be quiet")

    def test_stopped_while_it_starts(self) -> None:
        """Stopped before the process that plans it has connected, a stream ends quietly, and another starts."""
        done = self.run_code(
            "import os, time\n"
            "from pathlib import Path\n"
            "from logbus.pipeline.session import session\n"
            "from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader\n"
            "class Reader(SimpleDataSourceStreamReader):\n"
            "    def initialOffset(self):\n"
            "        return {'next': 0}\n"
            "    def read(self, start):\n"
            "        return iter([(start['next'],)]), {'next': start['next'] + 1}\n"
            "class Numbers(DataSource):\n"
            "    def schema(self):\n"
            "        return 'number long'\n"
            "    def simpleStreamReader(self, schema):\n"
            "        return Reader()\n"
            "def planners():\n"
            "    found = []\n"
            "    for each in Path('/proc').glob('[0-9]*'):\n"
            "        try:\n"
            "            is_child = (each / 'stat').read_text().rpartition(')')[2].split()[1] == str(java.pid)\n"
            "            if is_child and b'python_streaming_source_runner' in (each / 'cmdline').read_bytes():\n"
            "                found.append(each.name)\n"
            "        except OSError:\n"
            "            pass\n"
            "    return found\n"
            "def wait_for(condition):\n"
            "    end = time.monotonic() + 90\n"
            "    while not condition():\n"
            "        assert time.monotonic() < end\n"
            "        time.sleep(0.005)\n"
            "quiet = {'spark.ui.enabled': 'false', 'spark.ui.showConsoleProgress': 'false'}\n"
            "spark = session('x', master='local[1]', settings=quiet, quiet=True, is_short=True)\n"
            "java = spark.sparkContext._gateway.proc\n"
            "spark.dataSource.register(Numbers)\n"
            "def start():\n"
            "    return spark.readStream.format('Numbers').load().writeStream.format('noop').start()\n"
            "for turn in range(2):\n"
            "    query = start()\n"
            "    wait_for(planners)\n"
            "    query.stop()\n"
            "    wait_for(lambda: not planners())\n"
            "    print(query.exception())\n"
            "query = start()\n"
            "wait_for(lambda: query.lastProgress and query.lastProgress['numInputRows'])\n"
            "query.stop()\n"
            "wait_for(lambda: not planners())\n"
            "print(query.exception())\n"
            "spark.stop()\n"
        )
        self.assertEqual(done.stdout.splitlines(), ["None"] * 3)
        said = [line for line in done.stderr.splitlines() if "ERROR" not in line and "incubator" not in line]
        self.assertEqual(said, [], "it was to be quiet")

    def test_users_defaults(self) -> None:
        """What spark-defaults.conf and --conf have takes precedence over our defaults, but not over the settings."""
        rows, shuffled, broadcast, zone = (
            "spark.sql.execution.arrow.maxRecordsPerBatch",
            "spark.sql.shuffle.partitions",
            "spark.sql.autoBroadcastJoinThreshold",
            "spark.sql.session.timeZone",
        )
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "spark-defaults.conf").write_text(f"{rows} 777\n{broadcast} 1\n{zone} Asia/Tokyo\n")
            done = self.run_code(
                "from logbus.pipeline.session import session\n"
                f"settings = {{'spark.ui.enabled': 'false', {broadcast!r}: '2'}}\n"
                "spark = session('x', master='local[1]', settings=settings, quiet=True, is_short=True)\n"
                f"print([spark.conf.get(name) for name in ({rows!r}, {shuffled!r}, {broadcast!r}, {zone!r})])\n"
                "other = session('x', master='local[1]')\n"
                f"print(other.conf.get({rows!r}))\n"
                "spark.stop()\n",
                SPARK_CONF_DIR=directory,
            )
            self.assertEqual(done.stdout.splitlines(), ["['777', '8', '2', 'Asia/Tokyo']", "777"])
            done = self.run_code(
                "from logbus.pipeline.session import session\n"
                "settings = {'spark.ui.enabled': 'false'}\n"
                "how = {'quiet': True, 'is_short': True, 'unix_sockets': False}\n"
                "spark = session('x', master='local[1]', settings=settings, **how)\n"
                f"print([spark.conf.get(name) for name in ({rows!r}, {shuffled!r}, {zone!r})])\n"
                f"print(spark.conf.get({ENABLED!r}, 'unset'))\n"
                "spark.stop()\n",
                PYSPARK_SUBMIT_ARGS=f"--conf {shuffled}=3 pyspark-shell",
            )
            self.assertEqual(done.stdout.splitlines(), ["['2000', '3', 'UTC']", "unset"])

    def test_java_dies(self) -> None:
        """A job whose Java is killed says so, and not that a connection was refused."""
        done = self.run_code(
            "from logbus.cli.pipeline_job import Job\n"
            "from logbus.errors import LogbusError\n"
            "def work(spark, watch):\n"
            "    spark.sparkContext._gateway.proc.kill()\n"
            "    spark.range(3).count()\n"
            "try:\n"
            "    Job('x', 'local[1]', {'spark.ui.enabled': 'false'}, quiet=True).run(work)\n"
            "except LogbusError as e:\n"
            "    print(e)\n"
        )
        self.assertRegex(done.stdout, "^Spark's Java process ended by signal 9; was there enough memory")
        self.assertNotIn("Traceback", done.stderr)


class EndTests(TestCase):
    """How Java has ended."""

    def test_what_is_said(self) -> None:
        """Memory may be the reason if nobody has ended it."""
        for status in (-signal.SIGTERM, 128 + signal.SIGTERM):
            self.assertEqual(
                describe_java_exit(status),
                "Spark's Java process was ended by SIGTERM, from outside; the job can be run again",
            )
        self.assertRegex(describe_java_exit(-signal.SIGKILL), "ended by signal 9; was there enough memory")
        self.assertRegex(describe_java_exit(1), "ended with status 1; was there enough memory")


class ErrorMessageTests(TestCase):
    """The message about a failure of Spark."""

    def test_ours(self) -> None:
        """An error of ours, wherever it is, and however deep."""
        deep = "[X] Failed: Traceback\n File\nlogbus.pipeline.errors.OptionError: option 'x' is wrong\n SQLSTATE: 1"
        self.assertEqual(short_message(deep), "option 'x' is wrong")

    def test_sparks(self) -> None:
        """The first line, and behind it what was the cause of all."""
        java = (
            "An error occurred while calling o499.parquet.\n"
            ": org.apache.spark.SparkException: Task failed\n\tat org.apache\n"
            "Caused by: org.apache.spark.Other: Task failed\n\tat org\n"
            "Caused by: java.io.IOException: No space left on device\n\tat java\n"
        )
        words = "org.apache.spark.SparkException: Task failed: java.io.IOException: No space left on device"
        self.assertEqual(short_message(java), words)
        self.assertEqual(short_message("[A] b\n\nJVM stacktrace:\n  at c\nCaused by: [A] b"), "[A] b")
        self.assertEqual(short_message(" \n"), "Spark failed without a message")


class ExtraTests(TestCase):
    """Without the extra."""

    def test_no_pyspark(self) -> None:
        """A command says what to install, in one line."""
        for missing in ("pyspark", "pyarrow"):
            with self.subTest(missing):
                code = (
                    f"import sys; sys.modules['{missing}'] = None\n"
                    "from logbus.cli.pipeline_job import Job\n"
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
                    done.stdout,
                    rf"needs {missing}[\w.]*, which is not installed: run pip install '\.\[spark\]' in the source",
                )

    def test_no_pyspark_for_commands(self) -> None:
        """Each says so, before it imports what is missing."""
        code = (
            "import sys; sys.modules['pyspark'] = None\n"
            "from logbus.cli.app import run_app\n"
            "sys.exit(run_app(['pipeline', *sys.argv[1:]]))\n"
        )
        for arguments in (["load", "t", "--table", "x"], ["compact", "--table", "x"]):
            with self.subTest(arguments[0]):
                done = subprocess.run(
                    [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
                )
                self.assertEqual(done.returncode, 1)
                self.assertEqual(
                    done.stderr,
                    "logbus: the pipeline needs pyspark, which is not installed: run pip install "
                    "'.[spark]' in the source directory of logbus\n",
                )


class _Chosen(Exception):
    """The settings of a session that would be started."""


class ClusterAfterLocalTests(TestCase):
    """A session on a cluster, in a Java process whose first session had local workers on Unix domain sockets."""

    def setUp(self) -> None:
        pytest.importorskip("pyspark")
        self.runs_already = False
        replaced: dict[str, Any] = {
            "java_runtime": lambda: (MIN_JAVA, "java"),
            "_runs_already": lambda: self.runs_already,
            "lean_home": lambda *_: Path("home"),
            "_cheap_start": lambda *_: {},
            "socket_settings": lambda *_, **__: {ENABLED: "true", DIRECTORY: "/private", DAEMON: "ours"},
            "_started": self.started,
            "_sockets": {},
            "_java_was_given": set(),
        }
        for patch in (
            *(mock.patch.object(sessions, name, each) for name, each in replaced.items()),
            mock.patch("pyspark.SparkContext._active_spark_context", None),
            mock.patch.dict(os.environ),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)

    def started(self, builder: Any) -> None:
        """In place of a start of Spark, which takes ten seconds."""
        raise _Chosen(dict(builder._options))

    def chosen(self, master: str, **settings: str) -> dict[str, str]:
        """The settings of a session, by name."""
        with pytest.raises(_Chosen) as raised:
            sessions.session("x", master=master, settings=settings)
        found: dict[str, str] = raised.value.args[0]
        return {name: found[name] for name in (ENABLED, DIRECTORY, DAEMON) if name in found}

    def test_sockets(self) -> None:
        """The cluster's workers do not have the directory; local ones do, also in a later session."""
        local = {ENABLED: "true", DIRECTORY: "/private", DAEMON: "ours"}
        self.assertEqual(self.chosen("local[2]"), local)
        self.runs_already = True
        for master in ("spark://host:7077", "yarn"):
            self.assertEqual(
                self.chosen(master), {ENABLED: "false", DIRECTORY: "/private", DAEMON: "pyspark.daemon"}, master
            )
        self.assertEqual(self.chosen("local[1]"), local)

"""Tests of several commands as subprocesses, against a real broker."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from logbus import __version__
from logbus.cli.app import app
from logbus.testing import Broker
from tests.cli.command_line import COMMAND, PATIENCE, run, start


def unread(pipe: int) -> int:
    """Return the number of unread bytes in a pipe."""
    left = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, left)
    return int.from_bytes(left, sys.byteorder)


class WithoutBrokerTests(SynchronousTestCase):
    def test_version_and_help(self) -> None:
        """
        They answer, and every command has an example.
        """
        self.assertEqual(run("--version").out, f"logbus {__version__}\n")
        program = (
            "import logbus.cli.app as a, click\n"
            "def walk(c, ctx):\n"
            "    print(c.get_help(ctx).count('Example:'), ctx.command_path)\n"
            "    for n in c.list_commands(ctx) if isinstance(c, click.Group) else ():\n"
            "        s = c.get_command(ctx, n); walk(s, click.Context(s, info_name=n, parent=ctx))\n"
            "walk(a.app, click.Context(a.app, info_name='logbus'))\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        commands = done.stdout.splitlines()
        self.assertGreater(len(commands), 18)
        self.assertEqual([each for each in commands if each.startswith("0")], [])

    def test_help_is_quick(self) -> None:
        """
        Help imports neither the reactor nor a client, of any command; without a command it imports none. Only the
        help of ``start`` is that of the broker's own parser.
        """
        heavy = ("twisted", "logbus.client", "logbus.wire")
        for arguments, forbidden in (
            (["--help"], (*heavy, "attr")),
            *(([each, "--help"], heavy) for each in app.lazy if each != "start"),
        ):
            program = (
                f"import sys\nfrom logbus.cli.app import run_app\nrun_app({arguments})\n"
                f"print([m for m in sys.modules if m.startswith({forbidden})])"
            )
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout.splitlines()[-1], "[]", arguments)

    def test_wrong_usage(self) -> None:
        """
        Unknown commands, options and addresses end with 2.
        """
        for arguments in (["nonsense"], ["topics", "list", "--nonsense"], ["topics", "list", "-b", "a:b"]):
            done = run(*arguments)
            self.assertEqual((done.status, done.out), (2, ""), done.err)

    def test_missing_file(self) -> None:
        """A command that is to read a file which does not exist ends with 2, and names it."""
        for arguments in (
            ["topics", "import", "orders", "/nope.avro"],
            ["groups", "import", "/nope.avro"],
            ["metadata", "import", "/nope.avro"],
            ["users", "add", "ann", "--password-file", "/nope.avro"],
            ["users", "alter", "ann", "--password-file", "/nope.avro"],
            ["cluster", "reassign", "--execute", "/nope.avro"],
            ["restore", "/nope.avro", "there"],
        ):
            done = run(*arguments)
            self.assertEqual((done.status, done.out), (2, ""), arguments)
            self.assertRegex(done.err.splitlines()[-1], "'/nope.avro' does not exist")

    def test_near_commands(self) -> None:
        """A mistyped command is told the nearest one, also one of a group."""
        for arguments, words in (
            (["topcs", "list"], "No such command 'topcs'. Did you mean 'topics'?"),
            (["grops"], "No such command 'grops'. Did you mean 'groups'?"),
            (["brokers"], "No such command 'brokers'. Did you mean 'cluster describe'?"),
            (["stop"], "No such command 'stop'."),
            (["x" * 1000], f"No such command '{'x' * 50}…'."),
        ):
            done = run(*arguments)
            self.assertEqual((done.status, done.out), (2, ""))
            self.assertEqual(done.err.splitlines()[-1], f"Error: {words}")

    def test_narrow_terminal(self) -> None:
        """The help has lines of 60 columns in such a terminal, but for examples, which are there to be copied."""
        for arguments in (["--help"], ["topics", "--help"], ["consume", "--help"]):
            done = run(*arguments, env=os.environ | {"COLUMNS": "60"})
            lines = [line for line in done.out.splitlines() if " logbus " not in line]
            self.assertLessEqual(max(map(len, lines)), 60, arguments)

    def test_refused_connection(self) -> None:
        """One line names the address and what to do; the status is 1."""
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{unused.getsockname()[1]}"
            done = run("topics", "list", "--bootstrap", address)
        self.assertEqual((done.status, done.out, done.err.count("\n")), (1, "", 1))
        for part in (address, "connection refused", "logbus start", "--bootstrap"):
            self.assertIn(part, done.err)

    def test_silent_broker(self) -> None:
        """The command ends within its timeout."""
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            done = run("topics", "list", "--bootstrap", address, "--timeout", "0.3")
        self.assertEqual((done.status, done.err.count("\n")), (1, 1))
        self.assertIn(f"{address}: no answer in 0.3 s", done.err)


class WithBrokerTests(SynchronousTestCase):
    broker: ClassVar[Broker]

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = cls.enterClassContext(Broker())

    def run_ok(self, *arguments: str, stdin: bytes = b"") -> str:
        """Return the output of a command that must succeed without errors."""
        done = run(*arguments, stdin=stdin, env={**os.environ, "LOGBUS_BOOTSTRAP": self.broker.bootstrap})
        self.assertEqual((done.status, done.err), (0, ""))
        return done.out

    def refused(self, *arguments: str, stdin: bytes = b"") -> str:
        """Why a command fails: one line."""
        done = run(*arguments, "--bootstrap", self.broker.bootstrap, stdin=stdin)
        self.assertEqual((done.status, done.out, done.err.count("\n")), (1, "", 1), done.err)
        return done.err

    def test_the_first_minute(self) -> None:
        """
        The commands of the README: create, produce, consume.
        """
        self.assertEqual(
            self.run_ok("topics", "create", "greetings", "--partitions", "3"), "Created topic greetings.\n"
        )
        self.assertEqual(self.run_ok("produce", "greetings", stdin=b"hello\nworld\n"), "")
        self.assertEqual(self.run_ok("consume", "greetings", "--from-beginning", "--exit-at-end"), "hello\nworld\n")

    def test_topics(self) -> None:
        """
        A topic through its life, and what is refused on the way.
        """
        checked = self.run_ok("topics", "create", "life", "--validate-only")
        self.assertEqual(checked, "Topic life can be created.\n")
        self.run_ok("topics", "create", "life", "-p", "2", "-c", "retention.ms=60000")
        self.assertIn("'life' exists already", self.refused("topics", "create", "life"))
        known = self.run_ok("topics", "create", "life", "more", "--if-not-exists")
        self.assertEqual(known, "Topic life exists already.\nCreated topic more.\n")
        self.run_ok("topics", "add-partitions", "life", "--total", "3")
        self.assertIn("life", self.refused("topics", "add-partitions", "life", "--total", "1"))
        self.assertIn("life", self.run_ok("topics", "list").splitlines())
        (described,) = json.loads(self.run_ok("topics", "describe", "life", "--json"))
        self.assertEqual([each["end_offset"] for each in described["partitions"]], [0, 0, 0])
        self.assertIn("in sync", self.run_ok("topics", "describe", "life"))
        self.run_ok("topics", "delete", "life")
        self.assertEqual(self.refused("topics", "delete", "life"), "logbus: there is no topic 'life'\n")
        self.assertEqual(self.refused("topics", "describe", "life"), "logbus: there is no topic 'life'\n")
        self.assertEqual(self.refused("consume", "life"), "logbus: there is no topic 'life'\n")
        hint = "; it is created by 'logbus topics create life', or by --create"
        self.assertEqual(self.refused("produce", "life", stdin=b"x\n"), f"logbus: there is no topic 'life'{hint}\n")

    def test_keys_headers_and_offsets(self) -> None:
        """Keys, headers and tombstones are written and read; reading begins and ends at the given offsets."""
        self.run_ok("topics", "create", "keyed", "-p", "1")
        lines = b"a:1\nb:2\na:\nc:x:y"
        arguments = ["-K", ":", "--null", "", "-H", "source=test", "--codec", "lz4", "--acks", "1"]
        summary = json.loads(self.run_ok("produce", "keyed", "--json", *arguments, stdin=lines))
        self.assertEqual(summary["records"], 4)
        records = [json.loads(each) for each in self.run_ok("consume", "keyed", "-o", "0", "-e", "--json").splitlines()]
        found = [(each["offset"], each["key"], each["value"]) for each in records]
        self.assertEqual(found, [(0, "a", "1"), (1, "b", "2"), (2, "a", None), (3, "c", "x:y")])
        self.assertEqual(records[0]["headers"], [{"name": "source", "value": "test"}])
        self.assertEqual(self.run_ok("consume", "keyed", "-o", "-2", "-e", "-f", "%o%k\\n"), "2a\n3c\n")
        self.assertEqual(self.run_ok("consume", "keyed", "--from-beginning", "-n", "2", "-K", "="), "a=1\nb=2\n")
        self.assertEqual(self.run_ok("consume", "keyed", "-t", "0", "-n", "1"), "1\n")
        self.assertEqual(self.run_ok("consume", "keyed", "-e"), "")
        self.assertIn("keyed-0 has no offset 9; it has 0 to 4", self.refused("consume", "keyed", "-o", "9"))
        self.assertIn("has no partition 4", self.refused("consume", "keyed", "-p", "4"))

    def test_a_bad_line(self) -> None:
        """
        All lines before one that is no record are written, and it is said how many; those behind it are not.
        """
        self.run_ok("topics", "create", "lines", "-p", "3")
        said = self.refused("produce", "lines", "-K", ":", stdin=b"a:b\nzzz\nc:d\n")
        self.assertEqual(said, "logbus: line 2: it has no ':' in it; records written: 1\n")
        self.assertEqual(self.run_ok("consume", "lines", "--from-beginning", "-e"), "b\n")
        many = b"".join(b"%d:%d\n" % (i, i) for i in range(60_000))
        said = self.refused("produce", "lines", "-K", ":", "--linger-ms", "5000", stdin=many + b"bad\n" + many)
        self.assertEqual(said, "logbus: line 60001: it has no ':' in it; records written: 60000\n")
        found = self.run_ok("consume", "lines", "--from-beginning", "-e").splitlines()
        found.remove("b")
        self.assertEqual(sorted(map(int, found)), list(range(60_000)))

    def test_json(self) -> None:
        """
        What one topic's records are in JSON, another takes: keys, tombstones, headers, times, partitions, any bytes.
        """
        self.run_ok("topics", "create", "original", "copy", "-p", "3")
        self.run_ok("topics", "create", "narrow", "-p", "1")
        lines = b"a:1\nb:\xff\xfe\nc:\n\xff:d"
        self.run_ok("produce", "original", "-K", ":", "--null", "", "-H", "source=test", stdin=lines)
        arguments = ["--from-beginning", "-e", "--json"]
        original = self.run_ok("consume", "original", *arguments)
        self.run_ok("produce", "copy", "--format", "json", stdin=original.encode())
        copy = self.run_ok("consume", "copy", *arguments)
        self.assertEqual(sorted(copy.replace('"copy"', '"original"').splitlines()), sorted(original.splitlines()))
        self.assertEqual(len(original.splitlines()), 4)
        wide = json.dumps({"value": {"n": 1}, "partition": 2, "timestamp": 5}).encode()
        said = self.refused("produce", "narrow", "--format", "json", stdin=b'{"value": "x"}\n\n' + wide)
        self.assertIn("line 3: ", said)
        self.assertIn("no partition 2", said)
        self.assertIn("; records written: 1\n", said)
        ignoring = ["--ignore", "partition", "--ignore", "timestamp"]
        self.run_ok("produce", "narrow", "--format", "json", *ignoring, stdin=wide)
        self.assertEqual(self.run_ok("consume", "narrow", "--from-beginning", "-e"), 'x\n{"n":1}\n')
        for wrong in (["-f", "json", "--null", ""], ["--ignore", "timestamp"]):
            self.assertEqual(run("produce", "narrow", *wrong).status, 2)

    def test_files(self) -> None:
        """
        A topic goes to a file of each format and back; what cannot be sent, or is no file, is refused in one line.
        """
        self.run_ok("topics", "create", "kept", "-p", "3")
        self.run_ok("produce", "kept", "-K", ":", "-H", "source=test", stdin=b"a:1\nb:\xff\nc:3")
        arguments = ["--from-beginning", "-e", "--json"]
        expected = sorted(self.run_ok("consume", "kept", *arguments).splitlines())
        with tempfile.TemporaryDirectory() as directory:
            for ending in ("jsonl", "avro", "parquet"):
                file, copy = f"{directory}/kept.{ending}", f"kept-{ending}"
                said = self.run_ok("topics", "export", "kept", file)
                self.assertIn(f"{file}: 3 records, ", said)
                self.assertIn(f"{file} exists already; ", self.refused("topics", "export", "kept", file))
                self.run_ok("topics", "export", "kept", file, "--overwrite")
                self.run_ok("topics", "create", copy, "-p", "3")
                summary = json.loads(self.run_ok("topics", "import", copy, file, "--json"))
                self.assertEqual((summary["file"], summary["topic"], summary["records"]), (file, copy, 3))
                found = self.run_ok("consume", copy, *arguments).replace(f'"{copy}"', '"kept"').splitlines()
                self.assertEqual(sorted(found), expected)
            said = self.refused("topics", "import", "kept-anew", file)
            self.assertIn("it is created by 'logbus topics create kept-anew --partitions N'", said)
            one = f"{directory}/one.jsonl"
            self.assertIn(": 1 record, ", self.run_ok("topics", "export", "kept", one, "--filter", "key=a"))
            Path(one).write_bytes(b'{"value": "a"}\n{"value": "b", "partition": 9}\n')
            said = self.refused("topics", "import", "kept", one)
            self.assertIn(f"{one}: record 2: ", said)
            self.assertIn("; records written: 1\n", said)
            self.assertIn("must end in one of", self.refused("topics", "export", "kept", f"{directory}/kept.csv"))
            self.assertIn("is no directory", self.refused("topics", "export", "kept", f"{directory}/absent/kept.avro"))
            self.assertEqual(sorted(os.listdir(directory)), ["kept.avro", "kept.jsonl", "kept.parquet", "one.jsonl"])

    def test_export_that_fails(self) -> None:
        """One line is all that is said, also where a library would write the end of its file as it is freed."""
        said: list[Any] = []
        self.patch(sys, "unraisablehook", said.append)
        with tempfile.TemporaryDirectory() as directory:
            for ending in ("jsonl", "avro", "parquet"):
                refused = self.refused("topics", "export", "absent", f"{directory}/absent.{ending}")
                self.assertIn("there is no topic 'absent'", refused)
                gc.collect()
            self.assertEqual(os.listdir(directory), [])
        self.assertEqual(said, [])

    def test_created_by_produce(self) -> None:
        """
        With --create a topic is created, and that is said, once.
        """
        for said in ("Created topic anew.\n", ""):
            done = run("produce", "anew", "--create", "--bootstrap", self.broker.bootstrap, stdin=b"x")
            self.assertEqual((done.status, done.out, done.err), (0, "", said))
        self.assertEqual(self.run_ok("consume", "anew", "--from-beginning", "--exit-at-end"), "x\nx\n")

    def test_a_bad_first_line(self) -> None:
        """
        Nothing is written, and that is said.
        """
        self.run_ok("topics", "create", "first")
        said = self.refused("produce", "first", "-K", ":", stdin=b"zzz\n")
        self.assertEqual(said, "logbus: line 1: it has no ':' in it; records written: 0\n")
        self.assertIn("; records written: 0", self.refused("produce", "first", "-p", "7", stdin=b"zzz\n"))

    def test_a_terminal(self) -> None:
        """
        Records are shown without their control characters on a terminal.
        """
        self.run_ok("topics", "create", "steering")
        self.run_ok("produce", "steering", stdin=b"\x1b[2Jhello\n")
        ours, theirs = pty.openpty()
        try:
            arguments = ["consume", "steering", "--from-beginning", "-e", "--bootstrap", self.broker.bootstrap]
            done = subprocess.run(
                [*COMMAND, *arguments], stdout=theirs, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
            )
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertEqual(os.read(ours, 1000), b"\\x1b[2Jhello\r\n")
        finally:
            os.close(ours)
            os.close(theirs)
        self.assertEqual(self.run_ok("consume", "steering", "--from-beginning", "-e"), "\x1b[2Jhello\n")

    def test_refused_records(self) -> None:
        """
        A record that is too large is refused in one line.
        """
        self.run_ok("topics", "create", "small", "-c", "max.message.bytes=1000")
        self.assertIn("max.message.bytes", self.refused("produce", "small", stdin=b"x" * 5000 + b"\n"))
        lines = b"".join(b"%d\n" % i for i in range(100)) + b"x" * 5000 + b"\n"
        said = self.refused("produce", "small", "--batch-bytes", "500", "-p", "0", stdin=lines)
        self.assertIn("max.message.bytes", said)
        self.assertIn("records written: 100 of 101", said)

    def test_configs(self) -> None:
        """
        Settings are set, shown and returned to their defaults; a wrong name is refused.
        """
        self.run_ok("topics", "create", "settings")
        self.run_ok("configs", "set", "topic", "settings", "retention.ms=1234567", "cleanup.policy=compact")
        shown = json.loads(self.run_ok("configs", "describe", "topic", "settings", "retention.ms", "--json"))
        self.assertEqual(
            [(each["name"], each["value"], each["source"]) for each in shown], [("retention.ms", "1234567", "topic")]
        )
        self.run_ok("configs", "delete", "topic", "settings", "retention.ms")
        self.assertNotIn("1234567", self.run_ok("configs", "describe", "topic", "settings"))
        self.assertIn("log.dirs", self.run_ok("configs", "describe", "broker", "0"))
        self.assertIn("retention.mss", self.refused("configs", "set", "topic", "settings", "retention.mss=1"))
        self.assertEqual(
            self.refused("configs", "delete", "topic", "settings", "retention.mss"),
            "logbus: topic settings has no setting 'retention.mss'\n",
        )
        self.assertEqual(
            self.refused("configs", "describe", "broker", "7"), "logbus: broker 7 is not there; there are: 0\n"
        )

    def test_quotas_to_delete(self) -> None:
        """
        Those that are there are removed; a name that has none is refused, as it may be wrong.
        """
        self.run_ok("quotas", "set", "--user", "zoe", "producer_byte_rate=1000")
        self.assertEqual(
            self.refused("quotas", "delete", "--user", "zoe", "consumer_byte_rate"),
            "logbus: user zoe has no quota consumer_byte_rate\n",
        )
        self.run_ok("quotas", "delete", "--user", "zoe")
        self.assertEqual(self.refused("quotas", "delete", "--user", "zoe"), "logbus: user zoe has no quota\n")

    def test_tokens_without_a_login(self) -> None:
        """
        It is said how to log in.
        """
        self.assertIn("log in as a user (not by a token)", self.refused("tokens", "list"))

    def test_interrupted_before_its_end(self) -> None:
        """
        A command that was to read so many records says by its status that it has not.
        """
        self.run_ok("topics", "create", "partly")
        self.run_ok("produce", "partly", stdin=b"one\n")
        reading = start("consume", "partly", "--from-beginning", "-n", "2", "--bootstrap", self.broker.bootstrap)
        assert reading.stdout is not None
        self.assertEqual(reading.stdout.readline(), b"one\n")
        reading.send_signal(signal.SIGTERM)
        out, err = reading.communicate(timeout=PATIENCE)
        self.assertEqual((reading.returncode, out, err), (-signal.SIGTERM, b"", b""))

    def test_loggers(self) -> None:
        """
        Levels of a broker's loggers are set, shown and restored; a wrong name, level or broker is refused.
        """
        logger = "logbus.storage"
        self.run_ok("configs", "set", "logger", "0", f"{logger}=FATAL")
        self.assertIn(f"{logger}", shown := self.run_ok("configs", "describe", "logger", "0"))
        self.assertIn("FATAL", shown)
        self.run_ok("configs", "delete", "logger", "0", logger)
        self.assertNotIn("FATAL", self.run_ok("configs", "describe", "logger", "0"))
        self.assertIn("is not a level", self.refused("configs", "set", "logger", "0", f"{logger}=LOUD"))
        self.assertIn("no logger", self.refused("configs", "set", "logger", "0", "nothing=INFO"))
        wrong = run("configs", "describe", "logger", "all", "--bootstrap", self.broker.bootstrap)
        self.assertEqual((wrong.status, "not a broker's id" in wrong.err), (2, True), wrong.err)

    def test_cluster(self) -> None:
        """
        The broker, its address, and that it is the controller.
        """
        shown = json.loads(self.run_ok("cluster", "describe", "--json"))
        (broker,) = shown["brokers"]
        self.assertEqual(
            (f"{broker['host']}:{broker['port']}", shown["controller"]), (self.broker.bootstrap, broker["id"])
        )

    def test_dump_log(self) -> None:
        """
        The broker's own files are whole; a flipped bit is found, and told on standard error.
        """
        self.run_ok("topics", "create", "dumped", "-p", "1")
        self.run_ok("produce", "dumped", stdin=b"hello\n")
        directory = self.broker.data_dir / "dumped-0"
        self.assertIn("value=hello", self.run_ok("dump-log", str(directory), "--records"))
        self.assertEqual(self.run_ok("dump-log", str(directory), "--verify", "--deep"), "")
        empty = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, empty)
        done = run("dump-log", empty)
        self.assertEqual((done.status, done.err), (1, f"logbus: {empty}: there are no files of logs in it\n"))
        data = bytearray((directory / "00000000000000000000.log").read_bytes())
        data[-3] ^= 4
        damaged = Path(tempfile.mkdtemp())
        self.addCleanup(damaged.rmdir)
        copy = damaged / "00000000000000000000.log"
        copy.write_bytes(data)
        self.addCleanup(copy.unlink)
        done = run("dump-log", str(copy), "--json")
        self.assertEqual((done.status, done.err.count("\n")), (1, 1))
        self.assertIn("CRC", json.loads(done.out)["damage"])

    def test_bench(self) -> None:
        """
        Each measurement gives rates and percentiles, and leaves no topic behind.
        """
        common = ["--json", "--topic", "measured", "--pid", str(os.getpid())]
        produced = json.loads(self.run_ok("bench", "produce", "--seconds", "0.2", *common))
        self.assertGreater(produced["records_per_second"], 0)
        self.assertIn("p99.9", produced["latency_ms"]["answer"])
        self.assertIn("cpu_seconds_per_gb", produced["broker"])
        fetched = json.loads(self.run_ok("bench", "fetch", "--seconds", "0.2", "--fill-mb", "1", *common))
        self.assertGreater(fetched["mb_per_second"], 0)
        latency = json.loads(self.run_ok("bench", "latency", "--count", "20", *common))
        self.assertEqual(set(latency["latency_ms"]), {"answer", "read"})
        self.assertNotIn("measured", self.run_ok("topics", "list"))

    def test_ctrl_c_and_broken_pipes_end_consume(self) -> None:
        """Ctrl-C ends it with status 0 and no output on standard error; so does a closed pipe."""
        self.run_ok("topics", "create", "endless", "-p", "1")
        self.run_ok("produce", "endless", stdin=b"first\n")
        reading = start("consume", "endless", "--from-beginning", "--bootstrap", self.broker.bootstrap)
        assert reading.stdout is not None
        self.assertEqual(reading.stdout.readline(), b"first\n")
        reading.send_signal(signal.SIGINT)
        out, err = reading.communicate(timeout=PATIENCE)
        self.assertEqual((reading.returncode, out, err), (0, b"", b""))
        leaving = start("consume", "endless", "--from-beginning", "--bootstrap", self.broker.bootstrap)
        assert leaving.stdout is not None and leaving.stderr is not None and leaving.stdin is not None
        self.assertEqual(leaving.stdout.readline(), b"first\n")
        leaving.stdout.close()
        self.run_ok("produce", "endless", stdin=b"second\n")
        self.assertEqual(leaving.wait(PATIENCE), -signal.SIGPIPE)
        self.assertEqual(leaving.stderr.read(), b"")
        leaving.stderr.close()
        leaving.stdin.close()

    def test_ctrl_c_while_producing(self) -> None:
        """The command ends by the signal, after it has written the lines that it had read."""
        self.run_ok("topics", "create", "interrupted", "-p", "1")
        sending = start("produce", "interrupted", "--linger-ms", "5000", "--bootstrap", self.broker.bootstrap)
        assert sending.stdin is not None
        sending.stdin.write(b"kept\n")
        sending.stdin.flush()
        deadline = time.monotonic() + PATIENCE
        while unread(sending.stdin.fileno()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        sending.send_signal(signal.SIGINT)
        # Its standard input stays open until it has ended: the end of the input would end it as well.
        sending.wait(PATIENCE)
        _, err = sending.communicate(timeout=PATIENCE)
        self.assertEqual((sending.returncode, err), (-signal.SIGINT, b""))
        self.assertEqual(self.run_ok("consume", "interrupted", "--from-beginning", "-e"), "kept\n")

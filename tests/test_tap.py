"""Tests of ``twistd logbus`` as a subprocess: options, errors at the start, and the stop."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
import twisted.internet
from twisted.application.service import IService

from logbus.tap import Options, makeService
from logbus.testing import Broker
from logbus.testing.held_ports import HeldPorts

TWISTD = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", "logbus"]
SECONDS = 120
FREE = ("--listen", "kafka:tcp:0:interface=127.0.0.1", "--listen", "admin:tcp:0:interface=127.0.0.1")


def start_fails(cwd: Path, *arguments: str) -> str:
    """Run a broker that cannot start, and return the one line it says why."""
    done = subprocess.run(
        [*TWISTD, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stdout + done.stderr
    assert lines[0].startswith("logbus: ")
    assert "Traceback" not in done.stdout
    return lines[0]


def wait_for_file(path: Path, seconds: float = 10.0) -> None:
    """Returns once the file is there."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"there is no {path}"
        time.sleep(0.01)


def contents(directory: Path) -> Mapping[str, bytes | None]:
    """Everything below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


@contextmanager
def twistd(cwd: Path, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A broker in a process of its own, for as long as the block takes."""
    process = subprocess.Popen(
        [*TWISTD, *arguments],
        cwd=cwd,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def read_until(process: subprocess.Popen[str], pattern: str) -> str:
    """Return the output of a process up to the first line that matches."""
    assert process.stdout is not None
    read = ""
    for line in process.stdout:
        read += line
        if re.search(pattern, line):
            return read
    raise AssertionError(f"the broker ended:\n{read}")


def stop(process: subprocess.Popen[str]) -> str:
    """End a process by SIGTERM, and return the rest of what it prints."""
    process.terminate()
    assert process.stdout is not None
    rest = process.stdout.read()
    # twistd stops in order, and then ends by the signal that stopped it.
    assert process.wait(SECONDS) in (0, -signal.SIGTERM), rest
    return rest


#: For options that are wrong only after the ports are taken: another broker may have the default ones.
ANY_PORTS = ("--port", "0", "--admin-port", "0")


# What is wrong with the options is one line, and changes nothing.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "num.partitons=3"], "num.partitons is not a broker configuration key; did you mean num.partitions"),
        (["--set", "num.partitions=many"], "num.partitions: 'many' is not valid; accepted: a whole number from 1 to"),
        (["--set", "num.partitions=0"], "num.partitions: '0' is not valid"),
        (["--set", "num.partitions"], "--set num.partitions: expected KEY=VALUE"),
        (["--set", "retention.ms=1"], "retention.ms is a key of topics; a broker's is log.retention.ms"),
        (["--broker-id", "one"], "broker.id: 'one' is not valid"),
        (
            ["--config", "missing.properties"],
            "missing.properties: cannot be read: No such file or directory (/",
        ),
        (["--listen", "9092"], "--listen 9092: expected [NAME=]PROTOCOL:ENDPOINT"),
        (["--listen", "amqp:tcp:5672", *ANY_PORTS], "there is no protocol 'amqp'; there are: admin, kafka"),
        (["--listen", "kafka:tcp:port"], "'tcp:port' is not a server endpoint such as tcp:9092"),
        (["--listen", "kafka:tcp:70000"], "port must be 0-65535"),
        (["--listen", "kafka:tcp:0", "--listen", "kafka:tcp:0"], "two listeners are named kafka"),
        (["--advertise", "kafka"], "--advertise kafka: expected NAME=HOST:PORT"),
        (["--advertise", "other=host:1"], "--advertise other: there is no such listener; there are: kafka, admin"),
        (["-s", "inter.broker.listener.name=admin"], "inter.broker.listener.name=admin is not one of the listeners"),
        (["--as-version", "0.11", *ANY_PORTS], "--as-version 0.11: expected one of 2.1, "),
        (
            ["--zookeeper", "localhost:port"],
            "zookeeper.connect: 'localhost:port' is not valid: 'localhost:port' is not HOST",
        ),
        (
            ["--zookeeper", "zk", "--set", "zookeeper.set.acl=true"],
            "--set: zookeeper.set.acl=true needs credentials: set zookeeper.digest.username and ",
        ),
        (
            ["--set", "listeners=SSL://127.0.0.1:0"],
            "listener SSL: TLS needs a key and its certificate: set ssl.keystore",
        ),
        (
            ["--listen", "SASL_PLAINTEXT=kafka:tcp:0", "--set", "sasl.enabled.mechanisms=PLAIN"],
            "listener SASL_PLAINTEXT: PLAIN would send passwords readable over the network",
        ),
        (["--set", "foo.bar=1"], "--set: foo.bar is not a broker configuration key"),
        (["--broker-id", "-7"], "--broker-id: broker.id: '-7' is not valid"),
        (["--port", "seven"], "--port seven: expected a port from 1 to 65535, or 0 for any free one"),
        (["--admin-port", "65536"], "--admin-port 65536: expected a port from 1 to 65535"),
        (["--port", "1", "--listen", "kafka:tcp:2"], "--port 1 and --listen both say where kafka listens"),
        (
            ["--set", "admin.listeners=localhost"],
            "admin.listeners: 'localhost' is not valid; accepted: http://host:port",
        ),
        (["--set", "admin.listeners=ftp://127.0.0.1:8443"], "is not valid; accepted: http://host:port"),
        (["--data-dir", "x" * 300, *ANY_PORTS], "File name too long"),
    ],
)
def test_wrong_options(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error names the option or key, and what would be right; nothing is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exited:
        make(*arguments)
    assert exited.value.code == 1
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert words in said[0]
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("foo.bar=1", "foo.bar is not a broker configuration key"),
        ("num.partitions = many", "num.partitions: 'many' is not valid; accepted: a whole number"),
        ("num.partitions=\\u12", "\\u12 is not an escape"),
        ("zookeeper.ssl.ocsp.enable=true", "zookeeper.ssl.ocsp.enable"),
        ("auto.create.topics.enable=perhaps", "'perhaps' is not valid"),
    ],
)
def test_wrong_files(
    line: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Errors in a file are reported with the file and the line."""
    monkeypatch.chdir(tmp_path)
    Path("server.properties").write_text(f"# A broker\nnum.io.threads=\\\n  8\n{line}\nlog.dirs=data\n")
    with pytest.raises(SystemExit):
        make("--config", "server.properties")
    (said,) = capfd.readouterr().err.splitlines()
    assert said.startswith("logbus: server.properties, line 4: ")
    assert words in said


def test_tls_without_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A listener with TLS says what to install, where the packages for it are not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "OpenSSL", None)
    for module in [name for name in sys.modules if name.startswith(("OpenSSL.", "twisted.internet.ssl"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr(twisted.internet, "ssl", raising=False)
    with pytest.raises(SystemExit):
        make("--listen", "kafka:ssl:0:privateKey=key.pem:certKey=cert.pem")
    (said,) = capfd.readouterr().err.splitlines()
    assert "listener kafka (ssl:0:privateKey=key.pem" in said
    assert "TLS needs a package that is not installed" in said
    assert "pip install '.[tls]'" in said


def test_directory_that_may_not_be_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A data directory below one that this user may not look into is one line, too."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    if os.geteuid() == 0:
        # Nothing is closed to root.
        exists = Path.exists

        def refuse(path: Path) -> bool:
            if closed in path.parents:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return exists(path)

        monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(SystemExit):
        make("--data-dir", str(closed / "data"), *FREE)
    (said,) = capfd.readouterr().err.splitlines()
    assert f"log.dirs: {closed}/data cannot be used by this user (uid " in said
    assert "Permission denied" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prot", "9092"], "there is no option --prot; did you mean --port?"),
        (["--dta-dir=x"], "there is no option --dta-dir; did you mean --data-dir?"),
        (["--\x1b[31m"], "there is no option --\\x1b[31m; --help lists them"),
        (["-x"], "there is no option -x; --help lists them"),
        (["--port"], "option --port requires argument; --help lists the options"),
        (
            ["num.partitions=3"],
            "num.partitions=3: options begin with --, settings with --set; --help lists the options",
        ),
    ],
)
def test_unknown_options(arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A mistyped option is one line, with the nearest one, and exit status 2."""
    with pytest.raises(SystemExit) as exited:
        make(*arguments)
    assert exited.value.code == 2
    assert capfd.readouterr().err == f"logbus: {words}\n"


def test_port_that_needs_a_right(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A port below 1024 says what it needs."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("logbus.preflight.socket.socket.bind", refuse)
    with pytest.raises(SystemExit):
        make("--port", "80", "--admin-port", "0")
    (said,) = capfd.readouterr().err.splitlines()
    assert "listener kafka (tcp:80:interface=127.0.0.1)" in said
    assert "Permission denied" in said
    assert said.endswith("Choose a port from 1024, or give the process CAP_NET_BIND_SERVICE.")


def make(*arguments: str) -> IService:
    """Return the service that twistd makes of a command line."""
    options = Options()
    options.parseOptions(arguments)
    return makeService(options)


def test_an_unknown_key_ends_the_process(tmp_path: Path) -> None:
    """The whole way through twistd: one line, status 1, no data directory."""
    said = start_fails(tmp_path, "--set", "num.partitons=3")
    assert "did you mean num.partitions?" in said
    assert contents(tmp_path) == {}


def test_set_wins_over_the_file(tmp_path: Path) -> None:
    """A key on the command line counts, whatever the file says."""
    from logbus.config import keys
    from logbus.server_options import load

    (tmp_path / "server.properties").write_text("num.partitions=3\nlog.retention.hours=7\n")
    options = Options()
    options.parseOptions(["-c", str(tmp_path / "server.properties"), "-s", "num.partitions=5", "-b", "4", "-d", "here"])
    config, listeners = load(options)
    assert config.get(keys.NUM_PARTITIONS) == 5
    assert config.get(keys.LOG_RETENTION_MS) == 7 * 3_600_000
    assert (config.get(keys.BROKER_ID), config.get(keys.LOG_DIRS)) == (4, ("here",))
    assert [listener.name for listener in listeners] == ["kafka", "admin"]


def test_help(tmp_path: Path) -> None:
    """Each option is explained, with its default."""
    done = subprocess.run(
        [*TWISTD, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    for option, default in (
        ("--config=", None),
        ("--set=", None),
        ("--data-dir=", "logbus-data"),
        ("--broker-id=", "0"),
        ("--zookeeper=", None),
        ("--listen=", "kafka:tcp:9092:interface=127.0.0.1 and admin:tcp:8080:interface=127.0.0.1"),
        ("--advertise=", None),
        ("--as-version=", "4.3"),
    ):
        _, found, rest = text.partition(option)
        assert found, option
        explained = re.split(r" -{1,2}[a-z]", rest, maxsplit=1)[0]
        assert len(explained) > 30, option
        assert default is None or f"[default: {default}]".replace(" ", "") in explained.replace(" ", ""), option
    assert contents(tmp_path) == {}


# What is wrong with ports and directories.


def test_port_in_use(tmp_path: Path) -> None:
    """The listener and its port are named, and the data directory is not made."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = start_fails(tmp_path, "--listen", f"kafka:tcp:{port}:interface=127.0.0.1", "--data-dir", "data")
    assert f"listener kafka (tcp:{port}:interface=127.0.0.1)" in said
    assert "in use" in said
    assert "Choose another port" in said
    assert contents(tmp_path) == {}


def test_one_port_for_two_listeners(tmp_path: Path) -> None:
    """Ports that the command line itself gives twice are found, too, and that it is itself which has them is said."""
    with closing(HeldPorts()) as held:
        port = held.free("127.0.0.1")
        said = start_fails(
            tmp_path,
            "--listen",
            f"kafka:tcp:{port}:interface=127.0.0.1",
            "--listen",
            f"admin:tcp:{port}:interface=127.0.0.1",
        )
    assert "listener admin" in said
    assert said.endswith("in use. Another listener of this broker has that port: give each one of its own.")
    assert contents(tmp_path) == {}


def test_double_start(tmp_path: Path) -> None:
    """A second broker on the same directory is refused, and the first one does not notice."""
    with Broker(data_dir=tmp_path / "data") as broker:
        # The last file that a start leaves, in the background.
        wait_for_file(broker.data_dir / ".logbus_boot")
        before = set(contents(broker.data_dir))
        said = start_fails(tmp_path, "--data-dir", "data", *FREE)
        assert "data is in use by another broker" in said
        assert set(contents(broker.data_dir)) == before
        assert serves(broker)


def serves(broker: Broker) -> bool:
    """Whether a broker answers."""
    from confluent_kafka.admin import AdminClient

    return bool(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=SECONDS).brokers)


@pytest.mark.parametrize("directory", ["file", "file/below", "/proc/logbus-test"])
def test_directory_that_cannot_be(tmp_path: Path, directory: str) -> None:
    """A directory that even root cannot write is named."""
    if directory.startswith("/proc") and not sys.platform.startswith("linux"):
        pytest.skip("no /proc here")
    (tmp_path / "file").write_bytes(b"mine")
    assert directory in start_fails(tmp_path, "--data-dir", directory, *FREE)
    assert contents(tmp_path) == {"file": b"mine"}


def test_authorizer_that_there_is_not(tmp_path: Path) -> None:
    """It is found out when the broker is built, which makes no directory."""
    why = start_fails(tmp_path, *FREE, "--data-dir", "new/data", "--set", "authorizer.class.name=no.such.Authorizer")
    assert "authorizer.class.name=no.such.Authorizer: " in why
    assert not (tmp_path / "new").exists()


def test_directory_of_another_broker(tmp_path: Path) -> None:
    """A directory stays the broker's whose number it bears."""
    with Broker({"broker.id": "3"}, data_dir=tmp_path / "data"):
        pass
    before = contents(tmp_path)
    said = start_fails(tmp_path, "--data-dir", "data", "--broker-id", "4", *FREE)
    assert "belongs to broker 3, and this is broker 4: set broker.id to 3" in said
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "meta",
    [
        "#\n#Mon Jan 01 00:00:00 UTC 2024\nversion=0\nbroker.id=0\ncluster.id=FjJJ7pKQTNmHnRJ0aLkgYw\n",
        "version=1\nnode.id=0\ndirectory.id=g1bC1kGgRZSKL6iIDbm3Uw\ncluster.id=FjJJ7pKQTNmHnRJ0aLkgYw\n",
    ],
    ids=["zookeeper", "kraft"],
)
def test_directory_of_kafka(tmp_path: Path, meta: str) -> None:
    """A data directory of Apache Kafka is left alone."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text(meta)
    before = contents(tmp_path)
    assert "data is a data directory of Apache Kafka" in start_fails(tmp_path, "--data-dir", "data", *FREE)
    assert contents(tmp_path) == before


def test_metadata_that_is_garbage(tmp_path: Path) -> None:
    """An error during the start is one line and status 1, too; the damaged file is kept."""
    (tmp_path / "data").mkdir()
    garbage = bytes(range(256)) * 40
    (tmp_path / "data" / "metadata.db").write_bytes(garbage)
    said = start_fails(tmp_path, "--data-dir", "data", *FREE)
    assert "data/metadata.db is damaged" in said
    assert (tmp_path / "data" / "metadata.db").read_bytes() == garbage


# Start and stop.


def test_ready_and_stopped_by_sigterm(tmp_path: Path) -> None:
    """One line says that it serves, and where; SIGTERM stops it in order, and leaves nothing to recover."""
    with twistd(tmp_path, *FREE) as process:
        said = read_until(process, r"logbus broker 0 ready").splitlines()[-1]
        found = re.search(r"logbus broker 0 ready: kafka=127\.0\.0\.1:(\d+) admin=127\.0\.0\.1:(\d+)$", said)
        assert found is not None, said
        for port in found.groups():
            socket.create_connection(("127.0.0.1", int(port)), SECONDS).close()
        assert not (tmp_path / "logbus-data" / ".logbus_cleanshutdown").exists()
        rest = stop(process)
        assert "Traceback" not in rest
    assert (tmp_path / "logbus-data" / ".logbus_cleanshutdown").exists()
    with twistd(tmp_path, *FREE) as process:
        assert "0 of them recovered" in read_until(process, r"logbus broker 0 ready")


def test_ready_at_a_unix_socket(tmp_path: Path) -> None:
    """The line names the path of a listener that is a UNIX socket."""
    path = tmp_path / "admin.sock"
    with twistd(tmp_path, *FREE[:2], "--listen", f"admin:unix:{path}") as process:
        said = read_until(process, r"logbus broker 0 ready").splitlines()[-1]
        assert said.endswith(f" admin=unix:{path}"), said


def test_signals(tmp_path: Path) -> None:
    """SIGHUP changes nothing without TLS; a second SIGTERM does not disturb the first."""
    with twistd(tmp_path, *FREE) as process:
        read_until(process, r"logbus broker 0 ready")
        for _ in range(2):
            process.send_signal(signal.SIGHUP)
            read_until(process, "SIGHUP: certificates are read again")
        process.terminate()
        said = read_until(process, "Received SIGTERM")
        said += stop(process)
        assert "Traceback" not in said
        assert "ReactorNotRunning" not in said
    assert (tmp_path / "logbus-data" / ".logbus_cleanshutdown").exists()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_log_file(tmp_path: Path, workers: str) -> None:
    """The log is JSON in a file; SIGHUP has levels read again, and the file opened that another tool has moved."""
    config, log = tmp_path / "server.properties", tmp_path / "broker.log"
    config.write_text("logger.format=json\nlogger.levels=root:INFO\n")
    options = ["--config", str(config), "--log-file", str(log), "--workers", workers, *FREE]

    def wait_for_line(words: str) -> list[dict[str, str]]:
        end = time.monotonic() + SECONDS
        while True:
            text = log.read_text() if log.exists() else ""
            lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
            if any(words in line["message"] for line in lines):
                return lines
            assert time.monotonic() < end, f"{words!r} did not come:\n{text}"
            time.sleep(0.05)

    with twistd(tmp_path, *options) as process:
        lines = wait_for_line("ready: kafka=127.0.0.1:")
        assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
        assert any(line["message"].startswith("logbus broker") for line in lines)
        config.write_text("logger.format=json\nlogger.levels=root:WARN\n")
        log.rename(tmp_path / "old.log")
        process.send_signal(signal.SIGHUP)
        wait_for_file(log, SECONDS)
        stop(process)
    assert "stopped" not in log.read_text(), "less than a warning is logged"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_settings_are_read_again(tmp_path: Path, workers: str) -> None:
    """SIGHUP: what may change is in use at once, what may not is named, and a wrong file changes nothing."""
    config = tmp_path / "server.properties"
    config.write_text("log.retention.ms=70000\nbroker.rack=a\n")

    def retentions() -> list[str]:
        found = []
        for broker in range(int(workers)):
            with urlopen(f"http://{address}/api/v1/configs/brokers/{broker}", timeout=SECONDS) as answer:
                items = json.load(answer)["items"]
            found += [each["value"] for each in items if each["name"] == "log.retention.ms"]
        return found

    def read_again(text: str, pattern: str) -> str:
        config.write_text(text)
        process.send_signal(signal.SIGHUP)
        return read_until(process, pattern)

    with twistd(tmp_path, "--config", str(config), "--workers", workers, *FREE) as process:
        match = re.search(r"admin=(\S+)", read_until(process, r"ready: .*admin="))
        assert match is not None
        address = match[1]
        assert retentions() == ["70000"] * int(workers)
        read_again("log.retention.ms=80000\nbroker.rack=b\n", r"broker\.rack: used after the next start")
        end = time.monotonic() + SECONDS
        while retentions() != ["80000"] * int(workers):
            assert time.monotonic() < end
        said = read_again("log.retention.ms=never\n", "the configuration is left as it is: ")
        assert "server.properties, line 1: log.retention.ms: 'never' is not valid" in said
        assert retentions() == ["80000"] * int(workers)
        rest = stop(process)
        assert "Traceback" not in rest


@pytest.mark.parametrize("workers", ["1", "2"])
def test_systemd(tmp_path: Path, workers: str) -> None:
    """It is told when clients are served, what SIGHUP does, that the reactor turns, and that the broker stops."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(SECONDS)

        def told(wanted: bytes) -> None:
            while not systemd.recv(1000).startswith(wanted):
                pass

        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
        with twistd(tmp_path, "--workers", workers, *FREE, **variables) as process:
            read_until(process, "ready: ")
            told(b"READY=1")
            told(b"WATCHDOG=1")
            process.send_signal(signal.SIGHUP)
            told(b"RELOADING=1\nMONOTONIC_USEC=")
            told(b"READY=1")
            process.send_signal(signal.SIGTERM)
            told(b"STOPPING=1")
            stop(process)


@pytest.mark.parametrize(
    ("option", "reactor"),
    [([], "logbus.net.reactor.BrokerReactor"), (["--reactor=poll"], "twisted.internet.pollreactor.PollReactor")],
)
def test_reactor(tmp_path: Path, option: list[str], reactor: str) -> None:
    """The broker brings its own reactor, unless the operator chose one."""
    command = [*TWISTD[:-1], *option, TWISTD[-1], *FREE]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert f"reactor class: {reactor}." in read_until(process, r"logbus broker 0 ready")
        stop(process)
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("moment", ["starting up", "logs opened", "KafkaServerFactory starting", "is the controller"])
def test_sigterm_while_starting(tmp_path: Path, moment: str) -> None:
    """However early it is told to stop, it stops, without a complaint, and starts again."""
    with twistd(tmp_path, *FREE) as process:
        said = read_until(process, moment) + stop(process)
        assert "Traceback" not in said
        assert "cannot go on" not in said
    with twistd(tmp_path, *FREE) as process:
        read_until(process, r"logbus broker 0 ready")
        stop(process)


def test_pid_file_is_removed(tmp_path: Path) -> None:
    """A start that fails leaves no pid file behind, which would stand in the way of the next."""
    command = [word for word in TWISTD if word != "--pidfile="]
    command.insert(-1, "--pidfile=twistd.pid")
    done = subprocess.run(
        [*command, "--data-dir", "/dev/null/below", *FREE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert contents(tmp_path) == {}


def test_kafka_name_of_listeners(tmp_path: Path) -> None:
    """``listeners`` and ``advertised.listeners`` of a Kafka configuration are understood, IPv6 included."""
    from logbus.server_options import load

    options = Options()
    options.parseOptions(
        ["-s", r"listeners=PLAINTEXT://[::1]:0", "-s", "advertised.listeners=PLAINTEXT://log.example.org:9092"]
    )
    _, listeners = load(options)
    first = listeners[0]
    assert (first.name, first.protocol, first.endpoint) == ("PLAINTEXT", "kafka", r"tcp:0:interface=\:\:1")
    assert first.advertised == ("log.example.org", 9092)

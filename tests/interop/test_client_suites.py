"""
aiokafka's, kafka-python's and franz-go's own tests, with ``logbus test-server`` as their broker.

Left out are those of TLS and SASL, which need certificates and listeners of their own, and those named below.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.interop.client_suites import aiokafka_docker, sources
from tests.interop.client_suites.server import LOGBUS, running_server

PLUGINS = Path(aiokafka_docker.__file__).parent
SECONDS = 540
# Of one test; some of aiokafka's long ones take a minute.
TEST_SECONDS = 180
SECONDS_TO_ABORT = 10
CHARACTERS = 50_000
LOG = "client.log"
LOG_FORMAT = "%(levelname)s %(asctime)s.%(msecs)03d %(threadName)s %(name)s: %(message)s"
LINES = 150
LINE = 500
FRANZ_GO = "v1.18.1"

AIOKAFKA_QUICK = ("test_admin", "test_producer")
AIOKAFKA_LONG = (
    *("test_client", "test_conn", "test_consumer", "test_coordinator", "test_fetcher", "test_pep492", "test_sender"),
    *("test_transactional_consumer", "test_transactional_producer"),
)


def logged(directory: Path) -> str:
    """What the clients logged last, and what of it is no debugging: a loop that waits logs much of that."""
    log = directory / LOG
    lines = [line[:LINE] for line in log.read_text(errors="replace").splitlines()] if log.exists() else []
    telling = [line for line in lines if not line.startswith("DEBUG")]
    return "\n".join([*telling[-LINES:], "", *lines[-LINES:]])


def run(directory: Path, *command: str, **environment: str) -> str:
    """Run a command of a suite: its output, which a failure shows, also of what is not over in time."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        with subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, "LOGBUS_COMMAND": LOGBUS, "PYTHONPATH": str(PLUGINS), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                problem = f"exit status {status}" if (status := process.wait(SECONDS)) else None
            except subprocess.TimeoutExpired:
                problem = f"not over after {SECONDS} s"
                # Python's fault handler writes the stack of each thread.
                process.send_signal(signal.SIGABRT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SECONDS_TO_ABORT)
            finally:
                process.kill()
        output.seek(0)
        printed = output.read()
    if problem is not None:
        pytest.fail(f"{' '.join(command)}: {problem}\n{printed[-CHARACTERS:]}\n{logged(directory)}", pytrace=False)
    return printed


def pytest_of(plugin: str, *options: str) -> list[str]:
    """
    Pytest with none of this project's and the suite's own configuration.

    A test that hangs ends the run: the last line names it, the stack of each thread follows, and what was logged last.
    """
    apart = ["-c", os.devnull, "--rootdir", ".", "-p", "no:logbus", "-p", "no:twisted", "-p", "no:cacheprovider"]
    limit = ["-v", "-o", f"faulthandler_timeout={TEST_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
    log = ["--log-file", LOG, "--log-file-level", "DEBUG", "--log-file-format", LOG_FORMAT]
    # Pytest's own fault handler is there while tests run; a process can also hang when they are over.
    python = [sys.executable, "-X", "faulthandler", "-m", "pytest"]
    return [*python, *apart, *limit, *log, "-p", plugin, *options]


def run_aiokafka(home: Path, modules: tuple[str, ...]) -> str:
    """Run modules of aiokafka's tests, which start the broker by themselves."""
    tests = home / "tests"
    tests.symlink_to(sources.aiokafka() / "tests")
    programs = home / "bin"
    programs.mkdir()
    # Of Kerberos, for which there is no test without SASL.
    (programs / "ktutil").write_text("#!/bin/sh\nexec cat >/dev/null\n")
    (programs / "ktutil").chmod(0o755)
    (tests / "ssl_cert").mkdir(exist_ok=True)
    image = ["--docker-image", "logbus:2.13_4.1.0", "--no-pull", "-m", "not ssl", "-W", "ignore"]
    return run(
        home,
        *pytest_of("aiokafka_docker", *image, *(f"tests/{each}.py" for each in modules)),
        PATH=f"{programs}:{os.environ['PATH']}",
    )


def test_aiokafka(tmp_path: Path) -> None:
    """Its admin client and its producer."""
    assert " passed" in run_aiokafka(tmp_path, AIOKAFKA_QUICK)


@pytest.mark.long
def test_aiokafka_whole(tmp_path: Path) -> None:
    """Its consumers, groups and transactions, some of which wait for minutes."""
    assert " passed" in run_aiokafka(tmp_path, AIOKAFKA_LONG)


def test_kafka_python(tmp_path: Path) -> None:
    """All but the test of a quorum of KRaft, which there is none of."""
    (tmp_path / "test").symlink_to(sources.kafka_python() / "test")
    settings = [
        "num.partitions=4",
        "group.min.session.timeout.ms=500",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
    ]
    modules = [f"test/integration/test_{each}_integration.py" for each in ("admin", "consumer", "producer")]
    with running_server(tmp_path / "server.json", settings) as told:
        run(
            tmp_path,
            *pytest_of("kafka_python_service", "--deselect", f"{modules[0]}::test_describe_metadata_quorum", *modules),
            KAFKA_URI=f"kafka://{told['bootstrap']}",
            KAFKA_VERSION="4.3.0",
            KAFKA_ROOT=str(tmp_path),
        )


@pytest.mark.long
def test_franz_go(tmp_path: Path) -> None:
    """All of ``kgo``: producers, consumers, groups with each balancer, transactions."""
    with running_server(tmp_path / "server.json") as told:
        printed = run(
            sources.franz_go(FRANZ_GO),
            *("go", "test", "-count=1", f"-timeout={SECONDS - 60}s", "./pkg/kgo"),
            KGO_SEEDS=told["bootstrap"],
            KGO_TEST_RF="1",
            KGO_TEST_RECORDS="5000",
            KGO_LOG_LEVEL="none",
        )
    # Lines of what is downloaded may be before.
    assert re.search(r"^ok\b", printed, re.MULTILINE), printed

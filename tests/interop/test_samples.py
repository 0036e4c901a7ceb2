"""
The sample projects of the gallery (``docs/howto/gallery.rst``): services in several languages, tested by the test kit.

What those in other languages need comes from their registries, by their own tools and into the caches of these.
``LOGBUS_ALL_SAMPLES=1`` has a missing tool fail a test that is skipped otherwise.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from logbus.testing import Broker
from logbus.testing.held_ports import HeldPorts
from logbus.testing.waiting import wait_until
from tests.interop.sample_builds import BUILDS, ROOT, BuildFailed, FetchFailed, build, copied

SECONDS = 540
SEARCHED = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
"""Where a shell finds the programs that are installed beside this Python."""


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A copy of the samples and of what they use: builds leave nothing in the checkout."""
    return copied(tmp_path)


def need(program: str, package: str) -> None:
    """Skip a test without the tools of its language."""
    if shutil.which(program) is None:
        lacking(f"{program} is missing: apt-get install {package}")


def lacking(what: str) -> None:
    """Skip a test, or fail where all must run."""
    if os.environ.get("LOGBUS_ALL_SAMPLES"):
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


def run(directory: Path, *command: str, **environment: str) -> str:
    """Run a command of a sample: its output, which a failure shows."""
    logbus = Path(sys.executable).parent / "logbus"
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "LOGBUS_COMMAND": str(logbus), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-8000:]}", pytrace=False)
    return done.stdout


def built(language: str) -> Path:
    """The directory of a sample that is compiled, in a copy that stays for the next run."""
    try:
        return build(language)
    except FetchFailed as e:
        lacking(str(e))
        raise
    except BuildFailed as e:
        pytest.fail(str(e), pytrace=False)


def pytest_of(project: Path) -> str:
    """What pytest prints of a project in Python, without the settings of this repository."""
    settings = ("-p", "no:cacheprovider", "--rootdir", ".", "-c", "/dev/null")
    return run(project, sys.executable, "-m", "pytest", "-q", "--tb=short", *settings)


def documented(project: str) -> list[str]:
    """The commands that the gallery has one type in the folder of a project."""
    lines = iter((ROOT / "docs" / "howto" / "gallery.rst").read_text().splitlines())
    assert f"    $ cd tests/samples/{project}" in lines
    typed = itertools.takewhile(lambda line: line.startswith("    "), lines)
    return [line.removeprefix("    $ ") for line in typed if line.startswith("    $ ")]


def serve(project: Path, command: str) -> None:
    """
    Start a service as the gallery says, in the folder that it says; order something, and stop it.

    :param command: for a shell.
    """
    assert command in documented(project.name)
    held = HeldPorts()
    with Broker({"num.partitions": 3}) as broker, contextlib.closing(held), tempfile.TemporaryFile("w+") as log:
        broker.admin.create_topic("orders")
        port = str(held.free("127.0.0.1"))
        process = subprocess.Popen(
            ["sh", "-c", f"exec env {command}"],
            cwd=project,
            # uvicorn has its options from the environment by names of its own.
            env={**os.environ, "PATH": SEARCHED, "KAFKA": broker.bootstrap, "PORT": port, "UVICORN_PORT": port},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Some commands start the service as a process of its own.
            start_new_session=True,
        )

        def asked(method: str, path: str) -> Any:
            if process.poll() is not None:
                raise AssertionError(f"it has ended with status {process.returncode}")
            try:
                with urlopen(Request(f"http://127.0.0.1:{port}{path}", method=method), timeout=60) as response:
                    return response.read() and response.status
            except ConnectionError:
                return None
            except URLError as e:
                if isinstance(e.reason, ConnectionError):
                    return None
                raise

        try:
            wait_until(lambda: asked("GET", "/counts"), "an answer of the service")
            for item in ("tea", "cake", "tea"):
                assert asked("POST", f"/orders/{item}") == 201
            broker.wait_no_lag("counting", "orders")
            with urlopen(f"http://127.0.0.1:{port}/counts", timeout=60) as response:
                assert json.load(response) == {"tea": 2, "cake": 1}
            os.killpg(process.pid, signal.SIGTERM)
            # uvicorn ends by the signal once it has stopped in order.
            assert process.wait(60) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
        except BaseException as e:
            log.seek(0)
            pytest.fail(f"{command}: {e!r}\n{log.read()[-8000:]}", pytrace=False)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize(
    ("project", "command"),
    [
        ("twisted_service", "PYTHONPATH=. twistd -ny shop.tac"),
        ("fastapi_logbus", "uvicorn main:app"),
        ("fastapi_aiokafka", "uvicorn main:app"),
    ],
)
def test_served(samples: Path, project: str, command: str) -> None:
    """The services in Python, started by the commands of the gallery."""
    serve(samples / project, command)


def test_twisted(samples: Path) -> None:
    """A service of Twisted with the client of logbus, by trial."""
    printed = run(samples / "twisted_service", sys.executable, "-m", "twisted.trial", "test_shop")
    assert "PASSED (successes=2)" in printed


@pytest.mark.parametrize(("project", "tests"), [("fastapi_aiokafka", 2), ("fastapi_logbus", 3)])
def test_fastapi(samples: Path, project: str, tests: int) -> None:
    """Services of FastAPI, with aiokafka and with the client of logbus for asyncio."""
    assert f"{tests} passed" in pytest_of(samples / project)


def test_spark(samples: Path) -> None:
    """A job of Spark, which takes the time of a Spark to start."""
    assert "1 passed" in pytest_of(samples / "spark_job")


def test_c(samples: Path) -> None:
    """librdkafka and make; the test is a shell script."""
    need("cc", "gcc libc6-dev")
    need("pkg-config", "pkg-config")
    if subprocess.run(["pkg-config", "--exists", "rdkafka"], check=False).returncode:
        lacking("librdkafka's headers are missing: apt-get install librdkafka-dev")
    assert "all passed" in run(samples / "c", "make", "test")


def test_node(samples: Path) -> None:
    """kafkajs, and Node's own test runner."""
    need("npm", "npm")
    version = int(run(samples, "node", "--version").strip().lstrip("v").partition(".")[0])
    if version < 18:
        lacking(f"Node.js {version} is too old: it has no fetch; the helper needs 18")
    run(samples / "node", "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline")
    assert "# pass 7" in run(samples / "node", "node", "--test", "--test-reporter=tap")
    serve(samples / "node", "npm start")


def test_java(samples: Path) -> None:
    """kafka-clients and JUnit 5, by Maven."""
    need("javac", "default-jdk-headless")
    need("mvn", "maven")
    # Most of Maven is run once: compiling it well costs a quarter of the processor time.
    quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    printed = run(samples / "java", "mvn", "--batch-mode", "package", MAVEN_OPTS=quick)
    assert "Tests run: 6, Failures: 0, Errors: 0, Skipped: 0" in printed
    serve(samples / "java", "java -cp 'shop/target/classes:shop/target/lib/*' example.Shop")


def test_go() -> None:
    """franz-go."""
    need("go", "golang-go")
    minor = run(ROOT, "go", "env", "GOVERSION").strip().removeprefix("go").split(".")[1]
    if int(minor) < 21:
        lacking(f"Go 1.{minor} is too old: franz-go needs 1.21")
    directory = built("go")
    assert run(directory, "gofmt", "-l", ".", "../../../testkit/go") == ""
    assert "ok" in run(directory, "go", "test", "-count=1", "./...")
    serve(directory, "go run ./cmd/shop")


def test_rust() -> None:
    """rskafka."""
    need("cargo", "cargo")
    printed = run(built("rust"), "cargo", "test", **BUILDS["rust"].variables)
    assert "test result: ok. 5 passed" in printed

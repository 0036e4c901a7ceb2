"""
The sample projects in other languages, whose tests run a test server by the helpers of ``testkit``.

What they need comes from the registries of their languages, by their own tools and into the caches of these.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CACHE = Path(os.environ.get("LOGBUS_SAMPLES_CACHE", "~/.cache/logbus-samples")).expanduser()
"""What a build leaves for the next one, where a language has no cache of its own for that."""
SECONDS = 540


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A copy of the samples and of what they use: builds leave nothing in the checkout."""
    builds = shutil.ignore_patterns("target", "node_modules", "Cargo.lock", "package-lock.json")
    for each in ("testkit", "tests/samples"):
        shutil.copytree(ROOT / each, tmp_path / each, ignore=builds)
    return tmp_path / "tests" / "samples"


def need(program: str, package: str) -> None:
    """Skip a test without the tools of its language."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing: apt-get install {package}")


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


def test_node(samples: Path) -> None:
    """kafkajs, and Node's own test runner."""
    need("npm", "npm")
    version = int(run(samples, "node", "--version").strip().lstrip("v").partition(".")[0])
    if version < 18:
        pytest.skip(f"Node.js {version} is too old: it has no fetch; the helper needs 18")
    run(samples / "node", "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline")
    assert "# pass 3" in run(samples / "node", "node", "--test", "--test-reporter=tap")


def test_java(samples: Path) -> None:
    """kafka-clients and JUnit 5, by Maven."""
    need("javac", "default-jdk-headless")
    need("mvn", "maven")
    printed = run(samples / "java", "mvn", "--batch-mode", "test")
    assert "Tests run: 3, Failures: 0, Errors: 0, Skipped: 0" in printed


@pytest.mark.long
def test_go(samples: Path) -> None:
    """franz-go; its first build takes a minute of processor time, and later ones find it in Go's cache."""
    need("go", "golang-go")
    assert run(samples / "go", "gofmt", "-l", ".", "../../../testkit/go") == ""
    run(samples / "go", "go", "vet", "./...")
    assert "ok" in run(samples / "go", "go", "test", "-count=1", "./...")


@pytest.mark.long
def test_rust(samples: Path) -> None:
    """rskafka; its first build takes a minute of processor time."""
    need("cargo", "cargo")
    CACHE.mkdir(parents=True, exist_ok=True)
    printed = run(samples / "rust", "cargo", "test", CARGO_TARGET_DIR=str(CACHE / "cargo"))
    assert "test result: ok. 3 passed" in printed

"""What Apache's classes of MirrorMaker 2 find at the target of a mirror."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.compare.jars import KAFKA_VERSION, client_jars, mirror_jars
from logbus.mirror.mirror_records import Checkpoint, Heartbeat, OffsetSync
from logbus.model import TopicPartition
from logbus.testing import Broker
from tests.interop.java_client import CACHE, QUICK_JAVAC, SMALL_JVM

SOURCE = Path(__file__).parent / "mirror_java" / "MirrorReader.java"
SECONDS = 120
LOGBUS = Path(sys.executable).with_name("logbus")

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How to run the reader."""
    if shutil.which("javac") is None:
        pytest.skip("javac is missing: apt-get install default-jdk-headless")
    home = tmp_path_factory.mktemp("mirror")
    jars = f"{client_jars(KAFKA_VERSION, CACHE)}/*:{mirror_jars(KAFKA_VERSION, CACHE)}/*"
    subprocess.run([*QUICK_JAVAC, "-encoding", "UTF-8", "-cp", jars, "-d", home, SOURCE], check=True, timeout=SECONDS)
    return ["java", *SMALL_JVM, "-cp", f"{home}:{jars}", "org.apache.kafka.connect.mirror.MirrorReader"]


@pytest.fixture
def target() -> Iterator[Broker]:
    """Another broker than that of the session, of which the mirror reads."""
    with Broker() as broker:
        yield broker


def logbus(*arguments: str, stdin: str = "") -> str:
    """What a command prints."""
    done = subprocess.run(
        [LOGBUS, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_mirror(command: list[str], broker: Broker, target: Broker) -> None:
    """Our bytes are Apache's, and its RemoteClusterUtils finds the source, its groups and their offsets."""
    here, there = broker.bootstrap, target.bootstrap
    logbus("topics", "create", "mirrored", "--partitions", "1", "-b", here)
    for first in (0, 50):
        logbus("produce", "mirrored", "-b", here, stdin="".join(f"{first + n}\n" for n in range(50)))
        # Heartbeats are for a mirror that runs; those of this test are written by hand.
        logbus(
            "mirror", "--from", here, "--from-name", "paris", "--to", there, "--to-name", "rome", "-e", "-t", "mirrored"
        )
    logbus("consume", "mirrored", "--group", "mirrored", "--from-beginning", "-n", "70", "-b", here)
    options = ["--topics", "mirrored", "--groups", "mirrored", "--sync-groups", "--until-end"]
    logbus("mirror", "--from", here, "--from-name", "paris", "--to", there, "--to-name", "rome", *options)
    logbus("topics", "create", "paris.heartbeats", "-b", there)

    done = subprocess.run(
        [*command, there, "paris", "mirrored"], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    said = [line.split("\t") for line in done.stdout.splitlines()]
    partition = TopicPartition("orders-é", 3)
    sync = OffsetSync(partition, 17, 1 << 40)
    checkpoint = Checkpoint("billing", partition, 17, 1 << 40, "méta")
    beat = Heartbeat("a", "bc", 1_700_000_000_000)
    assert said[:3] == [
        [name, each.key.hex(), each.value.hex()]
        for name, each in (("sync", sync), ("checkpoint", checkpoint), ("heartbeat", beat))
    ]
    ((_, place, offset, _),) = [each for each in said if each[0] == "offset"]
    assert place == "paris.mirrored-0"
    rest = logbus("consume", "paris.mirrored", "--offset", offset, "--exit-at-end", "-b", there).split()
    assert rest == [str(n) for n in range(70, 100)]
    assert logbus("consume", "paris.mirrored", "--group", "mirrored", "--exit-at-end", "-b", there).split() == rest
    assert said[-4:] == [
        ["upstream", "[paris]"],
        ["hops", "1"],
        ["checkpoints", "[paris.checkpoints.internal]"],
        ["heartbeats", "[paris.heartbeats]"],
    ]

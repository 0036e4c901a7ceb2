"""Mirrors between brokers that trust nobody: TLS, logins and rights that are wrong, missing, lost and given again."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.mirror.secured import SECONDS, RunningMirror, SecuredSide, secured_sides

Sides = tuple[SecuredSide, SecuredSide]

pytestmark = pytest.mark.long

TRANSACTIONAL_ID = "logbus-mirror-paris-to-rome"
SYNCS = "mm2-offset-syncs.paris.internal"


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """A source with passwords, a target with certificates; rights are given by the tests, in their order."""
    with secured_sides(tmp_path_factory.mktemp("secured")) as both:
        yield both


def mirror(sides: Sides, *more: str, source: str | None = None, target: str | None = None) -> RunningMirror:
    """A mirror from ``paris`` to ``rome``; it may be given other files to connect with."""
    here, there = sides
    return RunningMirror(
        *("--from", here.bootstrap, "--from-name", "paris", "--from-config", source or here.config()),
        *("--to", there.bootstrap, "--to-name", "rome", "--to-config", target or there.config()),
        *("--refresh-interval", "0.5", "--interval", "0.1", "--heartbeat-interval", "0"),
        *("--checkpoint-interval", "0", *more),
    )


def refused(sides: Sides, **files: str) -> str:
    """The last line of a mirror that cannot begin."""
    running = mirror(sides, **files)
    assert running.end() == 1, running.lines
    return running.lines[-1]


def test_connections(sides: Sides) -> None:
    """A wrong password, no certificate, and one that is not trusted: the line names the side, and what to look at."""
    source, target = sides
    assert re.search(
        "the source paris: .* refuses PLAIN as 'mirror'", refused(sides, source=source.config(password="x"))
    )
    none = target.config(ssl_keystore_location=None, ssl_keystore_type=None)
    assert re.search("the target rome: .*demands a certificate, as in ssl.keystore", refused(sides, target=none))
    stranger = target.config(ssl_truststore_location=str(target.home / "mirror.pem"))
    assert re.search("the target rome: .*see ssl.truststore.location", refused(sides, target=stranger))


def test_rights(sides: Sides) -> None:
    """
    Each right that is missing has a line with principal, operation and resource, also if it is lost in the middle;
    when it is back, the mirror goes on, and nothing is lost or repeated.
    """
    source, target = sides
    topic, operation = ResourceType.TOPIC, AclOperation
    source.create("orders")
    source.write("orders", "1", "2")
    assert f"User:CN=mirror lacks WRITE on transactional id {TRANSACTIONAL_ID} at the target rome" in refused(sides)
    target.allow(ResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID, operation.WRITE)
    assert f"on topic {SYNCS} at the target rome" in refused(sides)
    for each in (operation.CREATE, operation.WRITE, operation.READ):
        target.allow(topic, SYNCS, each)

    running = mirror(sides, "--metrics-port", "0")
    try:
        running.line("there is no topic to copy: --topics matches none that User:mirror may DESCRIBE")
        source.allow(topic, "orders", operation.DESCRIBE)
        running.line("User:mirror lacks DESCRIBE_CONFIGS on topic orders at the source paris")
        source.allow(topic, "orders", operation.DESCRIBE_CONFIGS)
        running.line("User:CN=mirror lacks CREATE on topic paris.orders at the target rome")
        target.allow(topic, "paris.", operation.CREATE, operation.DESCRIBE_CONFIGS, prefix=True)
        target.allow(topic, "paris.", operation.DESCRIBE, prefix=True)
        running.line("User:mirror lacks READ on topic orders at the source paris")
        source.allow(topic, "orders", operation.READ)
        running.line("orders-0 offset 0: .*User:CN=mirror lacks WRITE on topic paris.orders at the target rome")
        wait_for_lag(running, 2)
        target.allow(topic, "paris.", operation.WRITE, prefix=True)
        running.line("orders-0: goes on")
        assert target.read("paris.orders", 2) == [b"1", b"2"]

        lost: list[tuple[SecuredSide, ResourceType, str, AclOperation, bool, str]] = [
            (target, topic, "paris.", operation.WRITE, True, "lacks WRITE on topic paris.orders"),
            (source, topic, "orders", operation.READ, False, "lacks READ on topic orders"),
            (
                target,
                ResourceType.TRANSACTIONAL_ID,
                TRANSACTIONAL_ID,
                operation.WRITE,
                False,
                f"lacks WRITE on transactional id {TRANSACTIONAL_ID}",
            ),
        ]
        for number, (side, resource, name, right, prefix, line) in enumerate(lost, 3):
            seen = len(running.lines)
            side.forbid(resource, name, right, prefix)
            if right is operation.READ:
                # A fetch that waits for records was allowed already.
                running.line(line, seen)
            source.write("orders", str(number))
            running.line(line, seen)
            wait_for_lag(running, 1)
            side.allow(resource, name, right, prefix=prefix)
            assert target.read("paris.orders", number)[-1] == b"%d" % number
            wait_for_lag(running, 0)
    finally:
        running.stop()
    assert target.read("paris.orders", 5) == [b"%d" % number for number in range(1, 6)]
    assert running.process.returncode == 0, "\n".join(running.lines)


def lag(running: RunningMirror) -> int:
    """What the metrics say."""
    url = running.line("metrics: http").partition(": ")[2]
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        text = answer.read().decode()
    return sum(int(float(each)) for each in re.findall(r"^logbus_mirror_lag\{[^\n]*\} (\S+)", text, re.MULTILINE))


def wait_for_lag(running: RunningMirror, wanted: int) -> None:
    """Wait until the metrics say so."""
    deadline = time.monotonic() + SECONDS
    while lag(running) != wanted:
        assert time.monotonic() < deadline, (lag(running), running.lines)
        time.sleep(0.1)

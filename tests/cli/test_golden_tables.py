"""What common commands print, as it was looked at."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from logbus.testing import Broker
from tests.cli.command_line import run
from tests.cli.golden_files import compare

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CONFIG = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS", "offsets.topic.num.partitions": "1"}
#: In this order: later ones show what earlier ones have made.
SESSIONS = {
    "topics": """
        logbus topics create orders --partitions 2 --config retention.ms=60000
        logbus topics create payments
        logbus topics create orders
        logbus topics list
        logbus topics describe
        logbus topics describe orders --json
        logbus topics describe nosuch
        logbus produce orders -K : <<< 'a:1'
        logbus consume orders --group billing --from-beginning --exit-at-end
        logbus consume orders --from-beginning -n 1 --json
    """,
    "groups": """
        logbus groups list
        logbus groups describe billing
        logbus groups describe billing --state
        logbus groups describe nosuch
        logbus groups reset-offsets billing --to-earliest --all-topics
        logbus groups reset-offsets billing --to-earliest
    """,
    "cluster": """
        logbus cluster describe
        logbus log-dirs describe
        logbus transactions list
    """,
    "settings": """
        logbus configs describe topic orders
        logbus configs set topic orders retention.mss=1
        logbus configs describe logger 0
    """,
    "access": """
        logbus users add alice --password-file - <<< wonderland
        logbus users list
        logbus acls add --allow-principal User:alice --producer --topic orders
        logbus acls list
        logbus quotas set --user alice producer_byte_rate=1000000
        logbus quotas set --client-id-default consumer_byte_rate=2000000
        logbus quotas set --user alice nonsense=1
        logbus quotas list
    """,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that obeys ACLs, and lets this machine do all."""
    with Broker(CONFIG) as running:
        yield running


def steady(text: str, broker: Broker) -> str:
    """Without what differs from run to run; what is in tables keeps its width."""
    for found, name in ((broker.bootstrap, "127.0.0.1:PORTS"), (str(broker.data_dir), "DATA")):
        text = text.replace(found, name)
    text = re.sub(r"(?<=^cluster )\S{22}$", "CLUSTER" + 15 * "-", text, flags=re.MULTILINE)
    text = re.sub(r'(?<="topic_id": ")[^"]*', "ID", text)
    text = re.sub(r'(?<="timestamp": )\d+', "1", text)
    text = re.sub(r" +\d+ free$", " N free", text, flags=re.MULTILINE)
    return re.sub(r"^(directory) +(?=partition)|^ +(?=\S+-\d+ +\d+$)", r"\1  ", text, flags=re.MULTILINE)


def test_tables(broker: Broker) -> None:
    """They are what the files have, and so are the lines of error."""
    environment = {**os.environ, "LOGBUS_BOOTSTRAP": broker.bootstrap, "COLUMNS": "80"}
    for name, session in SESSIONS.items():
        text = []
        for line in session.strip().splitlines():
            command, _, given = line.strip().partition(" <<< ")
            stdin = "".join(f"{word}\n" for word in shlex.split(given)).encode()
            done = run(*shlex.split(command)[1:], stdin=stdin, env=environment)
            status = f"exit status {done.status}\n" if done.status else ""
            text.append(steady(f"$ {line.strip()}\n{done.out}{done.err}{status}", broker))
        compare(f"{name}.txt", "\n".join(text))


def test_files_of_a_stopped_broker(tmp_path: Path) -> None:
    """Damage is told with what a broker does about it."""
    directory = tmp_path / "data"
    with Broker(data_dir=directory) as broker:
        environment = {**os.environ, "LOGBUS_BOOTSTRAP": broker.bootstrap}
        for arguments, stdin in ((("topics", "create", "orders"), b""), (("produce", "orders"), b"hello\nworld\n")):
            assert run(*arguments, stdin=stdin, env=environment).status == 0
    text = []
    segment = directory / "orders-0" / "00000000000000000000.log"

    def look(*arguments: str) -> None:
        done = run(*arguments)
        printed = f"$ logbus {' '.join(arguments)}\n{done.out}{done.err}exit status {done.status}\n"
        printed = re.sub(r"\d+ files, [\d.]+ ?\w+", "N files, N kB", printed.replace(str(directory), "DATA"))
        printed = re.sub(r"CRC is \w+, computed \w+", "CRC is A, computed B", printed)
        printed = re.sub(r"\b1\d{12}\b|\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME", printed)
        text.append(re.sub(r"(?<=topic_id=)\S+", "ID", printed))

    look("dump-log", str(segment), "--records")
    look("verify", str(directory))
    data = bytearray(segment.read_bytes())
    data[-3] ^= 4
    segment.write_bytes(data)
    look("verify", str(directory))
    compare("files.txt", "\n".join(text))

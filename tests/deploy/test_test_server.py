"""The container of the test server: its file is valid, and what it runs serves clients."""

from __future__ import annotations

import json
import re
import subprocess
import sysconfig
from pathlib import Path

from logbus.testing.cluster_roles import known_brokers
from tests.testing.server.processes import LOGBUS, environment, send

FILE = Path(__file__).parent.parent.parent / "deploy" / "Containerfile.test-server"
FREE = ["--port", "0", "--admin-port", "0", "--control-port", "0"]
"""The ports of the image may be taken here; an option that is given again counts."""


def test_file() -> None:
    """The linter finds nothing."""
    linter = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run([linter, FILE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_command(tmp_path: Path) -> None:
    """It listens on all addresses, prints where, and takes the address that a port was mapped to."""
    found = dict(re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", FILE.read_text(), re.MULTILINE))
    entrypoint, command = json.loads(found["ENTRYPOINT"]), json.loads(found["CMD"])
    assert entrypoint[:2] == ["logbus", "test-server"]
    arguments = [*LOGBUS, *entrypoint[2:], *command, *FREE]
    variables = {**environment(tmp_path), "LOGBUS_TEST_SERVER_TOKEN": "secret"}
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=variables) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (told["token"], told["bootstrap"]) == ("secret", "localhost:9092")
        # The broker tells its clients an address that is none of this machine; the server knows its own.
        assert send(told, "POST", "/topics", {"name": "orders"})[0] == 201
        port = int(send(told, "GET", "/server")[1]["brokers"][0]["port"])
        status, mapped = send(told, "POST", "/server/advertise", {"host": "127.0.0.1", "port": port})
        assert (status, mapped["bootstrap"]) == (200, f"127.0.0.1:{port}")
        assert known_brokers(mapped["bootstrap"]) == 1
        assert [each["name"] for each in send(told, "GET", "/topics")[1]["items"]] == ["orders"]
        assert send(told, "POST", "/server/advertise", {"host": "a b", "port": 1})[0] == 400
        assert send(told, "POST", "/server/shutdown")[0] == 202
    assert process.returncode == 0
    assert not list(tmp_path.iterdir())


def test_wrong_options() -> None:
    """Each wrong address is a line that says what would be right."""
    for option, value, hint in (
        ("--host", "everywhere", "is no IPv4 address, such as 0.0.0.0"),
        ("--advertise", "localhost", "is not HOST:PORT, such as localhost:9092"),
        ("--advertise", "localhost:99999", "is not HOST:PORT, such as localhost:9092"),
        ("--token", "a b", "it has other characters than letters, digits and ._~+/-"),
    ):
        done = subprocess.run([*LOGBUS, option, value], input="", capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].endswith(hint)
    several = subprocess.run(
        [*LOGBUS, "--brokers", "2", "--port", "1"], input="", capture_output=True, text=True, check=False
    )
    assert (several.returncode, several.stderr) == (
        1,
        "logbus: --host, --port, --admin-port and --advertise are for a single broker, not for --brokers\n",
    )

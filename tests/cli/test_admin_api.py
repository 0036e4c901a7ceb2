"""Where the HTTP API of a broker is, as options say it."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from logbus.cli.admin_api import AdminApi
from logbus.cli.backup.backup_format import BackupError
from logbus.cli.backup.backup_source import READ_SECONDS, BackupSource
from logbus.cli.commands.cluster_shutdown_broker import shutdown_broker
from logbus.cli.runner import CommandFailed
from tests.cli.command_line import run


@pytest.mark.parametrize("address", ["", "http://", "ftp://here", "here:port", "here:99999", "[::1"])
def test_no_address(address: str) -> None:
    """What is no address is refused."""
    with pytest.raises(click.BadParameter, match="is not an address such as http"):
        AdminApi.of(address, "", None, None, 1.0)


def test_no_certificates(tmp_path: Path) -> None:
    """A file of certificates that cannot be read, or has none, is named."""
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    for path, why in ((file, "there are no certificates in it"), (tmp_path, "Is a directory"), (file / "x", "Not a ")):
        with pytest.raises(click.BadParameter, match=re.escape(f"{path}: {why}")):
            AdminApi.of("https://127.0.0.1:1", "", None, path, 1.0)


def test_no_password(tmp_path: Path) -> None:
    """It is looked for before anything else."""
    done = run("backup", str(tmp_path / "b"), "--user", "ann", "--password-file", str(tmp_path / "p"))
    assert (done.status, done.out) == (2, "")
    assert f"'--password-file': File '{tmp_path}/p' does not exist." in done.err


def test_backup_asks_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup does not wait for minutes for an answer, only for a snapshot."""
    asked: list[tuple[str, float | None]] = []

    def ask(self: AdminApi, method: str, path: str, body: object = None, timeout: float | None = None) -> None:
        asked.append((method, timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr(AdminApi, "ask", ask)
    source = BackupSource(AdminApi.of("http://127.0.0.1:1", "", None, None, 300.0))
    with pytest.raises(BackupError, match="timed out; is this the admin listener"):
        source.brokers()
    with pytest.raises(BackupError), source.snapshots_of((0,)):
        pass
    assert asked == [("GET", READ_SECONDS), ("POST", None)]


def test_a_snapshot_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker gives a request up after a minute, not its work: the backup waits for that, and takes what was made."""
    made = {"name": "s", "directories": ["/data/s"], "logs": 1}
    late = (504, {"detail": "There was no result within 60 seconds; what was asked for may still happen."})
    answers = [
        late,
        (200, {"items": []}),
        (409, {"detail": "On broker 0, a snapshot is being made."}),
        (200, {"items": []}),
        late,
        (200, {"items": [made]}),
        (204, {}),
    ]
    asked, waited = list[str](), list[float]()

    def ask(self: AdminApi, method: str, path: str, body: object = None, timeout: float | None = None) -> object:
        asked.append(method)
        return answers.pop(0)

    monkeypatch.setattr(AdminApi, "ask", ask)
    api = AdminApi.of("http://127.0.0.1:1", "", None, None, 300.0)
    with BackupSource(api, pause=waited.append).snapshots_of((0,)) as snapshots:
        assert snapshots == {0: ["/data/s"]}
    assert asked == ["POST", "GET", "POST", "GET", "POST", "GET", "DELETE"]
    assert len(waited) == 2


def test_a_snapshot_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken, and why there is no other one is said: also of one that took long and failed."""
    api = AdminApi.of("http://127.0.0.1:1", "", None, None, 300.0)
    failed = [(504, {}), (200, {"items": []}), (500, {"detail": "No space left on device"})]
    for answers, why in (([(409, {"detail": "a snapshot is being made"})], "is being made"), (failed, "No space left")):
        monkeypatch.setattr(AdminApi, "ask", lambda *_, answers=answers: answers.pop(0))
        with (
            pytest.raises(BackupError, match=why),
            BackupSource(api, pause=lambda seconds: None).snapshots_of((0,)),
        ):
            pass


def test_an_answer_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is that of the whole answer: one whose pieces come one by one does not have it anew for each."""
    timers: list[tuple[float, Callable[[], None]]] = []

    class Timer(threading.Thread):
        """What is called when a test says that it is time."""

        def __init__(self, seconds: float, end: Callable[[], None]) -> None:
            super().__init__()
            timers.append((seconds, end))

        def cancel(self) -> None:
            """It is not running."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
            for _, end in timers:
                end()
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        monkeypatch.setattr(threading, "Timer", Timer)
        api = AdminApi.of(f"http://127.0.0.1:{listening.getsockname()[1]}", "", None, None, 300.0)
        with pytest.raises(TimeoutError, match="timed out"):
            api.ask("GET", "/", timeout=7.0)
        serving.join()
    assert [seconds for seconds, _ in timers] == [7.0]


def test_a_shutdown_takes_its_time_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each request of a shutdown takes is not there any more for the next ones."""
    now, asked = [1000.0], []

    def ask(
        self: AdminApi, method: str, path: str, body: object = None, timeout: float | None = None
    ) -> tuple[int, dict[str, int]]:
        asked.append((method, self.timeout if timeout is None else timeout))
        now[0] += 25.0
        return (202 if method == "POST" else 200), {"broker": 1}

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(AdminApi, "ask", ask)
    assert shutdown_broker.callback is not None
    with pytest.raises(CommandFailed, match="had not stopped after 60 s"):
        shutdown_broker.callback(2, "http://127.0.0.1:1", "", None, None, False, 60.0)
    assert asked == [("GET", 60.0), ("POST", 35.0), ("GET", 10.0)]

"""What commands say when there is no broker where they connect, and how they end by a signal."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.runner import CommandFailed, raise_errors
from logbus.errors import ApiError, ErrorCode
from tests.cli.command_line import PATIENCE, run

SIDE_BY_SIDE = """
import os, signal
from twisted.internet.defer import Deferred, gatherResults
from logbus.cli.runner import run

async def work(reactor):
    reactor.callLater(0, os.kill, os.getpid(), signal.SIGINT)
    await gatherResults([gatherResults([Deferred()]), Deferred()], consumeErrors=True)

run(work)
"""


def _hang_up(listening: socket.socket, answer: bytes = b"") -> None:
    """What a listener with TLS does with a client that begins without; another one may answer something."""
    connection, _ = listening.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(answer)


class HintTests(SynchronousTestCase):
    def hint(self, *options: str) -> str:
        """The advice at a listener that hangs up."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.settimeout(PATIENCE)
            serving = Thread(target=_hang_up, args=(listening,), daemon=True)
            serving.start()
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            done = run("topics", "list", "--bootstrap", address, *options)
        self.assertEqual((done.status, done.out), (1, ""))
        self.assertTrue(done.err.startswith(f"logbus: no Kafka broker at {address}: "), done.err)
        return done.err.rpartition("; ")[2]

    def test_hung_up(self) -> None:
        """A listener that hangs up may ask for TLS: a broker runs there, so that is not the advice."""
        self.assertEqual(
            self.hint(), "does its listener ask for TLS or a login? --command-config and -X say how to connect\n"
        )

    def test_http(self) -> None:
        """A server of HTTP asks for no login of Kafka's."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.settimeout(PATIENCE)
            serving = Thread(target=_hang_up, args=(listening, b"HTTP/1.1 400 Bad Request\r\n\r\n"), daemon=True)
            serving.start()
            done = run("topics", "list", "--bootstrap", f"127.0.0.1:{listening.getsockname()[1]}")
        self.assertEqual(done.status, 1)
        self.assertTrue(done.err.endswith("speaks HTTP; --bootstrap names the address for Kafka clients\n"), done.err)

    def test_hung_up_on_a_login(self) -> None:
        """One who says how to connect is asked whether it is right."""
        file = Path(self.enterContext(TemporaryDirectory())) / "client.properties"
        file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=b\n")
        self.assertEqual(self.hint("--command-config", str(file)), "is this the listener for this security.protocol?\n")

    def test_without_a_controller(self) -> None:
        """Where nothing can be changed, it is said where to look."""
        with self.assertRaises(CommandFailed) as failed:
            raise_errors({"orders": ApiError(ErrorCode.NOT_CONTROLLER, "topic orders: This is not the controller.")})
        self.assertEqual(
            str(failed.exception),
            "topic orders: This is not the controller; no broker can change anything at present: if that lasts, look "
            "whether the brokers reach ZooKeeper (their logs say)",
        )


class SignalTests(SynchronousTestCase):
    def test_side_by_side(self) -> None:
        """Ctrl-C ends a command that waits for several things at once, and is no error of it."""
        done = subprocess.run([sys.executable, "-c", SIDE_BY_SIDE], capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGINT, b""))

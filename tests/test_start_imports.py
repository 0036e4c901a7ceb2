"""The modules that a broker's start imports, and those that the client's import does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Iterable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

START = """
import json, os, sys

import attr._make

compiled_anew = []
compile_and_eval = attr._make._compile_and_eval


def note(script, globs, locs=None, filename=""):
    if "logbus." in filename and not hasattr(attr._make, "compile"):
        compiled_anew.append(filename)
    compile_and_eval(script, globs, locs, filename)


attr._make._compile_and_eval = note

import logbus.tap as tap


def serving(runner, result):
    sys.stdout.write(json.dumps({"modules": sorted(sys.modules), "compiled_anew": compiled_anew}))
    sys.stdout.flush()
    os._exit(0)


tap.ProcessRunner._serving = serving
options = tap.Options()
options.parseOptions(sys.argv[1:])
service = tap.makeService(options)
from twisted.internet import reactor

reactor.callWhenRunning(service.startService)
reactor.run()
"""
"""
A start in a process, up to the point where the broker serves; then it prints its modules, and the classes of
ours for which attrs compiled without the file of earlier starts.
"""

UNUSED = {
    "OpenSSL": "TLS",
    "cryptography": "TLS, tokens and SCRAM",
    "service_identity": "TLS",
    "kazoo": "ZooKeeper",
    "twisted.web": "the registry, and keys of tokens",
    "treq": "the client of registries",
    "fastavro": "the registry",
    "jsonschema": "the registry",
    "jwt": "OAUTHBEARER",
    "logbus.net.tls": "TLS",
    "logbus.net.tls_client": "TLS",
    "logbus.net.jwt_keys": "OAUTHBEARER",
    "logbus.security.tls.tls_context": "TLS",
    "logbus.metastore.kazoo_session": "ZooKeeper",
    "logbus.metastore.zookeeper_store": "ZooKeeper",
    "logbus.admin.routes": "requests by HTTP",
    "logbus.admin.records": "requests by HTTP",
    "logbus.broker.tiered_storage": "tiered storage",
    "logbus.cluster.remote_log": "tiered storage",
    "logbus.handlers.acls": "requests of administrators",
    "logbus.handlers.configs": "requests of administrators",
    "logbus.handlers.classic_groups": "members of groups",
    "logbus.handlers.share_groups": "members of share groups",
    "logbus.handlers.streams_groups": "members of streams groups",
    "logbus.wire.messages.acls": "requests of administrators",
    "logbus.wire.messages.share_groups": "members of share groups",
    "logbus.registry.service": "the registry",
    "logbus.workers.supervisor": "--workers",
    "logbus.cli": "the logbus command",
    "logbus.client": "the client",
    "logbus.pipeline": "the pipeline",
    "logbus.testing": "tests",
}
"""What a broker of defaults has not imported when it serves, and its use. A package stands for all its modules."""

UNUSED_BY_CLIENT = {
    "OpenSSL": "TLS",
    "cryptography": "TLS",
    "service_identity": "TLS",
    "zstandard": "compression",
    "lz4": "compression",
    "cramjam": "compression",
    "bz2": "nothing",
    "tempfile": "nothing",
    "crc32c": "only its native module is used",
    "argparse": "crc32c's command",
    "importlib.metadata": "crc32c's version",
    "http.client": "cookies, which Twisted knows of",
    "http.cookiejar": "cookies",
    "urllib.request": "cookies",
    "email": "cookies",
    "twisted.internet.reactor": "the loop that runs is asyncio's",
    "twisted.internet.base": "as above",
    "twisted.internet.tcp": "as above",
    "twisted.web": "schema registries",
    "logbus.client.aio.schema_registry": "schema registries",
    "logbus.client.consumer.record_processor": "each",
    "logbus.client.membership.base_membership": "groups",
    "logbus.client.producer.transaction": "transactions",
    "logbus.client.connector": "groups of ZooKeeper",
    "logbus.broker": "brokers",
    "logbus.storage": "brokers",
    "logbus.config": "brokers",
    "logbus.testing": "tests",
}
"""What ``logbus.client.aio`` has not imported with its classes for producing, consuming and administration."""

CLIENT = "import sys; from logbus.client.aio import AdminClient, Consumer, Producer; print(*sys.modules)"


def unwanted(found: set[str], unused: Iterable[str], but: Collection[str] = ()) -> set[str]:
    """The modules among those found that are in a table, or below one that is."""
    return {name for name in found - {*but} for one in unused if name == one or name.startswith(one + ".")}


def start(*options: str) -> dict[str, list[str]]:
    """What a broker with these options has done when it serves."""
    with TemporaryDirectory() as directory:
        found = subprocess.run(
            [sys.executable, "-c", START, "--data-dir", str(Path(directory) / "data"), *options],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    if found.returncode:
        raise AssertionError(found.stderr)
    done: dict[str, list[str]] = json.loads(found.stdout.splitlines()[-1])
    return done


LISTEN = ("--listen", "kafka:tcp:0:interface=127.0.0.1", "--listen", "admin:tcp:0:interface=127.0.0.1")


class StartImportsTests(SynchronousTestCase):
    def test_names(self) -> None:
        """The modules of ours in the table exist."""
        for name in UNUSED | UNUSED_BY_CLIENT:
            if name.startswith("logbus"):
                self.assertIsNotNone(find_spec(name), name)

    def test_unused(self) -> None:
        """
        A start takes time and memory for each module. What a broker of defaults does not use is imported by its first
        use, at one place each. And what attrs compiled in an earlier start is taken from its file.
        """
        done = start(*LISTEN)
        # The registry is a plugin, which is imported when a listener is bound.
        self.assertEqual([name for name in done["compiled_anew"] if "logbus.registry." not in name], [])
        found = set(done["modules"])
        self.assertIn("logbus.broker.broker", found)
        self.assertEqual(unwanted(found, UNUSED), set())

    def test_unused_by_client(self) -> None:
        """
        So is what the client for asyncio does not use, of which each program that imports it would wait.
        """
        found = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, timeout=300, check=True)
        self.assertEqual(unwanted({*found.stdout.split()}, UNUSED_BY_CLIENT, ["crc32c._crc32c"]), set())

"""The modules that a broker's start imports."""

from __future__ import annotations

import json
import subprocess
import sys
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
    "logbus.registry.service": "the registry",
    "logbus.workers.supervisor": "--workers",
    "logbus.cli": "the logbus command",
    "logbus.client": "the client",
    "logbus.pipeline": "the pipeline",
    "logbus.testing": "tests",
}
"""What a broker of defaults has not imported when it serves, and its use. A package stands for all its modules."""


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
        for name in UNUSED:
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
        unwanted = {name for name in found for unused in UNUSED if name == unused or name.startswith(unused + ".")}
        self.assertEqual(unwanted, set())

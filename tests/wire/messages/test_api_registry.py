"""The registry of APIs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logbus.wire.messages import API_KEYS, API_NAMES, Api, api
from logbus.wire.schema import message_spec

# What is imported before and after the first use of one API.
LAZY = """
import sys
import logbus.wire.messages as messages
families = lambda: sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("logbus.wire.messages."))
print(families())
messages.api(18)
print(families())
"""


class ApiRegistryTests(SynchronousTestCase):
    """Finding messages by the number of their API."""

    def test_every_api(self) -> None:
        """Each API has a request and a response of its own number and name, in the same versions."""
        for key in API_KEYS:
            found = api(key)
            self.assertEqual((found.key, found.name), (key, API_NAMES[key]))
            request, response = message_spec(found.request), message_spec(found.response)
            self.assertEqual((request.api_key, response.api_key), (key, key))
            self.assertEqual((request.kind, response.kind), ("request", "response"))
            self.assertEqual(request.cls.__name__, found.name + "Request")
            self.assertEqual(response.cls.__name__, found.name + "Response")
            self.assertEqual((request.versions, request.flexible), (response.versions, response.flexible))
            self.assertEqual((request.versions, request.flexible), (found.versions, found.flexible))

    def test_one_object_each(self) -> None:
        """An API is looked up once."""
        self.assertIsInstance(api(1), Api)
        self.assertIs(api(1), api(1))

    def test_unknown(self) -> None:
        """An API without messages is refused by number and name."""
        with self.assertRaisesRegex(LookupError, r"API 52 \(Vote\)"):
            api(52)
        with self.assertRaisesRegex(LookupError, r"API 12345 \(unknown\)"):
            api(12345)

    def test_lazy(self) -> None:
        """A family is imported when one of its APIs is first asked for, and no other."""
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        run = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=True, env=env)
        self.assertEqual(run.stdout.splitlines(), ["['api_names']", "['api_names', 'api_versions']"])

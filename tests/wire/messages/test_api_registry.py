"""The registry of APIs."""

from __future__ import annotations

import compileall
import errno
import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.wire import messages
from logbus.wire.declaration import MessageSpec, SchemaError
from logbus.wire.kafka_releases import KAFKA_API_NAMES
from logbus.wire.messages import Api, api, api_keys, api_name
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
        for key in api_keys():
            found = api(key)
            self.assertEqual((found.key, found.name), (key, KAFKA_API_NAMES.get(key, found.name)))
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
        self.assertEqual(run.stdout.splitlines(), ["[]", "['api_versions']"])

    def test_all_are_found(self) -> None:
        """What is read from the sources is what is declared."""
        declared = set()
        for module in pkgutil.iter_modules(messages.__path__, f"{messages.__name__}."):
            specs = (getattr(value, "__wire_spec__", None) for value in vars(import_module(module.name)).values())
            declared |= {spec.api_key for spec in specs if isinstance(spec, MessageSpec)}
        self.assertEqual(api_keys(), declared - {None})

    def test_names(self) -> None:
        """Kafka's APIs have Kafka's names, our own those of their messages."""
        self.assertEqual([api_name(key) for key in (1, 52, 1005, 12345)], ["Fetch", "Vote", "Forward", "12345"])


ONE = '''
from logbus.wire.schema import Int16, message


@message(
    2000, versions="0-1", flexible="1+"
)
class PingRequest:
    """Ask."""

    number: Int16


@message(2000, versions="0-1", flexible="1+")
class PingResponse:
    """Answer."""

    number: Int16
'''


class NewModuleTests(SynchronousTestCase):
    """A module of messages that is not in any table."""

    def setUp(self) -> None:
        self.directory = Path(self.enterContext(TemporaryDirectory()))
        self.patch(messages, "__path__", [*messages.__path__, str(self.directory)])
        self.forget()
        self.addCleanup(self.forget)

    def forget(self) -> None:
        messages._requests.cache_clear()
        messages.api.cache_clear()
        for name in ("ping", "pong"):
            sys.modules.pop(f"{messages.__name__}.{name}", None)

    def test_modules_that_cannot_be_listed(self) -> None:
        """That no descriptor is left is an error then, and forgotten when there are some again."""
        with mock.patch.object(os, "listdir", side_effect=OSError(errno.EMFILE, "too many open files")):
            self.assertRaises(ImportError, api_keys)
        self.assertIn(0, api_keys())

    def test_found(self) -> None:
        """Its API is there, with its name, and is not imported for that."""
        (self.directory / "ping.py").write_text(ONE)
        self.assertIn(2000, api_keys())
        self.assertEqual(api_name(2000), "Ping")
        self.assertNotIn(f"{messages.__name__}.ping", sys.modules)
        self.assertEqual((api(2000).request.__name__, api(2000).versions), ("PingRequest", (0, 1)))

    def test_without_source(self) -> None:
        """Without its source it is imported to be found."""
        (self.directory / "ping.py").write_text(ONE)
        compileall.compile_dir(self.directory, quiet=1, legacy=True)
        (self.directory / "ping.py").unlink()
        self.assertEqual(api(2000).name, "Ping")

    def test_twice(self) -> None:
        """Two modules with messages of one API are an error that names both."""
        (self.directory / "ping.py").write_text(ONE)
        (self.directory / "pong.py").write_text(ONE)
        with self.assertRaisesRegex(SchemaError, r"API 2000 has messages in \S+\.ping and in \S+\.pong"):
            api_keys()

    def test_without_response(self) -> None:
        """A request without its response is an error when it is first used."""
        (self.directory / "ping.py").write_text(ONE.replace("PingResponse", "PingAnswer"))
        with self.assertRaisesRegex(SchemaError, r"ping has no PingResponse"):
            api(2000)

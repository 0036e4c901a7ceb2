"""Parsing of ``zookeeper.connect``."""

from __future__ import annotations

import sys
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ConfigError
from logbus.metastore.connect_string import ConnectString
from logbus.metastore.zookeeper_store import require_kazoo

HOSTS = st.sampled_from(["localhost", "zk-1.example.org", "10.0.0.1", "::1", "fe80::1:2"])
SERVERS = st.lists(st.tuples(HOSTS, st.integers(1, 65535)), min_size=1, max_size=5).map(tuple)
CHROOTS = st.lists(st.sampled_from(["kafka", "a-b", "Ä", "0"]), max_size=3).map(
    lambda names: "".join(f"/{n}" for n in names)
)


class ConnectStrings(SynchronousTestCase):
    """``zookeeper.connect``."""

    def test_forms(self) -> None:
        """Servers are separated by commas; the port is 2181 unless it is said; the chroot follows the last server."""
        for text, servers, chroot in (
            ("zk", (("zk", 2181),), ""),
            ("zk:1,10.0.0.2:3/", (("zk", 1), ("10.0.0.2", 3)), ""),
            (" zk:1 , zk2 /a/b/", (("zk", 1), ("zk2", 2181)), "/a/b"),
            ("[::1]:7,[fe80::1]/x", (("::1", 7), ("fe80::1", 2181)), "/x"),
        ):
            self.assertEqual(ConnectString.parse(text), ConnectString(servers, chroot))

    @given(SERVERS, CHROOTS)
    def test_round_trip(self, servers: tuple[tuple[str, int], ...], chroot: str) -> None:
        """What is shown of it reads as the same."""
        connect = ConnectString(servers, chroot)
        self.assertEqual(ConnectString.parse(str(connect)), connect)

    def test_refusals(self) -> None:
        """What is wrong is quoted, with what would be right."""
        for text, words in (
            ("", "'' is not HOST:PORT"),
            ("/chroot", "'' is not HOST:PORT"),
            ("zk:1,", "'' is not HOST:PORT"),
            ("zk:port", "'zk:port' is not HOST:PORT"),
            ("zk:0", "0 is not a port"),
            ("zk:65536", "65536 is not a port"),
            ("zk one", "'zk one' is not HOST:PORT"),
            ("::1:2181", "is not HOST:PORT"),
            ("zk:1/a//b", "the chroot is not a path"),
            ("zk:1/a,zk2:1/a", "the chroot follows the last server, once"),
            ("zk:1/..", "the chroot is not a path"),
        ):
            error = str(self.assertRaises(ConfigError, ConnectString.parse, text))
            self.assertIn(f"zookeeper.connect: {text!r} is not valid", error)
            self.assertIn(words, error)
            self.assertIn("expected HOST:PORT,HOST:PORT/CHROOT", error)
            self.assertNotIn("\n", error)

    @given(st.text(alphabet="a1:[],/. \x00", max_size=12))
    def test_any_text(self, text: str) -> None:
        """Whatever is said is understood or refused."""
        try:
            ConnectString.parse(text)
        except ConfigError:
            pass

    def test_without_the_client(self) -> None:
        """Without kazoo one line says how to install it."""
        require_kazoo()
        with patch.dict(sys.modules, {"kazoo.client": None}):
            sys.modules.pop("logbus.metastore.kazoo_session", None)
            error = str(self.assertRaises(ConfigError, require_kazoo))
        self.assertIn("pip install '.[zookeeper]'", error)
        self.assertNotIn("\n", error)

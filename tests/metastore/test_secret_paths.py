"""Tests of :mod:`logbus.metastore.secret_paths`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.operations import NodeAccess
from logbus.metastore.secret_paths import access_of


class AccessTests(SynchronousTestCase):
    def test_nodes(self) -> None:
        """Nodes with secrets, and all below; names that only begin alike are none."""
        for path, expected in (
            ("/config/users", NodeAccess.SECRET),
            ("/config/users/alice/clients/app", NodeAccess.SECRET),
            ("/config/brokers/<default>", NodeAccess.SECRET),
            ("/delegation_token/tokens/x", NodeAccess.SECRET),
            ("/brokers/lives", NodeAccess.SECRET),
            ("/cluster/broker_secret", NodeAccess.SECRET),
            ("/cluster/id", NodeAccess.READABLE),
            ("/config/users2", NodeAccess.READABLE),
            ("/config", NodeAccess.READABLE),
            ("/", NodeAccess.READABLE),
            ("/brokers/ids/0", NodeAccess.READABLE),
            ("/consumers/group/ids", NodeAccess.OPEN),
            ("/consumers2", NodeAccess.READABLE),
        ):
            self.assertIs(access_of(path), expected, path)

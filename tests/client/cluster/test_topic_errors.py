"""What a client says of a topic that a broker refuses."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client import Producer
from logbus.errors import ApiError
from logbus.testing.memory import MemoryCluster


class TopicErrorTests(SynchronousTestCase):
    def test_invalid_name(self) -> None:
        """A name that no topic can have is refused by the rule that it breaks, not by the code's sentence."""
        brokers = MemoryCluster.started()
        self.addCleanup(brokers.close)
        client = brokers.client()
        said = "the topic name 'no pe' has characters other than ASCII letters, digits, '.', '_' and '-'"
        error = self.assertRaises(ApiError, brokers.result, Producer(client).send("no pe", b"x"))
        self.assertEqual(str(error), said)
        found = brokers.result(client.refresh_topics(["no pe", "none"]))
        self.assertEqual({name: str(each) for name, each in found.items()}["no pe"], said)
        self.assertEqual(str(found["none"]), "there is no topic 'none'")

"""Administration of configs over a real controller on a store in memory."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.controller.topic_plan import NewTopic
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.znodes import ConfigZnode
from tests.cluster.control_plane import Cluster


class ConfigAdminTests(SynchronousTestCase):
    """Overrides of topics and brokers."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.node = self.cluster.started(0)
        self.configs = self.node.configs_admin

    def create(self, *names: str, **options: Any) -> None:
        """Topics with these overrides."""
        topics = [NewTopic(name, configs=options) for name in names]
        for outcome in self.done(self.node.admin.create_topics(topics)):
            self.assertNotIsInstance(outcome, ApiError)

    def done(self, deferred: Deferred[Any]) -> Any:
        """What fired."""
        return self.successResultOf(deferred)

    def refused(self, code: ErrorCode, outcome: object) -> None:
        """An outcome is this error."""
        assert isinstance(outcome, ApiError)
        self.assertEqual(outcome.code, code)

    def test_topic(self) -> None:
        """An edit sees the overrides now; the host and the metadata have the new ones when it is answered."""
        self.create("t", a="1", b="2")

        def edit(now: Any) -> Any:
            return {"a": now["a"] + "0", "c": "3"}

        self.assertEqual(self.done(self.configs.alter_topic_configs({"t": edit})), {"t": None})
        image = self.node.metadata.topic("t")
        assert image is not None
        self.assertEqual(dict(image.configs), {"a": "10", "c": "3"})
        self.assertIn(("configure", ("t", {"a": "10", "c": "3"})), self.node.host.log)
        path = ConfigZnode.topic_path("t")
        tree = self.cluster.ensemble.tree
        self.assertEqual(ConfigZnode.decode(path, tree.get(path)[0]), {"a": "10", "c": "3"})
        self.done(self.configs.alter_topic_configs({"t": lambda now: {}}))
        self.assertEqual(dict(image.configs), {})

    def test_refusals(self) -> None:
        """A bad value or an unknown topic is refused, and nothing is changed by a dry run."""
        self.create("t", "u")
        outcomes = self.done(
            self.configs.alter_topic_configs(
                {"t": lambda now: {"bad.key": "1"}, "none": lambda now: {}, "u": lambda now: {"a": "1"}}
            )
        )
        self.refused(ErrorCode.INVALID_CONFIG, outcomes["t"])
        self.refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, outcomes["none"])
        self.assertIsNone(outcomes["u"])
        self.done(self.configs.alter_topic_configs({"u": lambda now: {"a": "2"}}, validate_only=True))
        image = self.node.metadata.topic("u")
        assert image is not None
        self.assertEqual(dict(image.configs), {"a": "1"})

    def test_broker(self) -> None:
        """Overrides of one broker and of all reach the brokers, and a broker that starts later."""
        outcomes = self.done(
            self.configs.alter_broker_configs(
                {0: lambda now: {"a": "1"}, None: lambda now: {"b": "2"}, 9: lambda now: {}}
            )
        )
        self.assertIsNone(outcomes[0])
        self.refused(ErrorCode.INVALID_REQUEST, outcomes[9])
        self.assertEqual(self.node.configs, {"0": {"a": "1"}, "<default>": {"b": "2"}})
        later = self.cluster.started(1)
        self.assertEqual(later.configs, self.node.configs)

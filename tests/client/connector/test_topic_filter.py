"""Topic filters."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.connector.topic_filter import BlackList, WhiteList
from logbus.errors import ConfigError


class FilterTests(SynchronousTestCase):
    def test_whole_names(self) -> None:
        """An expression must match a whole name."""
        self.assertTrue(WhiteList("page|click").allows("page"))
        self.assertFalse(WhiteList("page").allows("pages"))
        self.assertFalse(BlackList("test_.*").allows("test_1"))
        self.assertTrue(BlackList("test_.*").allows("a_test_1"))

    def test_invalid_expressions(self) -> None:
        """Syntax errors, back references and huge expressions are refused with a message."""
        for wrong in ("(", r"(a)\1", "(?=a)", "a" * 3000, "(" * 500 + "a{1000}" * 100 + ")" * 500):
            self.assertRaises(ConfigError, WhiteList, wrong)

    def test_hostile_expressions_take_no_time(self) -> None:
        """An expression that has other engines try for years is matched in linear time."""
        self.assertFalse(WhiteList("(a*)*b").allows("a" * 249))

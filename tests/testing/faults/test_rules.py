"""Rules for faults: their values, and what is said about wrong ones."""

from __future__ import annotations

import json
from datetime import timedelta
from unittest import TestCase

import pytest

from logbus.errors import ErrorCode
from logbus.testing.faults.rules import Rule, make_rule, rule_from_json
from logbus.testing.requests.apis import WrongRequest
from logbus.testing.settings import KIT_CLIENT_ID


class RuleTests(TestCase):
    def test_round_trip(self) -> None:
        """A rule and its form in JSON say the same."""
        for rule in (
            make_rule("fail", "Produce", error="not_enough_replicas", times=2, topic="orders", partition=1, skip=3),
            make_rule("fail", 3, error=5, message="wait", after=True),
            make_rule("delay", "*", seconds=timedelta(milliseconds=20), client_id="shop-*"),
            make_rule("drop", "JoinGroup"),
            make_rule("corrupt", "fetch", how="cut"),
            make_rule("throttle", "Fetch", bytes_per_second=1000),
        ):
            self.assertEqual(rule_from_json(json.loads(json.dumps(rule.as_json()))), rule)

    def test_form_in_json(self) -> None:
        """It has what is said, and not what is left out."""
        rule = make_rule("fail", 0, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2, topic="orders")
        said = {"action": "fail", "api": "Produce", "topic": "orders", "times": 2, "error": "NOT_ENOUGH_REPLICAS"}
        self.assertEqual(rule.as_json(), said)
        self.assertEqual(str(rule), "fail Produce (topic=orders, times=2, error=NOT_ENOUGH_REPLICAS)")

    def test_spares_the_kit(self) -> None:
        """A rule for all clients leaves out the kit's own, which only looks; one that names it does not."""
        self.assertTrue(make_rule("fail", api="Fetch", error="UNKNOWN_SERVER_ERROR").concerns(1, None))
        self.assertFalse(make_rule("fail", api="Fetch", error="UNKNOWN_SERVER_ERROR").concerns(1, KIT_CLIENT_ID))
        named = make_rule("fail", api="Fetch", error="UNKNOWN_SERVER_ERROR", client_id="logbus-*")
        self.assertTrue(named.concerns(1, KIT_CLIENT_ID))

    def test_whom_it_concerns(self) -> None:
        """API and client id are looked at first; names may have wildcards."""
        rule = make_rule("drop", "Fetch", client_id="shop-*", topic="ord?rs", partition=1)
        self.assertTrue(rule.concerns(1, "shop-1"))
        self.assertFalse(rule.concerns(0, "shop-1"))
        self.assertFalse(rule.concerns(1, "office"))
        self.assertFalse(rule.concerns(1, None))
        self.assertTrue(rule.names("orders", 1))
        self.assertTrue(rule.names("orders", None))
        self.assertFalse(rule.names("orders", 2))
        self.assertFalse(rule.names("bills", 1))
        self.assertTrue(Rule("drop").concerns(18, None))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"action": "fial", "api": "Produce"},
            "action: 'fial' is none of fail, delay, drop, disconnect, corrupt, throttle",
        ),
        ({"api": "Produce"}, "a rule has an action: one of fail, delay"),
        ({"action": "drop", "api": "Prodce"}, "there is no API 'Prodce'; did you mean Produce or InitProducerId?"),
        ({"action": "drop", "api": "x"}, "there is no API 'x': expected one such as Produce, Fetch, ListOffsets"),
        ({"action": "drop", "api": 999}, "there is no API 999: expected the key of one that a broker serves"),
        ({"action": "drop", "api": True}, "api: True is neither a name such as 'Produce'"),
        ({"action": "fail", "api": "Produce"}, "a rule to fail needs error, such as error='NOT_LEADER_OR_FOLLOWER'"),
        ({"action": "fail", "api": "Produce", "error": "NOT_LEADER"}, "Kafka has no error 'NOT_LEADER'; did you mean"),
        ({"action": "fail", "api": "Produce", "error": 0}, "error: 0 is no error of Kafka"),
        ({"action": "fail", "api": "Produce", "error": 9999}, "error: 9999 is no error of Kafka"),
        ({"action": "drop", "api": "Fetch", "times": 0}, "times: 0 is no count: expected 1 or more; leave it out"),
        ({"action": "drop", "api": "Fetch", "times": -1}, "times: -1 is no count: expected 1 or more"),
        ({"action": "drop", "api": "Fetch", "skip": 1.5}, "skip: 1.5 is no count: expected 0 or more"),
        ({"action": "drop", "api": "Fetch", "partition": "0"}, "partition: '0' is no count: expected 0 or more"),
        (
            {"action": "drop", "api": "Heartbeat", "topic": "t"},
            "topic: requests of Heartbeat name no topics; leave it out",
        ),
        ({"action": "drop", "api": "Metadata", "partition": 0}, "partition: requests of Metadata name no partitions"),
        ({"action": "drop", "api": "Fetch", "topic": ""}, "topic: '' is no text: expected a name"),
        ({"action": "drop", "api": "Fetch", "client_id": 7}, "client_id: 7 is no text"),
        ({"action": "drop", "api": "Fetch", "after": 1}, "after: 1 is neither True nor False"),
        ({"action": "drop", "api": "Fetch", "error": 1}, "a rule to drop has no 'error': it has client_id, topic"),
        ({"action": "delay", "api": "Fetch"}, "a rule to delay needs seconds, such as seconds=0.5"),
        ({"action": "delay", "api": "Fetch", "seconds": -1}, "seconds: -1 is not more than 0 seconds or a timedelta"),
        ({"action": "throttle", "api": "Fetch", "bytes_per_second": 0}, "bytes_per_second: 0 is not more than 0"),
        ({"action": "corrupt", "api": "Fetch", "how": "eat"}, "how: 'eat' is none of flip, garbage, cut, correlation"),
        ({"action": "drop", "api": "SaslHandshake"}, "SaslHandshake is answered before a client is known"),
    ],
)
def test_wrong_rule(values: dict[str, object], said: str) -> None:
    """One line names the value, and what would be right."""
    with pytest.raises(WrongRequest) as caught:
        rule_from_json(values)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)

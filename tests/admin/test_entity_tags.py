"""Tests of :mod:`logbus.admin.entity_tags`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.entity_tags import CONDITION, ETAG, MAX_NAMED, Precondition, entity_tag
from logbus.admin.json_schema import schema_errors
from logbus.errors import ApiError

BEFORE = {"retention.ms": "5", "segment.bytes": "100"}


class EntityTagTests(SynchronousTestCase):
    """Tags tell whether something has changed, and what."""

    def refusal(self, given: str, now: Mapping[str, str], known: tuple[str, ...] = ()) -> str:
        """The detail of the problem; empty: the change may be made."""
        condition = Precondition("It", {"if-match": [given]}, known)
        try:
            condition.check(now)
        except ApiError as error:
            problem = condition.refusal(error)
            assert condition.problem is problem
            self.assertEqual(
                (condition.problem.status, dict(condition.problem.headers)), (412, {"ETag": entity_tag(now)})
            )
            return condition.problem.detail
        return ""

    def test_unchanged(self) -> None:
        """What is as it was may be changed, in whatever order its members are; and by who does not care."""
        for given in (entity_tag(dict(reversed(BEFORE.items()))), "*", f'"x", {entity_tag(BEFORE)}'):
            self.assertEqual(self.refusal(given, BEFORE), "")
        Precondition("It", {}).check(BEFORE)

    def test_names(self) -> None:
        """What was added, changed and removed is named, and nothing else."""
        tag = entity_tag(BEFORE)
        now = {"segment.bytes": "200", "max.message.bytes": "7"}
        told = self.refusal(tag, now, ("retention.ms", "flush.ms"))
        self.assertIn("If-Match: max.message.bytes, retention.ms, segment.bytes. Read", told)
        self.assertNotIn("flush.ms", told)
        self.assertIn("If-Match: segment.bytes.", self.refusal(entity_tag({}), {"segment.bytes": "200"}))

    def test_others(self) -> None:
        """Tags of nobody, weak ones and those of something else of the same name do not match, and name nothing."""
        for given in ('"x"', f"W/{entity_tag(BEFORE)}", entity_tag(BEFORE, "another"), '""'):
            self.assertIn("in If-Match. Read", self.refusal(given, BEFORE), given)

    def test_many_members(self) -> None:
        """The tag of many members is short, and notices any change."""
        many = {str(number): "x" for number in range(MAX_NAMED + 1)}
        self.assertLess(len(entity_tag(many)), 30)
        self.assertIn("in If-Match. Read", self.refusal(entity_tag(many), {**many, "7": "y"}))
        self.assertEqual(self.refusal(entity_tag(many), many), "")

    def test_schemas(self) -> None:
        """Tags are as documented, and If-Match is a list of tags in quotes."""
        for members in ({}, BEFORE, {"x" * 9000: None}):
            self.assertRegex(entity_tag(members), re.compile(ETAG["ETag"]["pattern"]))
        for given, is_valid in (('"a"', True), ('W/"a", "b"', True), ("*", True), ("a", False), ('"a" "b"', False)):
            self.assertEqual(not [*schema_errors(CONDITION["If-Match"], given)], is_valid, given)

"""
The view of what is wrong with the cluster's brokers.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from logbus.admin.authorization import Right
from logbus.admin.cluster import BROKER_ID
from logbus.admin.json_chunks import json_stream
from logbus.admin.json_schema import integer, object_schema, string
from logbus.admin.pagination import UNANSWERED, page, page_of, paged
from logbus.admin.routing import ViewRequest, ViewResponse, route
from logbus.conditions import KINDS, Condition, Conditions, Severity
from logbus.security.acl.acls import AclOperation

CONDITION_ID = string("Identifies a condition: broker, kind and subject.", minLength=1, maxLength=1000)
CONDITION = object_schema(
    "Something that is wrong.",
    id=CONDITION_ID,
    broker=BROKER_ID,
    condition=string("Its kind.", enum=[kind.name for kind in KINDS]),
    severity=string("How bad it is.", enum=[severity.value for severity in Severity]),
    subject=string("What it is wrong with, such as a directory."),
    message=string("What is wrong."),
    meaning=string("What that means, a sentence."),
    advice=string("What to do, a sentence."),
    since=integer("Since when, in ms since 1970."),
)


@frozen
class ConditionViews:
    """Lists what is wrong; each broker knows its own part."""

    broker_id: int
    conditions: Conditions

    @route(
        "GET",
        "/api/v1/conditions",
        "What is wrong with the brokers, and what to do",
        answer=page("conditions", CONDITION, CONDITION_ID, unanswered=UNANSWERED),
        parameters=paged(CONDITION_ID),
        merged_by="id",
        right=Right(AclOperation.DESCRIBE),
    )
    def list(self, call: ViewRequest) -> ViewResponse:
        found = {f"{self.broker_id}/{each.kind.name}/{each.subject}": each for each in self.conditions}
        shown, after = page_of(found, call, None)
        items = [self._row(name, found[name]) for name in shown]
        return json_stream({"items": lambda: iter(items), "next": after, "unanswered": []})

    def rows(self) -> list[dict[str, Any]]:  # type: ignore[valid-type]
        """Return this broker's own."""
        return [self._row(f"{self.broker_id}/{each.kind.name}/{each.subject}", each) for each in self.conditions]

    def _row(self, name: str, condition: Condition) -> dict[str, Any]:
        kind = condition.kind
        return {
            "id": name,
            "broker": self.broker_id,
            "condition": kind.name,
            "severity": kind.severity.value,
            "subject": condition.subject,
            "message": condition.message,
            "meaning": kind.summary,
            "advice": condition.advice,
            "since": int(condition.since * 1000),
        }

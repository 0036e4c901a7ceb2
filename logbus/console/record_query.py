"""
The query in the record browser's form, and its request to the HTTP API. This module is pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from attrs import frozen

NEWEST, OLDEST, OFFSET, TIME = "newest", "oldest", "offset", "time"
STARTS = {NEWEST: "Newest", OLDEST: "Oldest", OFFSET: "From offset", TIME: "From time (UTC)"}
ROWS = 50
_NUMBER = re.compile(r"[0-9]{1,18}")


@frozen
class RecordQuery:
    """
    The fields of the form.

    :ivar partition: a number; empty: all partitions.
    :ivar cursor: where a search of all partitions goes on.
    :ivar wrong: what is wrong with a field, by its name.
    """

    partition: str
    start: str
    at: str
    key: str
    value: str
    header: str
    shown: str
    committed: bool
    cursor: str
    wrong: Mapping[str, str]
    milliseconds: int = 0

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> RecordQuery:
        """Read the fields of a query; what is missing has its default."""
        partition, at = fields.get("partition", "").strip(), fields.get("at", "").strip()
        start = fields.get("from", NEWEST)
        wrong: dict[str, str] = {}
        milliseconds = 0
        if partition and not _NUMBER.fullmatch(partition):
            wrong["partition"] = "This must be the number of a partition, or empty for all."
        if start not in STARTS:
            wrong["from"] = f"This must be one of {', '.join(STARTS)}."
        elif start == OFFSET:
            if not _NUMBER.fullmatch(at):
                wrong["at"] = "This must be an offset: a whole number from 0 on."
            elif not partition:
                wrong["partition"] = "An offset needs the number of its partition."
        elif start == TIME:
            found = milliseconds_of(at)
            if found is None:
                wrong["at"] = "This must be a time as 2026-05-01T12:00, or milliseconds since 1970."
            milliseconds = found or 0
        filters = {name: fields.get(name, "") for name in ("key", "value", "header")}
        for name, text in filters.items():
            if len(text) > 1000:
                wrong[name] = "This must have at most 1000 characters."
        return cls(
            partition=partition,
            start=start,
            at=at,
            **filters,
            shown=fields.get("show", "auto"),
            committed=fields.get("committed") == "yes",
            cursor=fields.get("cursor", ""),
            wrong=wrong,
            milliseconds=milliseconds,
        )

    @property
    def filters(self) -> bool:
        """Whether only some records are wanted."""
        return any(self._filters.values())

    @property
    def _filters(self) -> Mapping[str, str]:
        return {"key": self.key, "value": self.value, "header": self.header}

    def fields(self) -> dict[str, str]:
        """Return the fields again, without those that have their defaults."""
        found = {
            "partition": self.partition,
            "from": self.start,
            "at": self.at,
            "key": self.key,
            "value": self.value,
            "header": self.header,
            "show": self.shown if self.shown != "auto" else "",
            "committed": "yes" if self.committed else "",
        }
        return {name: text for name, text in found.items() if text}

    def parameters(self, rows: int = ROWS, shown_bytes: int = 4096) -> dict[str, str | int]:
        """Return the parameters of the API's view: of a partition, or of the search if there is none."""
        found: dict[str, str | int] = {"limit": rows, "shown_bytes": shown_bytes}
        if self.start == NEWEST and not self.filters:
            found["newest"] = rows if self.partition else 10
        elif self.start == OFFSET:
            found["offset"] = int(self.at)
        elif self.start == TIME:
            found["timestamp"] = self.milliseconds
        elif self.start == NEWEST:
            found["newest"] = 10_000
        if self.committed:
            found["isolation"] = "read_committed"
        found |= {name: text for name, text in self._filters.items() if text}
        if self.cursor and not self.partition:
            found["cursor"] = self.cursor
        return found


def milliseconds_of(text: str) -> int | None:
    """
    Read a time: ISO 8601, in UTC if it names no zone, or milliseconds since 1970.

    :returns: milliseconds since 1970; None: it is none.
    """
    if _NUMBER.fullmatch(text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
        return max(0, int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        return None

"""
The page of topics: a list with a filter, which can be sorted by what the brokers have of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import segment
from logbus.console.broker_answers import from_brokers
from logbus.console.change import done_message
from logbus.console.elements import badge, button_link, empty, hidden, link, name, number_cell, pages, sort_head, table
from logbus.console.figures import number, shortened, size
from logbus.console.page import Page, Visit

SECTION = "/console/topics"
ROWS, API_ROWS, MOST_SORTED = 50, 500, 2000
"""Rows of a page and of one of the API; and how many topics are sorted by something else than their names."""
INTERNAL = 10
"""More internal topics than there are: usage has them, whether the page has or not."""
SHOWN_CONFIGS = 3
NEEDS_CONFIGS = "needs the right DescribeConfigs"
"""Stands for settings of a topic that a user may not see."""

Topic = Mapping[str, Any]
SORTS: Mapping[str, Callable[[Topic], Any]] = MappingProxyType(
    {
        "state": lambda topic: (topic["offline"], topic["under_replicated"]),
        "partitions": itemgetter("partitions"),
        "records": itemgetter("records"),
        "size": itemgetter("size_bytes"),
    }
)
"""What a list is sorted by, the largest first, if not by name."""


@frozen
class ListQuery:
    """
    Which part of the list is asked for.

    :ivar sort: one of :data:`SORTS`; empty: by name.
    :ivar after: by name, the one before the first; ``page``: otherwise, the number of the page.
    """

    wanted: str
    internal: bool
    sort: str
    after: str
    page: int

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> ListQuery:
        """Read the fields of a query."""
        sort, page = fields.get("sort", ""), fields.get("page", "")
        return cls(
            wanted=fields.get("filter", "").strip(),
            internal=fields.get("internal") == "yes",
            sort=sort if sort in SORTS else "",
            after=fields.get("after", ""),
            page=min(int(page), MOST_SORTED // ROWS) if page.isascii() and page.isdigit() and len(page) < 9 else 0,
        )

    def fields(self) -> dict[str, str]:
        """Return the fields again, for another page of the same list."""
        kept = {"filter": self.wanted, "internal": "yes" if self.internal else "", "sort": self.sort}
        return {key: value for key, value in kept.items() if value}

    def path(self, **more: str) -> str:
        """Return the path of the list, with other fields than now."""
        given = urlencode({key: value for key, value in {**self.fields(), **more}.items() if value})
        return f"{SECTION}?{given}" if given else SECTION


@frozen
class Listed:
    """
    A page of the list.

    :ivar topics: with what the brokers have of them.
    :ivar following: the path of the next page; empty: this is the last one.
    :ivar silent: brokers that did not tell what they have.
    :ivar cut: whether there are more topics than are sorted.
    """

    topics: Sequence[Topic]
    following: str
    silent: Sequence[int]
    cut: bool = False


@frozen
class TopicListPage:
    """The list of topics."""

    clock: IReactorTime

    @route("GET", "/console/topics", "Topics", rights="Shows what the user may see.")
    async def topics(self, visit: Visit) -> Page:
        query = ListQuery.read(visit.query)
        listed = await (self._sorted(visit, query) if query.sort else self._by_name(visit, query))
        is_first = not query.after and not query.page
        first = "" if is_first else query.path()
        if listed.topics:
            content = [
                table("Topics", _head(query), map(_row, listed.topics), visit.pause, (2, 3, 4, 5)),
                _notes(listed),
                pages(first, listed.following),
            ]
        elif query.wanted or not is_first:
            content = [
                empty(f"No topic here has {shortened(query.wanted)!r} in its name.", link(SECTION, "Show all topics"))
            ]
        else:
            content = [
                empty(
                    "There is no topic yet that you may see.",
                    button_link("/console/new-topic", "Create a topic", "primary"),
                )
            ]
        return Page(
            "Topics",
            SECTION,
            [done_message(visit), _form(query), tags.section(content, class_="card", id="topics", **{"data-live": ""})],
            actions=[button_link("/console/new-topic", "Create a topic", "primary")],
        )

    async def _by_name(self, visit: Visit, query: ListQuery) -> Listed:
        told = await _topics(visit, query, query.after, ROWS)
        usage, silent = await self._usage(visit, query, query.after, ROWS + INTERNAL, 1)
        following = "" if told["next"] is None else query.path(after=told["next"])
        return Listed([_used(each, usage) for each in told["items"]], following, silent)

    async def _sorted(self, visit: Visit, query: ListQuery) -> Listed:
        found: list[Topic] = []
        after: str | None = ""
        while after is not None and len(found) < MOST_SORTED:
            told = await _topics(visit, query, after, API_ROWS)
            found += told["items"]
            after = told["next"]
            await visit.pause()
        usage, silent = await self._usage(visit, query, "", API_ROWS, MOST_SORTED // API_ROWS)
        found = [_used(each, usage) for each in found]
        # Python's sort is stable: those with equal values stay in the order of their names.
        found.sort(key=SORTS[query.sort], reverse=True)
        start = query.page * ROWS
        following = query.path(page=str(query.page + 1)) if len(found) > start + ROWS else ""
        return Listed(found[start : start + ROWS], following, silent, after is not None)

    async def _usage(
        self, visit: Visit, query: ListQuery, after: str, limit: int, parts: int
    ) -> tuple[Mapping[str, Mapping[str, int]], Sequence[int]]:
        """Return the sum of what the brokers have of topics, by name; and which brokers did not tell."""

        async def of_one(broker: int) -> list[Mapping[str, Any]]:
            rows: list[Mapping[str, Any]] = []
            begin = after
            for _ in range(parts):
                path = f"/api/v1/brokers/{broker}/topics"
                told = await visit.api.get(path, contains=query.wanted, after=begin, limit=limit)
                rows += told["items"]
                begin = told["next"]
                if begin is None:
                    break
            return rows

        brokers = [each["id"] for each in (await visit.api.get("/api/v1/brokers"))["items"]]
        told = await from_brokers(brokers, of_one, self.clock)
        sums: dict[str, dict[str, int]] = {}
        for rows in told.values():
            for row in rows or ():
                sum_ = sums.setdefault(row["name"], {"records": 0, "size_bytes": 0})
                sum_["records"] += row["records"]
                sum_["size_bytes"] += row["size_bytes"]
        return sums, [broker for broker in brokers if told.get(broker) is None]


async def _topics(visit: Visit, query: ListQuery, after: str, limit: int) -> Any:
    internal = "true" if query.internal else "false"
    return await visit.api.get("/api/v1/topics", contains=query.wanted, internal=internal, after=after, limit=limit)


def _used(topic: Topic, usage: Mapping[str, Mapping[str, int]]) -> Topic:
    return {**topic, **usage.get(topic["name"], {"records": 0, "size_bytes": 0})}


def _head(query: ListQuery) -> list[Any]:
    def sortable(text: str, key: str, is_numeric: bool = True) -> Tag:
        direction = "ascending" if not key else "descending"
        return sort_head(text, query.path(sort=key), direction if query.sort == key else "", is_numeric)

    return [
        sortable("Topic", "", False),
        sortable("State", "state", False),
        sortable("Partitions", "partitions"),
        "Replicas",
        sortable("Records", "records"),
        sortable("On disk", "size"),
        "Cleanup",
        "Own settings",
    ]


def _row(each: Topic) -> Tag:
    return tags.tr(
        tags.th(
            link(f"{SECTION}/{segment(each['name'])}", name(each["name"])),
            " ",
            badge("internal") if each["internal"] else "",
            scope="row",
        ),
        tags.td(fault_badges(each) or badge("ok", "good")),
        number_cell(number(each["partitions"])),
        number_cell(number(each["replication_factor"])),
        number_cell(number(each["records"])),
        number_cell(size(each["size_bytes"])),
        tags.td("–" if each["cleanup_policy"] is None else shortened(each["cleanup_policy"], 40)),
        tags.td(_overrides(each["configs"]), class_="configs"),
    )


def fault_badges(topic: Topic) -> list[Tag]:
    """Return badges for partitions of a topic that are offline or under-replicated; none: there are none."""
    faults = (("offline", "offline", "bad"), ("under_replicated", "under-replicated", "warn"))
    return [badge(f"{number(topic[key])} {word}", kind) for key, word, kind in faults if topic[key]]


def _overrides(configs: Mapping[str, str] | None) -> Any:
    """Return overrides but the clean-up policy, which has a column of its own."""
    if configs is None:
        return tags.span(NEEDS_CONFIGS, class_="note")
    own = sorted((key, value) for key, value in configs.items() if key != "cleanup.policy")
    shown = [tags.code(f"{key}={shortened(value, 40)}") for key, value in own[:SHOWN_CONFIGS]]
    more = len(own) - len(shown)
    return [[each, " "] for each in shown] + ([f"and {more} more"] if more > 0 else [])


def _notes(listed: Listed) -> list[Tag]:
    notes = ["Records are counted by offsets, which a compacted topic does not fill; sizes are those of all replicas."]
    if listed.silent:
        silent = ", ".join(map(str, listed.silent))
        notes.append(f"Records and sizes are without what these brokers did not tell: {silent}.")
    if listed.cut:
        notes.append(f"Only the first {number(MOST_SORTED)} topics by name are sorted: filter for others.")
    return [tags.p(text, class_="note") for text in notes]


def _form(query: ListQuery) -> Tag:
    checked = {"checked": "checked"} if query.internal else {}
    return tags.form(
        tags.label("Filter by name", for_="filter", class_="unseen"),
        tags.input(
            type="search", name="filter", id="filter", value=query.wanted, placeholder="Filter by name", maxlength="249"
        ),
        tags.label(tags.input(type="checkbox", name="internal", value="yes", **checked), " internal topics"),
        hidden({"sort": query.sort} if query.sort else {}),
        tags.button("Filter", type="submit"),
        method="get",
        action=SECTION,
        class_="filter",
    )

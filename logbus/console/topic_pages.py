"""
Pages of single topics: the partitions and the readers of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.broker_answers import from_brokers, soon
from logbus.console.change import done_message
from logbus.console.config_pages import settings_card
from logbus.console.elements import (
    badge,
    button_link,
    card,
    empty,
    facts,
    link,
    number_cell,
    pages,
    refusal,
    table,
)
from logbus.console.figures import count, number, shortened, size
from logbus.console.group_pages import KINDS, group_link
from logbus.console.page import Page, Visit
from logbus.console.topic_list_page import NEEDS_CONFIGS, fault_badges

SECTION = "/console/topics"
ROWS, READERS = 50, 50
"""Rows of a page; and groups that are shown as readers."""


@frozen
class TopicPages:
    """One topic."""

    clock: IReactorTime

    @route("GET", "/console/topics/{topic}", "One topic", rights="Shows what the user may see.")
    async def topic(self, visit: Visit) -> Page:
        topic = visit.names["topic"]
        at, after = f"/api/v1/topics/{segment(topic)}", visit.query.get("after", "")
        about = await visit.api.get(at)
        partitions = await visit.api.get(f"{at}/partitions", limit=ROWS, after=after)
        items = await _as_leaders_tell(visit, self.clock, f"{at}/partitions", partitions["items"], after)
        path = f"{SECTION}/{segment(topic)}"
        following = f"{path}?after={partitions['next']}" if partitions["next"] is not None else ""
        try:
            entries = (await visit.api.get(f"/api/v1/configs/topics/{segment(topic)}"))["items"]
            settings = settings_card(visit, entries, path)
        except ApiRefusal as e:
            settings = card("Settings", refusal(e))
        readers = await self._readers(visit, at)
        return Page(
            topic,
            SECTION,
            [
                done_message(visit),
                card(
                    "About",
                    facts(
                        [
                            ("State", fault_badges(about) or badge("ok", "good")),
                            ("Partitions", number(about["partitions"])),
                            ("Replicas of each", number(about["replication_factor"])),
                            *(_sums(items) if len(items) == about["partitions"] else []),
                            ("Cleanup", shortened(about["cleanup_policy"] or NEEDS_CONFIGS, 40)),
                            ("Id", tags.code(about["id"])),
                            ("Written by", "brokers only" if about["internal"] else "producers"),
                        ]
                    ),
                ),
                card(
                    "Partitions",
                    table(
                        f"Partitions of {topic}",
                        ["Partition", "State", "Leader", "Replicas", "In sync", "First offset", "End offset", "Size"],
                        [_partition(each, path) for each in items],
                        visit.pause,
                        (0, 5, 6, 7),
                    ),
                    tags.p("Offsets and sizes are those of the leaders.", class_="note"),
                    pages(path if after else "", following),
                    id="partitions",
                ),
                readers,
                settings,
            ],
            trail=[("Topics", SECTION)],
            actions=[
                button_link(f"{path}/records", "Records", "primary"),
                button_link(f"{path}/tail", "Live tail"),
                *(
                    []
                    if about["internal"]
                    else [
                        button_link(f"{path}/more-partitions", "Add partitions"),
                        button_link(f"{path}/delete", "Delete …", "danger"),
                    ]
                ),
            ],
        )

    async def _readers(self, visit: Visit, at: str) -> Tag:
        """Return the groups that have committed offsets of a topic."""
        try:
            told = await soon(visit.api.get(f"{at}/groups", limit=READERS), self.clock)
        except ApiRefusal as e:
            return card("Read by", refusal(e), id="readers")
        rows = [_reader(each) for each in told["items"]]
        silent = ", ".join(str(each["broker"]) for each in told["unanswered"])
        return card(
            "Read by",
            table(
                "Groups that have committed offsets of it",
                ["Group", "State", "Lag", "Members", "Partitions"],
                rows,
                visit.pause,
                (2, 3, 4),
            )
            if rows
            else empty("No group that you may see has committed an offset of it."),
            tags.p("There are more: ", link("/console/groups", "all groups"), class_="note") if told["next"] else "",
            tags.p("Groups are still being loaded: some are missing.", class_="note") if told["loading"] else "",
            tags.p(f"Without the groups of these brokers, which did not answer: {silent}.", class_="note")
            if silent
            else "",
            id="readers",
        )


async def _as_leaders_tell(
    visit: Visit, clock: IReactorTime, path: str, items: Sequence[Mapping[str, Any]], after: str
) -> Sequence[Mapping[str, Any]]:
    """Return partitions, each with the offsets and size that its leader has, if it tells them soon."""
    leaders = {each["leader"] for each in items if each["leader"] is not None}
    told = await from_brokers(
        sorted(leaders), lambda broker: visit.api.get(path, limit=ROWS, after=after, broker=broker), clock
    )
    by_leader = {
        (broker, each["partition"]): each for broker, page in told.items() if page is not None for each in page["items"]
    }
    return [
        {**each, "local": by_leader.get((each["leader"], each["partition"]), {"local": None})["local"]}
        for each in items
    ]


def _sums(partitions: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the records and the size of all partitions, if their leaders tell them."""
    told = [each["local"] for each in partitions]
    if None in told:
        return []
    return [
        ("Records, by offsets", number(sum(each["log_end_offset"] - each["log_start_offset"] for each in told))),
        ("Size of the leaders", size(sum(each["size_bytes"] for each in told))),
    ]


def _reader(each: Mapping[str, Any]) -> Tag:
    lag = "–" if each["lag"] is None else number(each["lag"])
    unknown = f"and {count(each['unknown'], 'partition')} of which this is not known"
    return tags.tr(
        tags.th(group_link(each["id"]), scope="row"),
        tags.td(badge(each["state"], KINDS.get(each["state"], "warn"))),
        tags.td(lag, tags.div(unknown, class_="note") if each["unknown"] else "", class_="number"),
        number_cell(number(each["members"])),
        number_cell(number(each["partitions"])),
    )


def _partition(each: Mapping[str, Any], path: str) -> Tag:
    local, behind = each["local"], set(each["replicas"]) - set(each["isr"])
    if each["leader"] is None:
        state = badge("offline", "bad")
    elif behind:
        state = badge("under-replicated", "warn")
    else:
        state = badge("ok", "good")
    figures = (
        ["–"] * 3
        if local is None
        else [
            number(local["log_start_offset"]),
            number(local["log_end_offset"]),
            size(local["size_bytes"]),
        ]
    )
    return tags.tr(
        tags.th(link(f"{path}/partitions/{each['partition']}", str(each["partition"])), scope="row", class_="number"),
        tags.td(state),
        tags.td("none" if each["leader"] is None else link(f"/console/brokers/{each['leader']}", str(each["leader"]))),
        tags.td(", ".join(map(str, each["replicas"]))),
        tags.td(", ".join(map(str, each["isr"])) or "none"),
        [number_cell(text) for text in figures],
    )

"""
Pages of groups: the list, and one with its members and the lag of each partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.admin.metric_history import Points
from logbus.admin.routing import route
from logbus.console.api_client import segment
from logbus.console.change import done_message
from logbus.console.elements import (
    badge,
    button_link,
    card,
    empty,
    facts,
    link,
    message,
    name,
    number_cell,
    pages,
    table,
    tile,
)
from logbus.console.figures import count, moment, number, printable, shortened
from logbus.console.page import Page, Visit
from logbus.console.plot import plot
from logbus.coordination.group_lag_history import SAMPLES

SECTION = "/console/groups"
PLOTTED_PARTITIONS = 3
ROWS, PARTITION_ROWS, MEMBER_ROWS = 50, 200, 100
LONGEST_LINK = 2000
"""A path must be shorter than 8192 bytes, of which each character may take twelve."""
STATES = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "NotReady",
    "Assigning",
    "Reconciling",
    "Dead",
)
KINDS = {"Stable": "good", "Empty": "", "Dead": "bad"}


@frozen
class GroupPages:
    """Groups."""

    @route("GET", "/console/groups", "Groups", rights="Shows what the user may see.")
    async def groups(self, visit: Visit) -> Page:
        after, wanted = visit.query.get("after", ""), visit.query.get("filter", "").strip()
        state = visit.query.get("state", "")
        told = await visit.api.get("/api/v1/groups", contains=wanted, state=state, limit=ROWS, after=after)
        rows = [
            tags.tr(
                tags.th(group_link(each["id"]), scope="row"),
                tags.td(badge(each["state"], KINDS.get(each["state"], "warn"))),
                number_cell(_lag(each["lag"])),
                number_cell(number(each["members"])),
                number_cell(number(each["partitions"])),
                tags.td(each["type"]),
            )
            for each in told["items"]
        ]
        kept = {key: text for key, text in (("filter", wanted), ("state", state)) if text}
        first = f"{SECTION}?{urlencode(kept)}" if kept else SECTION
        following = "" if told["next"] is None else f"{SECTION}?{urlencode({**kept, 'after': told['next']})}"
        head = ["Group", "State", "Lag", "Members", "Partitions", "Protocol"]
        if rows:
            content: Any = [
                table("Groups", head, rows, visit.pause, (2, 3, 4)),
                pages(first if after else "", following),
            ]
        elif kept or after:
            content = empty("No group that you may see is such a one.", link(SECTION, "Show all groups"))
        else:
            content = empty(
                "There is no group that you may see. A group appears when a consumer joins it or commits an offset.",
                tags.pre(tags.code("logbus consume TOPIC --group NAME"), class_="command"),
            )
        loading = message("info", "Groups are still being loaded: some are missing.") if told["loading"] else ""
        return Page(
            "Groups",
            SECTION,
            [
                done_message(visit),
                _filter_form(wanted, state),
                loading,
                tags.section(content, class_="card", id="groups", **{"data-live": ""}),
            ],
        )

    @route("GET", "/console/groups/{group}", "One group", rights="Shows what the user may see.")
    async def group(self, visit: Visit) -> Page:
        group = await visit.api.get(f"/api/v1/groups/{segment(visit.names['group'])}")
        offsets = sorted(group["offsets"], key=lambda each: -(each["lag"] or 0))
        rows = [_offset(each) for each in offsets[:PARTITION_ROWS]]
        more = len(offsets) - len(rows)
        history = (await visit.api.get(f"/api/v1/groups/{segment(visit.names['group'])}/lag"))["items"]
        members = [_member(each) for each in group["members"][:MEMBER_ROWS]]
        return Page(
            visit.names["group"],
            SECTION,
            [
                done_message(visit),
                tags.div(
                    tags.dl(
                        tile("State", group["state"], group["type"], KINDS.get(group["state"], "warn")),
                        tile("Lag", _lag(group["lag"]), "records still to read"),
                        tile("Members", number(len(group["members"])), group["assignor"] or "no assignor"),
                        class_="tiles",
                    ),
                    id="state",
                    **{"data-live": ""},
                ),
                card("Lag over the last hour", _lag_plots(history), id="history"),
                card(
                    "Lag by partition",
                    table(
                        "Committed offsets, the largest lag first",
                        ["Topic", "Partition", "Lag", "Committed", "End", "Committed at"],
                        rows,
                        visit.pause,
                        (1, 2, 3, 4),
                    )
                    if rows
                    else empty("The group has not committed an offset that you may see."),
                    tags.p(f"{count(more, 'partition')} more, with less lag.", class_="note") if more > 0 else "",
                    id="lag",
                ),
                card(
                    "Members",
                    table("Members", ["Member", "Client", "Host", "Assigned"], members, visit.pause)
                    if members
                    else empty("No consumer is in the group now."),
                    id="members",
                ),
                card(
                    "Details",
                    facts(
                        [("Protocol type", group["protocol_type"] or "none"), ("Assignor", group["assignor"] or "none")]
                    ),
                ),
            ],
            trail=[("Groups", SECTION)],
            actions=[
                button_link(f"{SECTION}/{segment(visit.names['group'])}/reset", "Reset offsets"),
                button_link(f"{SECTION}/{segment(visit.names['group'])}/delete-offsets", "Delete offsets"),
                button_link(f"{SECTION}/{segment(visit.names['group'])}/delete", "Delete …", "danger"),
            ],
        )


def _filter_form(wanted: str, state: str) -> Tag:
    choices = {"": "any state", **{each: each for each in STATES}}
    options = [
        tags.option(text, value=each, **({"selected": "selected"} if each == state else {}))
        for each, text in choices.items()
    ]
    return tags.form(
        tags.label("Filter by name", for_="filter", class_="unseen"),
        tags.input(type="search", name="filter", id="filter", value=printable(wanted), placeholder="Filter by name"),
        tags.label("State", for_="state-filter", class_="unseen"),
        tags.select(options, name="state", id="state-filter"),
        tags.button("Filter", type="submit"),
        method="get",
        action=SECTION,
        class_="filter",
    )


def _lag_plots(samples: Sequence[Mapping[str, Any]]) -> Tag:
    """Return plots of the whole lag, and of that of the partitions that are farthest behind now."""
    if not samples:
        return empty("No samples yet: one is taken every minute, of the groups that are farthest behind.")
    plots = [_lag_plot("All partitions", [each["lag"] for each in samples])]
    for farthest in samples[-1]["partitions"][:PLOTTED_PARTITIONS]:
        points = [
            next((other["lag"] for other in each["partitions"] if _place(other) == _place(farthest)), None)
            for each in samples
        ]
        plots.append(_lag_plot(f"{shortened(farthest['topic'], 60)}-{farthest['partition']}", points))
    return tags.div(plots, class_="plots")


def _lag_plot(title: str, points: Points) -> Tag:
    return plot(title, [("still to read", points)], lambda value: number(int(value)), SAMPLES)


def _place(each: Mapping[str, Any]) -> tuple[str, int]:
    return each["topic"], each["partition"]


def group_link(group: str) -> Any:
    """Return a link to a group, or its name if it is too long for a path."""
    path = segment(group)
    return link(f"{SECTION}/{path}", name(group)) if len(path) < LONGEST_LINK else name(group)


def _lag(lag: int | None) -> str:
    return "–" if lag is None else number(lag)


def _offset(each: Mapping[str, Any]) -> Tag:
    return tags.tr(
        tags.th(link(f"/console/topics/{segment(each['topic'])}", name(each["topic"])), scope="row"),
        number_cell(str(each["partition"])),
        number_cell(_lag(each["lag"])),
        number_cell(number(each["offset"])),
        number_cell(_lag(each["end_offset"])),
        tags.td(moment(each["committed_at"]), class_="time"),
    )


def _member(each: Mapping[str, Any]) -> Tag:
    assigned = each["assignment"]
    shown = [
        tags.div(name(topic, 60), f": {_ranges(sorted(numbers))}") for topic, numbers in islice(assigned.items(), 5)
    ]
    if len(assigned) > len(shown):
        shown.append(tags.div(f"and {count(len(assigned) - len(shown), 'topic')} more"))
    return tags.tr(
        tags.th(name(each["id"], 48), scope="row"),
        tags.td(name(each["client"], 40)),
        tags.td(name(each["host"], 60)),
        tags.td(shown or "nothing"),
    )


def _ranges(numbers: list[int]) -> str:
    """Return numbers with runs joined: ``0–3, 7``."""
    runs: list[list[int]] = []
    for each in numbers:
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    shown = [str(first) if first == last else f"{first}–{last}" for first, last in runs[:20]]
    return ", ".join(shown) + (", …" if len(runs) > len(shown) else "")

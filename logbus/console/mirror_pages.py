"""
Pages of the mirrors that brokers run: which there are, and how far each has copied what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import segment
from logbus.console.elements import badge, card, empty, facts, link, message, name, number_cell, table, tile
from logbus.console.figures import count, moment, number, rate, shortened, size
from logbus.console.page import Page, Visit

SECTION = "/console/mirrors"
ROWS = 200
KINDS = {"running": "good", "starting": "info", "restarting": "warn", "failed": "bad", "stopped": ""}


@frozen
class MirrorPages:
    """Mirrors."""

    @route("GET", "/console/mirrors", "Mirrors", rights="Shows what the user may see.")
    async def mirrors(self, visit: Visit) -> Page:
        told = await visit.api.get("/api/v1/mirrors", limit=ROWS)
        rows = [
            tags.tr(
                tags.th(link(f"{SECTION}/{segment(each['id'])}", name(each["id"])), scope="row"),
                tags.td(_state(each)),
                number_cell(number(each["lag"])),
                number_cell(number(each["records_per_second"])),
                number_cell(rate(each["bytes_per_second"])),
                number_cell(number(each["partitions"])),
                tags.td(name(", ".join(each["source_servers"]))),
            )
            for each in told["items"]
        ]
        head = ["Mirror", "State", "Lag", "Records/s", "Bytes/s", "Partitions", "Source"]
        content: Any = (
            table("Mirrors", head, rows, visit.pause, (2, 3, 4, 5))
            if rows
            else empty(
                "The brokers of this cluster run no mirror. With these settings they have topics of another cluster; "
                "a mirror that runs as a command is not shown here.",
                tags.pre(
                    tags.code("mirror.source.bootstrap.servers=paris:9092\nmirror.source.name=paris"), class_="command"
                ),
            )
        )
        return Page("Mirrors", SECTION, [tags.section(content, class_="card", id="mirrors", **{"data-live": ""})])

    @route("GET", "/console/mirrors/{mirror}", "One mirror", rights="Shows what the user may see.")
    async def mirror(self, visit: Visit) -> Page:
        path = f"/api/v1/mirrors/{segment(visit.names['mirror'])}"
        told = await visit.api.get(path)
        partitions = (await visit.api.get(f"{path}/partitions", order="lag", limit=ROWS))["items"]
        more = told["partitions"] - len(partitions)
        rows = [_partition(each) for each in partitions]
        head = ["Topic", "Partition", "Copy", "State", "Lag", "Records/s", "Copied up to", "End"]
        return Page(
            told["id"],
            SECTION,
            [
                tags.div(
                    tags.dl(
                        tile("State", told["state"], f"at broker {told['broker']}", KINDS[told["state"]]),
                        tile("Lag", number(told["lag"]), "offsets still to copy"),
                        tile("Rate", rate(told["bytes_per_second"]), f"{number(told['records_per_second'])} records/s"),
                        tile("Copied", number(told["records"]), f"records, {size(told['bytes'])}"),
                        class_="tiles",
                    ),
                    id="state",
                    **{"data-live": ""},
                ),
                tags.div(_problems(told), id="problems", **{"data-live": ""}),
                card(
                    "Partitions",
                    table(
                        "Partitions, first those that are not copied, then the largest lag",
                        head,
                        rows,
                        visit.pause,
                        (1, 4, 5, 6, 7),
                    )
                    if rows
                    else empty("It copies no topic that you may see."),
                    tags.p(f"{count(more, 'partition')} more.", class_="note") if more > 0 else "",
                    id="partitions",
                ),
                card(
                    "Details",
                    facts(
                        [
                            ("Source", [name(told["source"]), ": ", name(", ".join(told["source_servers"]))]),
                            ("Target", [name(told["target"]), ": this cluster"]),
                            ("Topics", [name(", ".join(told["topics"])), f": {count(told['topics_copied'], 'topic')}"]),
                            (
                                "Names of copies",
                                "as at the source" if told["naming"] == "identity" else "with a prefix",
                            ),
                            ("Started", moment(told["since"])),
                            ("Begun anew", count(told["restarts"], "time")),
                            (
                                "Records left out",
                                f"{number(told['skipped'])}, too large for this cluster",
                            ),
                            ("Aborted transactions", number(told["aborted"])),
                            ("Last error", _last_error(told["last_error"])),
                        ]
                    ),
                    id="details",
                ),
            ],
            trail=[("Mirrors", SECTION)],
        )


def _state(each: Mapping[str, Any]) -> Any:
    found = badge(each["state"], KINDS[each["state"]])
    problems = len(each["problems"])
    return [found, " ", badge(count(problems, "problem"), "bad")] if problems else found


def _problems(told: Mapping[str, Any]) -> Any:
    """Return what is not copied; of a mirror that has ended, why it has."""
    lines = [each["message"] for each in told["problems"]]
    if told["state"] == "failed" and told["last_error"] is not None:
        lines.insert(0, f"It has ended, and is started again after some seconds: {told['last_error']['message']}")
    return [message("bad", shortened(each, 2000)) for each in lines]


def _last_error(error: Mapping[str, Any] | None) -> Any:
    return "none" if error is None else [moment(error["at"]), ": ", shortened(error["message"], 2000)]


def _partition(each: Mapping[str, Any]) -> Tag:
    return tags.tr(
        tags.th(name(each["topic"]), scope="row"),
        number_cell(str(each["partition"])),
        tags.td(link(f"/console/topics/{segment(each['copy'])}", name(each["copy"]))),
        tags.td(badge("not copied", "bad") if each["problem"] is not None else badge("copied", "good")),
        number_cell(_number(each["lag"])),
        number_cell(number(each["records_per_second"])),
        number_cell(_number(each["offset"])),
        number_cell(_number(each["end_offset"])),
    )


def _number(value: int | None) -> str:
    return "–" if value is None else number(value)

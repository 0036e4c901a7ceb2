"""
The first page: the cluster, what is wrong with it, its disks and its last hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.broker_answers import soon
from logbus.console.cluster_history import ClusterHistory, last_hour
from logbus.console.elements import badge, card, empty, link, message, name, number_cell, refusal, table, tile
from logbus.console.figures import count, moment, number, rate, seconds, shortened, size
from logbus.console.page import Page, Visit
from logbus.console.plot import plot

MOST_FAULTS = 50
LOW_DISK, FULL_DISK = 0.15, 0.05
"""Shares of a disk that are free."""
FAULT_WORDS = {
    "offline": "offline",
    "under_min_isr": "below min.insync.replicas",
    "under_replicated": "under-replicated",
}


@frozen
class OverviewPage:
    """The first page."""

    clock: IReactorTime

    @route("GET", "/", "Overview", rights="Shows what the user may see.")
    async def overview(self, visit: Visit) -> Page:
        brokers = (await visit.api.get("/api/v1/brokers"))["items"]
        try:
            cluster = await visit.api.get("/api/v1/cluster")
            faults = await visit.api.get("/api/v1/cluster/faults")
        except ApiRefusal as e:
            return Page("Overview", "/", [refusal(e), _broker_card(brokers, visit)], status=e.status, headers=e.headers)
        history = await last_hour(visit.api, (each["id"] for each in brokers), self.clock)
        counts = faults["counts"]
        tiles = tags.dl(
            tile("Brokers", number(cluster["brokers"]), count(cluster["topics"], "topic"), "good"),
            tile("Controller", *_controller(cluster["controller"])),
            tile("Offline", number(counts["offline"]), "partitions without a leader", _kind(counts["offline"], "bad")),
            tile(
                "Under-replicated",
                number(counts["under_replicated"]),
                f"of {count(cluster['partitions'], 'partition')}",
                _kind(counts["under_replicated"], "warn"),
            ),
            tile(
                "Below min ISR",
                number(counts["under_min_isr"]),
                "partitions that refuse acks=all",
                _kind(counts["under_min_isr"], "bad"),
            ),
            class_="tiles",
        )
        return Page(
            "Overview",
            "/",
            [
                tags.div(
                    await self._conditions(visit),
                    tiles,
                    id="state",
                    **{"data-live": ""},
                ),
                _fault_card(faults["items"], visit) if faults["items"] else "",
                _hour(history),
                _broker_card(brokers, visit),
                _disks(history, visit),
            ],
        )

    async def _conditions(self, visit: Visit) -> Any:
        try:
            told = await soon(visit.api.get("/api/v1/conditions"), self.clock)
        except ApiRefusal as e:
            return message("info", f"What is wrong with the brokers is not known: {e.detail}")
        return [_condition(each) for each in told["items"][:MOST_FAULTS]]


def _hour(history: ClusterHistory) -> Tag:
    silent = ", ".join(map(str, history.silent))
    return card(
        "Last hour",
        tags.div(
            plot("Throughput", [("in", history.sum("received_bytes")), ("out", history.sum("sent_bytes"))], rate),
            plot(
                "Records produced", [("records", history.sum("produced_records"))], lambda value: f"{number(value)}/s"
            ),
            plot(
                "Time of requests, 99th percentile",
                [("produce", history.highest("produce_seconds")), ("fetch", history.highest("fetch_seconds"))],
                seconds,
            ),
            plot("Reactor lateness, 99th percentile", [("timers", history.highest("late_seconds"))], seconds),
            class_="plots",
        ),
        tags.p("Percentiles are those of the slowest broker.", class_="note") if len(history.of) > 1 else "",
        tags.p(f"Without what these brokers did not tell: {silent}.", class_="note") if silent else "",
        id="hour",
    )


def _disks(history: ClusterHistory, visit: Visit) -> Tag:
    rows = [_disk(broker, each) for broker, told in sorted(history.of.items()) for each in told["log_directories"]]
    content = (
        table(
            "Log directories of the brokers",
            ["Log directory", "Broker", "State", "Free", "Size", "Used"],
            rows,
            visit.pause,
            (1, 3, 4),
        )
        if rows
        else empty("The space of the log directories has not been measured yet.")
    )
    return card("Disks", content, id="disks")


def _condition(each: Mapping[str, Any]) -> Tag:
    subject, what = each["subject"], each["message"]
    return message(
        "bad" if each["severity"] == "critical" else "info",
        tags.strong(shortened(what if subject in what else f"{subject}: {what}", 1000)),
        tags.p(f"{each['meaning']} {each['advice']}"),
        tags.p(f"Broker {each['broker']}, since {moment(each['since'])}.", class_="note"),
    )


def _controller(controller: int | None) -> tuple[str, str, str]:
    if controller is None:
        return "none", "topics cannot be changed", "bad"
    return number(controller), "elected broker", "good"


def _kind(value: int, kind: str) -> str:
    return kind if value else "good"


def _disk(broker: int, each: Mapping[str, Any]) -> Tag:
    free, whole = each["free_bytes"], each["total_bytes"]
    share = free / whole
    state = (
        badge("full", "bad") if share < FULL_DISK else badge("low", "warn") if share < LOW_DISK else badge("ok", "good")
    )
    used = max(0.0, min(1.0, 1 - share))
    return tags.tr(
        tags.th(name(each["path"]), scope="row"),
        number_cell(str(broker)),
        tags.td(state),
        number_cell(size(free)),
        number_cell(size(whole)),
        tags.td(
            tags.meter(
                f"{used:.0%}", value=f"{used:.3f}", high="0.85", low="0.7", optimum="0.1", title=f"{used:.0%} used"
            )
        ),
    )


def _fault_card(faults: list[Mapping[str, Any]], visit: Visit) -> Tag:
    rows = [
        tags.tr(
            tags.th(link(f"/console/topics/{segment(each['topic'])}", name(each["topic"])), scope="row"),
            number_cell(str(each["partition"])),
            tags.td(
                [
                    badge(FAULT_WORDS.get(fault, fault), "bad" if fault != "under_replicated" else "warn")
                    for fault in each["faults"]
                ]
            ),
            tags.td("none" if each["leader"] is None else str(each["leader"])),
            tags.td(", ".join(map(str, each["replicas"]))),
            tags.td(", ".join(map(str, each["isr"])) or "none"),
        )
        for each in faults[:MOST_FAULTS]
    ]
    more = len(faults) - len(rows)
    return card(
        "Faulty partitions",
        table(
            "Faulty partitions",
            ["Topic", "Partition", "Faults", "Leader", "Replicas", "In sync"],
            rows,
            visit.pause,
            (1,),
        ),
        tags.p(f"{number(more)} more: ", link("/api/v1/cluster/faults", "all of them as JSON"), class_="note")
        if more
        else "",
        id="faults",
    )


def _broker_card(brokers: list[Mapping[str, Any]], visit: Visit) -> Tag:
    return card("Brokers", broker_table(brokers, visit), id="brokers")


def broker_table(
    brokers: list[Mapping[str, Any]], visit: Visit, usage: Mapping[int, Mapping[str, int] | None] | None = None
) -> Tag:
    """
    Return a table of live brokers.

    :param usage: what they have, by their ids; None: this is not shown.
    """
    rows = [
        tags.tr(
            tags.th(link(f"/console/brokers/{each['id']}", f"Broker {each['id']}"), scope="row"),
            tags.td(badge("controller", "info") if each["controller"] else ""),
            [] if usage is None else _usage_cells(usage.get(each["id"])),
            tags.td(
                [
                    tags.div(f"{_address(end)} ", tags.span(name(listener, 40), class_="note"))
                    for listener, end in sorted(each["endpoints"].items())
                ]
            ),
            tags.td(name(each["rack"]) if each["rack"] else "–"),
            number_cell(str(each["epoch"])),
        )
        for each in brokers
    ]
    head: list[str | Tag] = ["Broker", "Role", "Addresses", "Rack", "Epoch"]
    if usage is not None:
        head[2:2] = ["Leads", "Replicas", "Logs"]
    return table("Live brokers", head, rows, visit.pause, (4,) if usage is None else (2, 3, 4, 7))


def _usage_cells(usage: Mapping[str, int] | None) -> list[Tag]:
    if usage is None:
        return [number_cell("–")] * 3
    behind = usage["under_replicated"]
    return [
        tags.td(
            number(usage["leads"]),
            [" ", badge(f"{number(behind)} under-replicated", "warn")] if behind else "",
            class_="number",
        ),
        number_cell(number(usage["replicas"])),
        number_cell(size(usage["size_bytes"])),
    ]


def _address(endpoint: Mapping[str, Any]) -> str:
    host = endpoint["host"]
    return f"[{host}]:{endpoint['port']}" if ":" in host else f"{host}:{endpoint['port']}"

"""
The first page: the cluster, what is wrong with it, its disks and the last hour of this broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.elements import badge, card, empty, link, message, name, number_cell, refusal, table, tile
from logbus.console.figures import count, moment, number, rate, seconds, shortened, size
from logbus.console.metric_history import (
    FETCH_TIME,
    FREE,
    LATENESS,
    PRODUCE_TIME,
    PRODUCED,
    RECEIVED,
    SENT,
    SIZE,
    MetricHistory,
)
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

    history: MetricHistory

    @route("GET", "/", "Overview", rights="Shows what the user may see.")
    async def overview(self, visit: Visit) -> Page:
        brokers = (await visit.api.get("/api/v1/brokers"))["items"]
        try:
            cluster = await visit.api.get("/api/v1/cluster")
            faults = await visit.api.get("/api/v1/cluster/faults")
        except ApiRefusal as e:
            return Page("Overview", "/", [refusal(e), _broker_card(brokers, visit)], status=e.status, headers=e.headers)
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
                self._hour(),
                _broker_card(brokers, visit),
                self._disks(visit),
            ],
        )

    async def _conditions(self, visit: Visit) -> Any:
        try:
            told = await visit.api.get("/api/v1/conditions")
        except ApiRefusal:
            return ""
        return [_condition(each) for each in told["items"][:MOST_FAULTS]]

    def _hour(self) -> Tag:
        history = self.history
        return card(
            "Last hour of this broker",
            tags.div(
                plot("Throughput", [("in", history.rates(RECEIVED)), ("out", history.rates(SENT))], rate),
                plot("Records produced", [("records", history.rates(PRODUCED))], lambda value: f"{number(value)}/s"),
                plot(
                    "Time of requests, 99th percentile",
                    [(kind, history.quantiles(kind, 0.99)) for kind in (PRODUCE_TIME, FETCH_TIME)],
                    seconds,
                ),
                plot("Reactor lateness, 99th percentile", [("timers", history.quantiles(LATENESS, 0.99))], seconds),
                class_="plots",
            ),
            id="hour",
        )

    def _disks(self, visit: Visit) -> Tag:
        free, whole = self.history.latest.get(FREE, {}), self.history.latest.get(SIZE, {})
        rows = [_disk(root, free[root], whole[root]) for root in sorted(free) if whole.get(root)]
        content = (
            table(
                "Log directories of this broker",
                ["Log directory", "State", "Free", "Size", "Used"],
                rows,
                visit.pause,
                (2, 3),
            )
            if rows
            else empty("The space of the log directories has not been measured yet.")
        )
        return card("Disks of this broker", content, id="disks")


def _condition(each: Mapping[str, Any]) -> Tag:
    return message(
        "bad" if each["severity"] == "critical" else "info",
        tags.strong(shortened(each["message"], 1000)),
        tags.p(f"{each['meaning']} {each['advice']}"),
        tags.p(f"Broker {each['broker']}, since {moment(each['since'])}.", class_="note"),
    )


def _controller(controller: int | None) -> tuple[str, str, str]:
    if controller is None:
        return "none", "topics cannot be changed", "bad"
    return number(controller), "elected broker", "good"


def _kind(value: int, kind: str) -> str:
    return kind if value else "good"


def _disk(root: str, free: float, whole: float) -> Tag:
    share = free / whole
    state = (
        badge("full", "bad") if share < FULL_DISK else badge("low", "warn") if share < LOW_DISK else badge("ok", "good")
    )
    used = max(0.0, min(1.0, 1 - share))
    return tags.tr(
        tags.th(name(root), scope="row"),
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


def broker_table(brokers: list[Mapping[str, Any]], visit: Visit) -> Tag:
    """Return a table of live brokers."""
    rows = [
        tags.tr(
            tags.th(link(f"/console/brokers/{each['id']}", f"Broker {each['id']}"), scope="row"),
            tags.td(badge("controller", "info") if each["controller"] else ""),
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
    return table("Live brokers", ["Broker", "Role", "Addresses", "Rack", "Epoch"], rows, visit.pause, (4,))


def _address(endpoint: Mapping[str, Any]) -> str:
    host = endpoint["host"]
    return f"[{host}]:{endpoint['port']}" if ":" in host else f"{host}:{endpoint['port']}"

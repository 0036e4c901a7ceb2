"""
Pages of brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.broker_answers import from_brokers
from logbus.console.change import done_message
from logbus.console.config_pages import settings_card
from logbus.console.elements import badge, button_link, card, facts, name, number_cell, refusal, table
from logbus.console.figures import number as figure
from logbus.console.figures import size
from logbus.console.overview import broker_table
from logbus.console.page import Page, Visit

SECTION = "/console/brokers"


@frozen
class BrokerPages:
    """Live brokers, and one of them with its settings."""

    clock: IReactorTime

    @route("GET", "/console/brokers", "Brokers", rights="Shows what the user may see.")
    async def brokers(self, visit: Visit) -> Page:
        brokers = (await visit.api.get("/api/v1/brokers"))["items"]
        usage = await from_brokers(
            [each["id"] for each in brokers],
            lambda broker: visit.api.get(f"/api/v1/brokers/{broker}/usage"),
            self.clock,
        )
        return Page("Brokers", SECTION, [card("Live brokers", broker_table(brokers, visit, usage), id="brokers")])

    @route("GET", "/console/brokers/{broker}", "One broker", rights="Shows what the user may see.")
    async def broker(self, visit: Visit) -> Page:
        number = visit.names["broker"]
        broker = await visit.api.get(f"/api/v1/brokers/{segment(number)}")
        try:
            entries = (await visit.api.get(f"/api/v1/configs/brokers/{segment(number)}"))["items"]
            settings = settings_card(visit, entries, f"/console/brokers/{segment(number)}")
        except ApiRefusal as e:
            settings = card("Settings", refusal(e))
        try:
            directories = (await visit.api.get(f"/api/v1/brokers/{segment(number)}/log-dirs"))["items"]
            log_dirs = _directories(visit, directories)
        except ApiRefusal as e:
            log_dirs = refusal(e)
        return Page(
            f"Broker {broker['id']}",
            SECTION,
            [
                done_message(visit),
                card(
                    "Registration",
                    facts(
                        [
                            ("Role", badge("controller", "info") if broker["controller"] else "broker"),
                            ("Rack", name(broker["rack"]) if broker["rack"] else "none"),
                            ("Epoch", str(broker["epoch"])),
                            ("Feature level", str(broker["feature_level"])),
                            *(
                                (f"Listener {listener}", f"{end['protocol']}: {end['host']}:{end['port']}")
                                for listener, end in sorted(broker["endpoints"].items())
                            ),
                        ]
                    ),
                    id="registration",
                ),
                card("Log directories", log_dirs, id="log-directories"),
                settings,
            ],
            trail=[("Brokers", SECTION)],
            actions=[button_link(f"{SECTION}/{segment(number)}/loggers", "What it logs")],
        )


def _directories(visit: Visit, directories: Sequence[Mapping[str, Any]]) -> Tag:
    rows = (
        tags.tr(
            tags.th(name(each["path"]), scope="row"),
            tags.td(
                badge(each["error"], "bad")
                if each["error"] is not None
                else badge("cordoned", "warn")
                if each["cordoned"]
                else badge("in use", "good")
            ),
            number_cell(figure(each["partitions"])),
            number_cell(size(each["size_bytes"])),
            number_cell("–" if each["usable_bytes"] is None else size(each["usable_bytes"])),
            number_cell("–" if each["total_bytes"] is None else size(each["total_bytes"])),
        )
        for each in directories
    )
    head = ["Directory", "State", "Partitions", "Logs", "Free", "Disk"]
    return table("Log directories", head, rows, visit.pause, (2, 3, 4, 5))

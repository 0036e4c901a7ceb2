"""
Pages of brokers.
"""

from __future__ import annotations

from attrs import frozen

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import done_message
from logbus.console.config_pages import settings_card
from logbus.console.elements import badge, card, facts, name, refusal
from logbus.console.overview import broker_table
from logbus.console.page import Page, Visit

SECTION = "/console/brokers"


@frozen
class BrokerPages:
    """Live brokers, and one of them with its settings."""

    @route("GET", "/console/brokers", "Brokers", rights="Shows what the user may see.")
    async def brokers(self, visit: Visit) -> Page:
        brokers = (await visit.api.get("/api/v1/brokers"))["items"]
        return Page("Brokers", SECTION, [card("Live brokers", broker_table(brokers, visit), id="brokers")])

    @route("GET", "/console/brokers/{broker}", "One broker", rights="Shows what the user may see.")
    async def broker(self, visit: Visit) -> Page:
        number = visit.names["broker"]
        broker = await visit.api.get(f"/api/v1/brokers/{segment(number)}")
        try:
            entries = (await visit.api.get(f"/api/v1/configs/brokers/{segment(number)}"))["items"]
            settings = settings_card(visit, entries, f"/console/brokers/{segment(number)}")
        except ApiRefusal as e:
            settings = card("Settings", refusal(e))
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
                settings,
            ],
            trail=[("Brokers", SECTION)],
        )

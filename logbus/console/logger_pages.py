"""
Pages of what a broker logs: its loggers, and a form to change their levels until it is started again.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.web.template import tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import Change, carry_out, done_message
from logbus.console.elements import badge, button_link, card, choice, field, link, name, refusal, table
from logbus.console.page import Page, PageResult, Visit
from logbus.log_levels import LEVELS

SECTION = "/console/brokers"
RESTORE = "restore"


@frozen
class LoggerPages:
    """Levels of loggers."""

    @route(
        "GET", "/console/brokers/{broker}/loggers", "What a broker logs", rights="Needs DescribeConfigs on the Cluster."
    )
    async def loggers(self, visit: Visit) -> Page:
        return await _page(visit, visit.query)

    @route("POST", "/console/brokers/{broker}/loggers", "Change a level", rights="Needs AlterConfigs on the Cluster.")
    async def change(self, visit: Visit) -> PageResult:
        logger, level = visit.form.get("logger", "").strip(), visit.form.get("level", "")
        wrong: dict[str, str] = {}
        if not logger:
            wrong["logger"] = "Give the name of a logger, such as logbus.cluster."
        if level not in LEVELS and level != RESTORE:
            wrong["level"] = f"Choose one of {', '.join(LEVELS)}."
        if wrong:
            return await _page(visit, visit.form, wrong)
        broker, restores = visit.names["broker"], level == RESTORE
        path = f"{SECTION}/{segment(broker)}/loggers"

        async def again(refused: ApiRefusal) -> PageResult:
            return await _page(visit, visit.form, refused=refused)

        return await carry_out(
            visit,
            Change(
                title=f"Change what broker {broker} logs",
                button="Change the level",
                words=["configs", "delete", "logger", broker, logger]
                if restores
                else ["configs", "set", "logger", broker, f"{logger}={level}"],
                facts=[
                    f"The logger {logger} has the level of the broker's start again, or of the next logger above."
                    if restores
                    else f"The logger {logger} logs what is {level} or worse, and so do those below it.",
                    "It holds until the broker is started again.",
                ],
                back=path,
                done=f"{path}?done=level-set",
                section=SECTION,
                method="PATCH",
                path=f"/api/v1/loggers/{segment(broker)}",
                body={logger: None if restores else level},
            ),
            again,
        )


async def _page(
    visit: Visit, given: Mapping[str, str], wrong: Mapping[str, str] | None = None, refused: ApiRefusal | None = None
) -> Page:
    broker, errors = visit.names["broker"], wrong or {}
    path = f"{SECTION}/{segment(broker)}"
    loggers = (await visit.api.get(f"/api/v1/loggers/{segment(broker)}"))["items"]
    rows = (
        tags.tr(
            tags.th(link(f"{path}/loggers?logger={segment(each['name'])}#change", name(each["name"])), scope="row"),
            tags.td(badge(each["level"])),
            tags.td(badge("changed", "info") if each["changed"] else ""),
        )
        for each in loggers
    )
    levels = {each: each for each in LEVELS} | {RESTORE: "As at the start"}
    content: list[Any] = [
        done_message(visit),
        "" if refused is None else refusal(refused),
        card(
            "Change a level",
            tags.form(
                field(
                    "Logger",
                    "logger",
                    given.get("logger", ""),
                    "root, a package, or a module or class, such as logbus.storage.log_manager.",
                    error=errors.get("logger", ""),
                    autocomplete="off",
                    spellcheck="false",
                ),
                choice("Level", "level", levels, given.get("level", "DEBUG"), error=errors.get("level", "")),
                tags.div(tags.button("Review", type="submit", class_="primary"), class_="buttons"),
                method="post",
                action=f"{path}/loggers",
                id="change",
            ),
        ),
        card("Loggers", table("Loggers", ["Logger", "Level", ""], rows, visit.pause)),
    ]
    status = HTTPStatus.BAD_REQUEST if errors else HTTPStatus.OK if refused is None else refused.status
    return Page(
        "Loggers",
        SECTION,
        content,
        trail=[("Brokers", SECTION), (f"Broker {broker}", path)],
        actions=[button_link(path, "The broker")],
        status=status,
    )

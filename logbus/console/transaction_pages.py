"""
Pages of transactional ids: those with the longest transaction first.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.web.template import tags

from logbus.admin.routing import route
from logbus.console.api_client import segment
from logbus.console.change import TYPED, Change, carry_out, done_message
from logbus.console.elements import (
    badge,
    button_link,
    card,
    command,
    empty,
    facts,
    link,
    message,
    name,
    number_cell,
    pages,
    table,
)
from logbus.console.figures import moment, number, seconds, shortened
from logbus.console.page import Page, PageResult, Visit

SECTION = "/console/transactions"
ROWS, PARTITION_ROWS = 100, 500
KINDS = {"Ongoing": "info", "CompleteCommit": "good", "CompleteAbort": "", "Empty": ""}


@frozen
class TransactionPages:
    """Transactional ids."""

    @route("GET", "/console/transactions", "Transactions", rights="Shows what the user may see.")
    async def transactions(self, visit: Visit) -> Page:
        after = visit.query.get("after", "")
        told = await visit.api.get("/api/v1/transactions", limit=ROWS, after=after)
        items = sorted(told["items"], key=lambda each: (-(each["duration_ms"] or 0), each["id"]))
        rows = [
            tags.tr(
                tags.th(_link(each["id"]), scope="row"),
                tags.td(_state(each)),
                number_cell("–" if each["duration_ms"] is None else seconds(each["duration_ms"] / 1000)),
                number_cell(seconds(each["timeout_ms"] / 1000)),
                number_cell(number(each["partitions"])),
                number_cell(str(each["producer_id"])),
            )
            for each in items
        ]
        following = "" if told["next"] is None else f"{SECTION}?{urlencode({'after': told['next']})}"
        head = ["Transactional id", "State", "Duration", "Timeout", "Partitions", "Producer id"]
        content: Any = (
            [
                table("Transactional ids", head, rows, visit.pause, (2, 3, 4, 5)),
                pages(SECTION if after else "", following),
            ]
            if rows
            else empty("No producer with a transactional id that you may see has written to this cluster.")
        )
        return Page(
            "Transactions",
            SECTION,
            [
                message("info", "Transactions are still being loaded: some are missing.") if told["loading"] else "",
                tags.section(content, class_="card", id="transactions", **{"data-live": ""}),
                card("Find transactions that hang", command("logbus transactions find-hanging")),
            ],
        )

    @route("GET", "/console/transactions/{transaction}", "One transactional id", rights="Shows what the user may see.")
    async def transaction(self, visit: Visit) -> Page:
        told = await visit.api.get(f"/api/v1/transactions/{segment(visit.names['transaction'])}")
        rows = [
            tags.tr(
                tags.th(link(f"/console/topics/{segment(each['topic'])}", name(each["topic"])), scope="row"),
                number_cell(str(each["partition"])),
            )
            for each in told["partitions"][:PARTITION_ROWS]
        ]
        started = told["started_at"]
        return Page(
            visit.names["transaction"],
            SECTION,
            [
                done_message(visit),
                card(
                    "Transaction",
                    facts(
                        [
                            ("State", _state(told)),
                            ("Began", "–" if started is None else moment(started)),
                            ("Duration", "–" if told["duration_ms"] is None else seconds(told["duration_ms"] / 1000)),
                            ("Timeout", seconds(told["timeout_ms"] / 1000)),
                            ("Producer id", str(told["producer_id"])),
                            ("Producer epoch", str(told["producer_epoch"])),
                        ]
                    ),
                    id="state",
                ),
                card(
                    "Partitions",
                    table("Partitions in the transaction", ["Topic", "Partition"], rows, visit.pause, (1,))
                    if rows
                    else empty("No partition is part of a transaction of this id now."),
                    id="partitions",
                ),
            ],
            trail=[("Transactions", SECTION)],
            actions=[button_link(f"{SECTION}/{segment(visit.names['transaction'])}/abort", "Abort …", "danger")],
        )

    @route("GET", "/console/transactions/{transaction}/abort", "Ask to abort", rights="Those of the transactional id.")
    async def ask_abort(self, visit: Visit) -> PageResult:
        return await self._abort(visit)

    @route("POST", "/console/transactions/{transaction}/abort", "Abort", rights="Needs Write on the TransactionalId.")
    async def abort(self, visit: Visit) -> PageResult:
        return await self._abort(visit)

    async def _abort(self, visit: Visit) -> PageResult:
        name_of_it = visit.names["transaction"]
        at = f"/transactions/{segment(name_of_it)}"
        told = await visit.api.get(f"/api/v1{at}")
        return await carry_out(
            visit,
            Change(
                title=f"Abort the transaction of {shortened(name_of_it)}",
                button="Abort the transaction",
                words=["transactions", "force-terminate", name_of_it],
                facts=[
                    f"Its state is {told['state']}.",
                    "Its records are never seen by readers of committed records.",
                    "Its producer is fenced: it gets errors until it is restarted.",
                ],
                back=f"/console{at}",
                done=f"/console{at}?done=aborted",
                section=SECTION,
                method="POST",
                path=f"/api/v1{at}/abort",
                body={"confirm": visit.form.get(TYPED, "")},
                typed=name_of_it,
            ),
        )


def _link(transactional_id: str) -> Any:
    path = segment(transactional_id)
    return link(f"{SECTION}/{path}", name(transactional_id)) if len(path) < 2000 else name(transactional_id)


def _state(each: Any) -> Any:
    is_late = each["duration_ms"] is not None and each["duration_ms"] > each["timeout_ms"]
    found = badge(each["state"], KINDS.get(each["state"], "warn"))
    return [found, " ", badge("over its timeout", "bad")] if is_late else found

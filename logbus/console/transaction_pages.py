"""
Pages of transactions: those that hang first, then the transactional ids, those with the longest transaction first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.web.template import tags

from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.broker_answers import soon
from logbus.console.change import TYPED, Change, carry_out, done_message
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
)
from logbus.console.figures import moment, number, seconds, shortened
from logbus.console.page import Page, PageResult, Visit

SECTION = "/console/transactions"
ROWS, PARTITION_ROWS = 100, 500
KINDS = {"Ongoing": "info", "CompleteCommit": "good", "CompleteAbort": "", "Empty": ""}


ABORT_PATH = "/console/topics/{topic}/partitions/{partition}/transactions/{producer}/{offset}/abort"
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


@frozen
class TransactionPages:
    """Transactional ids."""

    clock: IReactorTime

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
                done_message(visit),
                message("info", "Transactions are still being loaded: some are missing.") if told["loading"] else "",
                await self._hanging(visit),
                tags.section(content, class_="card", id="transactions", **{"data-live": ""}),
            ],
        )

    async def _hanging(self, visit: Visit) -> Any:
        """Return the transactions that no coordinator ends, if the user may see them."""
        try:
            told = await soon(visit.api.get("/api/v1/hanging-transactions", limit=ROWS), self.clock)
        except ApiRefusal as e:
            return message("info", f"Which transactions hang is not known: {e.detail}")
        part = tags.div(id="hanging", **{"data-live": ""})
        if not told["items"]:
            return part
        rows = [
            tags.tr(
                tags.th(link(f"/console/topics/{segment(each['topic'])}", name(each["topic"])), scope="row"),
                number_cell(str(each["partition"])),
                number_cell(str(each["producer_id"])),
                number_cell(number(each["start_offset"])),
                tags.td(moment(each["last_timestamp"]), class_="time"),
                tags.td(button_link(_abort_path(each), "Abort …", "danger")),
            )
            for each in told["items"]
        ]
        head = ["Topic", "Partition", "Producer id", "First offset", "Last record", ""]
        return part(
            card(
                "Hanging transactions",
                tags.p(
                    "No coordinator will end these, and readers of committed records wait for them. The oldest of each "
                    "partition is shown."
                ),
                table("Hanging transactions", head, rows, visit.pause, (1, 2, 3)),
            )
        )

    @route("GET", ABORT_PATH, "Ask to abort what hangs", rights="Everybody may see it.")
    async def ask_abort_hanging(self, visit: Visit) -> PageResult:
        return await self._abort_hanging(visit)

    @route("POST", ABORT_PATH, "Abort what hangs", rights="Needs Alter on the Cluster.")
    async def abort_hanging(self, visit: Visit) -> PageResult:
        return await self._abort_hanging(visit)

    async def _abort_hanging(self, visit: Visit) -> PageResult:
        topic, partition, producer, offset = (
            visit.names[each] for each in ("topic", "partition", "producer", "offset")
        )
        if not (_NUMBER.fullmatch(producer) and _NUMBER.fullmatch(offset)):
            raise HttpProblem(HTTPStatus.BAD_REQUEST, "A producer id and an offset are whole numbers.")
        at = f"/topics/{segment(topic)}/partitions/{segment(partition)}"
        return await carry_out(
            visit,
            Change(
                title=f"Abort a transaction that hangs in {shortened(topic)}-{shortened(partition)}",
                button="Abort the transaction",
                words=["transactions", "abort", "--topic", topic, "--partition", partition, "--start-offset", offset],
                facts=[
                    f"It is of the producer {producer}, and begins at offset {number(int(offset))}.",
                    "Its records are never seen by readers of committed records, who go on to what is behind it.",
                    "It is refused if a coordinator knows the transaction.",
                ],
                back=SECTION,
                done=f"{SECTION}?done=aborted",
                section=SECTION,
                method="POST",
                path=f"/api/v1{at}/abort-transaction",
                body={"producer_id": int(producer), "start_offset": int(offset)},
            ),
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


def _abort_path(each: Mapping[str, Any]) -> str:
    return ABORT_PATH.format(
        topic=segment(each["topic"]),
        partition=each["partition"],
        producer=each["producer_id"],
        offset=each["start_offset"],
    )


def _link(transactional_id: str) -> Any:
    path = segment(transactional_id)
    return link(f"{SECTION}/{path}", name(transactional_id)) if len(path) < 2000 else name(transactional_id)


def _state(each: Any) -> Any:
    is_late = each["duration_ms"] is not None and each["duration_ms"] > each["timeout_ms"]
    found = badge(each["state"], KINDS.get(each["state"], "warn"))
    return [found, " ", badge("over its timeout", "bad")] if is_late else found

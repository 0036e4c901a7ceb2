"""
Pages of single partitions: which brokers have it; elect its preferred leader, move it, delete its oldest records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.web.template import tags

from logbus.admin.problem_details import problem
from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import TYPED, Change, carry_out, done_message
from logbus.console.elements import badge, card, empty, facts, field, refusal
from logbus.console.figures import count, number, size
from logbus.console.form_body import numbers_of
from logbus.console.page import Page, PageResult, Visit

SECTION = "/console/topics"
PATH = "/console/topics/{topic}/partitions/{partition}"
_OFFSET = re.compile(r"[0-9]{1,18}", re.ASCII)
Partition = Mapping[str, Any]


@frozen
class PartitionPages:
    """A partition and its replicas."""

    @route("GET", PATH, "One partition", rights="Needs Describe on the Topic.")
    async def partition(self, visit: Visit) -> Page:
        return await _page(visit)

    @route("POST", f"{PATH}/elect", "Elect its preferred leader", rights="Needs Alter on the Cluster.")
    async def elect(self, visit: Visit) -> PageResult:
        partition = await _partition(visit)
        named = _named(partition)
        return await carry_out(
            visit,
            _change(
                visit,
                title=f"Elect the preferred leader of {_text(partition)}",
                button="Elect",
                words=["cluster", "elect-leaders", _text(partition)],
                facts=[
                    f"Broker {partition['replicas'][0]} leads it afterwards, if it is in sync.",
                    "Clients go to the new leader by themselves.",
                ],
                done="elected",
                path="/api/v1/elections",
                body={"type": "preferred", "partitions": [named]},
            ),
            lambda refused: _page(visit, refused=refused),
        )

    @route("POST", f"{PATH}/move", "Move it to other brokers", rights="Needs Alter on the Cluster.")
    async def move(self, visit: Visit) -> PageResult:
        replicas = numbers_of(visit.form.get("replicas", "").strip())
        if replicas is None:
            return await _page(visit, "Give the ids of brokers, as 1, 2, 3: the first is the preferred leader.")
        partition = await _partition(visit)
        if replicas == partition["replicas"]:
            return await _page(visit, "These are the brokers that have it.")
        named = {**_named(partition), "replicas": replicas}
        return await carry_out(
            visit,
            _change(
                visit,
                title=f"Move {_text(partition)}",
                button="Move",
                words=["cluster", "reassign", "--execute", "-"],
                given=json.dumps({"version": 1, "partitions": [named]}),
                facts=[
                    f"The brokers {_ids(replicas)} have it afterwards, instead of {_ids(partition['replicas'])}.",
                    "It stays available while its records are copied; this page shows how far that is.",
                ],
                done="moving",
                path="/api/v1/reassignments",
                body={"partitions": [named]},
            ),
            lambda refused: _page(visit, refused=refused),
        )

    @route("POST", f"{PATH}/cancel-move", "Cancel its move", rights="Needs Alter on the Cluster.")
    async def cancel(self, visit: Visit) -> PageResult:
        partition = await _partition(visit)
        named = {**_named(partition), "replicas": partition["replicas"]}
        return await carry_out(
            visit,
            _change(
                visit,
                title=f"Cancel the move of {_text(partition)}",
                button="Cancel the move",
                words=["cluster", "reassign", "--cancel", "-"],
                given=json.dumps({"version": 1, "partitions": [named]}),
                facts=["The brokers that had it keep it; what was copied is removed."],
                done="move-cancelled",
                path="/api/v1/reassignments",
                body={"partitions": [{**_named(partition), "replicas": None}]},
            ),
            lambda refused: _page(visit, refused=refused),
        )

    @route("POST", f"{PATH}/delete-records", "Delete its oldest records", rights="Needs Delete on the Topic.")
    async def delete_records(self, visit: Visit) -> PageResult:
        text = visit.form.get("before", "").strip()
        if not _OFFSET.fullmatch(text):
            return await _page(visit, no_offset="This must be an offset: a whole number from 0 on.")
        partition, before = await _partition(visit), int(text)
        local, path = partition["local"], _path(visit)
        if local is not None and before > local["high_watermark"]:
            return await _page(visit, no_offset=f"The last that can be is {local['high_watermark']}.")
        at = f"/api/v1/topics/{segment(partition['topic'])}/partitions/{partition['partition']}/records"
        lost = ""
        if local is not None:
            lost = f", by offsets {count(max(0, before - local['log_start_offset']), 'record')}"
        return await carry_out(
            visit,
            Change(
                title=f"Delete records of {_text(partition)}",
                button="Delete the records",
                words=[],
                no_command=f"There is no command of logbus for it. Over HTTP it is DELETE {at}?before={before}.",
                facts=[
                    f"The records before offset {number(before)} are lost{lost}; this cannot be undone.",
                    "Groups that have not read them go on with the first that is left.",
                ],
                back=path,
                done=f"{path}?done=records-deleted",
                section=SECTION,
                method="DELETE",
                path=at,
                query={"before": text, "confirm": visit.form.get(TYPED, "")},
                typed=partition["topic"],
            ),
            lambda refused: _page(visit, refused=refused),
        )


def _path(visit: Visit) -> str:
    return f"{SECTION}/{segment(visit.names['topic'])}/partitions/{segment(visit.names['partition'])}"


async def _partition(visit: Visit) -> Partition:
    topic, partition = segment(visit.names["topic"]), segment(visit.names["partition"])
    found: Partition = await visit.api.get(f"/api/v1/topics/{topic}/partitions/{partition}")
    return found


def _named(partition: Partition) -> dict[str, Any]:
    return {"topic": partition["topic"], "partition": partition["partition"]}


def _text(partition: Partition) -> str:
    return f"{partition['topic']}-{partition['partition']}"


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _change(visit: Visit, *, done: str, **more: Any) -> Change:
    path = _path(visit)

    def finished(told: Mapping[str, Any]) -> str:
        """Return where the result is shown; the API tells of each partition whether it was done."""
        for each in told["items"]:
            if each["error"] not in (None, "ELECTION_NOT_NEEDED"):
                raise ApiRefusal(HTTPStatus.CONFLICT, problem(HTTPStatus.CONFLICT, each["detail"]), {})
        return f"{path}?done={done}"

    return Change(back=path, done=finished, section=SECTION, method="POST", **more)


async def _moving(visit: Visit, partition: Partition) -> Mapping[str, Any] | None:
    try:
        moving = (await visit.api.get("/api/v1/reassignments"))["items"]
    except ApiRefusal:  # who may not know of moves does not see them
        return None
    return next((each for each in moving if _named(each) == _named(partition)), None)


async def _page(visit: Visit, wrong: str = "", refused: ApiRefusal | None = None, no_offset: str = "") -> Page:
    partition, path = await _partition(visit), _path(visit)
    moving, local = await _moving(visit, partition), partition["local"]
    preferred = partition["leader"] == partition["replicas"][0]
    leader: Any = "none" if partition["leader"] is None else f"broker {partition['leader']}"
    topic_path = f"{SECTION}/{segment(visit.names['topic'])}"
    move: Any = tags.form(
        field(
            "Brokers",
            "replicas",
            visit.form.get("replicas", _ids(partition["replicas"])),
            "The brokers that are to have it, the preferred leader first.",
            error=wrong,
            autocomplete="off",
            inputmode="numeric",
        ),
        tags.div(tags.button("Review", type="submit", class_="primary"), class_="buttons"),
        method="post",
        action=f"{path}/move",
    )
    if moving is not None:
        move = [
            facts([("Gets it", _ids(moving["adding"])), ("Loses it", _ids(moving["removing"]))]),
            tags.form(tags.button("Cancel the move", type="submit"), method="post", action=f"{path}/cancel-move"),
        ]
    elect = tags.form(
        tags.p(f"Broker {partition['replicas'][0]} is preferred, since it is the first of the replicas."),
        tags.button("Elect it", type="submit"),
        method="post",
        action=f"{path}/elect",
    )
    end = "" if local is None else f" {number(local['high_watermark'])} deletes all that there are."
    delete = tags.form(
        field(
            "Records before offset",
            "before",
            visit.form.get("before", ""),
            f"The first that stays.{end}",
            error=no_offset,
            autocomplete="off",
            inputmode="numeric",
        ),
        tags.div(tags.button("Delete …", type="submit", class_="danger"), class_="buttons"),
        method="post",
        action=f"{path}/delete-records",
    )
    return Page(
        f"Partition {partition['partition']}",
        SECTION,
        [
            done_message(visit),
            "" if refused is None else refusal(refused),
            card(
                "Now",
                facts(
                    [
                        ("Leader", [leader, "" if preferred else [" ", badge("not the preferred one", "warn")]]),
                        ("Leader epoch", str(partition["leader_epoch"])),
                        ("Replicas", _ids(partition["replicas"])),
                        ("In sync", _ids(partition["isr"])),
                        *(
                            []
                            if local is None
                            else [
                                ("First offset", number(local["log_start_offset"])),
                                ("End offset", number(local["log_end_offset"])),
                                ("High watermark", number(local["high_watermark"])),
                                ("Last stable offset", number(local["last_stable_offset"])),
                                ("Size", size(local["size_bytes"])),
                                ("Log directory", local["log_dir"]),
                            ]
                        ),
                    ]
                ),
                id="now",
            ),
            card("Leader", empty("The preferred leader leads it.") if preferred else elect, id="leader"),
            card("Being moved" if moving is not None else "Move it to other brokers", move),
            card("Delete its oldest records", delete),
        ],
        trail=[("Topics", SECTION), (visit.names["topic"], topic_path)],
        status=HTTPStatus.BAD_REQUEST if wrong or no_offset else HTTPStatus.OK if refused is None else refused.status,
    )

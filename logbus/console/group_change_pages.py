"""
Pages that change groups: reset their offsets, with a preview, delete offsets of a topic, and delete groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.web.template import Tag, tags

from logbus.admin.problem_details import problem
from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import CONFIRMED, TYPED, Change, carry_out
from logbus.console.elements import choice, field, name, number_cell, table
from logbus.console.figures import count, iso_time, moment, number, shortened
from logbus.console.form_body import numbers_of
from logbus.console.form_page import form_page
from logbus.console.page import Page, PageResult, Visit
from logbus.console.record_query import milliseconds_of

SECTION = "/console/groups"
MOST_SHOWN = 200
TARGETS = {
    "earliest": "The first record",
    "latest": "The end",
    "offset": "An offset",
    "shift": "So many records on",
    "timestamp": "A time (UTC)",
}
OPTIONS = {
    "earliest": "--to-earliest",
    "latest": "--to-latest",
    "offset": "--to-offset",
    "shift": "--shift-by",
    "timestamp": "--to-datetime",
}
VALUED = ("offset", "shift", "timestamp")
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@frozen
class GroupChangePages:
    """Changes of groups."""

    @route("GET", "/console/groups/{group}/reset", "The form to reset offsets", rights="Those of the group.")
    async def ask_reset(self, visit: Visit) -> Page:
        return _reset_page(visit, {}, None)

    @route("POST", "/console/groups/{group}/reset", "Reset offsets", rights="Needs Read on the Group and the topics.")
    async def reset(self, visit: Visit) -> PageResult:
        group, form = visit.names["group"], visit.form
        to, value, topic = form.get("to", ""), form.get("value", "").strip(), form.get("topic", "").strip()
        wrong: dict[str, str] = {}
        if to not in TARGETS:
            wrong["to"] = f"This must be one of {', '.join(TARGETS)}."
        elif to == "timestamp":
            milliseconds = milliseconds_of(value)
            if milliseconds is None:
                wrong["value"] = "This must be a time as 2026-05-01T12:00, or milliseconds since 1970."
            else:
                value = str(milliseconds)
        elif to in VALUED and not _WHOLE.fullmatch(value):
            wrong["value"] = "This must be a whole number."
        partitions = _partitions(form, wrong)
        if wrong:
            return _reset_page(visit, wrong, None)
        body: dict[str, Any] = {"to": to}
        named = ["--topic", _named(topic, partitions)] if topic else ["--all-topics"]
        words = ["groups", "reset-offsets", group, *named, OPTIONS[to]]
        if to in VALUED:
            body["value"] = int(value)
            # A time without a zone is local for the command, and UTC here.
            words.append(iso_time(int(value)) if to == "timestamp" else value)
        if topic:
            body["topics"] = [{"topic": topic, **({"partitions": partitions} if partitions else {})}]
        path = f"/api/v1/groups/{segment(group)}/offsets"
        preview: Any = ""
        if form.get(CONFIRMED) != "yes":
            try:
                told = await visit.api.change("POST", path, {**body, "validate_only": True})
            except ApiRefusal as e:
                return _reset_page(visit, {}, e)
            preview = _preview(visit, told["items"])

        async def again(error: ApiRefusal) -> PageResult:
            return _reset_page(visit, {}, error)

        return await carry_out(
            visit,
            Change(
                title=f"Reset the offsets of {shortened(group)}",
                button="Reset",
                words=[*words, "--execute"],
                facts=[
                    *([f"The time is {moment(int(value))}."] if to == "timestamp" else []),
                    "Consumers of the group go on from the new offsets: they read records again, or skip some.",
                ],
                preview=preview,
                back=f"{SECTION}/{segment(group)}/reset",
                done=lambda told: _reset_done(group, told["items"]),
                section=SECTION,
                method="POST",
                path=path,
                body=body,
            ),
            again,
        )

    @route("GET", "/console/groups/{group}/delete-offsets", "The form to delete offsets", rights="Those of the group.")
    async def ask_delete_offsets(self, visit: Visit) -> Page:
        return _delete_offsets_page(visit, {}, None)

    @route(
        "POST",
        "/console/groups/{group}/delete-offsets",
        "Delete offsets of a topic",
        rights="Needs Delete on the Group, and Read on the Topic.",
    )
    async def delete_offsets(self, visit: Visit) -> PageResult:
        group, topic = visit.names["group"], visit.form.get("topic", "").strip()
        wrong = {} if topic else {"topic": "Give the name of a topic."}
        partitions = _partitions(visit.form, wrong)
        if len(partitions) > 1:
            wrong["partitions"] = "Give one partition, or none for all."
        if wrong:
            return _delete_offsets_page(visit, wrong, None)

        async def again(error: ApiRefusal) -> PageResult:
            return _delete_offsets_page(visit, {}, error)

        return await carry_out(
            visit,
            Change(
                title=f"Delete offsets of {shortened(group)}",
                button="Delete",
                words=["groups", "delete-offsets", group, "--topic", _named(topic, partitions)],
                facts=[
                    "If consumers of the group come to the topic again, they begin where auto.offset.reset says.",
                    "It is refused while members are subscribed to the topic.",
                ],
                back=f"{SECTION}/{segment(group)}/delete-offsets",
                done=f"{SECTION}/{segment(group)}?done=offsets-deleted",
                section=SECTION,
                method="DELETE",
                path=f"/api/v1/groups/{segment(group)}/offsets",
                query={"topic": topic, **({"partition": partitions[0]} if partitions else {})},
            ),
            again,
        )

    @route("GET", "/console/groups/{group}/delete", "Ask to delete a group", rights="Those of the group.")
    async def ask_delete(self, visit: Visit) -> PageResult:
        return await self._delete(visit)

    @route("POST", "/console/groups/{group}/delete", "Delete a group", rights="Needs Delete on the Group.")
    async def delete(self, visit: Visit) -> PageResult:
        return await self._delete(visit)

    async def _delete(self, visit: Visit) -> PageResult:
        group = visit.names["group"]
        told = await visit.api.get(f"/api/v1/groups/{segment(group)}")
        return await carry_out(
            visit,
            Change(
                title=f"Delete group {shortened(group)}",
                button="Delete the group and its offsets",
                words=["groups", "delete", group],
                facts=[
                    f"It has {count(len(told['members']), 'member')}; only a group without members can be deleted.",
                    f"The offsets of {count(len(told['offsets']), 'partition')} are lost.",
                ],
                back=f"{SECTION}/{segment(group)}",
                done=f"{SECTION}?done=group-deleted",
                section=SECTION,
                method="DELETE",
                path=f"/api/v1/groups/{segment(group)}",
                query={"confirm": visit.form.get(TYPED, "")},
                typed=group,
            ),
        )


def _partitions(form: Mapping[str, str], wrong: dict[str, str]) -> list[int]:
    """Return the partitions that a form names; none: all."""
    text = form.get("partitions", "").strip()
    if not text:
        return []
    numbers = numbers_of(text)
    if numbers is None:
        wrong["partitions"] = "Give the numbers of partitions, as 0, 2; or nothing for all."
    elif not form.get("topic", "").strip():
        wrong["partitions"] = "Partitions need the name of their topic."
    else:
        return sorted(set(numbers))
    return []


def _named(topic: str, partitions: Sequence[int]) -> str:
    """Return a topic as an option of the command names it."""
    return f"{topic}:{','.join(map(str, partitions))}" if partitions else topic


def _partition_field(form: Mapping[str, str], wrong: Mapping[str, str]) -> Tag:
    return field(
        "Partitions",
        "partitions",
        form.get("partitions", ""),
        "As 0, 2. Empty: all.",
        error=wrong.get("partitions", ""),
        autocomplete="off",
    )


def _delete_offsets_page(visit: Visit, wrong: Mapping[str, str], refused: ApiRefusal | None) -> Page:
    group, form = visit.names["group"], visit.form
    path = f"{SECTION}/{segment(group)}"
    return form_page(
        "Delete offsets",
        "Of what the group reads no more",
        [
            tags.div(
                field(
                    "Topic",
                    "topic",
                    form.get("topic", visit.query.get("topic", "")),
                    error=wrong.get("topic", ""),
                    required="required",
                ),
                _partition_field(form, wrong),
                class_="pair",
            ),
        ],
        action=f"{path}/delete-offsets",
        trail=[("Groups", SECTION), (group, path)],
        is_wrong=bool(wrong),
        refused=refused,
    )


def _reset_done(group: str, items: list[Mapping[str, Any]]) -> str:
    """Return where the result is shown, if all offsets were reset."""
    failed = [each for each in items if each["error"]]
    if failed:
        first = failed[0]
        detail = (
            f"{count(len(failed), 'offset')} of {number(len(items))} were not reset, the first of them that of "
            f"{first['topic']}-{first['partition']}: {first['error']}."
        )
        raise ApiRefusal(HTTPStatus.CONFLICT, problem(HTTPStatus.CONFLICT, detail), {})
    return f"{SECTION}/{segment(group)}?done=reset"


def _preview(visit: Visit, items: list[Mapping[str, Any]]) -> Tag:
    rows = [
        tags.tr(
            tags.th(name(each["topic"]), scope="row"),
            number_cell(str(each["partition"])),
            number_cell("–" if each["old"] is None else number(each["old"])),
            number_cell(number(each["new"])),
            tags.td(each["error"] or each["note"]),
        )
        for each in items[:MOST_SHOWN]
    ]
    more = len(items) - len(rows)
    return tags.div(
        table("What would change", ["Topic", "Partition", "Now", "Afterwards", "Note"], rows, visit.pause, (1, 2, 3)),
        tags.p(f"{count(more, 'partition')} more.", class_="note") if more else "",
    )


def _reset_page(visit: Visit, wrong: Mapping[str, str], refused: ApiRefusal | None) -> Page:
    group, form = visit.names["group"], visit.form
    path = f"{SECTION}/{segment(group)}"
    return form_page(
        "Reset offsets",
        "Where the group is to go on",
        [
            choice("From", "to", TARGETS, form.get("to", "earliest"), wrong.get("to", "")),
            field(
                "Offset, records or time",
                "value",
                form.get("value", ""),
                "For the last three. Records: a negative number goes back. Time: as 2026-05-01T12:00, in UTC "
                "unless it names a zone, or milliseconds since 1970.",
                error=wrong.get("value", ""),
                autocomplete="off",
            ),
            tags.div(
                field("Topic", "topic", form.get("topic", ""), "Empty: all that the group has offsets of."),
                _partition_field(form, wrong),
                class_="pair",
            ),
        ],
        action=f"{path}/reset",
        trail=[("Groups", SECTION), (group, path)],
        is_wrong=bool(wrong),
        refused=refused,
        button="Preview",
    )

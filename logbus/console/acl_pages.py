"""
Pages of ACLs: a table of them, and forms to create and to delete one.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from attrs import evolve, frozen
from twisted.web.template import Tag, tags

from logbus.admin.acls import MEMBERS, OPERATIONS, PATTERNS, PERMISSIONS, TYPES
from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal
from logbus.console.change import Change, carry_out
from logbus.console.elements import (
    badge,
    button_link,
    card,
    choice,
    empty,
    field,
    link,
    message,
    name,
    refusal,
    table,
)
from logbus.console.figures import count
from logbus.console.form_page import form_page
from logbus.console.page import Page, PageResult, Visit
from logbus.errors import ErrorCode
from logbus.security.acl.acls import AclOperation, ResourceType

SECTION = "/console/access"
CLUSTER = "kafka-cluster"
OPTIONS = {
    "topic": "--topic",
    "group": "--group",
    "transactional_id": "--transactional-id",
    "user": "--user-principal",
    "delegation_token": "--delegation-token",
}
"""The options of ``logbus acls`` for types of resources with names."""


async def acl_card(visit: Visit) -> Tag:
    """Return the ACLs that the query of the page asks for, or why there are none."""
    wanted = {key: visit.query.get(key, "").strip() for key in ("principal", "resource_type", "resource_name")}
    if wanted["resource_type"] not in TYPES:
        wanted["resource_type"] = ""
    try:
        told = await visit.api.get("/api/v1/acls", **wanted)
    except ApiRefusal as e:
        is_open = e.error == ErrorCode.SECURITY_DISABLED.name
        return card(
            "ACLs",
            message("info", "Everybody may do everything: there is no authorizer.") if is_open else refusal(e),
            tags.p(
                "Brokers obey ACLs if ",
                tags.code("authorizer.class.name"),
                " names an authorizer; to see them, a user needs Describe on the cluster.",
                class_="note",
            ),
            id="acls",
        )
    rows = [_row(each) for each in told["items"]]
    head = ["Resource", "Principal", "From", "May", "Operation", ""]
    more = told["total"] - len(rows)
    content: Any = (
        table("ACLs, by resource", head, rows, visit.pause)
        if rows
        else empty("No ACL fits." if any(wanted.values()) else "There is no ACL.")
    )
    return card(
        "ACLs",
        _filter(wanted),
        content,
        tags.p(f"{count(more, 'ACL')} more: filter them.", class_="note") if more > 0 else "",
        id="acls",
    )


@frozen
class AclPages:
    """Changes of ACLs."""

    @route("GET", "/console/access/new-acl", "The form to create an ACL", rights="Everybody may see it.")
    async def new(self, visit: Visit) -> Page:
        return _new_page(visit, {}, None)

    @route("POST", "/console/access/new-acl", "Create an ACL", rights="Needs Alter on the Cluster.")
    async def create(self, visit: Visit) -> PageResult:
        acl = _read(visit.form)
        wrong = _faults(acl)
        if wrong:
            return _new_page(visit, wrong, None)

        async def again(error: ApiRefusal) -> PageResult:
            return _new_page(visit, {}, error)

        return await carry_out(
            visit,
            Change(
                title="Create an ACL",
                button="Create",
                words=["acls", "add", *_words(acl)],
                facts=[_sentence(acl)],
                back=f"{SECTION}/new-acl",
                done=f"{SECTION}?done=acl-created",
                section=SECTION,
                method="POST",
                path="/api/v1/acls",
                body={"items": [acl]},
            ),
            again,
        )

    @route("GET", "/console/access/delete-acl", "Ask to delete an ACL", rights="Everybody may see it.")
    async def ask_delete(self, visit: Visit) -> PageResult:
        return await self._delete(evolve(visit, form=visit.query))

    @route("POST", "/console/access/delete-acl", "Delete an ACL", rights="Needs Alter on the Cluster.")
    async def delete(self, visit: Visit) -> PageResult:
        return await self._delete(visit)

    async def _delete(self, visit: Visit) -> PageResult:
        acl = _read(visit.form)
        wrong = _faults(acl)
        if wrong:
            problem = f"An ACL is named by all of its parts: {', '.join(sorted(wrong))}."
            return Page(
                "Delete an ACL",
                SECTION,
                [empty(problem), button_link(SECTION, "Go back")],
                status=HTTPStatus.BAD_REQUEST,
            )
        return await carry_out(
            visit,
            Change(
                title="Delete an ACL",
                button="Delete the ACL",
                words=["acls", "remove", *_words(acl)],
                facts=[_sentence(acl), "Who relied on it may be refused from now on, or let in."],
                back=SECTION,
                done=f"{SECTION}?done=acl-deleted",
                section=SECTION,
                method="DELETE",
                path="/api/v1/acls",
                query=acl,
            ),
        )


def _read(form: Mapping[str, str]) -> dict[str, str]:
    acl = {key: form.get(key, "").strip() for key in MEMBERS}
    if acl["resource_type"] == "cluster":
        acl |= {"resource_name": CLUSTER, "pattern_type": "literal"}
    return acl


def _faults(acl: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with the members of an ACL, by their names."""
    wrong = {}
    for key, choices in (
        ("resource_type", TYPES),
        ("pattern_type", PATTERNS),
        ("operation", OPERATIONS),
        ("permission", PERMISSIONS),
    ):
        if acl[key] not in choices:
            wrong[key] = f"This must be one of {', '.join(choices)}."
    if not acl["resource_name"]:
        wrong["resource_name"] = "Give the name of the resource; * stands for all."
    if ":" not in acl["principal"]:
        wrong["principal"] = "This must be of the form User:name; User:* is everybody."
    if not acl["host"]:
        wrong["host"] = "Give an address; * is any."
    return wrong


def _words(acl: Mapping[str, str]) -> list[str]:
    """The arguments of ``logbus acls`` that name an ACL."""
    permission, kind = acl["permission"], acl["resource_type"]
    words = [f"--{permission}-principal", acl["principal"], "--operation", AclOperation[acl["operation"].upper()].title]
    words += ["--cluster"] if kind == "cluster" else [OPTIONS[kind], acl["resource_name"]]
    if acl["pattern_type"] != "literal":
        words += ["--resource-pattern-type", acl["pattern_type"]]
    if acl["host"] != "*":
        words += [f"--{permission}-host", acl["host"]]
    return words


def _sentence(acl: Mapping[str, str]) -> str:
    operation = AclOperation[acl["operation"].upper()].title
    may = "may" if acl["permission"] == "allow" else "may not"
    where = "" if acl["host"] == "*" else f" from {acl['host']}"
    what = "the cluster" if acl["resource_type"] == "cluster" else _resource(acl)
    return f"{acl['principal']}{where} {may} {operation} on {what}."


def _resource(acl: Mapping[str, str]) -> str:
    kind = ResourceType[acl["resource_type"].upper()].title
    return f"{kind} {acl['resource_name']}" + ("…" if acl["pattern_type"] == "prefixed" else "")


def _row(acl: Mapping[str, str]) -> Tag:
    return tags.tr(
        tags.th(name(_resource(acl)), scope="row"),
        tags.td(name(acl["principal"])),
        tags.td("anywhere" if acl["host"] == "*" else name(acl["host"])),
        tags.td(badge(acl["permission"], "good" if acl["permission"] == "allow" else "bad")),
        tags.td(AclOperation[acl["operation"].upper()].title),
        tags.td(
            link(f"{SECTION}/delete-acl?{urlencode(dict(acl))}", "Delete …")(
                **{"aria-label": f"Delete: {_sentence(acl)}"}
            )
        ),
    )


def _filter(wanted: Mapping[str, str]) -> Tag:
    types = {"": "all"} | {each: ResourceType[each.upper()].title for each in TYPES}
    return tags.form(
        tags.div(
            field("Principal", "principal", wanted["principal"], autocomplete="off"),
            choice("Type", "resource_type", types, wanted["resource_type"]),
            field("Resource", "resource_name", wanted["resource_name"], autocomplete="off"),
            class_="fields",
        ),
        tags.div(tags.button("Filter", type="submit"), class_="buttons"),
        method="get",
        action=SECTION,
    )


def _new_page(visit: Visit, wrong: Mapping[str, str], refused: ApiRefusal | None) -> Page:
    form = visit.form
    titles = {each: AclOperation[each.upper()].title for each in OPERATIONS}
    kinds = {each: ResourceType[each.upper()].title for each in TYPES}
    return form_page(
        "Create an ACL",
        "Who may do what",
        [
            field(
                "Principal",
                "principal",
                form.get("principal", "User:"),
                "User:name; User:* is everybody.",
                error=wrong.get("principal", ""),
                autocomplete="off",
                spellcheck="false",
            ),
            choice(
                "Permission",
                "permission",
                {each: each for each in reversed(PERMISSIONS)},
                form.get("permission", "allow"),
                wrong.get("permission", ""),
            ),
            choice("Operation", "operation", titles, form.get("operation", "read"), wrong.get("operation", "")),
            choice(
                "Type of resource",
                "resource_type",
                kinds,
                form.get("resource_type", "topic"),
                wrong.get("resource_type", ""),
            ),
            field(
                "Name of the resource",
                "resource_name",
                form.get("resource_name", ""),
                "* stands for all. The cluster needs no name.",
                error=wrong.get("resource_name", ""),
                autocomplete="off",
                spellcheck="false",
            ),
            choice(
                "The name is",
                "pattern_type",
                {"literal": "the whole name", "prefixed": "how names begin"},
                form.get("pattern_type", "literal"),
                wrong.get("pattern_type", ""),
            ),
            field(
                "From",
                "host",
                form.get("host", "*"),
                "The address of the client; * is any.",
                error=wrong.get("host", ""),
                autocomplete="off",
            ),
        ],
        action=f"{SECTION}/new-acl",
        trail=[("Access", SECTION)],
        is_wrong=bool(wrong),
        refused=refused,
    )

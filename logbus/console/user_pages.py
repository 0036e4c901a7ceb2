"""
Pages of users that log in by SCRAM: a table of them, a form to set a password, and one to delete a user.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from attrs import evolve, frozen
from twisted.web.template import Tag, tags

from logbus.admin.routing import route
from logbus.console.api_client import ApiRefusal, segment
from logbus.console.change import Change, carry_out, shell_line
from logbus.console.elements import card, command, empty, field, link, name, refusal, table
from logbus.console.figures import count
from logbus.console.form_page import form_page
from logbus.console.page import Page, PageResult, SeeOther, Visit

SECTION = "/console/access"
NEW_PASSWORD = {"autocomplete": "new-password"}


async def user_card(visit: Visit) -> Tag:
    """Return all users, or why they are not shown."""
    try:
        told = await visit.api.get("/api/v1/users")
    except ApiRefusal as e:
        return card("Users", refusal(e), id="users")
    rows = [
        tags.tr(
            tags.th(name(each["name"]), scope="row"),
            tags.td(", ".join(info["mechanism"] for info in each["mechanisms"])),
            tags.td(
                link(f"{SECTION}/password?{urlencode({'user': each['name']})}", "Password …")(
                    **{"aria-label": f"Change the password of {each['name']}"}
                ),
                " ",
                link(f"{SECTION}/delete-user?{urlencode({'user': each['name']})}", "Delete …")(
                    **{"aria-label": f"Delete user {each['name']}"}
                ),
            ),
        )
        for each in told["items"]
    ]
    more = told["total"] - len(rows)
    return card(
        "Users",
        table("Users that log in by SCRAM", ["Name", "Mechanisms", ""], rows, visit.pause)
        if rows
        else empty("There is no user that logs in by SCRAM."),
        tags.p(f"{count(more, 'user')} more: logbus users list", class_="note") if more > 0 else "",
        id="users",
    )


@frozen
class UserPages:
    """Changes of users."""

    @route("GET", "/console/access/password", "The form to set a password", rights="Everybody may see it.")
    async def ask_password(self, visit: Visit) -> Page:
        return _page(evolve(visit, form=visit.query), {}, None)

    @route("POST", "/console/access/password", "Set a password", rights="Needs Alter on the Cluster.")
    async def set_password(self, visit: Visit) -> PageResult:
        # It is not asked again: then the password would be in a page.
        user, password = visit.form.get("user", "").strip(), visit.form.get("password", "")
        wrong: dict[str, str] = {}
        if not user:
            wrong["user"] = "Give the user's name."
        if not password:
            wrong["password"] = "Give a password."
        elif password != visit.form.get("again", ""):
            wrong["again"] = "This is not the same password."
        if wrong:
            return _page(visit, wrong, None)
        try:
            await visit.api.change("PUT", f"/api/v1/users/{segment(user)}", {"password": password})
        except ApiRefusal as e:
            return _page(visit, {}, e)
        return SeeOther(f"{SECTION}?done=password-set")

    @route("GET", "/console/access/delete-user", "Ask to delete a user", rights="Everybody may see it.")
    async def ask_delete(self, visit: Visit) -> PageResult:
        return await self._delete(evolve(visit, form=visit.query))

    @route("POST", "/console/access/delete-user", "Delete a user", rights="Needs Alter on the Cluster.")
    async def delete(self, visit: Visit) -> PageResult:
        return await self._delete(visit)

    async def _delete(self, visit: Visit) -> PageResult:
        user = visit.form.get("user", "")
        if not user:
            return Page("Delete a user", SECTION, [empty("Say which user.")], status=HTTPStatus.BAD_REQUEST)
        return await carry_out(
            visit,
            Change(
                title=f"Delete user {user}",
                button="Delete the user",
                words=["users", "delete", user],
                facts=["Nobody can log in by SCRAM under this name any more.", "ACLs and quotas of the name stay."],
                back=SECTION,
                done=f"{SECTION}?done=user-deleted",
                section=SECTION,
                method="DELETE",
                path=f"/api/v1/users/{segment(user)}",
                typed=user,
            ),
        )


def _page(visit: Visit, wrong: Mapping[str, str], refused: ApiRefusal | None) -> Page:
    user = visit.form.get("user", "")
    return form_page(
        "Set a password",
        "Whose, and which",
        [
            field(
                "User",
                "user",
                user,
                "The name, without User:. If there is no such user, it is added.",
                error=wrong.get("user", ""),
                autocomplete="off",
                spellcheck="false",
            ),
            field("Password", "password", error=wrong.get("password", ""), kind="password", **NEW_PASSWORD),
            field("The same again", "again", error=wrong.get("again", ""), kind="password", **NEW_PASSWORD),
        ],
        action=f"{SECTION}/password",
        trail=[("Access", SECTION)],
        is_wrong=bool(wrong),
        refused=refused,
        button="Set the password",
        more=[
            card(
                "The same on the command line",
                tags.p("It asks for the password. For a new user it is ", tags.code("users add"), "."),
                command(shell_line(["logbus", "users", "alter", user or "USER"])),
            ),
        ],
    )

"""
The page of users' rights and quotas: ACLs, quotas, and users that log in by SCRAM.
"""

from __future__ import annotations

from attrs import frozen

from logbus.admin.routing import route
from logbus.console.acl_pages import SECTION, acl_card
from logbus.console.change import done_message
from logbus.console.elements import button_link
from logbus.console.page import Page, Visit
from logbus.console.quota_pages import quota_card
from logbus.console.user_pages import user_card


@frozen
class AccessPage:
    """ACLs, quotas and users."""

    @route("GET", "/console/access", "ACLs, quotas and users", rights="Shows what the user may see.")
    async def access(self, visit: Visit) -> Page:
        return Page(
            "Access",
            SECTION,
            [done_message(visit), await acl_card(visit), await quota_card(visit), await user_card(visit)],
            actions=[
                button_link(f"{SECTION}/new-acl", "Create an ACL", "primary"),
                button_link(f"{SECTION}/quotas", "Set quotas"),
                button_link(f"{SECTION}/password", "Add a user"),
            ],
        )

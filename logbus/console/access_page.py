"""
The page of who may do what, and how much: ACLs and quotas.
"""

from __future__ import annotations

from attrs import frozen

from logbus.admin.routing import route
from logbus.console.acl_pages import SECTION, acl_card
from logbus.console.change import done_message
from logbus.console.elements import button_link
from logbus.console.page import Page, Visit
from logbus.console.quota_pages import quota_card


@frozen
class AccessPage:
    """ACLs and quotas."""

    @route("GET", "/console/access", "ACLs and quotas", rights="Shows what the user may see.")
    async def access(self, visit: Visit) -> Page:
        return Page(
            "Access",
            SECTION,
            [done_message(visit), await acl_card(visit), await quota_card(visit)],
            actions=[
                button_link(f"{SECTION}/new-acl", "Create an ACL", "primary"),
                button_link(f"{SECTION}/quotas", "Set quotas"),
            ],
        )
